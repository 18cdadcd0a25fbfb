"""The conformance suites of `senro.ports.clock`."""

from __future__ import annotations

import re
from datetime import timedelta

import anyio
import pytest

from senro.ports.clock import Clock, Randomness

pytestmark = pytest.mark.anyio


class ClockSuite:
    """A subclass has the fixture `clock`, whose time passes by itself."""

    @pytest.fixture
    def clock(self) -> Clock:
        raise NotImplementedError

    async def test_now_is_in_utc(self, clock: Clock) -> None:
        """The wall clock returns an aware datetime in UTC."""
        assert clock.now().utcoffset() == timedelta(0)

    async def test_monotonic_never_goes_back(self, clock: Clock) -> None:
        """The monotonic clock never goes back."""
        times = [clock.monotonic() for _ in range(1000)]
        assert times == sorted(times)

    async def test_sleep_lasts_as_long_as_requested(self, clock: Clock) -> None:
        """After a sleep both clocks have advanced, the monotonic one by at least the requested time."""
        started, wall = clock.monotonic(), clock.now()
        await clock.sleep(0.01)
        # The event loop may wake a sleeper early, by the resolution of its clock.
        assert clock.monotonic() - started >= 0.01 - 0.001
        assert clock.now() > wall

    @pytest.mark.parametrize("seconds", [0, -1.0])
    async def test_sleep_of_zero_yields(self, clock: Clock, seconds: float) -> None:
        """A sleep of zero or less returns after other tasks had a turn."""
        turned = anyio.Event()

        async def other() -> None:
            turned.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other)
            while not turned.is_set():
                await clock.sleep(seconds)

    @pytest.mark.parametrize("seconds", [0, 3600])
    async def test_sleep_can_be_cancelled(self, clock: Clock, seconds: float) -> None:
        """A sleep in a cancelled scope ends at once."""
        with anyio.CancelScope() as scope:
            scope.cancel()
            await clock.sleep(seconds)
        assert scope.cancelled_caught

    async def test_sleepers_wake_in_order(self, clock: Clock) -> None:
        """The shorter of two sleeps ends first."""
        woken: list[float] = []

        async def sleeper(seconds: float) -> None:
            await clock.sleep(seconds)
            woken.append(seconds)

        async with anyio.create_task_group() as tasks:
            for seconds in (0.06, 0.0, 0.03):
                tasks.start_soon(sleeper, seconds)
        assert woken == [0.0, 0.03, 0.06]


class RandomnessSuite:
    """A subclass has the fixture `randomness`."""

    @pytest.fixture
    def randomness(self) -> Randomness:
        raise NotImplementedError

    def test_tokens(self, randomness: Randomness) -> None:
        """A token is sixteen lower-case hexadecimal digits, and no two are equal."""
        tokens = [randomness.token() for _ in range(1000)]
        assert all(re.fullmatch(r"[0-9a-f]{16}", token) for token in tokens)
        assert len(set(tokens)) == len(tokens)

    def test_fractions(self, randomness: Randomness) -> None:
        """A fraction is at least 0 and less than 1."""
        assert all(0 <= randomness.fraction() < 1 for _ in range(1000))
