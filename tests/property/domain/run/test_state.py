from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.domain.plan.pipeline import Pipeline
from senro.domain.plan.plan import Plan
from senro.domain.run.events import CancelRequested, Event, SnapshotTaken, WorkspaceOpened, decode_event, encode_event
from senro.domain.run.outcome import Outcome, OutcomeKind
from senro.domain.run.state import (
    FINAL,
    SATISFYING,
    Moves,
    Progress,
    at_start,
    final_run_state,
    final_state,
    fold,
    next_moves,
)
from senro.domain.run.state_names import StepState
from tests.lib.builders.events import (
    AT,
    attempt_ended,
    attempt_started,
    events,
    outcome_kinds,
    plans,
    step_ended,
    step_ids,
)

OWN_FAILURES: set[StepState] = {"failed", "timed_out"}


def folded(progress: Progress, *happened: Event) -> Progress:
    for event in happened:
        progress = fold(progress, event)
    return progress


def cancel() -> CancelRequested:
    return CancelRequested(at=AT, reason="SIGINT was received")


@given(plans(), st.lists(events(), max_size=30))
def test_the_fold_of_any_events(plan: Plan, happened: list[Event]) -> None:
    """The steps are those of the plan, and no step leaves a final state."""
    progress = at_start(plan)
    for event in happened:
        before, progress = progress, fold(progress, event)
        assert set(progress.steps) == {planned.step.id for planned in plan.steps}
        assert progress.cancelling >= before.cancelling
        for step, known in before.steps.items():
            if known.state in FINAL:
                assert progress.steps[step] == known


@given(plans(), st.lists(events(), max_size=10), events())
def test_an_event_changes_its_own_step_alone(plan: Plan, happened: list[Event], event: Event) -> None:
    """Other steps do not change, and an event of an unknown step changes nothing."""
    before = folded(at_start(plan), *happened)
    after = fold(before, event)
    own = getattr(event, "step", "")
    assert {step for step in before.steps if after.steps[step] != before.steps[step]} <= {own}
    if own == "c.unknown" and not isinstance(event, SnapshotTaken):
        assert after == before


@given(plans(), st.lists(events(), max_size=20))
def test_the_fold_of_a_ledger(plan: Plan, happened: list[Event]) -> None:
    """The decoded lines of a ledger give the state of the run that wrote it."""
    lines = [encode_event(event) for event in happened]
    assert folded(at_start(plan), *map(decode_event, lines)) == folded(at_start(plan), *happened)


@given(plans(), st.lists(events(WorkspaceOpened, SnapshotTaken), max_size=8))
def test_a_workspace_is_its_newest_snapshot(plan: Plan, happened: list[Event]) -> None:
    """Each workspace has the digest of the latest event about it."""
    newest = {event.workspace: event.digest for event in happened if isinstance(event, WorkspaceOpened | SnapshotTaken)}
    assert dict(folded(at_start(plan), *happened).workspaces) == newest


def test_a_step_that_began_is_running_until_it_ends() -> None:
    """Outcomes of attempts are recorded and counted; only the end of the step changes the state."""
    pipeline = Pipeline("p")
    pipeline.workflow("a").step("x", ["true"])
    start = at_start(pipeline.build())
    once = folded(start, attempt_started("a.x"), attempt_ended("a.x", "infra"))
    assert (once.steps["a.x"].state, once.steps["a.x"].attempts) == ("running", 1)
    again = folded(once, attempt_started("a.x", 2))
    assert again.steps["a.x"].outcome == Outcome(kind="infra")
    over = folded(
        again, attempt_ended("a.x", "succeeded", 2), step_ended("a.x", "recovered", 2), attempt_started("a.x", 3)
    )
    assert (over.steps["a.x"].state, over.steps["a.x"].attempts) == ("recovered", 2)
    assert over.steps["a.x"].outcome == Outcome(kind="succeeded")


