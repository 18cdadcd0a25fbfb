"""From the names that a person writes to a run, a workspace of it, and what the store holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from senro.cli.reporters.text import plural
from senro.domain.errors import SenroError
from senro.domain.run.history import Chosen, History, SnapshotRecord, choose_run, choose_workspace
from senro.domain.run.state_names import RunState
from senro.ports.runs import Runs
from senro.ports.snapshots import ContentStore

STATES: Mapping[RunState | None, str] = {
    "succeeded": "succeeded",
    "succeeded_with_recovery": "recovered",
    "partial": "in part",
    "failed": "failed",
    "cancelled": "cancelled",
    None: "not ended",
}
"""What people read in the column of a run's state."""


class UnknownNameError(SenroError):
    """What was asked for is not there. `asked` is what was written, `problem` says what there is."""

    def __init__(self, kind: str, asked: str, problem: str) -> None:
        super().__init__(kind, asked, problem)
        self.kind = kind
        self.asked = asked
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.kind} `{self.asked}`: {self.problem}"


@dataclass(frozen=True, slots=True)
class Stored:
    """The runs of a folder, and the store that keeps their snapshots."""

    runs: Runs
    content: ContentStore

    async def ids(self) -> Sequence[str]:
        """The ids of all runs, the oldest first."""
        return await self.runs.ids()

    async def run(self, asked: str) -> tuple[str, History]:
        """The id and the history of a run. Raises `UnknownNameError` with the nearest known."""
        run = _name("run", asked, choose_run(asked, await self.runs.ids()))
        return run, await self.runs.history(run)


def snapshots_of(history: History, asked: str) -> tuple[SnapshotRecord, ...]:
    """The snapshots of a workspace, the newest last. Raises `UnknownNameError` with the nearest known."""
    return history.workspaces[_name("workspace", asked, choose_workspace(asked, list(history.workspaces)))]


def omitted(snapshot: SnapshotRecord) -> str:
    """What a snapshot does not carry of what was there, in words; empty where that is nothing."""
    if not snapshot.omitted:
        return ""
    more = snapshot.omitted - len(snapshot.omitted_sample)
    named = "; ".join(snapshot.omitted_sample) + (f"; and {more} more" if more > 0 else "")
    return f"{plural(snapshot.omitted, 'thing')} could not be taken: {named}"


def _name(kind: str, asked: str, chosen: Chosen) -> str:
    if not chosen.name:
        raise UnknownNameError(kind, asked, chosen.problem)
    return chosen.name
