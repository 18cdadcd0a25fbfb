"""Failures, and the last line: for scripts that look at the exit code."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import replace

from senro.cli.reporters.closing_summary import TAIL_LINES, troubles, verdict
from senro.cli.reporters.safe_stream import Lines
from senro.ports.reporter import Reporter, RunSummary, Stream


class QuietReporter(Reporter):
    """Says nothing until the run has ended; then what failed, with its last lines, and the verdict."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._tails: defaultdict[str, deque[str]] = defaultdict(lambda: deque(maxlen=TAIL_LINES))

    def log_line(self, step_id: str, stream: Stream, text: str) -> None:
        """Keep the line in case the step fails."""
        del stream  # a reader of an error message wants both, as they came
        self._tails[step_id].append(text)

    def run_ended(self, result: RunSummary) -> None:
        """Say what failed and what the run came to."""
        failed = replace(result, rows=[row for row in result.rows if row.state in ("failed", "timed_out")])
        tails = {step_id: list(tail) for step_id, tail in self._tails.items()}
        paragraphs = [line.text for line in troubles(failed, tails)]
        self._lines.write_whole(*paragraphs[1:], *([""] if paragraphs else []), verdict(result).text)
