"""Time and chance, which the domain takes as arguments."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """The coordinator's clocks."""

    def now(self) -> datetime:
        """The wall clock, in UTC, with its zone."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back. Compare only with itself."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`, or be cancelled."""
        ...


class Randomness(Protocol):
    """Randomness, for names that must not collide and for jitter."""

    def token(self) -> str:
        """Sixteen lower-case hexadecimal digits, never the same twice."""
        ...

    def fraction(self) -> float:
        """A number from 0 up to but not including 1, evenly spread."""
        ...
