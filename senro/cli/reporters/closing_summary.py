"""The summary that reporters print at the end of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from senro.cli.reporters.text import duration, plural, printable
from senro.ports.reporter import RunState, RunSummary, StepRow, StepState

Tone = Literal["", "good", "bad", "warn", "dim"]
"""What a line means; the live reporter maps it to a colour."""

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
"""The words and the tone for the state of a step."""

_RUN_WORDS: dict[RunState, tuple[str, Tone]] = {
    "succeeded": ("succeeded", "good"),
    "succeeded_with_recovery": ("succeeded with recovery", "warn"),
    "partial": ("succeeded in part", "warn"),
    "failed": ("failed", "bad"),
    "cancelled": ("was cancelled", "bad"),
}

TAIL_LINES = 10
"""Number of last output lines of a failed step that the summary shows."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of printable text with its tone."""

    text: str
    tone: Tone = ""


def summary_lines(result: RunSummary, tails: Mapping[str, Sequence[str]] | None = None) -> list[Line]:
    """Returns the whole summary: a table of the steps, a paragraph for each failure, the folders, the result.

    `tails` maps steps to their last output lines, if these were not printed before; those of failed steps are shown.
    """
    return [*_table(result.rows), *step_paragraphs(result, tails), *_places(result), Line(""), result_line(result)]


def step_paragraphs(result: RunSummary, tails: Mapping[str, Sequence[str]] | None = None) -> Iterator[Line]:
    """Yields a paragraph for each step that failed or has details, preceded by an empty line."""
    for row in result.rows:
        failed = row.state in ("failed", "timed_out")
        if failed or row.detail or row.words or row.hint:
            yield Line("")
            yield from _paragraph(row, (tails or {}).get(row.step_id, ()) if failed else ())


def result_line(result: RunSummary) -> Line:
    """Returns the last line: the state of the run, the number of steps by state, and the time."""
    words, tone = _RUN_WORDS[result.state]
    counts = Counter(row.state for row in result.rows)
    by_state = [] if set(counts) <= {"succeeded"} else count_states(counts)
    parts = ", ".join([plural(len(result.rows), "step"), *by_state, f"in {duration(result.seconds)}"])
    return Line(f"run {printable(result.run_id)} {words}: {parts}", tone)


def count_states(counts: Mapping[StepState, int]) -> list[str]:
    """Returns `3 succeeded`, `1 failed` and so on, for the states with a count."""
    return [f"{counts[state]} {word}" for state, (word, _) in STEP_WORDS.items() if counts.get(state)]


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
    """Yields the lines of `text`, the first one after the label and the others aligned with it."""
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
    """Returns the beginning of a digest, which is enough to compare two by eye."""
    algorithm, colon, value = printable(digest).partition(":")
    return f"{algorithm}{colon}{value[:12]}"
