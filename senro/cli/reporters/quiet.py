"""Reports only failures and the result of a run, for scripts that use the exit code."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import replace

from senro.cli.reporters.closing_summary import TAIL_LINES, result_line, step_paragraphs
from senro.cli.reporters.safe_stream import Lines
from senro.ports.reporter import Reporter, RunSummary, Stream


class QuietReporter(Reporter):
    """Prints nothing until the run has ended, then the failed steps with their last output lines, and the result."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._tails: defaultdict[str, deque[str]] = defaultdict(lambda: deque(maxlen=TAIL_LINES))

    def log_line(self, step_id: str, stream: Stream, text: str) -> None:
        """Keeps the line in case the step fails."""
        del stream  # the last lines of stdout and stderr are shown together
        self._tails[step_id].append(text)

    def run_ended(self, result: RunSummary) -> None:
        """Prints the failed steps and the result."""
        failed = replace(result, rows=[row for row in result.rows if row.state in ("failed", "timed_out")])
        tails = {step_id: list(tail) for step_id, tail in self._tails.items()}
        paragraphs = [line.text for line in step_paragraphs(failed, tails)]
        self._lines.write_whole(*paragraphs[1:], *([""] if paragraphs else []), result_line(result).text)
