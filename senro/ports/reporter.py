"""Reports of a run's progress: the engine calls the methods of a reporter, which shows them.

A reporter decides nothing, so a library user may pass a subclass with only the methods that it needs. The calls of a
run, in order: `run_started` once; any number of the others, those of different steps interleaved; `run_ended` once,
unless the run raised an exception; `close` once, always.

All calls come from the event loop's thread, must return at once and must not raise. A text may contain anything that a
step or a cluster printed, also escape sequences: the reporter makes it printable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from senro.domain.run.state_names import RunState, StepState
from senro.domain.transfer.compression import Direction

__all__ = [
    "Direction",
    "Reporter",
    "RunState",
    "RunSummary",
    "StepInfo",
    "StepRow",
    "StepState",
    "Stream",
]

Stream = Literal["stdout", "stderr"]
"""The stream of a line of output. The log of a pod does not distinguish them; its lines are `stdout`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepInfo:
    """One step of the plan.

    step_id: `<workflow>.<step>`.
    where: where it runs, for people: `local`, `pod in ci`.
    needs: the ids of the steps that it waits for.
    """

    step_id: str
    where: str = "local"
    needs: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """How one step ended. A text is empty if there is nothing to say.

    state: the final state.
    attempts: how many attempts were started.
    seconds: from the first start to the end; None if the step never started.
    detail: sentences about what happened, in order.
    hint: what the user can do.
    kind: the identifier of a failure, such as `exited`, `evicted`, `image-pull`.
    node: the node of the last attempt.
    words: the message of the cluster.
    log: the path of the last attempt's log.
    """

    step_id: str
    state: StepState
    attempts: int = 1
    seconds: float | None = None
    detail: Sequence[str] = ()
    hint: str = ""
    kind: str = ""
    node: str = ""
    words: str = ""
    log: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """How a run ended.

    run_id, folder: the id and the folder of the run.
    state: its final state.
    seconds: its duration.
    rows: its steps, in the order of the plan.
    workspaces: the digest and the folder of each workspace, by its name.
    """

    run_id: str
    state: RunState
    folder: str
    seconds: float
    rows: Sequence[StepRow]
    workspaces: Mapping[str, tuple[str, str]] = field(default_factory=dict)


class Reporter:
    """Receives the progress of a run. Every method is empty; a subclass overrides those that it needs."""

    def run_started(self, run_id: str, folder: str, steps: Sequence[StepInfo]) -> None:
        """The folder of the run exists, and no step has started. Called once, before all other methods."""

    def step_state(self, step_id: str, state: StepState, *, attempt: int, phase: str = "") -> None:
        """A step entered a state, or a phase within a state. The same call may be repeated.

        `attempt` counts from 1, and is 0 for a step that never started. `phase` is a text for people, such as
        `starting`, `staging`, `running`, `reading back`, `waiting: ImagePullBackOff ...`. A retry changes the state
        from `running` to `pending` or `running` with the next attempt. No call follows a final state.
        """

    def transfer(
        self, step_id: str, direction: Direction, done_bytes: int, total_bytes: int | None, files: int = 0
    ) -> None:
        """A piece of a workspace was transferred. Called many times a second, and once at the end.

        `done_bytes` and `total_bytes` count bytes of the archive; `total_bytes` is None if the size is not known yet.
        `files` counts the transferred files, folders and links. A transfer that is repeated begins again with a smaller
        `done_bytes`.
        """

    def log_line(self, step_id: str, stream: Stream, text: str) -> None:
        """A step printed a line. `text` has no newline and no secrets. Called for every line, in order."""

    def note(self, step_id: str, message: str) -> None:
        """Something happened that changes no state and that the user should know.

        Such as a transfer that is repeated, or a pod that may still be alive. `message` is one sentence or more;
        `step_id` is empty if it concerns the run.
        """

    def run_ended(self, result: RunSummary) -> None:
        """Every step has its final state, and everything is cleaned up. Called once, unless the run raised an error."""

    def close(self) -> None:
        """Restore the terminal. Always called, after everything else; a second call does nothing."""
