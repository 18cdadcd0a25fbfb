from __future__ import annotations

import anyio
import pytest

from senro.adapters.clock import SystemClock, SystemRandomness
from senro.ports.clock import Clock, Randomness
from tests.contract.ports.clock_suite import ClockSuite, RandomnessSuite
from tests.lib.fakes.clock import FakeClock, FakeRandomness

pytestmark = pytest.mark.anyio


class TestSystemClock(ClockSuite):
    @pytest.fixture
    def clock(self) -> Clock:
        return SystemClock()


class TestFakeClock(ClockSuite):
    @pytest.fixture
    def clock(self) -> Clock:
        return FakeClock(auto=True)


class TestSystemRandomness(RandomnessSuite):
    @pytest.fixture
    def randomness(self) -> Randomness:
        return SystemRandomness()


class TestFakeRandomness(RandomnessSuite):
    @pytest.fixture
    def randomness(self) -> Randomness:
        return FakeRandomness(0.0, 0.25, 0.999)


def test_two_sources_differ() -> None:
    """Two coordinators that start at the same moment draw different tokens."""
    assert SystemRandomness().token() != SystemRandomness().token()


async def test_fake_clock_stands_still() -> None:
    """Without `auto`, a sleeper wakes when the test advances the clock, neither earlier nor later."""
    clock = FakeClock()
    woken: list[float] = []

    async def every_ten() -> None:
        for _ in range(3):
            await clock.sleep(10)
            woken.append(clock.monotonic() - 1000)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(every_ten)
        await clock.advance(9.5)
        assert (woken, clock.sleepers) == ([], 1)
        await clock.advance(0.5)
        assert woken == [10]
        await clock.advance(100)
        assert woken == [10, 20, 30]
    assert clock.monotonic() == 1110


async def test_auto_clock_skips_time() -> None:
    """With `auto`, tasks that sleep for hours take turns in virtual time, and a cancelled one delays none."""
    clock = FakeClock(auto=True)
    seen: list[tuple[str, float]] = []

    async def ticker(name: str, every: float, times: int) -> None:
        for _ in range(times):
            await clock.sleep(every)
            seen.append((name, clock.monotonic() - 1000))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ticker, "slow", 3600, 2)
        tasks.start_soon(ticker, "quick", 1700, 3)
        async with anyio.create_task_group() as doomed:
            doomed.start_soon(ticker, "never", 10, 1)
            await anyio.lowlevel.checkpoint()
            doomed.cancel_scope.cancel()
    assert seen == [("quick", 1700), ("quick", 3400), ("slow", 3600), ("quick", 5100), ("slow", 7200)]


def test_move_is_synchronous() -> None:
    """`move` advances the clocks for code that only reads them."""
    clock = FakeClock()
    before = clock.now()
    clock.move(61.5)
    assert (clock.now() - before).total_seconds() == 61.5
