"""The rules for pipelines, which `senro.domain.plan.build` applies.

They accept any values, also of wrong types, and return values that the later rules can rely on, so that one mistake is
one refusal and hides no other.
"""
