"""The cluster's time, as one object that tests and a later virtual clock can replace."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol

import anyio


class Clock(Protocol):
    """What the apiserver and the kubelet ask of time."""

    def nanoseconds(self) -> int:
        """Nanoseconds since 1970, UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after that many seconds of this clock."""
        ...


class SystemClock:
    """The host's own time."""

    def nanoseconds(self) -> int:
        """Nanoseconds since 1970, UTC."""
        return time.time_ns()

    async def sleep(self, seconds: float) -> None:
        """Return after that many real seconds."""
        await anyio.sleep(seconds)


def now_text(clock: Clock, later_seconds: int = 0) -> str:
    """The present (or so much later) as metav1.Time writes it: whole seconds, UTC (facts/api-rules.md section 7)."""
    return seconds_text(clock.nanoseconds() // 1_000_000_000 + later_seconds)


def seconds_text(seconds: int) -> str:
    """Seconds since 1970 as metav1.Time."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def nanoseconds_text(nanoseconds: int) -> str:
    """A log line's time: RFC 3339 with nine decimals, always (facts/api-rules.md section 10)."""
    seconds, fraction = divmod(nanoseconds, 1_000_000_000)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{fraction:09d}Z"
