"""The clocks and the random source of this machine."""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime

import anyio


class SystemClock:
    """See `ports.clock.Clock`."""

    def now(self) -> datetime:
        """The wall clock, in UTC. It may be set back while senro runs."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep for `seconds`, for one checkpoint if they are not positive."""
        await anyio.sleep(max(0.0, seconds))


class SystemRandomness:
    """See `ports.clock.Randomness`. The operating system's source needs no seed, and is safe after a fork."""

    def __init__(self) -> None:
        self._random = secrets.SystemRandom()

    def token(self) -> str:
        """Sixteen random hexadecimal digits: among a billion, two are equal with a probability of 3 %."""
        return secrets.token_hex(8)

    def fraction(self) -> float:
        """A random number from 0 up to but not including 1."""
        return self._random.random()
