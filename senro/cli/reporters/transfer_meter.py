"""Measures the speed of a transfer and describes its progress."""

from __future__ import annotations

from collections import deque

from senro.cli.reporters.text import plural, size
from senro.ports.reporter import Direction

WINDOW_SECONDS = 3.0
"""Length of the window over which the speed is measured, short enough to show a stall."""

_WORDS: dict[Direction, tuple[str, str]] = {"upload": ("staging", "staged"), "download": ("reading back", "read back")}


class Meter:
    """One transfer of one step. A `done` smaller than the last one means that the transfer was restarted."""

    def __init__(self, direction: Direction) -> None:
        self.direction = direction
        self.done = 0
        self.total: int | None = None
        self.files = 0
        self._samples: deque[tuple[float, int]] = deque()

    def update(self, now: float, done: int, total: int | None, files: int = 0) -> None:
        """Records the arguments of `Reporter.transfer` at `now`, in monotonic seconds."""
        if done < self.done:
            self._samples.clear()
        self.done, self.total, self.files = done, total, files
        self._samples.append((now, done))
        while len(self._samples) > 2 and self._samples[1][0] <= now - WINDOW_SECONDS:
            self._samples.popleft()

    @property
    def complete(self) -> bool:
        """Whether all bytes were transferred; False if the total is unknown."""
        return self.total is not None and self.done >= self.total

    @property
    def speed(self) -> float | None:
        """Bytes per second within the window; None before the second sample."""
        if len(self._samples) < 2:
            return None
        (began, first), (now, last) = self._samples[0], self._samples[-1]
        return (last - first) / (now - began) if now > began else None

    def brief(self) -> str:
        """Returns text for a table: `staging 12.3 MB/s`, or `staging 12.3 MB` before the speed is known."""
        progress = size(self.done) if self.speed is None else f"{size(self.speed)}/s"
        return f"{_WORDS[self.direction][0]} {progress}"

    def line(self) -> str:
        """Returns a line: `staging 12.3 MB of 60.0 MB, 80 files, 4.1 MB/s`, or `staged 60.0 MB, 400 files`."""
        doing, did = _WORDS[self.direction]
        files = f", {plural(self.files, 'file')}" if self.files else ""
        if self.complete:
            return f"{did} {size(self.done)}{files}"
        total = "" if self.total is None else f" of {size(self.total)}"
        speed = "" if self.speed is None else f", {size(self.speed)}/s"
        return f"{doing} {size(self.done)}{total}{files}{speed}"
