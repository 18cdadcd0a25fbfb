"""What a run came to, for the program that asked for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from senro.domain.run.outcome import Outcome
from senro.domain.run.state_names import RunState, StepState


@dataclass(frozen=True, slots=True)
class StepResult:
    """One step. `attempts` is 0 and `outcome` None for a step that never started."""

    id: str
    state: StepState
    attempts: int
    outcome: Outcome | None


@dataclass(frozen=True, slots=True)
class WorkspaceResult:
    """A workspace as the run left it: `digest` is `sha256:<hex>`, `folder` holds its files.

    `folder` is empty for a persistent workspace that exceeded a bound at the end of the run and was evicted.
    """

    digest: str
    folder: str


@dataclass(frozen=True, slots=True)
class Result:
    """A run that ended. `folder` holds its plan, its events and its logs; `steps` are by id, in the plan's order.

    `leftovers` holds a kubectl command for each object that senro created and could not see gone.
    """

    run_id: str
    state: RunState
    folder: str
    steps: Mapping[str, StepResult]
    workspaces: Mapping[str, WorkspaceResult]
    leftovers: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing failed that was not allowed to, and nobody cancelled the run."""
        return self.state in ("succeeded", "succeeded_with_recovery", "partial")
