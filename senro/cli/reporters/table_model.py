"""What a live table shows, without any drawing: the rows, and which of them matter when not all have room."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from senro.cli.reporters.closing_summary import STEP_WORDS, TAIL_LINES
from senro.cli.reporters.transfer_meter import Meter
from senro.ports.clock import Clock
from senro.ports.reporter import Direction, StepInfo, StepState

# Which rows stay when there are more than the terminal is high: what moves, what went wrong, what comes next.
_RANK: dict[StepState, int] = {
    "running": 0,
    "failed": 1,
    "timed_out": 1,
    "cancelled": 2,
    "recovered": 3,
    "pending": 4,
    "succeeded": 5,
    "skipped_upstream_failed": 6,
}


@dataclass(slots=True)
class BoardRow:
    """One step as it is now. Times are monotonic seconds."""

    step_id: str
    where: str = ""
    state: StepState = "pending"
    attempt: int = 0
    phase: str = ""
    began: float | None = None
    ended: float | None = None
    meter: Meter | None = None
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=TAIL_LINES))

    def seconds(self, now: float) -> float | None:
        """How long it has run or ran; None where it never started."""
        return None if self.began is None else (now if self.ended is None else self.ended) - self.began

    def about(self) -> str:
        """What it does at this moment: its transfer with the speed, else its phase, else its last line of output."""
        if self.state not in ("pending", "running"):
            return self.phase
        if self.meter is not None:
            return self.meter.brief()
        last = self.tail[-1] if self.tail else ""
        return last if last and self.phase in ("", "running") else self.phase


class Board:
    """All steps of a run, in the plan's order; a step that the plan did not name is added when it is heard of."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rows: dict[str, BoardRow] = {}

    def start(self, steps: Sequence[StepInfo]) -> None:
        """The steps of the plan."""
        for step in steps:
            self._row(step.step_id).where = step.where

    def state(self, step_id: str, state: StepState, attempt: int, phase: str) -> None:
        """As `Reporter.step_state`."""
        row = self._row(step_id)
        now = self._clock.monotonic()
        if (row.state, row.attempt, row.phase) != (state, attempt, phase):
            row.meter = None
        if state == "running" and row.began is None:
            row.began = now
        row.ended = None if state in ("pending", "running") else row.ended or now
        row.state, row.attempt, row.phase = state, attempt, phase

    def transfer(self, step_id: str, direction: Direction, done: int, total: int | None, files: int = 0) -> None:
        """As `Reporter.transfer`."""
        row = self._row(step_id)
        if row.meter is None or row.meter.direction != direction:
            row.meter = Meter(direction)
        row.meter.update(self._clock.monotonic(), done, total, files)

    def log(self, step_id: str, text: str) -> None:
        """As `Reporter.log_line`."""
        self._row(step_id).tail.append(text)

    def tails(self) -> dict[str, list[str]]:
        """The last lines of every step that printed any."""
        return {row.step_id: list(row.tail) for row in self._rows.values() if row.tail}

    def shown(self, room: int) -> tuple[list[BoardRow], str]:
        """The rows that fit into `room` lines, in the plan's order, and a line for the rest, empty if there is none."""
        rows = list(self._rows.values())
        if len(rows) <= room:
            return rows, ""
        kept = {id(row) for row in sorted(rows, key=lambda row: _RANK[row.state])[: max(1, room - 1)]}
        counts = Counter(row.state for row in rows if id(row) not in kept)
        told = ", ".join(f"{counts[state]} {word}" for state, (word, _) in STEP_WORDS.items() if counts[state])
        return [row for row in rows if id(row) in kept], f"and {told}"

    def _row(self, step_id: str) -> BoardRow:
        return self._rows.setdefault(step_id, BoardRow(step_id))
