"""A run as its ledger tells it afterwards: what became of its workspaces, and which snapshots it may still need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from senro.domain.run.events import Event, RunEnded, RunStarted, SnapshotTaken, WorkspaceOpened, decode_event
from senro.domain.run.state_names import RunState

LATEST = "latest"
"""Stands for the run that began last, where a run is asked for by name."""

_NAMED = 3
_SUCCESSFUL: frozenset[RunState] = frozenset({"succeeded", "succeeded_with_recovery", "partial"})


@dataclass(frozen=True, slots=True)
class SnapshotRecord:
    """A workspace as it was once: its first content, with `step` empty, or as an attempt of a step left it.

    `omitted` counts what the snapshot does not carry, `omitted_sample` names some of it.
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
    """What a ledger tells. `state` is None for a run that goes on, or whose coordinator was killed.

    `workspaces` maps a name to its snapshots, the newest last; none is without one.
    """

    run: str = ""
    pipeline: str = ""
    state: RunState | None = None
    workspaces: Mapping[str, tuple[SnapshotRecord, ...]] = field(default_factory=dict)

    @property
    def needed(self) -> frozenset[str]:
        """The digests that must be kept for the run: all that it names, unless it ended well.

        A run that failed is looked into and carried on with, from the snapshot before the step that failed; which
        one that is is not for whoever makes room to decide.
        """
        if self.state in _SUCCESSFUL:
            return frozenset()
        return frozenset(one.digest for snapshots in self.workspaces.values() for one in snapshots)


def read_ledger(data: bytes) -> tuple[Event, ...]:
    """The events of an `events.jsonl`.

    What is none is passed over: half a line of a coordinator that was killed, an event of a newer senro.
    """
    found = []
    for line in data.split(b"\n"):
        try:
            found.append(decode_event(line))
        except ValueError:
            continue
    return tuple(found)


def history(events: Iterable[Event]) -> History:
    """What the events of one run tell. Total: any events in any order give an answer."""
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
    """The answer to a name that was asked for: `name`, or where it is empty, what is wrong with the question."""

    name: str = ""
    problem: str = ""


def choose_run(asked: str, runs: Sequence[str]) -> Chosen:
    """The run that `asked` names: an id, what only one id begins with, or `latest`.

    `runs` are the ids that there are, sorted from the oldest to the newest.
    """
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
    """The workspace that `asked` names among those of a run."""
    if asked in names:
        return Chosen(asked)
    if not names:
        return Chosen(problem="the run has no workspace")
    nearest = get_close_matches(asked, names, n=_NAMED) or sorted(names)
    return Chosen(problem=f"the run has no such workspace; it has {_enumerate(nearest)}")


def _enumerate(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
