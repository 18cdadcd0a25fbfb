"""The rules that a pipeline must keep, a file for each kind. `senro.domain.plan.plan` asks them all.

They take whatever stands in a pipeline's fields, wrong types included, and give back values that later rules can rely
on, so that one mistake is one refusal and hides no other.
"""
