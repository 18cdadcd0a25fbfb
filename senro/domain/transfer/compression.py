"""Whether a transfer is compressed: a pure choice from what the far side has, how well the content packs, and the link.

A link's rate is measured, never guessed: it is that of the second MiB of a transfer that began plain. Where packing
pays, such a transfer is begun again, and later ones of the run are packed from their first byte.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

Direction = Literal["upload", "download"]
"""Into the pod, or back to the coordinator."""

Coding = Literal["plain", "gzip", "zstd"]
"""How the bytes of an archive cross: as they are, or packed by the program of this name."""

PACKED: Final[tuple[Coding, ...]] = ("zstd", "gzip")
"""What a far side may have, the better first."""

PROBE_FROM: Final = 256 * 1024
PROBE_TO: Final = 1280 * 1024
"""Bytes of a transfer between which its rate is measured. What comes before fills buffers and pays for the way there
and back; a transfer that is shorter is over before anything could be won."""

SAMPLE_BYTES: Final = 128 * 1024
"""Bytes of the content that are packed to see how well it does: a MiB would cost as much as sending several."""

KNOWN_SECONDS: Final = 120.0
"""How long a measured rate is believed: a link that recovers should not be packed for the rest of a long run."""

AGAIN_SECONDS: Final = 0.5
"""What beginning a transfer again costs: a handshake, and clearing what had come."""

GAIN: Final = 0.75
"""The share of the plain transfer's time that packing must stay below. The speeds below are estimates, and a transfer
must not become slower by being clever."""


@dataclass(frozen=True, slots=True)
class _Speed:
    """Bytes of content a second, by one core: `pack` and `unpack`."""

    pack: float
    unpack: float


_SPEEDS: Final = {"gzip": _Speed(70e6, 170e6), "zstd": _Speed(300e6, 500e6)}
"""Level 1 of each, by the slower of the two sides: GNU gzip and zlib, zstd with one thread."""


def codings(line: bytes) -> tuple[Coding, ...]:
    """What the far side's first line says that it has, of what is known here; the better first."""
    has = line.split()
    return tuple(coding for coding in PACKED if coding.encode() in has)


def seconds(coding: Coding, content: int, ratio: float, rate: float) -> float:
    """How long `content` bytes take over a link of `rate` bytes a second, packed to `ratio` of their size."""
    if coding == "plain":
        return content / rate
    speed = _SPEEDS[coding]
    return max(content * ratio / rate, content / min(speed.pack, speed.unpack))


def choose(has: Collection[Coding], ratio: float, rate: float) -> Coding:
    """How to begin a transfer over a link whose rate is known: all times grow alike with the size, so none is asked."""
    return _best(has, SAMPLE_BYTES, ratio, rate, limit=GAIN * seconds("plain", SAMPLE_BYTES, ratio, rate), cost=0.0)


def choose_again(has: Collection[Coding], content: int, done: int, ratio: float, rate: float) -> Coding:
    """How to go on with a plain transfer of which `done` bytes have crossed: plain, or from the beginning, packed."""
    left = seconds("plain", max(0, content - done), ratio, rate)
    return _best(has, content, ratio, rate, limit=GAIN * left, cost=AGAIN_SECONDS)


def could_pay(content: int, rate: float) -> bool:
    """Whether content of that size could cross faster packed: else nobody need ask what the far side has."""
    return content > PROBE_TO and choose(PACKED, 0.0, rate) != "plain"


def _best(has: Collection[Coding], content: int, ratio: float, rate: float, *, limit: float, cost: float) -> Coding:
    times: Iterable[tuple[float, Coding]] = (
        (cost + seconds(coding, content, ratio, rate), coding) for coding in PACKED if coding in has
    )
    quickest, coding = min(times, default=(limit, "plain"), key=lambda found: found[0])
    return coding if quickest < limit else "plain"


@dataclass(slots=True)
class LinkRates:
    """The rates that were measured between the coordinator and one cluster, a direction each; none at first."""

    _measured: dict[Direction, tuple[float, float]] = field(default_factory=dict)

    def measured(self, direction: Direction, rate: float, at: float) -> None:
        """A plain transfer went at `rate` bytes a second, at the monotonic time `at`."""
        self._measured[direction] = (rate, at)

    def known(self, direction: Direction, at: float) -> float | None:
        """The rate, where it was measured within the last two minutes."""
        rate, since = self._measured.get(direction, (0.0, -KNOWN_SECONDS))
        return rate if rate and at - since < KNOWN_SECONDS else None
