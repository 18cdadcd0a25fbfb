"""The history of a run by its ledger: its workspaces, and the snapshots that it may still need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from senro.domain.run.events import Event, RunEnded, RunStarted, SnapshotTaken, WorkspaceOpened, decode_event
from senro.domain.run.state_names import RunState

LATEST = "latest"
"""The name that selects the latest run."""

_NAMED = 3
_SUCCESSFUL: frozenset[RunState] = frozenset({"succeeded", "succeeded_with_recovery", "partial"})


@dataclass(frozen=True, slots=True)
class SnapshotRecord:
    """A snapshot of a workspace: its initial content, with `step` empty, or as an attempt of a step left it.

    The fields are those of the events `WorkspaceOpened` and `SnapshotTaken`.
    """

    digest: str
    files: int
    bytes: int
    at: str
    step: str = ""
    attempt: int = 0
    omitted: int = 0
    omitted_sample: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class History:
    """The history of a run.

    `run`, `pipeline`: the id of the run and the name of its pipeline.
    `state`: the final state, None if the run goes on or was killed.
    `workspaces`: the snapshots of each workspace, the latest one last.
    """

    run: str = ""
    pipeline: str = ""
    state: RunState | None = None
    workspaces: Mapping[str, tuple[SnapshotRecord, ...]] = field(default_factory=dict)

    @property
    def needed(self) -> frozenset[str]:
        """The digests of the snapshots to keep for the run: none if it was successful, else all.

        A person may continue a failed run from any of its snapshots.
        """
        if self.state in _SUCCESSFUL:
            return frozenset()
        return frozenset(one.digest for snapshots in self.workspaces.values() for one in snapshots)


def read_ledger(data: bytes) -> tuple[Event, ...]:
    """The events of an `events.jsonl`. Other lines are ignored: incomplete ones, events of a newer senro."""
    found = []
    for line in data.split(b"\n"):
        try:
            found.append(decode_event(line))
        except ValueError:
            continue
    return tuple(found)


def history(events: Iterable[Event]) -> History:
    """The history of a run, given its events in any order."""
    run, pipeline = "", ""
    state: RunState | None = None
    workspaces: dict[str, list[SnapshotRecord]] = {}
    for event in events:
        match event:
            case RunStarted():
                run, pipeline = event.run, event.pipeline
            case RunEnded():
                state = event.state
            case WorkspaceOpened() | SnapshotTaken():
                step, attempt = (event.step, event.attempt) if isinstance(event, SnapshotTaken) else ("", 0)
                workspaces.setdefault(event.workspace, []).append(
                    SnapshotRecord(
                        digest=event.digest,
                        files=event.files,
                        bytes=event.bytes,
                        at=event.at,
                        step=step,
                        attempt=attempt,
                        omitted=event.omitted,
                        omitted_sample=event.omitted_sample,
                    )
                )
            case _:
                pass
    return History(run, pipeline, state, {name: tuple(snapshots) for name, snapshots in workspaces.items()})


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a person selected: `name`, or if that is empty the `problem` with the selection."""

    name: str = ""
    problem: str = ""


def choose_run(asked: str, runs: Sequence[str]) -> Chosen:
    """The run that `asked` selects: an id, the beginning of one id, or `latest`. `runs` is sorted, the oldest first."""
    if not runs:
        return Chosen(problem="there is no run yet")
    if asked == LATEST:
        return Chosen(runs[-1])
    if asked in runs:
        return Chosen(asked)
    fitting = [run for run in runs if asked and run.startswith(asked)]
    if len(fitting) == 1:
        return Chosen(fitting[0])
    if fitting:
        return Chosen(problem=f"{len(fitting)} runs begin with it: {_enumerate(fitting)}")
    nearest = get_close_matches(asked, runs, n=_NAMED) or list(runs[: -_NAMED - 1 : -1])
    return Chosen(problem=f"there is no such run; the nearest are {_enumerate(nearest)}, or write `{LATEST}`")


def choose_workspace(asked: str, names: Sequence[str]) -> Chosen:
    """The workspace of a run that `asked` selects."""
    if asked in names:
        return Chosen(asked)
    if not names:
        return Chosen(problem="the run has no workspace")
    nearest = get_close_matches(asked, names, n=_NAMED) or sorted(names)
    return Chosen(problem=f"the run has no such workspace; it has {_enumerate(nearest)}")


def _enumerate(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
