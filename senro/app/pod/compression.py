"""Decides whether the transfers of an attempt are compressed. The download uses what the upload has measured."""

from __future__ import annotations

from dataclasses import dataclass

from senro.domain.transfer.compression import (
    PROBE_FROM,
    PROBE_TO,
    SAMPLE_BYTES,
    Coding,
    Direction,
    LinkRates,
    choose,
    choose_again,
    could_pay,
)
from senro.ports.clock import Clock
from senro.ports.trees import Trees


class RestartCompressed(Exception):
    """Raised during an uncompressed transfer: on this link it is faster to restart it, compressed by `coding`.

    `rate` is the measured rate of the link in bytes a second.
    """

    def __init__(self, coding: Coding, rate: float) -> None:
        super().__init__(coding)
        self.coding = coding
        self.rate = rate

    def __str__(self) -> str:
        return f"the link carries {self.rate / 1e6:.1f} MB/s, so the transfer restarts, compressed by {self.coding}"


@dataclass(slots=True)
class CompressionChoice:
    """Chooses the coding of an attempt's transfers.

    `link`: the rates of the link, which all attempts of the run share.
    `has`: the compressors of the pod's image; None before they are known.
    `ratio`: the compressed size of a sample divided by its size; None before a sample was compressed.
    """

    link: LinkRates
    clock: Clock
    has: tuple[Coding, ...] | None = None
    ratio: float | None = None

    def rate(self, direction: Direction) -> float | None:
        """The last measured rate in bytes a second, None if there is none.

        The rate of uploads stands for that of downloads before a download was measured.
        """
        now = self.clock.monotonic()
        return self.link.known(direction, now) or (self.link.known("upload", now) if direction == "download" else None)

    def could_pay(self, direction: Direction, content: int) -> bool:
        """Whether the rate is known and so low that compressing `content` bytes of some kind would be faster."""
        rate = self.rate(direction)
        return rate is not None and could_pay(content, rate)

    def first(self, direction: Direction) -> Coding:
        """The coding of a transfer that begins: plain unless rate, ratio and the pod's compressors are known."""
        rate = self.rate(direction)
        return "plain" if rate is None or self.ratio is None else choose(self.has or (), self.ratio, rate)

    def again(self, direction: Direction, content: int, done: int) -> RestartCompressed | None:
        """The exception to raise if restarting compressed is faster than finishing uncompressed, else None.

        `done` of the `content` bytes are transferred already.
        """
        rate = self.link.known(direction, self.clock.monotonic())
        if rate is None or self.ratio is None:
            return None
        coding = choose_again(self.has or (), content, done, self.ratio, rate)
        return None if coding == "plain" else RestartCompressed(coding, rate)


@dataclass(slots=True)
class Probe:
    """Measures the link's rate between two moments of an uncompressed transfer."""

    compression: CompressionChoice
    direction: Direction
    _from: tuple[int, float] | None = None

    def mark(self, count: int) -> bool:
        """Note that `count` bytes have arrived. The second call records the rate and returns True."""
        now = self.compression.clock.monotonic()
        if self._from is None:
            self._from = count, now
            return False
        before, began = self._from
        if now > began and count > before:
            self.compression.link.measured(self.direction, (count - before) / (now - began), now)
        return True


class DownloadProbe:
    """Measures an uncompressed download, compresses a sample of it, and restarts it where compression is faster."""

    def __init__(self, compression: CompressionChoice, trees: Trees) -> None:
        self._compression = compression
        self._trees = trees
        self._probe = Probe(compression, "download")
        self._sample = bytearray()
        self._next = PROBE_FROM

    async def take(self, data: bytes, received: int, uploaded_bytes: int) -> None:
        """Take note of `data`, after which `received` bytes have arrived in all. Raises `RestartCompressed`.

        `uploaded_bytes`: the length of the uploaded archive.
        """
        if received >= PROBE_FROM and len(self._sample) < SAMPLE_BYTES:
            self._sample += data
        if received < self._next:
            return
        if not self._probe.mark(received):
            self._next = PROBE_TO
            return
        # The size of a download is unknown: as much again as arrived, or as much as was uploaded, is assumed. The
        # question is therefore asked again later.
        self._next = 4 * received
        expected = max(uploaded_bytes, 2 * received)
        if self._compression.has and self._compression.could_pay("download", expected):
            self._compression.ratio = await self._trees.ratio_of(bytes(self._sample))
            self._sample.clear()  # later content may compress differently
            restart = self._compression.again("download", expected, received)
            if restart is not None:
                raise restart
