"""What every `Clock` and every `Randomness` must do."""

from __future__ import annotations

import re
from datetime import timedelta

import anyio
import pytest

from senro.ports.clock import Clock, Randomness

pytestmark = pytest.mark.anyio


class ClockSuite:
    """Subclass it and give `clock`, whose time passes by itself."""

    @pytest.fixture
    def clock(self) -> Clock:
        raise NotImplementedError

    async def test_now_has_its_zone(self, clock: Clock) -> None:
        """The wall clock is in UTC and says so."""
        assert clock.now().utcoffset() == timedelta(0)

    async def test_never_back(self, clock: Clock) -> None:
        """The monotonic clock never goes back."""
        times = [clock.monotonic() for _ in range(1000)]
        assert times == sorted(times)

    async def test_sleep_takes_its_time(self, clock: Clock) -> None:
        """After a sleep both clocks have moved on; the monotonic one by no less than was asked."""
        started, wall = clock.monotonic(), clock.now()
        await clock.sleep(0.01)
        # The event loop may wake a sleeper early by its clock's resolution.
        assert clock.monotonic() - started >= 0.01 - 0.001
        assert clock.now() > wall

    @pytest.mark.parametrize("seconds", [0, -1.0])
    async def test_no_time_is_a_turn_for_others(self, clock: Clock, seconds: float) -> None:
        """A sleep of no time, or less, returns, and other tasks have had a turn."""
        turned = anyio.Event()

        async def other() -> None:
            turned.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other)
            while not turned.is_set():
                await clock.sleep(seconds)

    @pytest.mark.parametrize("seconds", [0, 3600])
    async def test_sleep_can_be_cancelled(self, clock: Clock, seconds: float) -> None:
        """A sleep in a cancelled scope ends at once, however long it was meant to be."""
        with anyio.CancelScope() as scope:
            scope.cancel()
            await clock.sleep(seconds)
        assert scope.cancelled_caught

    async def test_sleepers_wake_in_order(self, clock: Clock) -> None:
        """Who sleeps less wakes first, whoever began first."""
        woken: list[float] = []

        async def sleeper(seconds: float) -> None:
            await clock.sleep(seconds)
            woken.append(seconds)

        async with anyio.create_task_group() as tasks:
            for seconds in (0.06, 0.0, 0.03):
                tasks.start_soon(sleeper, seconds)
        assert woken == [0.0, 0.03, 0.06]


class ChanceSuite:
    """Subclass it and give `randomness`."""

    @pytest.fixture
    def randomness(self) -> Randomness:
        raise NotImplementedError

    def test_tokens(self, randomness: Randomness) -> None:
        """A token is sixteen lower-case hexadecimal digits, and none comes twice."""
        tokens = [randomness.token() for _ in range(1000)]
        assert all(re.fullmatch(r"[0-9a-f]{16}", token) for token in tokens)
        assert len(set(tokens)) == len(tokens)

    def test_fractions(self, randomness: Randomness) -> None:
        """A fraction is at least 0 and less than 1."""
        assert all(0 <= randomness.fraction() < 1 for _ in range(1000))
