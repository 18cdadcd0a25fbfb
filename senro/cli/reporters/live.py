"""A table that moves, for terminals. The only module that imports rich."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import TextIO, cast

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from senro.cli.reporters.closing_summary import STEP_WORDS, Tone, closing
from senro.cli.reporters.safe_stream import SafeStream
from senro.cli.reporters.table_model import Board, BoardRow
from senro.cli.reporters.text import elapsed, printable
from senro.ports.clock import Clock
from senro.ports.reporter import Direction, Reporter, RunSummary, StepInfo, StepState, Stream

_STYLES: dict[Tone, str] = {"": "", "good": "green", "bad": "bold red", "warn": "yellow", "dim": "dim"}
_REFRESHES = 8  # a second: a clock that ticks, at little cost over a slow line
_WIDE = 60  # columns from which there is room for where a step runs
_MARGIN = 2  # rows of the terminal left free: the line that counts the rest, and the cursor's


class LiveReporter(Reporter):
    """A row for each step: its state, its time, what it is about. Notes stay above, the summary replaces the table.

    rich draws from a thread of its own, so that the clocks tick while nothing happens; `refresh=False` draws only
    when told to. After a run that broke, `close` gives the cursor back.
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
            # rich ends the process on a closed pipe, and its thread on any other failure; a SafeStream has neither.
            file=cast("TextIO", SafeStream(stream)),
            highlight=False,
            markup=False,
            emoji=False,
            no_color=not colours,
        )
        self._clock = clock
        # Held for the board alone and never while rich is called: rich holds its own lock when it asks for `table`.
        self._lock = Lock()
        self._board = Board(clock)
        self._live = Live(
            get_renderable=self.table,
            console=self._console,
            refresh_per_second=_REFRESHES,
            auto_refresh=refresh,
            transient=True,
            # Whoever prints to sys.stdout meanwhile may be writing into a pipe: that is none of our business.
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def run_started(self, run_id: str, folder: str, steps: Sequence[StepInfo]) -> None:
        """Draw the table."""
        with self._lock:
            self._board.start(steps)
        self._print(f"run {run_id}, records in {folder}", "dim")
        self._live.start()

    def step_state(self, step_id: str, state: StepState, *, attempt: int, phase: str = "") -> None:
        """Change the step's row."""
        with self._lock:
            self._board.state(step_id, state, attempt, phase)

    def transfer(
        self, step_id: str, direction: Direction, done_bytes: int, total_bytes: int | None, files: int = 0
    ) -> None:
        """Show the speed in the step's row."""
        with self._lock:
            self._board.transfer(step_id, direction, done_bytes, total_bytes, files)

    def log_line(self, step_id: str, stream: Stream, text: str) -> None:
        """Show the line in the step's row until the next one."""
        del stream  # one row has room for one line
        with self._lock:
            self._board.log(step_id, text)

    def note(self, step_id: str, message: str) -> None:
        """Print the message above the table."""
        self._print(f"{step_id}: {message}" if step_id else message, "warn")

    def run_ended(self, result: RunSummary) -> None:
        """Replace the table by the summary."""
        with self._lock:
            tails = self._board.tails()
        self.close()
        for line in closing(result, tails):
            self._print(line.text, line.tone)

    def close(self) -> None:
        """Stop drawing and show the cursor again."""
        self._live.stop()

    def table(self) -> Table:
        """The table as it is now; rich calls it for each drawing."""
        wide = self._console.width >= _WIDE
        table = Table.grid(padding=(0, 2), expand=True)
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=3)
        if wide:
            table.add_column(no_wrap=True, overflow="ellipsis", max_width=16)
        table.add_column(no_wrap=True, min_width=9)
        table.add_column(no_wrap=True, justify="right", min_width=5)
        if wide:
            table.add_column(no_wrap=True, overflow="ellipsis", ratio=5)
        with self._lock:
            rows, rest = self._board.shown(max(1, self._console.height - _MARGIN))
            for row in rows:
                table.add_row(*self._cells(row, wide=wide))
        if rest:
            table.add_row(Text(rest, style="dim"))
        return table

    def _cells(self, row: BoardRow, *, wide: bool) -> list[Text]:
        word, tone = STEP_WORDS[row.state]
        seconds = row.seconds(self._clock.monotonic())
        state = f"{word} {row.attempt}" if row.attempt > 1 and row.state == "running" else word
        clock = "" if seconds is None else elapsed(seconds)
        name, about = printable(row.step_id), printable(row.about())
        if wide:
            return [
                Text(name),
                Text(printable(row.where), style="dim"),
                Text(state, style=_STYLES[tone]),
                Text(clock),
                Text(about, style="dim"),
            ]
        return [Text(name), Text(state, style=_STYLES[tone]), Text(clock)]

    def _print(self, text: str, tone: Tone) -> None:
        self._console.print(Text(printable(text), style=_STYLES[tone]), soft_wrap=True)
