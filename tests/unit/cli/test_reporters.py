from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from senro.cli.reporters import choose
from senro.cli.reporters.closing_summary import result_line, summary_lines
from senro.cli.reporters.live import LiveReporter
from senro.cli.reporters.plain import PlainReporter
from senro.cli.reporters.quiet import QuietReporter
from senro.cli.reporters.safe_stream import Lines
from senro.cli.reporters.table_model import TableModel
from senro.ports.reporter import Reporter, RunState, RunSummary, StepInfo, StepRow
from tests.lib.fakes.clock import FakeClock
from tests.lib.harness.reporters import FOLDER, RUN, STEPS, SUMMARY, Terminal, render_table, report_run

PLAIN = """\
[00:00] run 20261129T231308Z-5f0c9a: 4 steps, records in /runs/20261129T231308Z-5f0c9a
[00:00] build/make: starting
[00:00] build/make: running
[00:00] build/make | gcc -c main.c\\x07
[00:03] build/make: succeeded after 3.5 s
[00:03] deploy/apply: staging
[00:08] deploy/apply: staging 40.0 MB of 60.0 MB, 8.0 MB/s
[00:11] deploy/apply: staged 60.0 MB
[00:12] deploy/apply: running
[00:12] deploy/apply: note: evicted from node worker-1; the next attempt starts in 2.0 s
[00:12] deploy/apply, attempt 2: waiting: ImagePullBackOff: Back-off "ghcr.io/a"
[00:17] deploy/apply, attempt 2: reading back
[00:17] deploy/apply: reading back 1.2 MB
[00:17] deploy/apply, attempt 2: recovered after 13.8 s
[00:17] test/a-long-name-of-a-step: running
[00:17] test/a-long-name-of-a-step | 100% done
[00:17] test/a-long-name-of-a-step | assert 1 == 2
[00:17] test/a-long-name-of-a-step: failed after 0.4 s
[00:17] test/late: skipped
"""

CLOSING = """\
  build/make                  succeeded  1 attempt    3.5 s
  deploy/apply                recovered  2 attempts   13.1 s
  test/a-long-name-of-a-step  failed     1 attempt    0.4 s
  test/late                   skipped    not started

deploy/apply recovered
  Attempt 1: evicted from node worker-1.
  Attempt 2 succeeded.

test/a-long-name-of-a-step failed (exited) on node worker-2
  The command exited with code 137.
  the cluster said: OOMKilled
                    second line
  what to do: give the step more memory: resources={'memory': '2Gi'}
  its log: /runs/20261129T231308Z-5f0c9a/logs/test-a-long-name/1.log

workspace src      /runs/20261129T231308Z-5f0c9a/workspaces/src      sha256:ab12ab12ab12
workspace results  /runs/20261129T231308Z-5f0c9a/workspaces/results  sha256:cdcdcdcdcdcd
logs and events    /runs/20261129T231308Z-5f0c9a

run 20261129T231308Z-5f0c9a succeeded in part: 4 steps, 1 succeeded, 1 recovered, 1 failed, 1 skipped, \
in 3 min 33 s
"""

QUIET = """\
test/a-long-name-of-a-step failed (exited) on node worker-2
  The command exited with code 137.
  the cluster said: OOMKilled
                    second line
  what to do: give the step more memory: resources={'memory': '2Gi'}
  its last lines:
    | 100% done
    | assert 1 == 2
  its log: /runs/20261129T231308Z-5f0c9a/logs/test-a-long-name/1.log

run 20261129T231308Z-5f0c9a succeeded in part: 4 steps, 1 succeeded, 1 recovered, 1 failed, 1 skipped, \
in 3 min 33 s
"""

WIDE = {
    "running": """\
build/make          local      running    00:00  gcc -c main.c\\x07
deploy/apply        pod in ci  pending
test/a-long-name-…  pod in ci  pending
test/late           local      pending
""",
    "staging": """\
build/make          local      succeeded  00:03
deploy/apply        pod in ci  running    00:03  staging 8.0 MB/s
test/a-long-name-…  pod in ci  pending
test/late           local      pending
""",
    "waiting": """\
build/make          local      succeeded  00:03
deploy/apply        pod in ci  running 2  00:13  waiting: ImagePullBackOff: Bac…
test/a-long-name-…  pod in ci  pending
test/late           local      pending
""",
    "over": """\
build/make          local      succeeded  00:03
deploy/apply        pod in ci  recovered  00:13
test/a-long-name-…  pod in ci  failed     00:00
test/late           local      skipped
""",
}

