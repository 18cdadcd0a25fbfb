"""A run that its caller cancels, by a scope, a task group or asyncio, leaves nothing in the cluster."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import anyio
import pytest

import senro
from senro.domain.run.events import Event, PodCreated, PodDeleted, RunEnded, decode_event
from senro.ports.reporter import Direction, StepState
from senro.testing import Bench

pytestmark = pytest.mark.slow

ENDLESS = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done"
SIZE = 4 * 1024 * 1024
SECRET_TEXT = "made-up-secret-text"


class At(senro.Reporter):
    """Calls `do` once, at a moment: a phase, transferred bytes (`upload`, `download`), or a line of output."""

    def __init__(self, moment: str) -> None:
        self._moment = moment
        self._passed = False
        self.do: Callable[[], object] = lambda: None

    def step_state(self, step_id: str, state: StepState, *, attempt: int, phase: str = "") -> None:  # noqa: ARG002 - the interface
        self._pass(phase)

    def transfer(
        self, step_id: str, direction: Direction, done_bytes: int, total_bytes: int | None, files: int = 0
    ) -> None:
        del step_id, total_bytes, files
        if 0 < done_bytes < SIZE:
            self._pass(direction)

    def log_line(self, step_id: str, stream: str, text: str) -> None:  # noqa: ARG002 - the interface
        self._pass(text)

    def _pass(self, moment: str) -> None:
        if moment == self._moment and not self._passed:
            self._passed = True
            self.do()


Run = Callable[[], Coroutine[Any, Any, object]]


async def by_a_scope(run: Run, reporter: At) -> None:
    with anyio.move_on_after(60) as scope:
        reporter.do = lambda: setattr(scope, "deadline", anyio.current_time())
        await run()
    assert scope.cancelled_caught


async def by_a_task_group(run: Run, reporter: At) -> None:
    async with anyio.create_task_group() as group:
        reporter.do = group.cancel_scope.cancel
        group.start_soon(run)


async def by_asyncio(run: Run, reporter: At) -> None:
    task = asyncio.ensure_future(run())
    reporter.do = task.cancel
    with pytest.raises(asyncio.CancelledError):
        await task


def carry_out(bench: Bench, script: str, how: Callable[[Run, At], Awaitable[None]], reporter: At) -> list[Event]:
    """Runs a step with a workspace and a Secret, cancels the run, and returns the events of its ledger."""
    (bench.folder / "project").mkdir(exist_ok=True)
    # Random bytes, since a transfer of compressible ones would be too short to cancel it in the middle.
    (bench.folder / "project" / "big.bin").write_bytes(random.Random(0).randbytes(SIZE))
    src = senro.Workspace("src", path="project")
    pipeline = senro.Pipeline("cancelled")
    pipeline.workflow("w", on=bench.pod(grace=1)).step(
        "s", ["sh", "-c", script], mounts=[src.at("/w")], secrets={"TOKEN": "Token"}
    )
    plan = pipeline.build()

    async def run() -> None:
        await senro.run(
            plan,
            run_dir=str(bench.folder / "runs"),
            environ=bench.environ,
            secrets={"Token": senro.secret.value(SECRET_TEXT)},
            reporter=reporter,
        )

    async def cancelled() -> None:
        await how(run, reporter)

    anyio.run(cancelled)
    ledger = max((bench.folder / "runs").glob("*/events.jsonl"), key=lambda path: path.stat().st_mtime_ns)
    return [decode_event(line) for line in ledger.read_bytes().splitlines()]


def check_nothing_is_left(bench: Bench, events: list[Event]) -> None:
    """Checks that the run recorded its cancellation and its pod's deletion, and left no pod or Secret."""
    created = {event.pod for event in events if isinstance(event, PodCreated)}
    assert created <= {event.pod for event in events if isinstance(event, PodDeleted) and event.confirmed}
    assert isinstance(events[-1], RunEnded)
    assert events[-1].state == "cancelled"
    bench.check_nothing_is_left()


@pytest.mark.parametrize("moment", ["creating", "staging", "upload", "ready", "reading back", "download"])
def test_a_run_cancelled_at_any_moment_leaves_nothing(bench: Bench, moment: str) -> None:
    """`anyio.move_on_after` around a run leaves no pod and no Secret, at whatever moment it expires."""
    script = ENDLESS if moment == "ready" else "true"
    check_nothing_is_left(bench, carry_out(bench, script, by_a_scope, At(moment)))


@pytest.mark.parametrize("how", [by_a_task_group, by_asyncio])
def test_a_run_cancelled_in_any_way_leaves_nothing(bench: Bench, how: Callable[[Run, At], Awaitable[None]]) -> None:
    """The same holds for a cancelled task group, and for a task that asyncio cancels, as `asyncio.wait_for` does."""
    check_nothing_is_left(bench, carry_out(bench, ENDLESS, how, At("ready")))


@pytest.mark.parametrize("number", range(6))
def test_a_run_cancelled_during_a_create_leaves_nothing(bench: Bench, number: int) -> None:
    """What a request in flight creates, such as the Secret or the pod, is deleted."""

    async def soon(run: Run, reporter: At) -> None:
        with anyio.move_on_after(60) as scope:
            reporter.do = lambda: setattr(scope, "deadline", anyio.current_time() + number * 0.004)
            await run()

    check_nothing_is_left(bench, carry_out(bench, ENDLESS, soon, At("creating")))
