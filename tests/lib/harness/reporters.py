"""A run for the tests of all reporters."""

from __future__ import annotations

import io
from collections.abc import Callable

from rich.console import Console

from senro.cli.reporters.live import LiveReporter
from senro.ports.reporter import Reporter, RunSummary, StepInfo, StepRow
from tests.lib.fakes.clock import FakeClock

RUN = "20261129T231308Z-5f0c9a"
FOLDER = f"/runs/{RUN}"
STEPS = [
    StepInfo(step_id="build/make"),
    StepInfo(step_id="deploy/apply", where="pod in ci", needs=["build/make"]),
    StepInfo(step_id="test/a-long-name-of-a-step", where="pod in ci"),
    StepInfo(step_id="test/late", needs=["test/a-long-name-of-a-step"]),
]
SUMMARY = RunSummary(
    run_id=RUN,
    state="partial",
    folder=FOLDER,
    seconds=213.4,
    rows=[
        StepRow(step_id="build/make", state="succeeded", seconds=3.5),
        StepRow(
            step_id="deploy/apply",
            state="recovered",
            attempts=2,
            seconds=13.1,
            detail=["Attempt 1: evicted from node worker-1.", "Attempt 2 succeeded."],
        ),
        StepRow(
            step_id="test/a-long-name-of-a-step",
            state="failed",
            seconds=0.4,
            kind="exited",
            node="worker-2",
            detail=["The command exited with code 137."],
            words="OOMKilled\n\x1b[1msecond line\x1b[0m",
            hint="give the step more memory: resources={'memory': '2Gi'}",
            log=f"{FOLDER}/logs/test-a-long-name/1.log",
        ),
        StepRow(step_id="test/late", state="skipped_upstream_failed", attempts=0),
    ],
    workspaces={
        "src": ("sha256:" + "ab12" * 16, f"{FOLDER}/workspaces/src"),
        "results": ("sha256:" + "cd" * 32, f"{FOLDER}/workspaces/results"),
    },
)


class Terminal(io.StringIO):
    """A stream that claims to be a terminal. It has no file descriptor and so no size."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class BrokenPipeStream(io.StringIO):
    """A pipe without a reader."""

    def write(self, _text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


def render_table(reporter: LiveReporter, width: int) -> str:
    """Returns the current table in `width` columns."""
    console = Console(file=io.StringIO(), width=width, height=20, _environ={})
    with console.capture() as captured:
        console.print(reporter.table())
    return "".join(line.rstrip() + "\n" for line in captured.get().splitlines())


def report_run(reporter: Reporter, clock: FakeClock, look: Callable[[str], None] = lambda _moment: None) -> None:
    """Reports the run. `look` is called at four moments with a name for each."""
    reporter.run_started(RUN, FOLDER, STEPS)
    for step in STEPS:
        reporter.step_state(step.step_id, "pending", attempt=0)
    reporter.step_state("build/make", "running", attempt=1, phase="starting")
    clock.move(0.4)
    reporter.step_state("build/make", "running", attempt=1, phase="running")
    reporter.step_state("build/make", "running", attempt=1, phase="running")
    reporter.log_line("build/make", "stdout", "\x1b[32mgcc -c\x1b[0m main.c\x07")
    look("running")
    clock.move(3.1)
    reporter.step_state("build/make", "succeeded", attempt=1)
    reporter.step_state("deploy/apply", "running", attempt=1, phase="staging")
    for done in range(0, 61, 10):
        reporter.transfer("deploy/apply", "upload", done * 1_000_000, 60_000_000)
        if done == 30:
            look("staging")
        clock.move(1.25)
    reporter.step_state("deploy/apply", "running", attempt=1, phase="running")
    reporter.note("deploy/apply", "evicted from node worker-1; the next attempt starts in 2.0 s")
    reporter.step_state("deploy/apply", "running", attempt=2, phase='waiting: ImagePullBackOff: Back-off "ghcr.io/a"')
    clock.move(5)
    look("waiting")
    reporter.step_state("deploy/apply", "running", attempt=2, phase="reading back")
    reporter.transfer("deploy/apply", "download", 700, None)
    reporter.transfer("deploy/apply", "download", 1_234_567, None)
    reporter.step_state("deploy/apply", "recovered", attempt=2)
    reporter.step_state("test/a-long-name-of-a-step", "running", attempt=1, phase="running")
    reporter.log_line("test/a-long-name-of-a-step", "stderr", " 10%\r 90%\r100% done")
    reporter.log_line("test/a-long-name-of-a-step", "stderr", "assert 1 == 2")
    clock.move(0.4)
    reporter.step_state("test/a-long-name-of-a-step", "failed", attempt=1)
    reporter.step_state("test/late", "skipped_upstream_failed", attempt=0)
    look("over")
    reporter.run_ended(SUMMARY)
    reporter.close()
    reporter.close()
