"""Virtual time and deterministic randomness.

The time of `FakeClock()` changes only when the test calls `await clock.advance(seconds)`. `FakeClock(auto=True)`
advances to the next sleeper whenever no other task can run. Use it only where everything else is a fake too: a task
that waits for a real process or socket looks as idle as one that sleeps.
"""

from __future__ import annotations

import heapq
import itertools
from datetime import UTC, datetime, timedelta
from typing import NoReturn

import anyio

_IDLE_TURNS = 25  # turns of the event loop without a new sleeper, after which all tasks count as waiting


class FakeClock:
    """A `Clock` whose time is a number. `sleepers`: the number of tasks that sleep."""

    def __init__(self, start: datetime = datetime(2026, 11, 29, 23, 13, 8, tzinfo=UTC), *, auto: bool = False) -> None:
        self._start = start
        self._auto = auto
        self._elapsed = 0.0
        self._order = itertools.count()
        self._waiting: list[tuple[float, int, anyio.Event]] = []
        self._slept = 0
        self._asleep: anyio.Event | None = None

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        return 1000.0 + self._elapsed

    @property
    def sleepers(self) -> int:
        return len(self._waiting)

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await anyio.lowlevel.checkpoint()
            return
        self._slept += 1
        entry = (self._elapsed + seconds, next(self._order), anyio.Event())
        heapq.heappush(self._waiting, entry)
        if self._asleep is not None:
            self._asleep.set()
        try:
            if self._auto:
                await self._advance_to(entry)
            await entry[2].wait()
        finally:
            if entry in self._waiting:
                self._waiting.remove(entry)
                heapq.heapify(self._waiting)

    def move(self, seconds: float) -> None:
        """Advances the time at once, without a turn of the event loop. Due sleepers wake at the next await."""
        target = self._elapsed + seconds
        while self._waiting and self._waiting[0][0] <= target:
            self._wake_first()
        self._elapsed = target

    async def advance(self, seconds: float) -> None:
        """Advances the time. Each sleeper wakes at its own moment, and may sleep again before the next one wakes."""
        target = self._elapsed + seconds
        await self._settle()
        while self._waiting and self._waiting[0][0] <= target:
            self._wake_first()
            await self._settle()
        self._elapsed = target

    async def pass_by(self) -> NoReturn:
        """Advances to the next sleeper whenever all other tasks wait, until it is cancelled; see `pass_time`."""
        while True:
            self._asleep = anyio.Event()
            if not self._waiting:
                await self._asleep.wait()
            await self._settle()
            if self._waiting:
                self._wake_first()

    def _wake_first(self) -> None:
        moment, _, event = heapq.heappop(self._waiting)
        self._elapsed = max(self._elapsed, moment)
        event.set()

    async def _settle(self) -> None:
        """Waits until no task went to sleep for some turns of the event loop."""
        quiet = 0
        while quiet < _IDLE_TURNS:
            before = self._slept, len(self._waiting)
            await anyio.lowlevel.checkpoint()
            quiet = quiet + 1 if before == (self._slept, len(self._waiting)) else 0

    async def _advance_to(self, entry: tuple[float, int, anyio.Event]) -> None:
        """Advances to the moment of `entry` once all other tasks wait and it is the next sleeper."""
        while not entry[2].is_set():
            await self._settle()
            if self._waiting and self._waiting[0] is entry:
                self._wake_first()


async def pass_time(clock: FakeClock) -> NoReturn:
    """Advances a clock while tasks sleep. Start it in a task group, whose end cancels it.

    Unlike `FakeClock(auto=True)` this is for a scene in which one task sleeps while another may wait for a real thread:
    the time advances only to the next sleeper, and only while there is one.
    """
    await clock.pass_by()


class FakeRandomness:
    """A `Randomness` whose tokens count (`0000000000000001`, …) and whose fractions cycle through the given ones."""

    def __init__(self, *fractions: float) -> None:
        self._count = itertools.count(1)
        self._fractions = itertools.cycle(fractions or (0.5,))

    def token(self) -> str:
        return f"{next(self._count):016x}"

    def fraction(self) -> float:
        return next(self._fractions)
