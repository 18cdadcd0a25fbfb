"""Durations as pipeline files write them. Standard library only."""

from __future__ import annotations

from datetime import timedelta
from typing import cast

Duration = float | timedelta
"""Seconds, or a timedelta."""


def seconds(duration: Duration) -> float:
    """The duration in seconds. What is none stays what it is, for `Pipeline.build` to refuse."""
    if issubclass(type(duration), timedelta):
        return cast("timedelta", duration).total_seconds()
    return cast("float", duration)
