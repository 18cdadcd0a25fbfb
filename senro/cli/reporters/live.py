"""Shows a run as a table that is redrawn on a terminal. The only module that imports rich."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import TextIO, cast

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from senro.cli.reporters.closing_summary import STEP_WORDS, Tone, summary_lines
from senro.cli.reporters.safe_stream import SafeStream
from senro.cli.reporters.table_model import TableModel, TableRow
from senro.cli.reporters.text import clock_time, printable
from senro.ports.clock import Clock
from senro.ports.reporter import Direction, Reporter, RunSummary, StepInfo, StepState, Stream

_STYLES: dict[Tone, str] = {"": "", "good": "green", "bad": "bold red", "warn": "yellow", "dim": "dim"}
_REFRESHES = 8  # a second
_DETAIL_COLUMNS = 60  # the width of a terminal from which the table shows the place and the activity of a step
_MARGIN = 2  # rows of the terminal that the table leaves free: the line that counts hidden steps, and the cursor's


class LiveReporter(Reporter):
    """Shows a row for each step, with its state, time and activity. Prints notes above the table.

    The summary replaces the table at the end of the run; `close` also stops the drawing after a run that broke.
    rich redraws from its own thread, so that the times advance; with `refresh=False` it does not.
    """

    def __init__(
        self,
        stream: TextIO,
        clock: Clock,
        *,
        colours: bool = True,
        console: Console | None = None,
        refresh: bool = True,
    ) -> None:
        self._console = console or Console(
            # rich ends the process on a closed pipe, and its thread on any other error. A SafeStream raises neither.
            file=cast("TextIO", SafeStream(stream)),
            highlight=False,
            markup=False,
            emoji=False,
            no_color=not colours,
        )
        self._clock = clock
        # Never held while rich is called: rich holds its own lock when it calls `table`.
        self._lock = Lock()
        self._model = TableModel(clock)
        self._live = Live(
            get_renderable=self.table,
            console=self._console,
            refresh_per_second=_REFRESHES,
            auto_refresh=refresh,
            transient=True,
            # Other output of the process may go to a pipe, so rich must not redirect it.
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def run_started(self, run_id: str, folder: str, steps: Sequence[StepInfo]) -> None:
        """Starts to draw the table."""
        with self._lock:
            self._model.start(steps)
        self._print(f"run {run_id}, records in {folder}", "dim")
        self._live.start()

    def step_state(self, step_id: str, state: StepState, *, attempt: int, phase: str = "") -> None:
        """Changes the step's row."""
        with self._lock:
            self._model.state(step_id, state, attempt, phase)

    def transfer(
        self, step_id: str, direction: Direction, done_bytes: int, total_bytes: int | None, files: int = 0
    ) -> None:
        """Shows the speed in the step's row."""
        with self._lock:
            self._model.transfer(step_id, direction, done_bytes, total_bytes, files)

    def log_line(self, step_id: str, stream: Stream, text: str) -> None:
        """Shows the line in the step's row until the next one."""
        del stream  # one row has room for one line
        with self._lock:
            self._model.log(step_id, text)

    def note(self, step_id: str, message: str) -> None:
        """Prints the message above the table."""
        self._print(f"{step_id}: {message}" if step_id else message, "warn")

    def run_ended(self, result: RunSummary) -> None:
        """Replaces the table by the summary."""
        with self._lock:
            tails = self._model.tails()
        self.close()
        for line in summary_lines(result, tails):
            self._print(line.text, line.tone)

    def close(self) -> None:
        """Stops drawing and shows the cursor again."""
        self._live.stop()

    def table(self) -> Table:
        """Returns the current table. rich calls it each time it draws."""
        details = self._console.width >= _DETAIL_COLUMNS
        table = Table.grid(padding=(0, 2), expand=True)
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=3)
        if details:
            table.add_column(no_wrap=True, overflow="ellipsis", max_width=16)
        table.add_column(no_wrap=True, min_width=9)
        table.add_column(no_wrap=True, justify="right", min_width=5)
        if details:
            table.add_column(no_wrap=True, overflow="ellipsis", ratio=5)
        with self._lock:
            rows, rest = self._model.visible_rows(max(1, self._console.height - _MARGIN))
            for row in rows:
                table.add_row(*self._cells(row, details=details))
        if rest:
            table.add_row(Text(rest, style="dim"))
        return table

    def _cells(self, row: TableRow, *, details: bool) -> list[Text]:
        word, tone = STEP_WORDS[row.state]
        seconds = row.seconds(self._clock.monotonic())
        state = f"{word} {row.attempt}" if row.attempt > 1 and row.state == "running" else word
        clock = "" if seconds is None else clock_time(seconds)
        name, activity = printable(row.step_id), printable(row.activity())
        if details:
            return [
                Text(name),
                Text(printable(row.where), style="dim"),
                Text(state, style=_STYLES[tone]),
                Text(clock),
                Text(activity, style="dim"),
            ]
        return [Text(name), Text(state, style=_STYLES[tone]), Text(clock)]

    def _print(self, text: str, tone: Tone) -> None:
        self._console.print(Text(printable(text), style=_STYLES[tone]), soft_wrap=True)
