"""Reports a run as lines with the time since its start, for CI logs, pipes and simple terminals."""

from __future__ import annotations

from collections.abc import Sequence

from senro.cli.reporters.closing_summary import STEP_WORDS, summary_lines
from senro.cli.reporters.safe_stream import Lines
from senro.cli.reporters.text import clock_time, duration, plural, printable
from senro.cli.reporters.transfer_meter import Meter
from senro.ports.clock import Clock
from senro.ports.reporter import Direction, Reporter, RunSummary, StepInfo, StepState, Stream

TRANSFER_SECONDS = 5.0
"""Minimum seconds between two lines about one transfer."""


class PlainReporter(Reporter):
    """Prints a line for each event, without colours and carriage returns, and none for a repetition."""

    def __init__(self, lines: Lines, clock: Clock) -> None:
        self._lines = lines
        self._clock = clock
        self._began = clock.monotonic()
        self._states: dict[str, tuple[StepState, int, str]] = {}
        self._started: dict[str, float] = {}
        self._meters: dict[str, Meter] = {}
        self._reported: dict[str, tuple[float, int]] = {}  # by step, the time and the bytes of its last transfer line

    def run_started(self, run_id: str, folder: str, steps: Sequence[StepInfo]) -> None:
        """Prints the run's id, its number of steps and its folder."""
        self._began = self._clock.monotonic()
        self._print(f"run {run_id}: {plural(len(steps), 'step')}, records in {folder}")

    def step_state(self, step_id: str, state: StepState, *, attempt: int, phase: str = "") -> None:
        """Prints a state or phase that is new, except that of a step that waits for its turn."""
        if self._states.get(step_id) == (state, attempt, phase):
            return
        self._states[step_id] = (state, attempt, phase)
        self._finish_transfer(step_id)
        if state == "pending" and not phase:
            return
        now = self._clock.monotonic()
        if state == "running":
            self._started.setdefault(step_id, now)
        word = STEP_WORDS[state][0]
        name = f"{step_id}, attempt {attempt}" if attempt > 1 else step_id
        doing = phase if state == "running" and phase else f"{word} ({phase})" if phase else word
        took = ""
        if state not in ("pending", "running") and step_id in self._started:
            took = f" after {duration(now - self._started[step_id])}"
        self._print(f"{name}: {doing}{took}")

    def transfer(
        self, step_id: str, direction: Direction, done_bytes: int, total_bytes: int | None, files: int = 0
    ) -> None:
        """Prints the progress every few seconds, and once when the transfer is complete."""
        meter = self._meters.get(step_id)
        now = self._clock.monotonic()
        if meter is None or meter.direction != direction or done_bytes < meter.done:
            self._finish_transfer(step_id)
            meter = self._meters[step_id] = Meter(direction)
            self._reported[step_id] = now, 0
        finished = meter.complete
        meter.update(now, done_bytes, total_bytes, files)
        if (meter.complete and not finished) or now - self._reported[step_id][0] >= TRANSFER_SECONDS:
            self._reported[step_id] = now, done_bytes
            self._print(f"{step_id}: {meter.line()}")

    def log_line(self, step_id: str, stream: Stream, text: str) -> None:
        """Prints the line after the name of its step."""
        del stream  # stdout and stderr look the same: warnings of a build on stderr are no errors
        self._print(f"{printable(step_id)} | {printable(text)}")

    def note(self, step_id: str, message: str) -> None:
        """Prints the message."""
        self._print(f"{step_id}: note: {message}" if step_id else f"note: {message}")

    def run_ended(self, result: RunSummary) -> None:
        """Prints the summary, without the output of failed steps, which was printed before."""
        self._lines.write_whole("", *(line.text for line in summary_lines(result)))

    def _finish_transfer(self, step_id: str) -> None:
        """Prints the last progress of a transfer that was not reported as complete."""
        meter = self._meters.pop(step_id, None)
        if meter is not None and meter.done != self._reported[step_id][1]:
            self._print(f"{step_id}: {meter.line()}")

    def _print(self, text: str) -> None:
        now = clock_time(self._clock.monotonic() - self._began)
        self._lines.write(f"[{now}] {printable(text)}")
