"""Which steps of a plan may run at the same time."""

from __future__ import annotations

from collections.abc import Mapping

from senro.domain.plan import Plan


def beside(plan: Plan) -> Mapping[str, frozenset[str]]:
    """For each step, by id, the steps that may run while it runs: neither needs the other, however indirectly."""
    before: dict[str, frozenset[str]] = {}
    for planned in plan.steps:
        direct = frozenset(planned.needs)
        before[planned.step.id] = direct.union(*(before[need] for need in direct))
    every = frozenset(before)
    after = {step: frozenset(other for other in every if step in before[other]) for step in every}
    return {step: every - before[step] - after[step] - {step} for step in every}