NARROW = {
    "running": """\
build/make              running    00:00
deploy/apply            pending
test/a-long-name-of-a…  pending
test/late               pending
""",
    "staging": """\
build/make              succeeded  00:03
deploy/apply            running    00:03
test/a-long-name-of-a…  pending
test/late               pending
""",
    "waiting": """\
build/make              succeeded  00:03
deploy/apply            running 2  00:13
test/a-long-name-of-a…  pending
test/late               pending
""",
    "over": """\
build/make              succeeded  00:03
deploy/apply            recovered  00:13
test/a-long-name-of-a…  failed     00:00
test/late               skipped
""",
}


def live(width: int, clock: FakeClock, *, height: int = 20, colours: bool = False) -> tuple[LiveReporter, Terminal]:
    stream = Terminal()
    console = Console(
        file=stream,
        width=width,
        height=height,
        force_terminal=True,
        color_system="standard" if colours else None,
        highlight=False,
        legacy_windows=False,
        _environ={"TERM": "xterm"},
    )
    return LiveReporter(stream, clock, console=console, refresh=False), stream


def test_a_run_in_plain_lines() -> None:
    """Each line has the time, the step and the event; a summary follows."""
    clock, stream = FakeClock(), io.StringIO()
    report_run(PlainReporter(Lines(stream), clock), clock)
    assert stream.getvalue() == PLAIN + "\n" + CLOSING


def test_a_quiet_run() -> None:
    """The failed steps with their last lines, and the result."""
    stream = io.StringIO()
    report_run(QuietReporter(Lines(stream)), FakeClock())
    assert stream.getvalue() == QUIET


def test_quiet_success_is_one_line() -> None:
    """A quiet run that succeeded is one line without counts."""
    stream = io.StringIO()
    row = StepRow(step_id="a", state="succeeded", seconds=1.0, detail=["It was fine."])
    QuietReporter(Lines(stream)).run_ended(
        RunSummary(run_id=RUN, state="succeeded", folder=FOLDER, seconds=1.25, rows=[row])
    )
    assert stream.getvalue() == f"run {RUN} succeeded: 1 step, in 1.2 s\n"


def test_summary() -> None:
    """The summary has each step, the cluster's message, what to do and the folders."""
    assert "".join(line.text + "\n" for line in summary_lines(SUMMARY)) == CLOSING
    tones = {line.text.split()[0]: line.tone for line in summary_lines(SUMMARY)[:4]}
    assert tones == {
        "build/make": "good",
        "deploy/apply": "warn",
        "test/a-long-name-of-a-step": "bad",
        "test/late": "dim",
    }


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("succeeded", "succeeded"),
        ("succeeded_with_recovery", "succeeded with recovery"),
        ("partial", "succeeded in part"),
        ("failed", "failed"),
        ("cancelled", "was cancelled"),
    ],
)
def test_the_result_line(state: RunState, words: str) -> None:
    """Every state of a run has its words."""
    result = RunSummary(run_id="r", state=state, folder="/r", seconds=0, rows=[StepRow(step_id="a", state="failed")])
    assert result_line(result).text == f"run r {words}: 1 step, 1 failed, in 0.0 s"


def test_the_summary_of_an_empty_run() -> None:
    """A run without steps and workspaces has a summary too."""
    result = RunSummary(run_id="r", state="cancelled", folder="/r", seconds=0, rows=[])
    assert [line.text for line in summary_lines(result)] == [
        "",
        "logs and events  /r",
        "",
        "run r was cancelled: 0 steps, in 0.0 s",
    ]


@pytest.mark.parametrize(("width", "expected"), [(80, WIDE), (40, NARROW)])
def test_the_live_table(width: int, expected: dict[str, str]) -> None:
    """It shows state, time and activity of each step, as far as the terminal is wide enough."""
    clock = FakeClock()
    reporter, stream = live(width, clock)
    seen: dict[str, str] = {}
    report_run(reporter, clock, lambda moment: seen.update({moment: render_table(reporter, width)}))
    assert seen == expected
    written = stream.getvalue()
    assert (
        written.index("\x1b[?25l") < written.index("evicted from node worker-1; the next") < written.index("\x1b[?25h")
    )
    assert written.count("\x1b[?25l") == written.count("\x1b[?25h") == 1
    ending = CLOSING.replace("  its log", "  its last lines:\n    | 100% done\n    | assert 1 == 2\n  its log")
    assert written.endswith(ending)


def test_the_live_table_fits_the_terminal() -> None:
    """Of many steps the running and failed ones are shown; the last row counts the others."""
    reporter, _ = live(80, FakeClock(), height=6)
    reporter.run_started(RUN, FOLDER, [StepInfo(step_id=f"s{number}") for number in range(50)])
    for number in range(20):
        reporter.step_state(f"s{number}", "succeeded", attempt=1)
    reporter.step_state("s20", "failed", attempt=1)
    reporter.step_state("s40", "running", attempt=1)
    lines = render_table(reporter, 80).splitlines()
    reporter.close()
    assert [line.split()[0] for line in lines] == ["s20", "s21", "s40", "and"]
    assert lines[-1].startswith("and 27 pending")


