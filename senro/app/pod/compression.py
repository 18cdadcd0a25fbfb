"""Whether the transfers of one attempt are packed: what its staging finds out serves its read-back too."""

from __future__ import annotations

from dataclasses import dataclass

from senro.domain.transfer.compression import Coding, Direction, LinkRates, choose, choose_again, could_pay
from senro.ports.clock import Clock


class RestartCompressed(Exception):
    """A plain transfer is too slow on this link: it is worth beginning it again, packed."""

    def __init__(self, coding: Coding, rate: float) -> None:
        super().__init__(coding)
        self.coding = coding
        self.rate = rate

    def __str__(self) -> str:
        return f"the link takes {self.rate / 1e6:.1f} MB/s, so the transfer begins again, packed by {self.coding}"


@dataclass(slots=True)
class CompressionChoice:
    """`has` is what the pod's image has to pack with, `ratio` that of a sample; each None before it is known.

    `link` is shared by all attempts of the run.
    """

    link: LinkRates
    clock: Clock
    has: tuple[Coding, ...] | None = None
    ratio: float | None = None

    def rate(self, direction: Direction) -> float | None:
        """Bytes a second, as lately measured. What comes out is taken to be as fast as what goes in, until it is."""
        now = self.clock.monotonic()
        return self.link.known(direction, now) or (self.link.known("in", now) if direction == "out" else None)

    def could_pay(self, direction: Direction, content: int) -> bool:
        """Whether the rate is known and so low that packing some content of this size would be faster."""
        rate = self.rate(direction)
        return rate is not None and could_pay(content, rate)

    def first(self, direction: Direction) -> Coding:
        """How to begin: packed only where the rate, the ratio and the programs of the far side are known."""
        rate = self.rate(direction)
        return "plain" if rate is None or self.ratio is None else choose(self.has or (), self.ratio, rate)

    def again(self, direction: Direction, content: int, done: int) -> RestartCompressed | None:
        """What to do after `done` of a plain transfer's bytes have crossed, now that the link was measured."""
        rate = self.link.known(direction, self.clock.monotonic())
        if rate is None or self.ratio is None:
            return None
        coding = choose_again(self.has or (), content, done, self.ratio, rate)
        return None if coding == "plain" else RestartCompressed(coding, rate)


@dataclass(slots=True)
class Probe:
    """Measures the link between two moments of a plain transfer."""

    packing: CompressionChoice
    direction: Direction
    _from: tuple[int, float] | None = None

    def mark(self, count: int) -> bool:
        """`count` bytes have arrived by now. The second call measures the link and returns True."""
        now = self.packing.clock.monotonic()
        if self._from is None:
            self._from = count, now
            return False
        before, began = self._from
        if now > began and count > before:
            self.packing.link.measured(self.direction, (count - before) / (now - began), now)
        return True
