"""The conformance suite of `senro.ports.reporter`, for reporters of any output."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.ports.reporter import Reporter, RunSummary, StepInfo, StepRow
from tests.lib.fakes.clock import FakeClock
from tests.lib.harness.reporters import FOLDER, RUN, SUMMARY, BrokenPipeStream, Terminal, report_run

IDS = st.sampled_from(["a", "b", "wörk/flöw", "", "evil\x1b]0;title\x07\r\n"])
TEXTS = st.text() | st.text(alphabet="\x1b[];m\x07\r\n\t\x9b\u202e\ud800a0[/red]", max_size=30)
STATES = st.sampled_from(
    ["pending", "running", "succeeded", "recovered", "failed", "timed_out", "cancelled", "skipped_upstream_failed"]
)
ROWS = st.builds(
    StepRow,
    step_id=IDS,
    state=STATES,
    attempts=st.integers(0, 3),
    seconds=st.none() | st.floats(0, 1e6),
    detail=st.lists(TEXTS, max_size=2),
    hint=TEXTS,
    kind=TEXTS,
    node=TEXTS,
    words=TEXTS,
    log=TEXTS,
)
SUMMARIES = st.builds(
    RunSummary,
    run_id=TEXTS,
    state=st.sampled_from(["succeeded", "succeeded_with_recovery", "partial", "failed", "cancelled"]),
    folder=TEXTS,
    seconds=st.floats(0, 1e6),
    rows=st.lists(ROWS, max_size=3),
    workspaces=st.dictionaries(TEXTS, st.tuples(TEXTS, TEXTS), max_size=2),
)
STARTS = st.tuples(st.just("run_started"), st.lists(st.builds(StepInfo, step_id=IDS, where=TEXTS), max_size=3))
ENDS = st.tuples(st.just("run_ended"), SUMMARIES)
CLOSE = ("close",)
BETWEEN = st.one_of(
    st.tuples(st.just("step_state"), IDS, STATES, st.integers(0, 3), TEXTS),
    st.tuples(
        st.just("transfer"),
        IDS,
        st.sampled_from(["upload", "download"]),
        st.integers(0, 10**12),
        st.none() | st.integers(0, 10**12),
    ),
    st.tuples(st.just("log_line"), IDS, st.sampled_from(["stdout", "stderr"]), TEXTS),
    st.tuples(st.just("note"), IDS, TEXTS),
    st.tuples(st.just("pass"), st.floats(0, 10)),
)
Call = tuple[object, ...]


@st.composite
def legal_runs(draw: st.DrawFn) -> list[Call]:
    """The calls of one run in an order that the port allows; the run may raise, also before its start."""
    calls: list[Call] = []
    if draw(st.integers(0, 9)):
        calls = [draw(STARTS), *draw(st.lists(BETWEEN, max_size=12)), *draw(st.lists(ENDS, max_size=1))]
    return calls + [CLOSE] * draw(st.integers(1, 2))


ANY_CALLS = st.lists(STARTS | BETWEEN | ENDS | st.just(CLOSE), max_size=12)


def call(reporter: Reporter, clock: FakeClock, made: Call) -> None:
    """Make one call; "pass" lets time pass instead."""
    match made:
        case ("run_started", list(steps)):
            reporter.run_started(RUN, FOLDER, steps)
        case ("step_state", str(step), state, int(attempt), str(phase)):
            reporter.step_state(step, state, attempt=attempt, phase=phase)  # type: ignore[arg-type]  # one of its values
        case ("transfer", str(step), direction, int(done), (int() | None) as total):
            reporter.transfer(step, direction, done, total)  # type: ignore[arg-type]  # as above
        case ("log_line", str(step), stream, str(text)):
            reporter.log_line(step, stream, text)  # type: ignore[arg-type]  # as above
        case ("note", str(step), str(text)):
            reporter.note(step, text)
        case ("run_ended", RunSummary() as result):
            reporter.run_ended(result)
        case ("close",):
            reporter.close()
        case ("pass", float(seconds)):
            clock.move(seconds)
        case _:
            raise AssertionError(made)


def commands_in(written: str) -> list[str]:
    """Returns the control sequences in a text, without newlines; also lone surrogates, which no stream accepts."""
    return re.findall(r"[^\n -~\u00a0-\U0010ffff]|[\u202a-\u202e\u2066-\u2069\ud800-\udfff]", written)


@dataclass(frozen=True)
class Subject:
    """A new reporter on a stream, and its clock.

    `written` returns everything that it has written, `drawn` what it would draw now, both without the control sequences
    that it uses itself.
    """

    reporter: Reporter
    clock: FakeClock
    written: Callable[[], str]
    drawn: Callable[[], str] = str


class ReporterSuite:
    """The conformance suite of `senro.ports.reporter.Reporter`. A subclass has the fixture `subject`."""

    def subject(self, stream: TextIO) -> Subject:
        """A reporter on this stream; one that shows nothing does not use it."""
        raise NotImplementedError

    def test_complete_run(self) -> None:
        """The calls of a run with a retry, a failure and a skipped step raise nothing."""
        subject = self.subject(Terminal())
        looks: list[str] = []
        report_run(subject.reporter, subject.clock, lambda _: looks.append(subject.drawn()))
        assert commands_in("".join(looks) + subject.written()) == []

    def test_any_legal_run(self) -> None:
        """Every allowed order of calls, with any texts, raises nothing and sends no control sequences."""
        given(legal_runs())(self._tell)()

    def test_any_order_of_calls(self) -> None:
        """No other order of calls raises either: a mistake of a caller must not end a run."""
        given(ANY_CALLS)(self._tell)()

    def test_close_alone_is_enough(self) -> None:
        """`close` works before the start, after it, and twice."""
        runs: list[list[Call]] = [[CLOSE], [CLOSE, CLOSE], [("run_started", []), CLOSE, CLOSE]]
        for calls in runs:
            self._tell(calls)

    def test_calls_return_nothing(self) -> None:
        """A reporter decides nothing, so every call returns None."""
        reporter = self.subject(Terminal()).reporter
        answers: list[object] = [
            reporter.run_started(RUN, FOLDER, []),  # type: ignore[func-returns-value]  # the test asserts it
            reporter.step_state("a", "running", attempt=1),  # type: ignore[func-returns-value]  # as above
            reporter.transfer("a", "upload", 1, None),  # type: ignore[func-returns-value]  # as above
            reporter.log_line("a", "stdout", "x"),  # type: ignore[func-returns-value]  # as above
            reporter.note("a", "x"),  # type: ignore[func-returns-value]  # as above
            reporter.run_ended(SUMMARY),  # type: ignore[func-returns-value]  # as above
            reporter.close(),  # type: ignore[func-returns-value]  # as above
        ]
        assert set(answers) == {None}

    @pytest.mark.parametrize("closed", [False, True])
    def test_closed_stream_does_not_end_a_run(self, closed: bool) -> None:
        """A pipe without a reader and a closed stream raise nothing."""
        stream = BrokenPipeStream()
        if closed:
            stream.close()
        subject = self.subject(stream)
        report_run(subject.reporter, subject.clock)

    def _tell(self, calls: list[Call]) -> None:
        subject = self.subject(Terminal())
        drawn = ""
        for made in calls:
            call(subject.reporter, subject.clock, made)
            drawn += subject.drawn()
        subject.reporter.close()
        assert commands_in(drawn + subject.written()) == []
