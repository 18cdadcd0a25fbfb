"""The clocks and the chance of this machine."""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime

import anyio


class SystemClock:
    """`senro.ports.clock.Clock` by the operating system."""

    def now(self) -> datetime:
        """The wall clock, in UTC; it may be set back while senro runs."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds since this machine started, or thereabouts."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`, at once where they are not positive, and let others run in any case."""
        await anyio.sleep(max(0.0, seconds))


class SystemRandomness:
    """`senro.ports.clock.Randomness` by the operating system's source, which needs no seed and survives a fork."""

    def __init__(self) -> None:
        self._random = secrets.SystemRandom()

    def token(self) -> str:
        """Sixteen hexadecimal digits: 64 bits, so that a billion names collide with a chance of 3 in 100."""
        return secrets.token_hex(8)

    def fraction(self) -> float:
        """A number from 0 up to but not including 1."""
        return self._random.random()
