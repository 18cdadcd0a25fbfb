from __future__ import annotations

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from senro.domain.plan.concurrency import concurrent_steps, predecessors
from senro.domain.plan.pipeline import Pipeline
from senro.domain.plan.plan import Plan
from tests.lib.builders.events import plans


def orders(plan: Plan) -> list[tuple[str, ...]]:
    """Every sequential order of the steps, by trying all of them."""
    needs = {planned.step.id: set(planned.needs) for planned in plan.steps}
    return [
        order
        for order in permutations(needs)
        if all(needs[step] <= set(order[:place]) for place, step in enumerate(order))
    ]


@given(plans())
def test_concurrent_steps_by_all_orders(plan: Plan) -> None:
    """Two steps may run at the same time exactly if each precedes the other in some order."""
    possible = orders(plan)
    first = {(one, other) for order in possible for place, one in enumerate(order) for other in order[place + 1 :]}
    steps = [planned.step.id for planned in plan.steps]
    expected = {one: {other for other in steps if {(one, other), (other, one)} <= first} for one in steps}
    assert {step: set(others) for step, others in concurrent_steps(plan).items()} == expected


@given(plans())
def test_predecessors_by_all_orders(plan: Plan) -> None:
    """A step is a predecessor of another exactly if it precedes it in every order."""
    possible = orders(plan)
    steps = [planned.step.id for planned in plan.steps]
    expected = {
        step: {other for other in steps if all(order.index(other) < order.index(step) for order in possible)}
        for step in steps
    }
    assert {step: set(others) for step, others in predecessors(plan).items()} == expected


@given(plans())
def test_the_relation_is_symmetric(plan: Plan) -> None:
    """It is symmetric and irreflexive, and has every step of the plan."""
    found = concurrent_steps(plan)
    assert set(found) == {planned.step.id for planned in plan.steps}
    for step, others in found.items():
        assert step not in others
        assert all(step in found[other] for other in others)


@given(st.integers(1, 40), st.integers(1, 4))
def test_long_chains(length: int, chains: int) -> None:
    """No steps of one chain run at the same time, and all steps of two chains may."""
    pipeline = Pipeline("p")
    for chain in range(chains):
        workflow = pipeline.workflow(f"c{chain}")
        for place in range(length):
            workflow.step(f"s{place}", ["true"], needs=[f"s{place - 1}"] if place else [])
    for step, others in concurrent_steps(pipeline.build()).items():
        assert {other.split(".")[0] for other in others} == {f"c{chain}" for chain in range(chains)} - {
            step.split(".")[0]
        }
        assert len(others) == (chains - 1) * length
