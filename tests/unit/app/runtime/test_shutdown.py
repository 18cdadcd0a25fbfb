from __future__ import annotations

import asyncio

import anyio
import pytest

from senro.app.runtime.shutdown import FORCE_SECONDS, SHORTENED_SECONDS, CleanupScopes
from tests.lib.harness.app import until

pytestmark = pytest.mark.anyio


class LoopTime:
    """Moves the event loop's clock forward, so that deadlines pass without a wait."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        real, self._offset = loop.time, 0.0
        loop.time = lambda: real() + self._offset  # type: ignore[method-assign]  # the loop of this test alone

    async def move(self, seconds: float) -> None:
        self._offset += seconds
        await until(lambda: True)
        for _ in range(5):
            await anyio.lowlevel.checkpoint()


@pytest.fixture
async def loop_time() -> LoopTime:
    return LoopTime()


class Job:
    """A cleanup that never ends by itself."""

    def __init__(self, cleanup_scopes: CleanupScopes, seconds: float) -> None:
        self._cleanup_scopes = cleanup_scopes
        self._seconds = seconds
        self.begun = self.ended = self.bounded = False

    async def run(self) -> None:
        with self._cleanup_scopes.scope(self._seconds) as scope:
            self.begun = True
            await anyio.sleep_forever()
        self.ended, self.bounded = True, scope.cancelled_caught


async def test_a_scope_is_cancelled_at_its_deadline_and_not_before(loop_time: LoopTime) -> None:
    """A scope's body runs until its own deadline and is cancelled at it."""
    job = Job(CleanupScopes(), 30)
    async with anyio.create_task_group() as group:
        group.start_soon(job.run)
        await until(lambda: job.begun)
        await loop_time.move(29)
        assert not job.ended
        await loop_time.move(2)
    assert job.bounded


async def test_a_scope_outlives_the_cancellation_of_the_run(loop_time: LoopTime) -> None:
    """Only its own deadline ends it."""
    job = Job(CleanupScopes(), 30)
    async with anyio.create_task_group() as group:
        group.start_soon(job.run)
        await until(lambda: job.begun)
        group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await loop_time.move(29)
            assert not job.ended
            await loop_time.move(2)
    assert job.bounded


@pytest.mark.parametrize("seconds", [4.0, 75.0])
async def test_shorten_leaves_no_scope_more_than_eight_seconds(loop_time: LoopTime, seconds: float) -> None:
    """It applies to open scopes and to those that are opened later, and lengthens none."""
    cleanup_scopes = CleanupScopes()
    early, late = Job(cleanup_scopes, seconds), Job(cleanup_scopes, seconds)
    bound = min(seconds, SHORTENED_SECONDS)
    async with anyio.create_task_group() as group:
        group.start_soon(early.run)
        await until(lambda: early.begun)
        before = cleanup_scopes.shortened
        cleanup_scopes.shorten()
        assert (before, cleanup_scopes.shortened) == (False, True)
        group.start_soon(late.run)
        await until(lambda: late.begun)
        await loop_time.move(bound - 0.5)
        assert (early.ended, late.ended) == (False, False)
        await loop_time.move(1)
    assert early.bounded
    assert late.bounded


async def test_a_second_shorten_changes_no_deadline(loop_time: LoopTime) -> None:
    """The eight seconds count from the first call."""
    cleanup_scopes = CleanupScopes()
    job = Job(cleanup_scopes, 75)
    async with anyio.create_task_group() as group:
        group.start_soon(job.run)
        await until(lambda: job.begun)
        cleanup_scopes.shorten()
        await loop_time.move(6)
        cleanup_scopes.shorten()
        await loop_time.move(3)
        assert job.bounded
        group.cancel_scope.cancel()


async def test_a_scope_that_is_opened_late_ends_with_the_others(loop_time: LoopTime) -> None:
    """Its time counts from `shorten` too, but it has one second at least."""
    cleanup_scopes = CleanupScopes()
    cleanup_scopes.shorten()
    await loop_time.move(6)
    late, last = Job(cleanup_scopes, 75), Job(cleanup_scopes, 75)
    async with anyio.create_task_group() as group:
        group.start_soon(late.run)
        await until(lambda: late.begun)
        await loop_time.move(2.5)
        assert late.bounded
        group.start_soon(last.run)
        await until(lambda: last.begun)
        await loop_time.move(0.5)
        assert not last.ended
        await loop_time.move(1)
        assert last.bounded


async def test_force_is_set_some_seconds_after_shorten_and_before_the_deadline(loop_time: LoopTime) -> None:
    """`force` is set while scopes still have time to delete by force."""
    cleanup_scopes = CleanupScopes()
    await loop_time.move(100)
    before = cleanup_scopes.force
    cleanup_scopes.shorten()
    at_once = cleanup_scopes.force
    await loop_time.move(FORCE_SECONDS)
    assert (before, at_once, cleanup_scopes.force) == (False, False, True)
    assert FORCE_SECONDS < SHORTENED_SECONDS


async def test_cancel_all_ends_open_scopes_and_those_opened_later() -> None:
    """A scope that is opened later is cancelled at its first await."""
    cleanup_scopes = CleanupScopes()
    early, late = Job(cleanup_scopes, 75), Job(cleanup_scopes, 75)
    async with anyio.create_task_group() as group:
        group.start_soon(early.run)
        await until(lambda: early.begun)
        cleanup_scopes.shorten()
        cleanup_scopes.cancel_all()
        await until(lambda: early.ended)
        group.start_soon(late.run)
        await until(lambda: late.ended)
    assert early.bounded
    assert late.bounded


async def test_a_closed_scope_is_neither_cancelled_nor_kept() -> None:
    """Not even when its body raised an error."""
    cleanup_scopes = CleanupScopes()
    with cleanup_scopes.scope(5) as scope:
        await anyio.lowlevel.checkpoint()
    with pytest.raises(ValueError, match="broken"), cleanup_scopes.scope(5):
        raise ValueError("broken")
    cleanup_scopes.shorten()
    cleanup_scopes.cancel_all()
    assert not scope.cancel_called
    assert cleanup_scopes._scopes == set()
