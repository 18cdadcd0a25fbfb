"""The cluster's time: one object for every delay, grace, deadline, toleration and back-off, which tests can move."""

from __future__ import annotations

import heapq
import itertools
import time
from datetime import UTC, datetime
from typing import Protocol

import anyio
import anyio.lowlevel

_SECOND = 1_000_000_000
_SETTLING = 25
"""Turns of the event loop that woken tasks get before the virtual clock moves on."""


class Clock(Protocol):
    """What the apiserver and the kubelet ask of time."""

    def nanoseconds(self) -> int:
        """Nanoseconds since 1970, UTC."""

    def seconds(self) -> float:
        """Seconds that only ever go forward, since no particular moment: for waits that have an end."""

    async def sleep(self, seconds: float) -> None:
        """Return after that many seconds of this clock."""


class SystemClock:
    """The host's own time."""

    def nanoseconds(self) -> int:
        """Nanoseconds since 1970, UTC."""
        return time.time_ns()

    def seconds(self) -> float:
        """The host's monotonic clock."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Return after that many real seconds."""
        await anyio.sleep(seconds)


class VirtualClock:
    """A clock that a test moves: `advance` skips minutes, and everything that was due on the way happens in order.

    Between two moves it goes with the host's time, so that processes, which are real, meet the delays they always
    meet; `frozen` makes it stand still between them. Its first moment is `start`, nanoseconds since 1970, or now.
    Belongs to one event loop; `DevCluster.advance` moves it from any thread.
    """

    def __init__(self, *, start: int | None = None, frozen: bool = False) -> None:
        self._start = time.time_ns() if start is None else start
        self._frozen = frozen
        self._origin = time.monotonic()
        self._skipped = 0.0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, anyio.Event]] = []

    def nanoseconds(self) -> int:
        """Nanoseconds since 1970, UTC, as this clock has it."""
        return self._start + int(self.seconds() * _SECOND)

    def seconds(self) -> float:
        """Seconds of this clock since it was made."""
        flowed = 0.0 if self._frozen else time.monotonic() - self._origin
        return self._skipped + flowed

    async def sleep(self, seconds: float) -> None:
        """Return once the clock has come that far, by itself or by `advance`."""
        due = self.seconds() + seconds
        if seconds <= 0:
            await anyio.lowlevel.checkpoint()
        while (left := due - self.seconds()) > 0:
            moved = anyio.Event()
            sleeper = (due, next(self._order), moved)
            heapq.heappush(self._sleepers, sleeper)
            try:
                with anyio.move_on_after(None if self._frozen else left):
                    await moved.wait()
            finally:
                if sleeper in self._sleepers:
                    self._sleepers.remove(sleeper)
                    heapq.heapify(self._sleepers)

    async def advance(self, seconds: float) -> None:
        """Move the clock forward. What becomes due on the way is woken at its own moment, one after the other."""
        end = self.seconds() + seconds
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, moved = heapq.heappop(self._sleepers)
            self._move_to(due)
            moved.set()
            await _settle()
        self._move_to(end)
        await _settle()

    def _move_to(self, moment: float) -> None:
        self._skipped += max(0.0, moment - self.seconds())


async def _settle() -> None:
    for _ in range(_SETTLING):
        await anyio.lowlevel.checkpoint()


def now_text(clock: Clock, later_seconds: int = 0) -> str:
    """The present (or so much later) as metav1.Time writes it: whole seconds, UTC (docs/design/api-rules.md#time)."""
    return seconds_text(clock.nanoseconds() // _SECOND + later_seconds)


def seconds_text(seconds: int) -> str:
    """Seconds since 1970 as metav1.Time."""
    return _moment(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")


def nanoseconds_text(nanoseconds: int) -> str:
    """A log line's time: RFC 3339 with nine decimals, always (docs/design/api-rules.md#log-timestamps)."""
    seconds, fraction = divmod(nanoseconds, _SECOND)
    return _moment(seconds).strftime("%Y-%m-%dT%H:%M:%S") + f".{fraction:09d}Z"


def _moment(seconds: int) -> datetime:
    """Seconds since 1970 as a time; one before, or past the year 9999 (a grace of 2**63-1), is the nearest there is."""
    return datetime.fromtimestamp(min(max(seconds, 0), _LAST_SECOND), UTC)


_LAST_SECOND = 253_402_300_799
