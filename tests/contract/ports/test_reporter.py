from __future__ import annotations

import re
from typing import TextIO

from rich.console import Console

from senro.cli.reporters.live import LiveReporter
from senro.cli.reporters.plain import PlainReporter
from senro.cli.reporters.quiet import QuietReporter
from senro.cli.reporters.safe_stream import Lines, SafeStream
from senro.ports.reporter import Reporter
from tests.contract.ports.reporter_suite import ReporterSuite, Subject
from tests.lib.fakes.clock import FakeClock
from tests.lib.harness.app import RecordingReporter
from tests.lib.harness.reporters import render_table

WIDTH = 60
"""The width of the terminal: enough for every column of the table."""

_OF_RICH = r"\x1b\[(\d*[AK]|\?25[lh]|[\d;]*m)|\r"
"""The control sequences of rich: cursor up, erase line, hide and show the cursor, styles, carriage return."""


def _text(stream: TextIO) -> str:
    """Returns what was written; a closed stream has lost it."""
    return "" if stream.closed else stream.getvalue()  # type: ignore[attr-defined]  # the streams of the suite are StringIOs


class Partial(Reporter):
    """A reporter of a library user that overrides one method."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, step_id: str, message: str) -> None:
        self.notes.append(f"{step_id!r}: {message!r}")


class TestBase(ReporterSuite):
    """The base class, whose methods are empty."""

    def subject(self, stream: TextIO) -> Subject:
        return Subject(Reporter(), FakeClock(), lambda: _text(stream))


class TestPartial(ReporterSuite):
    """One overridden method, the others empty."""

    def subject(self, stream: TextIO) -> Subject:
        del stream
        reporter = Partial()
        return Subject(reporter, FakeClock(), lambda: "\n".join(map(ascii, reporter.notes)))


class TestRecordingReporter(ReporterSuite):
    """The reporter of the application's tests, which shows nothing."""

    def subject(self, stream: TextIO) -> Subject:
        return Subject(RecordingReporter(), FakeClock(), lambda: _text(stream))


class TestPlain(ReporterSuite):
    def subject(self, stream: TextIO) -> Subject:
        clock = FakeClock()
        return Subject(PlainReporter(Lines(stream), clock), clock, lambda: _text(stream))


class TestQuiet(ReporterSuite):
    def subject(self, stream: TextIO) -> Subject:
        return Subject(QuietReporter(Lines(stream)), FakeClock(), lambda: _text(stream))


class TestLive(ReporterSuite):
    """The table, drawn when the suite reads it instead of by rich's thread."""

    def subject(self, stream: TextIO) -> Subject:
        clock = FakeClock()
        console = Console(
            file=SafeStream(stream),  # type: ignore[arg-type]  # it has the methods that rich uses
            width=WIDTH,
            height=20,
            force_terminal=True,
            color_system="standard",
            highlight=False,
            legacy_windows=False,
            _environ={"TERM": "xterm"},
        )
        reporter = LiveReporter(stream, clock, console=console, refresh=False)
        return Subject(
            reporter, clock, lambda: re.sub(_OF_RICH, "", _text(stream)), lambda: render_table(reporter, WIDTH)
        )
