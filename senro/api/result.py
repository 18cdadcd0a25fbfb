"""The result of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from senro.domain.run.outcome import Outcome
from senro.domain.run.state_names import RunState, StepState


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of one step.

    `id`: `workflow.step`.
    `state`: its final state.
    `attempts`: the number of attempts; 0 if the step never started.
    `outcome`: the outcome of the last attempt; None if the step never started.
    """

    id: str
    state: StepState
    attempts: int
    outcome: Outcome | None


@dataclass(frozen=True, slots=True)
class WorkspaceResult:
    """A workspace at the end of a run.

    `digest`: its digest, `sha256:<hex>`.
    `folder`: the folder of its files; empty for a persistent workspace that exceeded a bound and was evicted.
    """

    digest: str
    folder: str


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a run.

    `run_id`: the id of the run.
    `state`: its final state.
    `folder`: the folder with the run's plan, events and logs.
    `steps`: the results of the steps by id, in the order of the plan.
    `workspaces`: the workspaces by name.
    `leftovers`: a kubectl command for each object that senro created and could not verify as deleted.
    """

    run_id: str
    state: RunState
    folder: str
    steps: Mapping[str, StepResult]
    workspaces: Mapping[str, WorkspaceResult]
    leftovers: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the run was not cancelled and no step failed, except steps with `continue_on_error`."""
        return self.state in ("succeeded", "succeeded_with_recovery", "partial")
