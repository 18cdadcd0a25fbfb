"""Time and randomness."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """The clocks of the coordinator."""

    def now(self) -> datetime:
        """Returns the wall clock, in UTC, as an aware datetime."""

    def monotonic(self) -> float:
        """Returns the seconds since an unspecified moment; never goes back."""

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""


class Randomness(Protocol):
    """Random values, for names that must not collide and for jitter."""

    def token(self) -> str:
        """Returns sixteen lower-case hexadecimal digits that no other call returns."""

    def fraction(self) -> float:
        """Returns a number from 0 up to but not including 1, uniformly distributed."""
