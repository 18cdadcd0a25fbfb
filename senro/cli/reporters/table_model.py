"""The rows of a live table, and which of them are shown if the terminal has too few rows."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from senro.cli.reporters.closing_summary import TAIL_LINES, count_states
from senro.cli.reporters.transfer_meter import Meter
from senro.ports.clock import Clock
from senro.ports.reporter import Direction, StepInfo, StepState

# The rows with the lowest ranks are shown: running, failed, then pending steps.
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
class TableRow:
    """One step.

    `where`: where the step runs, such as `pod in ci`.
    `began`, `ended`: monotonic seconds of the first start and of the end, if any.
    `meter`: the transfer in progress, if any.
    `tail`: the last lines of output.
    """

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
        """Returns the seconds that the step has run; None if it never started."""
        return None if self.began is None else (now if self.ended is None else self.ended) - self.began

    def activity(self) -> str:
        """Returns the transfer with its speed, else the last line of output while the step runs, else the phase."""
        if self.state not in ("pending", "running"):
            return self.phase
        if self.meter is not None:
            return self.meter.brief()
        last = self.tail[-1] if self.tail else ""
        return last if last and self.phase in ("", "running") else self.phase


class TableModel:
    """The steps of a run, in the order of the plan. A step that is not in the plan is added when it is reported."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rows: dict[str, TableRow] = {}

    def start(self, steps: Sequence[StepInfo]) -> None:
        """Adds the steps of the plan."""
        for step in steps:
            self._row(step.step_id).where = step.where

    def state(self, step_id: str, state: StepState, attempt: int, phase: str) -> None:
        """Records what `Reporter.step_state` reports."""
        row = self._row(step_id)
        now = self._clock.monotonic()
        if (row.state, row.attempt, row.phase) != (state, attempt, phase):
            row.meter = None
        if state == "running" and row.began is None:
            row.began = now
        row.ended = None if state in ("pending", "running") else row.ended or now
        row.state, row.attempt, row.phase = state, attempt, phase

    def transfer(self, step_id: str, direction: Direction, done: int, total: int | None, files: int = 0) -> None:
        """Records what `Reporter.transfer` reports."""
        row = self._row(step_id)
        if row.meter is None or row.meter.direction != direction:
            row.meter = Meter(direction)
        row.meter.update(self._clock.monotonic(), done, total, files)

    def log(self, step_id: str, text: str) -> None:
        """Records what `Reporter.log_line` reports."""
        self._row(step_id).tail.append(text)

    def tails(self) -> dict[str, list[str]]:
        """Returns the last lines of each step that printed any."""
        return {row.step_id: list(row.tail) for row in self._rows.values() if row.tail}

    def visible_rows(self, room: int) -> tuple[list[TableRow], str]:
        """Returns the rows to show in `room` lines, in order, and a line that counts the others, or ""."""
        rows = list(self._rows.values())
        if len(rows) <= room:
            return rows, ""
        kept = {id(row) for row in sorted(rows, key=lambda row: _RANK[row.state])[: max(1, room - 1)]}
        counts = Counter(row.state for row in rows if id(row) not in kept)
        return [row for row in rows if id(row) in kept], f"and {', '.join(count_states(counts))}"

    def _row(self, step_id: str) -> TableRow:
        return self._rows.setdefault(step_id, TableRow(step_id))
