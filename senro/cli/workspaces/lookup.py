"""Finds the runs and workspaces that a user names."""

from __future__ import annotations

from collections.abc import Mapping
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
"""The words for the state of a run."""


class UnknownNameError(SenroError):
    """A run or workspace does not exist.

    `kind`: `run` or `workspace`.
    `name`: the name that was given.
    `problem`: why it names none, and which names there are.
    """

    def __init__(self, kind: str, name: str, problem: str) -> None:
        super().__init__(kind, name, problem)
        self.kind = kind
        self.name = name
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.kind} `{self.name}`: {self.problem}"


@dataclass(frozen=True, slots=True)
class Stored:
    """The runs of a folder, and the store that holds their snapshots."""

    runs: Runs
    content: ContentStore

    async def run(self, reference: str) -> tuple[str, History]:
        """Returns the id and the history of the run that `reference` names. Raises `UnknownNameError`."""
        run = _name("run", reference, choose_run(reference, await self.runs.ids()))
        return run, await self.runs.history(run)


def snapshots_of(history: History, name: str) -> tuple[SnapshotRecord, ...]:
    """Returns the snapshots of a workspace, the newest last. Raises `UnknownNameError`."""
    return history.workspaces[_name("workspace", name, choose_workspace(name, list(history.workspaces)))]


def describe_omitted(snapshot: SnapshotRecord) -> str:
    """Returns how many files of the folder a snapshot omits, and some of them; empty if it omits none."""
    if not snapshot.omitted:
        return ""
    more = snapshot.omitted - len(snapshot.omitted_sample)
    sample = "; ".join(snapshot.omitted_sample) + (f"; and {more} more" if more > 0 else "")
    return f"the snapshot omits {plural(snapshot.omitted, 'file')}: {sample}"


def _name(kind: str, name: str, chosen: Chosen) -> str:
    if not chosen.name:
        raise UnknownNameError(kind, name, chosen.problem)
    return chosen.name
