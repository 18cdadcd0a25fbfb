"""Which steps pass a scratch cache to which."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from senro.domain.errors import PlanError
from senro.domain.pipeline.targets import Local, local
from senro.domain.pipeline.workspace import ScratchCache, Workspace
from senro.domain.plan.cache_handover import cache_handover, cache_names
from senro.domain.plan.pipeline import Pipeline
from senro.domain.plan.plan import Plan
from tests.lib.builders.plans import RUNNER

A, B = ScratchCache("a", key="k"), ScratchCache("b", key="k")


@st.composite
def plans(draw: st.DrawFn) -> Plan | None:
    """A plan of up to six steps that mount some of two caches, None if it is refused."""
    pipeline = Pipeline("p")
    workflow = pipeline.workflow("w")
    names = "stuvwx"[: draw(st.integers(1, 6))]
    for place, name in enumerate(names):
        needs = draw(st.lists(st.sampled_from(names[:place]), unique=True, max_size=3)) if place else []
        caches = draw(st.lists(st.sampled_from([A, B]), unique=True, max_size=2))
        mounts = [cache.at(f"/{cache.name}") for cache in caches]
        on = RUNNER if draw(st.booleans()) else local()
        workflow.step(name, ["true"], needs=needs, on=on, mounts=[*mounts, Workspace(f"ws-{name}").at("/w")])
    try:
        return pipeline.build()
    except PlanError:
        return None


@given(plans())
def test_who_passes_a_cache_to_whom(plan: Plan | None) -> None:
    """A step gets a cache from each step on the other side that it needs, also indirectly, and from no other."""
    if plan is None:
        return
    steps = {planned.step.id: planned for planned in plan.steps}

    def needs(step: str, other: str) -> bool:
        return any(need == other or needs(need, other) for need in steps[step].needs)

    handover = cache_handover(plan)
    for step, planned in steps.items():
        for cache in cache_names(planned.step):
            given_by = {
                other
                for other, known in steps.items()
                if cache in cache_names(known.step)
                and isinstance(known.step.on, Local) != isinstance(planned.step.on, Local)
                and needs(step, other)
            }
            assert set(handover.providers[step, cache]) == given_by
            assert handover.starts_from_local(step, cache) is bool(given_by)
            takers = {
                other
                for other, known in steps.items()
                if cache in cache_names(known.step) and step in handover.providers[other, cache]
            }
            assert handover.is_passed_on(step, cache) is bool(takers)
            # The plan refused everybody on the other side that is neither before nor after.
            other_side = {
                other
                for other, known in steps.items()
                if cache in cache_names(known.step)
                and isinstance(known.step.on, Local) != isinstance(planned.step.on, Local)
            }
            assert other_side == given_by | takers
    assert set(handover.providers) == {
        (step, cache) for step, known in steps.items() for cache in cache_names(known.step)
    }