def satisfied(plan: Plan, progress: Progress, need: str) -> bool:
    state = progress.steps[need].state
    tolerated = {planned.step.id for planned in plan.steps if planned.step.continue_on_error}
    return state in SATISFYING or (state in OWN_FAILURES and need in tolerated)


@given(plans(), st.lists(events(), max_size=30))
def test_nothing_starts_before_its_needs(plan: Plan, happened: list[Event]) -> None:
    """A step that may start is pending with satisfied needs; a step that is skipped never can."""
    progress = folded(at_start(plan), *happened)
    moves = next_moves(plan, progress)
    needs = {planned.step.id: planned.needs for planned in plan.steps}
    order = [planned.step.id for planned in plan.steps]
    assert list(moves.start) == [step for step in order if step in moves.start]
    assert not set(moves.start) & {step for step, _ in moves.end}
    for step in moves.start:
        assert progress.steps[step].state == "pending"
        assert not progress.cancelling
        assert all(satisfied(plan, progress, need) for need in needs[step])
    for step, state in moves.end:
        assert progress.steps[step].state == "pending"
        if state == "skipped_upstream_failed":
            assert any(
                progress.steps[need].state in FINAL and not satisfied(plan, progress, need) for need in needs[step]
            )
        else:
            assert (state, progress.cancelling) == ("cancelled", True)


@given(plans(), st.data())
def test_every_run_ends(plan: Plan, data: st.DataObject) -> None:
    """Following the moves, with any outcomes in any order, gives every step a final state.

    A step runs at most once, and exactly if no move ended it; a cancelled run has that state.
    """
    progress, running, ran = at_start(plan), list[str](), list[str]()
    while not all(known.state in FINAL for known in progress.steps.values()):
        moves = next_moves(plan, progress)
        for step in moves.start:
            progress = fold(progress, attempt_started(step))
            running.append(step)
            ran.append(step)
        for step, state in moves.end:
            progress = fold(progress, step_ended(step, state, 0))
        if running and (moves == Moves() or data.draw(st.booleans())):
            step = running.pop(data.draw(st.integers(0, len(running) - 1)))
            outcome, attempts = Outcome(kind=data.draw(outcome_kinds)), data.draw(st.integers(1, 3))
            progress = fold(progress, step_ended(step, final_state(outcome, attempts), attempts))
        else:
            assert running or moves != Moves(), "nothing runs and nothing may: the run is locked up"
        if data.draw(st.integers(0, 9)) == 0:
            progress = fold(progress, cancel())
    assert len(ran) == len(set(ran))
    assert next_moves(plan, progress) == Moves()
    assert (final_run_state(plan, progress) == "cancelled") == (
        progress.cancelling or any(known.state == "cancelled" for known in progress.steps.values())
    )


@given(plans(), st.lists(events(), max_size=20))
def test_the_final_state_of_a_run(plan: Plan, happened: list[Event]) -> None:
    """Cancelled before failed before partial before recovered before succeeded.

    An unfinished step counts as cancelled; `failed` needs a failure that `continue_on_error` does not excuse.
    """
    progress = folded(at_start(plan), *happened)
    states = {step: known.state for step, known in progress.steps.items()}
    excused = {planned.step.id for planned in plan.steps if planned.step.continue_on_error}
    whole = all(state in FINAL and state != "cancelled" for state in states.values()) and not progress.cancelling
    called = final_run_state(plan, progress)
    assert (called == "cancelled") == (not whole)
    assert (called == "failed") == (
        whole and any(state in OWN_FAILURES and step not in excused for step, state in states.items())
    )
    assert (called in ("succeeded", "succeeded_with_recovery")) == (
        whole and all(state in SATISFYING for state in states.values())
    )
    assert (called == "succeeded") == (set(states.values()) == {"succeeded"} and not progress.cancelling)


def diamond(*, tolerant: bool) -> Plan:
    """`a.x` before `a.y` and `a.z`, and both before `b.x`."""
    pipeline = Pipeline("p")
    first = pipeline.workflow("a")
    first.step("x", ["true"], continue_on_error=tolerant)
    first.step("y", ["true"], needs=["x"])
    first.step("z", ["true"], needs=["x"])
    pipeline.workflow("b", needs=["a"]).step("x", ["true"])
    return pipeline.build()


