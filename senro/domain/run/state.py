"""The state of a run, folded from its events; which steps may start; the final state of the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from senro.domain.plan.plan import Plan
from senro.domain.run.events import (
    AttemptEnded,
    AttemptStarted,
    CancelRequested,
    Event,
    SnapshotTaken,
    StepEnded,
    WorkspaceOpened,
)
from senro.domain.run.outcome import Outcome
from senro.domain.run.state_names import RunState, StepState

FINAL: frozenset[StepState] = frozenset(
    {"succeeded", "recovered", "failed", "timed_out", "cancelled", "skipped_upstream_failed"}
)
"""The states that a step never leaves."""

SATISFYING: frozenset[StepState] = frozenset({"succeeded", "recovered"})
"""The states that satisfy a need."""

_OWN_FAILURES: frozenset[StepState] = frozenset({"failed", "timed_out"})


@dataclass(frozen=True, slots=True)
class StepProgress:
    """The state of a step. `attempts` counts those that began; `outcome` is of the latest one that ended."""

    state: StepState = "pending"
    attempts: int = 0
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a run.

    `steps`: the steps by id.
    `workspaces`: the digest of the latest snapshot of each workspace.
    `cancelling`: whether the run was asked to stop.
    """

    steps: Mapping[str, StepProgress]
    workspaces: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    cancelling: bool = False


@dataclass(frozen=True, slots=True)
class Moves:
    """What to do next: steps to start, and steps that get a final state without starting, in the plan's order."""

    start: tuple[str, ...] = ()
    end: tuple[tuple[str, StepState], ...] = ()


def at_start(plan: Plan) -> Progress:
    """The state of a run that has not begun."""
    return Progress(MappingProxyType({planned.step.id: StepProgress() for planned in plan.steps}))


def fold(progress: Progress, event: Event) -> Progress:
    """The state after `event`. Events of unknown steps, or of steps with a final state, change nothing."""
    match event:
        case AttemptStarted(step=step, attempt=attempt):
            return _step(progress, step, state="running", attempts=attempt)
        case AttemptEnded(step=step, outcome=outcome):
            return _step(progress, step, outcome=outcome)
        case StepEnded(step=step, state=state):
            return _step(progress, step, state=state)
        case WorkspaceOpened(workspace=name, digest=digest) | SnapshotTaken(workspace=name, digest=digest):
            return replace(progress, workspaces=MappingProxyType({**progress.workspaces, name: digest}))
        case CancelRequested():
            return replace(progress, cancelling=True)
        case _:
            return progress


def _step(progress: Progress, step: str, **changes: Any) -> Progress:
    known = progress.steps.get(step)
    if known is None or known.state in FINAL:
        return progress
    return replace(progress, steps=MappingProxyType({**progress.steps, step: replace(known, **changes)}))


def next_moves(plan: Plan, progress: Progress) -> Moves:
    """What the needs allow. Call it after every step that ends, until every step has a final state.

    A step that succeeded, or failed with `continue_on_error`, satisfies a need. A step whose need cannot be satisfied
    any more is skipped. In a run that is being cancelled, a step that has not begun is cancelled.
    """
    tolerated = {planned.step.id for planned in plan.steps if planned.step.continue_on_error}
    start: list[str] = []
    end: list[tuple[str, StepState]] = []
    for planned in plan.steps:
        if progress.steps[planned.step.id].state != "pending":
            continue
        needs = [(need, progress.steps[need].state) for need in planned.needs]
        if progress.cancelling:
            end.append((planned.step.id, "cancelled"))
        elif any(state in FINAL and not _satisfies(need, state, tolerated) for need, state in needs):
            end.append((planned.step.id, "skipped_upstream_failed"))
        elif all(_satisfies(need, state, tolerated) for need, state in needs):
            start.append(planned.step.id)
    return Moves(tuple(start), tuple(end))


def _satisfies(need: str, state: StepState, tolerated: set[str]) -> bool:
    return state in SATISFYING or (state in _OWN_FAILURES and need in tolerated)


def final_state(outcome: Outcome, attempts: int) -> StepState:
    """The final state of a step whose last one of `attempts` had this outcome."""
    match outcome.kind:
        case "succeeded":
            return "succeeded" if attempts == 1 else "recovered"
        case "timed_out":
            return "timed_out"
        case "cancelled":
            return "cancelled"
        case _:
            return "failed"


def final_run_state(plan: Plan, progress: Progress) -> RunState:
    """The final state of the run. A step without a final state counts as cancelled."""
    tolerated = {planned.step.id for planned in plan.steps if planned.step.continue_on_error}
    states = {step: known.state for step, known in progress.steps.items()}
    if progress.cancelling or any(state == "cancelled" or state not in FINAL for state in states.values()):
        return "cancelled"
    failed = {step for step, state in states.items() if state not in SATISFYING}
    if any(states[step] in _OWN_FAILURES and step not in tolerated for step in failed):
        return "failed"
    if failed:
        return "partial"
    return "succeeded_with_recovery" if "recovered" in states.values() else "succeeded"
