"""Progress, told to a delegate: the engine calls, the command line shows.

A reporter is never asked for anything and decides nothing, so a library user may pass one of their own with only
the methods that they care about. The calls of a run, in order: `run_started` once; then any number of the others,
those of different steps mixed; `run_ended` once, unless the run broke; `close` once, on every path.

All calls come from the event loop's thread, must return at once and must not raise. Texts may hold anything that
a step or a cluster printed, escape sequences included: whoever shows them neutralises them.
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
"""Where a line of output came from; a pod's log does not tell and is `stdout`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepInfo:
    """One step as the plan has it. `where` is a word or two for people: `local`, `pod in ci`."""

    step_id: str
    where: str = "local"
    needs: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """What one step came to.

    `seconds` runs from its first start to its end, None where it never started; `attempts` is 0 then. `detail`
    holds sentences: what happened, the newest last. Where it did not simply succeed: `kind` is the stable word
    (`exited`, `evicted`, `image-pull`), `node` the node it ran on, `words` the cluster's own message, `hint` what
    to do. `log` is the path of the last attempt's log. Each of them is empty where there is nothing to say.
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
    """What a run came to. `rows` are in the plan's order; `workspaces` maps a name to (digest, folder)."""

    run_id: str
    state: RunState
    folder: str
    seconds: float
    rows: Sequence[StepRow]
    workspaces: Mapping[str, tuple[str, str]] = field(default_factory=dict)


class Reporter:
    """Hears of a run's progress. Every method is empty: override what you want to hear."""

    def run_started(self, run_id: str, folder: str, steps: Sequence[StepInfo]) -> None:
        """The run's folder exists and nothing has been started. Called once, before all others."""

    def step_state(self, step_id: str, state: StepState, *, attempt: int, phase: str = "") -> None:
        """A step entered a state or, within it, a phase. Called again when either changes; repetitions may come.

        `attempt` counts from 1; 0 for a step that never started. `phase` is a few words for people, such as
        `starting`, `staging`, `running`, `reading back`, `waiting: ImagePullBackOff ...`. A retry goes from
        `running` to `pending` or `running` with the next attempt; after a final state nothing more comes.
        """

    def transfer(
        self, step_id: str, direction: Direction, done_bytes: int, total_bytes: int | None, files: int = 0
    ) -> None:
        """A workspace is on its way. Called for each piece, so many times a second, and once at the end.

        Bytes of the archive, `total_bytes` None where the size is not known beforehand; `files` counts the files,
        folders and links that have crossed. A transfer that is repeated starts again with a smaller `done_bytes`.
        """

    def log_line(self, step_id: str, stream: Stream, text: str) -> None:
        """A step printed a line, its newline removed, secrets redacted. Called for every line, in order."""

    def note(self, step_id: str, message: str) -> None:
        """Something that a person should know and that changes no state.

        Such as a transfer that is repeated, or a pod that may still be alive. One sentence or more; `step_id` is
        empty for what concerns the run.
        """

    def run_ended(self, result: RunSummary) -> None:
        """Every step has its final state and everything is cleaned up. Called once, or never if the run broke."""

    def close(self) -> None:
        """Give the terminal back. Called after everything else, whatever happened; a second call does nothing."""
