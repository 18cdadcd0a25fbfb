"""Durations in pipeline files."""

from __future__ import annotations

from datetime import timedelta
from typing import cast

Duration = float | timedelta
"""Seconds, or a timedelta."""


def seconds(duration: Duration) -> float:
    """The duration in seconds. Any other value is returned as it is, and `Pipeline.build` refuses it."""
    if issubclass(type(duration), timedelta):
        return cast("timedelta", duration).total_seconds()
    return cast("float", duration)
