"""Which steps of a plan come before others, and which may run at the same time."""

from __future__ import annotations

from collections.abc import Mapping

from senro.domain.plan.plan import Plan


def predecessors(plan: Plan) -> Mapping[str, frozenset[str]]:
    """For each step, by id, the steps that have ended when it begins: all that it needs, also indirectly."""
    earlier: dict[str, frozenset[str]] = {}
    for planned in plan.steps:
        direct = frozenset(planned.needs)
        earlier[planned.step.id] = direct.union(*(earlier[need] for need in direct))
    return earlier


def concurrent_steps(plan: Plan) -> Mapping[str, frozenset[str]]:
    """For each step, by id, the steps that may run while it runs: neither needs the other, also indirectly."""
    earlier = predecessors(plan)
    every = frozenset(earlier)
    after = {step: frozenset(other for other in every if step in earlier[other]) for step in every}
    return {step: every - earlier[step] - after[step] - {step} for step in every}
