"""Whether a transfer is compressed (docs/design/transfers.md#compression).

It depends on the programs of the image, the compression ratio, and the rate of the link, which is measured during the
second MiB of an uncompressed transfer. If compression pays, that transfer restarts and later ones begin compressed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

Direction = Literal["upload", "download"]
"""To the pod, or from the pod."""

Coding = Literal["plain", "gzip", "zstd"]
"""How an archive is sent: as it is, or compressed by the program of this name."""

PACKED: Final[tuple[Coding, ...]] = ("zstd", "gzip")
"""The compressing codings, the better one first."""

PROBE_FROM: Final = 256 * 1024
PROBE_TO: Final = 1280 * 1024
"""The bytes of a transfer between which its rate is measured. The ones before fill buffers; a shorter transfer cannot
gain anything."""

SAMPLE_BYTES: Final = 128 * 1024
"""Bytes of the content that are compressed to measure the ratio: a MiB would cost as much as sending several."""

KNOWN_SECONDS: Final = 120.0
"""How long a measured rate is used: the link may recover during a long run."""

AGAIN_SECONDS: Final = 0.5
"""The cost of restarting a transfer: a handshake, and the removal of what has arrived."""

GAIN: Final = 0.75
"""The part of the plain transfer's time that compression must stay below, since the speeds are estimates."""


@dataclass(frozen=True, slots=True)
class _Speed:
    """Bytes of content per second on one core."""

    pack: float
    unpack: float


_SPEEDS: Final = {"gzip": _Speed(70e6, 170e6), "zstd": _Speed(300e6, 500e6)}
"""Level 1 of each, the slower one of the two sides: GNU gzip and zlib, zstd with one thread."""


def codings(line: bytes) -> tuple[Coding, ...]:
    """The codings that the first line of the remote script lists, the better one first."""
    has = line.split()
    return tuple(coding for coding in PACKED if coding.encode() in has)


def seconds(coding: Coding, content: int, ratio: float, rate: float) -> float:
    """How long `content` bytes, compressed to `ratio` of their size, take over a link of `rate` bytes per second."""
    if coding == "plain":
        return content / rate
    speed = _SPEEDS[coding]
    return max(content * ratio / rate, content / min(speed.pack, speed.unpack))


def choose(has: Collection[Coding], ratio: float, rate: float) -> Coding:
    """The coding for a transfer over a link of a known rate. It does not depend on the size."""
    return _best(has, SAMPLE_BYTES, ratio, rate, limit=GAIN * seconds("plain", SAMPLE_BYTES, ratio, rate), cost=0.0)


def choose_again(has: Collection[Coding], content: int, done: int, ratio: float, rate: float) -> Coding:
    """The coding for a plain transfer after `done` bytes: plain to continue, else another one to restart with."""
    left = seconds("plain", max(0, content - done), ratio, rate)
    return _best(has, content, ratio, rate, limit=GAIN * left, cost=AGAIN_SECONDS)


def could_pay(content: int, rate: float) -> bool:
    """Whether compression may make the transfer of `content` bytes faster."""
    return content > PROBE_TO and choose(PACKED, 0.0, rate) != "plain"


def _best(has: Collection[Coding], content: int, ratio: float, rate: float, *, limit: float, cost: float) -> Coding:
    times: Iterable[tuple[float, Coding]] = (
        (cost + seconds(coding, content, ratio, rate), coding) for coding in PACKED if coding in has
    )
    quickest, coding = min(times, default=(limit, "plain"), key=lambda found: found[0])
    return coding if quickest < limit else "plain"


@dataclass(slots=True)
class LinkRates:
    """The rates that were measured between the coordinator and one cluster, by direction."""

    _measured: dict[Direction, tuple[float, float]] = field(default_factory=dict)

    def measured(self, direction: Direction, rate: float, at: float) -> None:
        """Records that a plain transfer had `rate` bytes per second at the monotonic time `at`."""
        self._measured[direction] = (rate, at)

    def known(self, direction: Direction, at: float) -> float | None:
        """The rate if it was measured within `KNOWN_SECONDS`, else None."""
        rate, since = self._measured.get(direction, (0.0, -KNOWN_SECONDS))
        return rate if rate and at - since < KNOWN_SECONDS else None
