from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from senro.domain.errors import StoreError
from senro.domain.run.events import (
    AttemptEnded,
    CancelRequested,
    Event,
    LogEnded,
    Noted,
    PodPending,
    TransferTryFailed,
    WorkspaceOpened,
)
from senro.domain.run.outcome import Outcome
from senro.domain.run.state import at_start, fold
from tests.lib.builders.events import AT, attempt_started, step_ended
from tests.lib.harness.app import App, pod_plan, until

pytestmark = pytest.mark.anyio

SECRET = b'hunter2"\\hunter2'
"""Escaped where JSON has it: what is masked in a line must be masked before it is one."""

SAID = "said " + SECRET.decode()


@pytest.fixture
def app(tmp_path: Path) -> App:
    return App(tmp_path, pod_plan(), secrets={"Token": SECRET, "Word": b"build.make", "Field": b"attempt"})


async def test_event_is_written_folded_and_reported(app: App) -> None:
    """An event is appended to the ledger, folded into the progress, and reported."""
    await app.recorder.record(attempt_started("build.make"))
    app.clock.move(2.5)
    await app.recorder.record(step_ended("build.make", "recovered", 2))
    assert app.ledger.events == [attempt_started("build.make"), step_ended("build.make", "recovered", 2)]
    wanted = fold(fold(at_start(app.plan), attempt_started("build.make")), step_ended("build.make", "recovered", 2))
    assert app.recorder.progress == wanted
    assert app.reporter.states == [("build.make", "recovered", 2, "")]


@pytest.mark.parametrize(
    "event",
    [
        PodPending(at=AT, step="build.make", attempt=1, kind="config", message=SAID),
        TransferTryFailed(at=AT, step="build.make", attempt=1, direction="upload", tries=1, message=SAID),
        LogEnded(at=AT, step="build.make", attempt=1, complete=False, reason=SAID),
        WorkspaceOpened(
            at=AT, workspace="src", digest="sha256:0", files=0, bytes=0, omitted=1, omitted_sample=(SAID, "b")
        ),
        AttemptEnded(at=AT, step="build.make", attempt=1, outcome=Outcome(kind="failed", message=SAID, hint="h")),
        Noted(at=AT, step="build.make", message=SAID),
        CancelRequested(at=AT, reason=SAID),
    ],
    ids=lambda event: type(event).__name__,
)
async def test_ledger_contains_no_secret(app: App, event: Event) -> None:
    """Quoted texts are masked before JSON escapes them; steps, fields and digests stay unchanged."""
    await app.recorder.record(event)
    (line,) = app.ledger.lines
    assert b"hunter2" not in line
    (written,) = app.ledger.events
    assert type(written) is type(event)
    assert getattr(written, "step", "build.make") == getattr(event, "step", "build.make")
    assert "hunter2" not in repr(app.recorder.progress) + repr(app.reporter.notes)


async def test_undecodable_text_is_written(app: App) -> None:
    """A quoted file name with undecodable bytes does not break the ledger."""
    await app.recorder.note("a workspace could not be packed: caf\udce9: it changed", step="build.make")
    (event,) = app.ledger.events
    assert event == Noted(
        at="2026-11-29T23:13:08.000000Z",
        step="build.make",
        message="a workspace could not be packed: caf\ufffd: it changed",
    )
    assert app.reporter.notes == [("build.make", "a workspace could not be packed: caf\ufffd: it changed")]


async def test_cancellation_is_reported(app: App) -> None:
    """The reporter gets the reason of a cancellation."""
    await app.recorder.record(CancelRequested(at=AT, reason="SIGINT was received"))
    assert app.reporter.notes == [("", "cancelling: SIGINT was received")]
    assert app.recorder.progress.cancelling


async def test_cancelled_record_is_complete_or_absent(app: App) -> None:
    """A cancelled `record` has written and folded the whole event, or nothing."""
    with anyio.CancelScope() as scope:
        scope.cancel()
        await app.recorder.record(attempt_started("build.make"))
    assert app.ledger.events == [attempt_started("build.make")]
    assert app.recorder.progress.steps["build.make"].state == "running"


async def test_failed_write_changes_no_progress(app: App) -> None:
    """An error of the ledger is raised, and neither progress nor reporter gets the event."""
    app.ledger.broken = StoreError("events.jsonl", "no space left on device")
    with pytest.raises(StoreError):
        await app.recorder.record(step_ended("build.make", "failed"))
    assert app.recorder.progress == at_start(app.plan)
    assert app.reporter.states == []


async def test_until_returns_when_the_condition_holds(app: App) -> None:
    """`until` returns at the event that fulfils the condition, at once if it is fulfilled."""
    reached = anyio.Event()

    async def wait() -> None:
        await app.recorder.until(lambda progress: progress.steps["build.make"].state == "failed")
        reached.set()

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await app.recorder.record(attempt_started("build.make"))
        await until(lambda: True)
        assert not reached.is_set()
        await app.recorder.record(step_ended("build.make", "failed"))
        await reached.wait()
        await app.recorder.until(lambda progress: progress.steps["build.make"].state == "failed")


async def test_seconds_run_from_the_first_attempt_to_the_end(app: App) -> None:
    """`seconds` is None before the first attempt, grows across attempts, and stops at the end of the step."""
    assert app.recorder.seconds("build.make") is None
    await app.recorder.record(attempt_started("build.make"))
    app.clock.move(3)
    await app.recorder.record(attempt_started("build.make", 2))
    app.clock.move(4)
    assert app.recorder.seconds("build.make") == 7
    await app.recorder.record(step_ended("build.make", "failed", 2))
    app.clock.move(100)
    assert app.recorder.seconds("build.make") == 7
