from __future__ import annotations

import asyncio

import anyio
import pytest

from senro.app.runtime.shutdown import FORCE_SECONDS, HURRIED_SECONDS, CleanUps
from tests.lib.harness.app import until

pytestmark = pytest.mark.anyio


class Ahead:
    """The event loop's own clock, which the test moves: deadlines come true without a wait."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        real, self._ahead = loop.time, 0.0
        loop.time = lambda: real() + self._ahead  # type: ignore[method-assign]  # the loop of this test alone

    async def move(self, seconds: float) -> None:
        self._ahead += seconds
        await until(lambda: True)
        for _ in range(5):
            await anyio.lowlevel.checkpoint()


@pytest.fixture
async def ahead() -> Ahead:
    return Ahead()


class Job:
    """Something that is put away and never comes to an end by itself."""

    def __init__(self, clean_ups: CleanUps, seconds: float) -> None:
        self._clean_ups = clean_ups
        self._seconds = seconds
        self.begun = self.ended = self.bounded = False

    async def run(self) -> None:
        with self._clean_ups.scope(self._seconds) as scope:
            self.begun = True
            await anyio.sleep_forever()
        self.ended, self.bounded = True, scope.cancelled_caught


async def test_a_scope_ends_at_its_bound(ahead: Ahead) -> None:
    """Not before, and what runs in it is cancelled then."""
    job = Job(CleanUps(), 30)
    async with anyio.create_task_group() as group:
        group.start_soon(job.run)
        await until(lambda: job.begun)
        await ahead.move(29)
        assert not job.ended
        await ahead.move(2)
    assert job.bounded


async def test_a_scope_is_shielded(ahead: Ahead) -> None:
    """The cancellation of the run does not reach it; its own bound does."""
    job = Job(CleanUps(), 30)
    async with anyio.create_task_group() as group:
        group.start_soon(job.run)
        await until(lambda: job.begun)
        group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await ahead.move(29)
            assert not job.ended
            await ahead.move(2)
    assert job.bounded


@pytest.mark.parametrize("seconds", [4.0, 75.0])
async def test_a_run_that_is_cancelled_hurries(ahead: Ahead, seconds: float) -> None:
    """Scopes that are open and scopes that come are shortened to eight seconds, and none is made longer."""
    clean_ups = CleanUps()
    early, late = Job(clean_ups, seconds), Job(clean_ups, seconds)
    bound = min(seconds, HURRIED_SECONDS)
    async with anyio.create_task_group() as group:
        group.start_soon(early.run)
        await until(lambda: early.begun)
        before = clean_ups.hurried
        clean_ups.hurry()
        assert (before, clean_ups.hurried) == (False, True)
        group.start_soon(late.run)
        await until(lambda: late.begun)
        await ahead.move(bound - 0.5)
        assert (early.ended, late.ended) == (False, False)
        await ahead.move(1)
    assert early.bounded
    assert late.bounded


async def test_a_second_hurry_gives_no_more_time(ahead: Ahead) -> None:
    """The bound counts from the first."""
    clean_ups = CleanUps()
    job = Job(clean_ups, 75)
    async with anyio.create_task_group() as group:
        group.start_soon(job.run)
        await until(lambda: job.begun)
        clean_ups.hurry()
        await ahead.move(6)
        clean_ups.hurry()
        await ahead.move(3)
        assert job.bounded
        group.cancel_scope.cancel()


async def test_a_scope_that_comes_late_ends_with_the_others(ahead: Ahead) -> None:
    """All of it ends within ten seconds, whenever a clean-up begins; each has a moment at least."""
    clean_ups = CleanUps()
    clean_ups.hurry()
    await ahead.move(6)
    late, last = Job(clean_ups, 75), Job(clean_ups, 75)
    async with anyio.create_task_group() as group:
        group.start_soon(late.run)
        await until(lambda: late.begun)
        await ahead.move(2.5)
        assert late.bounded
        group.start_soon(last.run)
        await until(lambda: last.begun)
        await ahead.move(0.5)
        assert not last.ended
        await ahead.move(1)
        assert last.bounded


async def test_force_comes_after_a_while_of_hurry(ahead: Ahead) -> None:
    """Not before the run was cancelled, not at once, but before the bound."""
    clean_ups = CleanUps()
    await ahead.move(100)
    never = clean_ups.force
    clean_ups.hurry()
    at_once = clean_ups.force
    await ahead.move(FORCE_SECONDS)
    assert (never, at_once, clean_ups.force) == (False, False, True)
    assert FORCE_SECONDS < HURRIED_SECONDS


async def test_whoever_asks_twice_waits_no_longer() -> None:
    """Everything open ends now, and so does everything that begins later, at its first await."""
    clean_ups = CleanUps()
    early, late = Job(clean_ups, 75), Job(clean_ups, 75)
    async with anyio.create_task_group() as group:
        group.start_soon(early.run)
        await until(lambda: early.begun)
        clean_ups.hurry()
        clean_ups.abandon()
        await until(lambda: early.ended)
        group.start_soon(late.run)
        await until(lambda: late.ended)
    assert early.bounded
    assert late.bounded


async def test_a_scope_that_is_over_is_forgotten() -> None:
    """Hurrying and abandoning reach only what is open: an ended scope was not cancelled."""
    clean_ups = CleanUps()
    with clean_ups.scope(5) as scope:
        await anyio.lowlevel.checkpoint()
    with pytest.raises(ValueError, match="broken"), clean_ups.scope(5):
        raise ValueError("broken")
    clean_ups.hurry()
    clean_ups.abandon()
    assert not scope.cancel_called
    assert clean_ups._scopes == set()
