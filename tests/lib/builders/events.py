"""Plans and events for the tests of the ledger and the run's state."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
from hypothesis import strategies as st

from senro.domain.caches.persistent import Bound
from senro.domain.plan.pipeline import Pipeline
from senro.domain.plan.plan import Plan
from senro.domain.run.events import AttemptEnded, AttemptStarted, Event, StepEnded
from senro.domain.run.outcome import Outcome, OutcomeKind
from senro.domain.run.state_names import StepState
from senro.domain.transfer.compression import Coding

AT = "2026-11-29T23:13:08.000000Z"
EVENTS: tuple[type[msgspec.Struct], ...] = get_args(Event)

STEPS = [f"{workflow}.{name}" for workflow in "ab" for name in "xyz"]
"""The step ids of the plans and events below."""

texts = st.text('abc"\\/\n\r\t\0é😀\u2028***: {}[],', max_size=12)
counts = st.integers(0, 2**53)
step_ids = st.sampled_from([*STEPS, "c.unknown"])
step_states: st.SearchStrategy[StepState] = st.sampled_from(get_args(StepState))
outcome_kinds: st.SearchStrategy[OutcomeKind] = st.sampled_from(get_args(OutcomeKind))

outcomes = st.builds(
    Outcome,
    kind=outcome_kinds,
    code=st.none() | st.integers(0, 255),
    notes=st.lists(texts, max_size=2).map(tuple),
    infra_kind=texts,
    did_run=st.sampled_from(["yes", "no", "maybe"]),
    may_be_alive=st.booleans(),
    repeatable=st.booleans(),
    message=texts,
    hint=texts,
    node=texts,
)

_FIELDS: dict[Any, st.SearchStrategy[Any]] = {
    "step": step_ids,
    "state": step_states,
    "outcome": outcomes,
    "direction": st.sampled_from(["upload", "download"]),
    "attempt": st.integers(1, 1000),
    "attempts": st.integers(0, 1000),
    "workspace": st.sampled_from(["src", "out"]),
    "retry_in": st.none() | st.floats(0, 1e6),
    "seconds": st.floats(0, 1e6),
    "steps": st.lists(step_ids, max_size=3).map(tuple),
    "omitted_sample": st.lists(texts, max_size=3).map(tuple),
    "adopted": st.booleans(),
    "complete": st.booleans(),
    "confirmed": st.booleans(),
    "freed": st.booleans(),
    "waited_seconds": st.floats(0, 1e6),
    "tries": counts,
    "wire_bytes": counts,
    "coding": st.sampled_from(get_args(Coding)),
    "files": counts,
    "bytes": counts,
    "omitted": counts,
    "bound": st.sampled_from(get_args(Bound)),
    "limit": st.floats(0, 1e12),
    "measured": st.floats(0, 1e12),
    "when": st.sampled_from(["before_run", "after_run"]),
    "reused": st.booleans(),
}


@st.composite
def events(draw: st.DrawFn, *kinds: type[msgspec.Struct]) -> Event:
    """Draws an event with any fields, of one of `kinds` if any are given."""
    kind: Any = draw(st.sampled_from(kinds or EVENTS))
    fields = {name: draw(_FIELDS.get(name, texts)) for name in kind.__struct_fields__}
    if kind.__struct_config__.tag == "run.ended":
        fields["state"] = draw(st.sampled_from(["succeeded", "succeeded_with_recovery", "partial", "failed"]))
    if kind.__struct_config__.tag in {"scratch.restored", "scratch.saved", "scratch.not-saved"}:
        fields["store"] = draw(st.sampled_from(["local", "remote"]))
    event: Event = kind(**fields)
    return event


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Draws a plan of up to six local steps in two workflows, with any needs."""
    pipeline = Pipeline("p")
    written: list[str] = []
    for name in draw(st.sampled_from([["a"], ["a", "b"]])):
        needs = [other.name for other in pipeline.workflows if draw(st.booleans())]
        workflow = pipeline.workflow(name, needs=needs)
        for step in draw(st.lists(st.sampled_from("xyz"), min_size=1, max_size=3, unique=True)):
            earlier = [other for other in written if draw(st.integers(0, 2)) == 0]
            workflow.step(step, ["true"], needs=earlier, continue_on_error=draw(st.booleans()))
            written.append(f"{name}.{step}")
    return pipeline.build()


def attempt_started(step: str, attempt: int = 1) -> AttemptStarted:
    return AttemptStarted(at=AT, step=step, attempt=attempt, location="local")


def attempt_ended(step: str, kind: OutcomeKind, attempt: int = 1) -> AttemptEnded:
    return AttemptEnded(at=AT, step=step, attempt=attempt, outcome=Outcome(kind=kind))


def step_ended(step: str, state: StepState, attempts: int = 1) -> StepEnded:
    return StepEnded(at=AT, step=step, state=state, attempts=attempts)
