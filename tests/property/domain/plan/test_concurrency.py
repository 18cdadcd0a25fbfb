from __future__ import annotations

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from senro.domain.plan.concurrency import concurrent_steps, predecessors
from senro.domain.plan.pipeline import Pipeline
from senro.domain.plan.plan import Plan
from tests.lib.builders.events import plans


def orders(plan: Plan) -> list[tuple[str, ...]]:
    """Every order in which the steps may be carried out one after the other, by trying all of them."""
    needs = {planned.step.id: set(planned.needs) for planned in plan.steps}
    return [
        order
        for order in permutations(needs)
        if all(needs[step] <= set(order[:place]) for place, step in enumerate(order))
    ]


@given(plans())
def test_it_equals_what_all_orders_say(plan: Plan) -> None:
    """Two steps may run beside each other if and only if some order has the one first, and some the other."""
    possible = orders(plan)
    first = {(one, other) for order in possible for place, one in enumerate(order) for other in order[place + 1 :]}
    steps = [planned.step.id for planned in plan.steps]
    expected = {one: {other for other in steps if {(one, other), (other, one)} <= first} for one in steps}
    assert {step: set(others) for step, others in concurrent_steps(plan).items()} == expected


@given(plans())
def test_what_comes_before_does_in_all_orders(plan: Plan) -> None:
    """A step comes before another if and only if it does in every order."""
    possible = orders(plan)
    steps = [planned.step.id for planned in plan.steps]
    expected = {
        step: {other for other in steps if all(order.index(other) < order.index(step) for order in possible)}
        for step in steps
    }
    assert {step: set(others) for step, others in predecessors(plan).items()} == expected


@given(plans())
def test_it_is_mutual_and_nobody_runs_beside_itself(plan: Plan) -> None:
    """The relation is symmetric and irreflexive, and every step of the plan is in it."""
    found = concurrent_steps(plan)
    assert set(found) == {planned.step.id for planned in plan.steps}
    for step, others in found.items():
        assert step not in others
        assert all(step in found[other] for other in others)


@given(st.integers(1, 40), st.integers(1, 4))
def test_long_chains_run_beside_each_other_alone(length: int, chains: int) -> None:
    """However indirect a need is: nothing of a chain runs beside it, everything of the others does."""
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
