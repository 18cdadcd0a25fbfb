"""`senro ws ls`: which runs have which workspaces, what each holds, who wrote it last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from senro.cli.reporters.text import plural, printable, size
from senro.cli.workspaces.lookup import STATES, Stored, omitted, snapshots_of
from senro.domain.run.history import SnapshotRecord
from senro.domain.tree.tree import Entry

_BRIEF = 19
"""Characters of a digest that are shown where several stand under each other: `sha256:` and twelve."""


async def list_runs(stored: Stored) -> list[str]:
    """A line for each run, the newest last: id, pipeline, state, its workspaces."""
    rows = []
    for run in await stored.ids():
        told = await stored.runs.history(run)
        rows.append((run, printable(told.pipeline), STATES[told.state], ", ".join(sorted(told.workspaces)) or "-"))
    return table(("RUN", "PIPELINE", "STATE", "WORKSPACES"), rows) if rows else ["no run yet"]


async def list_workspaces(stored: Stored, asked: str) -> list[str]:
    """A line for each workspace of a run: what its newest snapshot holds, and the step that it is of."""
    run, told = await stored.run(asked)
    newest = {name: snapshots[-1] for name, snapshots in sorted(told.workspaces.items())}
    rows = [
        (name, one.digest[:_BRIEF], plural(one.files, "file"), size(one.bytes), wrote(one))
        for name, one in newest.items()
    ]
    lines = [f"run {run} of {printable(told.pipeline)}: {STATES[told.state]}"]
    lines += table(("WORKSPACE", "SNAPSHOT", "FILES", "SIZE", "AS IT WAS"), rows) if rows else ["it has no workspace"]
    return lines + [f"{name}: {printable(words)}" for name, one in newest.items() if (words := omitted(one))]


async def list_entries(stored: Stored, asked: str, name: str) -> list[str]:
    """The newest snapshot of a workspace: a line for each entry, and before them what it is.

    The letters are those of the store's index: F a file, X an executable one, D a directory, L a link.
    """
    _, told = await stored.run(asked)
    newest = snapshots_of(told, name)[-1]
    tree = await stored.content.get(newest.digest)
    lines = [f"{name}, {wrote(newest)}: {plural(newest.files, 'file')}, {size(newest.bytes)}, {newest.digest}"]
    if words := omitted(newest):
        lines.append(printable(words))
    width = max((len(str(entry.size)) for entry in tree.entries), default=1)
    return lines + [_entry(entry, width) for entry in tree.entries]


def wrote(snapshot: SnapshotRecord) -> str:
    """Which state of a workspace a snapshot is, in a few words."""
    return f"after {printable(snapshot.step)}" if snapshot.step else "at first"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows under their head, each column as wide as its widest cell; the last one is not filled up."""
    return list(_aligned([head, *rows]))


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _entry(entry: Entry, width: int) -> str:
    letter = {"directory": "D", "link": "L", "file": "X" if entry.executable else "F"}[entry.kind]
    count = str(entry.size) if entry.kind == "file" else "-"
    target = f" -> {printable(entry.target)}" if entry.kind == "link" else ""
    return f"{letter}  {count.rjust(width)}  {printable(entry.path)}{target}"