def test_live_colours() -> None:
    """A failure is red; without colours there is no colour."""
    for colours in (True, False):
        clock = FakeClock()
        reporter, stream = live(80, clock, colours=colours)
        report_run(reporter, clock)
        assert ("\x1b[1;31m" in stream.getvalue()) is colours


def test_live_draws_by_itself() -> None:
    """With its own thread the reporter starts, draws and stops, also if the run has not ended."""
    stream = Terminal()
    reporter = LiveReporter(stream, FakeClock(), colours=False)
    reporter.run_started(RUN, FOLDER, STEPS)
    reporter.close()
    reporter.close()
    assert RUN in stream.getvalue()


def test_the_time_of_a_step_stops_at_its_end() -> None:
    """A step that never started has no time."""
    clock = FakeClock()
    model = TableModel(clock)
    model.state("a", "running", 1, "")
    clock.move(2)
    model.state("a", "failed", 1, "")
    clock.move(5)
    model.state("b", "skipped_upstream_failed", 0, "")
    rows, rest = model.visible_rows(10)
    assert [row.seconds(clock.monotonic()) for row in rows] == [2, None]
    assert rest == ""


def test_plain_lines_about_a_transfer() -> None:
    """A thousand calls give a line every five seconds and one at the end; a restart begins again."""
    clock, stream = FakeClock(), io.StringIO()
    reporter = PlainReporter(Lines(stream), clock)
    for done in range(1001):
        reporter.transfer("a", "upload", done * 1000, 1_000_000, done // 2)
        clock.move(0.0117)
    reporter.transfer("a", "upload", 500_000, 1_000_000, 1)
    reporter.step_state("a", "running", attempt=1, phase="running")
    assert stream.getvalue().splitlines() == [
        "[00:05] a: staging 428.0 kB of 1.0 MB, 214 files, 85.5 kB/s",
        "[00:10] a: staging 856.0 kB of 1.0 MB, 428 files, 85.5 kB/s",
        "[00:11] a: staged 1.0 MB, 500 files",
        "[00:11] a: staging 500.0 kB of 1.0 MB, 1 file",
        "[00:11] a: running",
    ]


def test_lines_are_cut_on_a_terminal_only() -> None:
    """A line is cut to a row of the terminal; a pipe gets all of it, and the summary is never cut."""
    for width, expected in ((20, "[00:00] a | xxxxxxx…\n"), (None, f"[00:00] a | {'x' * 500}\n")):
        stream = io.StringIO()
        reporter = PlainReporter(Lines(stream, width=width), FakeClock())
        reporter.log_line("a", "stdout", "x" * 500)
        assert stream.getvalue() == expected
        reporter.run_ended(replace(SUMMARY, folder="/runs/" + "y" * 100))
        assert "y" * 100 in stream.getvalue()


def test_an_ascii_stream() -> None:
    """Characters that the encoding lacks are escaped."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    PlainReporter(Lines(stream), FakeClock()).note("", "naïve ✓")
    assert raw.getvalue() == b"[00:00] note: na\\xefve \\u2713\n"


def test_the_choice_of_a_reporter(monkeypatch: pytest.MonkeyPatch) -> None:
    """A live table needs a Unicode terminal with a cursor, rich, and no CI. `--plain` and `--quiet` always work."""

    def chosen(stream: io.StringIO, *, plain: bool = False, quiet: bool = False, **environ: str) -> type[Reporter]:
        return type(choose(stream, plain=plain, quiet=quiet, clock=FakeClock(), environ=environ))

    assert chosen(Terminal(), TERM="xterm") is LiveReporter
    assert chosen(Terminal(), TERM="xterm", NO_COLOR="1") is LiveReporter
    assert chosen(Terminal(), TERM="xterm", plain=True) is PlainReporter
    assert chosen(Terminal(), TERM="xterm", quiet=True) is QuietReporter
    assert chosen(Terminal(), TERM="xterm", plain=True, quiet=True) is QuietReporter
    assert chosen(io.StringIO(), TERM="xterm") is PlainReporter
    assert chosen(Terminal(), TERM="dumb") is PlainReporter
    assert chosen(Terminal()) is PlainReporter
    assert chosen(Terminal(), TERM="xterm", CI="true") is PlainReporter
    ascii_terminal = Terminal()
    monkeypatch.setattr(ascii_terminal, "encoding", "ascii", raising=False)
    assert chosen(ascii_terminal, TERM="xterm") is PlainReporter
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert chosen(Terminal(), TERM="xterm") is PlainReporter