def test_steps_start_as_soon_as_their_needs_are_settled() -> None:
    """First the step without needs, then the two that need it, then the one that needs all."""
    plan = diamond(tolerant=False)
    progress = at_start(plan)
    assert next_moves(plan, progress) == Moves(("a.x",))
    progress = folded(progress, attempt_started("a.x"))
    assert next_moves(plan, progress) == Moves()
    progress = folded(progress, step_ended("a.x", "recovered"))
    assert next_moves(plan, progress) == Moves(("a.y", "a.z"))
    progress = folded(progress, step_ended("a.y", "succeeded"), attempt_started("a.z"))
    assert next_moves(plan, progress) == Moves()
    assert next_moves(plan, folded(progress, step_ended("a.z", "succeeded"))) == Moves(("b.x",))


@pytest.mark.parametrize("state", ["failed", "timed_out"])
def test_a_failure(state: StepState) -> None:
    """It skips the steps that need it and fails the run; with `continue_on_error` the run goes on and is partial."""
    plan = diamond(tolerant=False)
    progress = folded(at_start(plan), step_ended("a.x", state))
    assert next_moves(plan, progress).end == (
        ("a.y", "skipped_upstream_failed"),
        ("a.z", "skipped_upstream_failed"),
        ("b.x", "skipped_upstream_failed"),
    )
    plan = diamond(tolerant=True)
    progress = folded(at_start(plan), step_ended("a.x", state))
    assert next_moves(plan, progress) == Moves(("a.y", "a.z"))
    progress = folded(progress, *(step_ended(step, "succeeded") for step in ("a.y", "a.z", "b.x")))
    assert final_run_state(plan, progress) == "partial"


def test_a_cancelled_run_starts_nothing_more() -> None:
    """Pending steps are cancelled, running ones may end, and the run is cancelled."""
    plan = diamond(tolerant=True)
    progress = folded(at_start(plan), step_ended("a.x", "succeeded"), attempt_started("a.y"), cancel())
    assert next_moves(plan, progress) == Moves((), (("a.z", "cancelled"), ("b.x", "cancelled")))
    progress = folded(progress, *(step_ended(step, "succeeded") for step in ("a.y", "a.z", "b.x")))
    assert final_run_state(plan, progress) == "cancelled"


@pytest.mark.parametrize(
    ("kind", "attempts", "state"),
    [
        ("succeeded", 1, "succeeded"),
        ("succeeded", 2, "recovered"),
        ("failed", 1, "failed"),
        ("infra", 3, "failed"),
        ("timed_out", 1, "timed_out"),
        ("cancelled", 2, "cancelled"),
    ],
)
def test_the_last_attempt_decides(kind: OutcomeKind, attempts: int, state: StepState) -> None:
    """A success after a repetition is `recovered`; a failure of the cluster is `failed`."""
    assert final_state(Outcome(kind=kind), attempts) == state


@given(outcome_kinds, st.integers(1, 9))
def test_every_outcome_has_a_final_state(kind: Any, attempts: int) -> None:
    """Whatever the outcome is, the state of the step is final."""
    assert final_state(Outcome(kind=kind), attempts) in FINAL
    assert set(get_args(OutcomeKind)) == {"succeeded", "failed", "timed_out", "cancelled", "infra"}


@given(plans(), step_ids)
def test_a_run_with_a_recovered_step(plan: Plan, step: str) -> None:
    """If all steps succeeded, and one needed several attempts, it is `succeeded_with_recovery`."""
    progress = at_start(plan)
    for known in progress.steps:
        progress = fold(progress, step_ended(known, "recovered" if known == step else "succeeded"))
    wanted = "succeeded_with_recovery" if step in progress.steps else "succeeded"
    assert final_run_state(plan, progress) == wanted
