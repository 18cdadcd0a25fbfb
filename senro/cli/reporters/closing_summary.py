"""The end of a run, told to somebody who has never seen one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from senro.cli.reporters.text import duration, plural, printable
from senro.ports.reporter import RunState, RunSummary, StepRow, StepState

Tone = Literal["", "good", "bad", "warn", "dim"]
"""How a line is meant; whoever has colours chooses them."""

STEP_WORDS: dict[StepState, tuple[str, Tone]] = {
    "pending": ("pending", "dim"),
    "running": ("running", ""),
    "succeeded": ("succeeded", "good"),
    "recovered": ("recovered", "warn"),
    "failed": ("failed", "bad"),
    "timed_out": ("timed out", "bad"),
    "cancelled": ("cancelled", "warn"),
    "skipped_upstream_failed": ("skipped", "dim"),
}
"""What people read for a step's state."""

_RUN_WORDS: dict[RunState, tuple[str, Tone]] = {
    "succeeded": ("succeeded", "good"),
    "succeeded_with_recovery": ("succeeded with recovery", "warn"),
    "partial": ("succeeded in part", "warn"),
    "failed": ("failed", "bad"),
    "cancelled": ("was cancelled", "bad"),
}

TAIL_LINES = 10
"""Lines of a failed step's output that are shown again at the end, where they have scrolled or never been shown."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line, printable, and how it is meant."""

    text: str
    tone: Tone = ""


def closing(result: RunSummary, tails: Mapping[str, Sequence[str]] | None = None) -> list[Line]:
    """Everything: the steps, what went wrong and what to do, where things lie, the verdict.

    `tails` holds the last log lines of steps, for those that failed and whose lines were not shown as they came.
    """
    lines = [*_table(result.rows), *troubles(result, tails), *_places(result), Line("")]
    return [*lines, verdict(result)]


def troubles(result: RunSummary, tails: Mapping[str, Sequence[str]] | None = None) -> Iterator[Line]:
    """A paragraph for every step that failed, and for every other that has something to tell."""
    for row in result.rows:
        failed = row.state in ("failed", "timed_out")
        if failed or row.detail or row.words or row.hint:
            yield Line("")
            yield from _paragraph(row, (tails or {}).get(row.step_id, ()) if failed else ())


def verdict(result: RunSummary) -> Line:
    """The last line: what the run came to, in one sentence."""
    words, tone = _RUN_WORDS[result.state]
    counts = Counter(row.state for row in result.rows)
    told = [f"{counts[state]} {word}" for state, (word, _) in STEP_WORDS.items() if counts[state]]
    if set(counts) <= {"succeeded"}:
        told = []
    parts = ", ".join([plural(len(result.rows), "step"), *told, f"in {duration(result.seconds)}"])
    return Line(f"run {printable(result.run_id)} {words}: {parts}", tone)


def _table(rows: Sequence[StepRow]) -> Iterator[Line]:
    cells = [
        (
            printable(row.step_id),
            STEP_WORDS[row.state][0],
            plural(row.attempts, "attempt") if row.attempts else "not started",
            "" if row.seconds is None else duration(row.seconds),
        )
        for row in rows
    ]
    widths = [max((len(line[column]) for line in cells), default=0) for column in range(3)]
    for row, line in zip(rows, cells, strict=True):
        padded = [cell.ljust(width) for cell, width in zip(line, widths, strict=False)]
        yield Line("  ".join(["", *padded, line[3]]).rstrip(), STEP_WORDS[row.state][1])


def _paragraph(row: StepRow, tail: Sequence[str]) -> Iterator[Line]:
    word, tone = STEP_WORDS[row.state]
    kind = f" ({printable(row.kind)})" if row.kind else ""
    node = f" on node {printable(row.node)}" if row.node else ""
    yield Line(f"{printable(row.step_id)} {word}{kind}{node}", tone)
    for sentence in row.detail:
        yield from _indented("", sentence)
    yield from _indented("the cluster said: ", row.words)
    yield from _indented("what to do: ", row.hint)
    if tail:
        yield Line("  its last lines:")
        for text in tail[-TAIL_LINES:]:
            yield Line(f"    | {printable(text)}".rstrip(), "dim")
    yield from _indented("its log: ", row.log)


def _indented(label: str, text: str) -> Iterator[Line]:
    """The text's lines under each other, the label before the first; nothing for an empty text."""
    for number, line in enumerate(text.strip().splitlines()):
        yield Line(f"  {label if number == 0 else ' ' * len(label)}{printable(line)}".rstrip())


def _places(result: RunSummary) -> Iterator[Line]:
    yield Line("")
    places = [
        (f"workspace {printable(name)}", printable(folder) or "(evicted)", _brief(digest))
        for name, (digest, folder) in result.workspaces.items()
    ]
    places.append(("logs and events", printable(result.folder), ""))
    widths = [max(len(place[column]) for place in places) for column in range(2)]
    for name, folder, digest in places:
        yield Line(f"{name.ljust(widths[0])}  {folder.ljust(widths[1])}  {digest}".rstrip())


def _brief(digest: str) -> str:
    """Enough of a digest to compare two by eye; `senro ws ls` and the events hold all of it."""
    algorithm, colon, value = printable(digest).partition(":")
    return f"{algorithm}{colon}{value[:12]}"
