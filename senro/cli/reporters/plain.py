"""Lines with the time since the start: for logs of CI systems, pipes and terminals that cannot do better."""

from __future__ import annotations

from collections.abc import Sequence

from senro.cli.reporters.closing_summary import STEP_WORDS, closing
from senro.cli.reporters.safe_stream import Lines
from senro.cli.reporters.text import duration, elapsed, plural, printable
from senro.cli.reporters.transfer_meter import Meter
from senro.ports.clock import Clock
from senro.ports.reporter import Direction, Reporter, RunSummary, StepInfo, StepState, Stream

TRANSFER_SECONDS = 5.0
"""Seconds between two lines about one transfer."""


class PlainReporter(Reporter):
    """No colours, no carriage returns; everything that happens is a line, repetitions are none."""

    def __init__(self, lines: Lines, clock: Clock) -> None:
        self._lines = lines
        self._clock = clock
        self._began = clock.monotonic()
        self._said: dict[str, tuple[StepState, int, str]] = {}
        self._started: dict[str, float] = {}
        self._meters: dict[str, Meter] = {}
        self._told: dict[str, tuple[float, int]] = {}  # when, and at how many bytes

    def run_started(self, run_id: str, folder: str, steps: Sequence[StepInfo]) -> None:
        """Say what starts and where its records go."""
        self._began = self._clock.monotonic()
        self._say(f"run {run_id}: {plural(len(steps), 'step')}, records in {folder}")

    def step_state(self, step_id: str, state: StepState, *, attempt: int, phase: str = "") -> None:
        """Say the state where it is news; a step that waits for its turn is none."""
        if self._said.get(step_id) == (state, attempt, phase):
            return
        self._said[step_id] = (state, attempt, phase)
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
        self._say(f"{name}: {doing}{took}")

    def transfer(
        self, step_id: str, direction: Direction, done_bytes: int, total_bytes: int | None, files: int = 0
    ) -> None:
        """Say how far it is every few seconds, and once when it is complete."""
        meter = self._meters.get(step_id)
        now = self._clock.monotonic()
        if meter is None or meter.direction != direction or done_bytes < meter.done:
            self._finish_transfer(step_id)
            meter = self._meters[step_id] = Meter(direction)
            self._told[step_id] = now, 0
        finished = meter.complete
        meter.update(now, done_bytes, total_bytes, files)
        if (meter.complete and not finished) or now - self._told[step_id][0] >= TRANSFER_SECONDS:
            self._told[step_id] = now, done_bytes
            self._say(f"{step_id}: {meter.line()}")

    def log_line(self, step_id: str, stream: Stream, text: str) -> None:
        """Say the line, its step before it."""
        del stream  # the two are told apart in the log file's reader, not here: a build's warnings are no errors
        self._say(f"{printable(step_id)} | {printable(text)}")

    def note(self, step_id: str, message: str) -> None:
        """Say the message."""
        self._say(f"{step_id}: note: {message}" if step_id else f"note: {message}")

    def run_ended(self, result: RunSummary) -> None:
        """Say how it ended; the steps' output is above."""
        self._lines.write_whole("", *(line.text for line in closing(result)))

    def _finish_transfer(self, step_id: str) -> None:
        """Say the last figure of a transfer whose size nobody knew, or that ended before it was complete."""
        meter = self._meters.pop(step_id, None)
        if meter is not None and meter.done != self._told[step_id][1]:
            self._say(f"{step_id}: {meter.line()}")

    def _say(self, text: str) -> None:
        now = elapsed(self._clock.monotonic() - self._began)
        self._lines.write(f"[{now}] {printable(text)}")
