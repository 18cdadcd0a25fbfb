"""`senro ws ls`: lists runs, their workspaces, and the files of a workspace."""

from __future__ import annotations

from collections.abc import Sequence

from senro.cli.reporters.text import plural, printable, size
from senro.cli.workspaces.lookup import STATES, Stored, describe_omitted, snapshots_of
from senro.domain.run.history import SnapshotRecord
from senro.domain.tree.tree import Entry

_BRIEF = 19
"""Length of the part of a digest that a table shows: `sha256:` and twelve digits."""


async def list_runs(stored: Stored) -> list[str]:
    """Returns a table of the runs, the newest last: id, pipeline, state, workspaces."""
    rows = []
    for run in await stored.runs.ids():
        history = await stored.runs.history(run)
        workspaces = ", ".join(sorted(history.workspaces)) or "-"
        rows.append((run, printable(history.pipeline), STATES[history.state], workspaces))
    return _table(("RUN", "PIPELINE", "STATE", "WORKSPACES"), rows) if rows else ["no run yet"]


async def list_workspaces(stored: Stored, reference: str) -> list[str]:
    """Returns a table of the workspaces of a run, each by its newest snapshot. Raises `UnknownNameError`."""
    run, history = await stored.run(reference)
    newest = {name: snapshots[-1] for name, snapshots in sorted(history.workspaces.items())}
    rows = [
        (name, one.digest[:_BRIEF], plural(one.files, "file"), size(one.bytes), describe_state(one))
        for name, one in newest.items()
    ]
    lines = [f"run {run} of {printable(history.pipeline)}: {STATES[history.state]}"]
    lines += _table(("WORKSPACE", "SNAPSHOT", "FILES", "SIZE", "STATE"), rows) if rows else ["it has no workspace"]
    return lines + [f"{name}: {printable(note)}" for name, one in newest.items() if (note := describe_omitted(one))]


async def list_entries(stored: Stored, reference: str, name: str) -> list[str]:
    """Returns the entries of a workspace's newest snapshot, one per line, preceded by a summary.

    The letters are those of the store's index: F a file, X an executable file, D a directory, L a link. Raises
    `UnknownNameError`, `StoreError`.
    """
    _, history = await stored.run(reference)
    newest = snapshots_of(history, name)[-1]
    tree = await stored.content.get(newest.digest)
    lines = [f"{name}, {describe_state(newest)}: {plural(newest.files, 'file')}, {size(newest.bytes)}, {newest.digest}"]
    if note := describe_omitted(newest):
        lines.append(printable(note))
    width = max((len(str(entry.size)) for entry in tree.entries), default=1)
    return lines + [_entry(entry, width) for entry in tree.entries]


def describe_state(snapshot: SnapshotRecord) -> str:
    """Returns which state of its workspace a snapshot holds: `after STEP` or `at first`."""
    return f"after {printable(snapshot.step)}" if snapshot.step else "at first"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]


def _entry(entry: Entry, width: int) -> str:
    letter = {"directory": "D", "link": "L", "file": "X" if entry.executable else "F"}[entry.kind]
    count = str(entry.size) if entry.kind == "file" else "-"
    target = f" -> {printable(entry.target)}" if entry.kind == "link" else ""
    return f"{letter}  {count.rjust(width)}  {printable(entry.path)}{target}"
