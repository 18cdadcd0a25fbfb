"""How fast a transfer goes."""

from __future__ import annotations

from collections import deque

from senro.cli.reporters.text import plural, size
from senro.ports.reporter import Direction

WINDOW_SECONDS = 3.0
"""The speed shown is that of the last seconds: it settles quickly, and a stall shows."""

_WORDS: dict[Direction, tuple[str, str]] = {"upload": ("staging", "staged"), "download": ("reading back", "read back")}


class Meter:
    """One transfer of one step. A `done` smaller than the last one is a new start: the transfer is repeated."""

    def __init__(self, direction: Direction) -> None:
        self.direction = direction
        self.done = 0
        self.total: int | None = None
        self.files = 0
        self._samples: deque[tuple[float, int]] = deque()

    def update(self, now: float, done: int, total: int | None, files: int = 0) -> None:
        """Take what `Reporter.transfer` was told at `now`, monotonic seconds."""
        if done < self.done:
            self._samples.clear()
        self.done, self.total, self.files = done, total, files
        self._samples.append((now, done))
        while len(self._samples) > 2 and self._samples[1][0] <= now - WINDOW_SECONDS:
            self._samples.popleft()

    @property
    def complete(self) -> bool:
        """Whether all of it is through; never where the size is not known."""
        return self.total is not None and self.done >= self.total

    @property
    def speed(self) -> float | None:
        """Bytes a second lately; None before there are two moments to compare."""
        if len(self._samples) < 2:
            return None
        (began, first), (now, last) = self._samples[0], self._samples[-1]
        return (last - first) / (now - began) if now > began else None

    def brief(self) -> str:
        """For a table: `staging 12.3 MB/s`; the share of the whole where there is no speed yet."""
        doing = _WORDS[self.direction][0]
        if self.speed is not None:
            return f"{doing} {size(self.speed)}/s"
        return f"{doing} {size(self.done)}"

    def line(self) -> str:
        """For a line: `staging 12.3 MB of 60.0 MB, 80 files, 4.1 MB/s`; `staged 60.0 MB, 400 files` when complete."""
        doing, did = _WORDS[self.direction]
        files = f", {plural(self.files, 'file')}" if self.files else ""
        if self.complete:
            return f"{did} {size(self.done)}{files}"
        whole = "" if self.total is None else f" of {size(self.total)}"
        speed = "" if self.speed is None else f", {size(self.speed)}/s"
        return f"{doing} {size(self.done)}{whole}{files}{speed}"
