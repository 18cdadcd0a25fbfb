"""Archives on their way, packed by gzip or zstd: what the far side's programs of these names read and write.

Both carry a checksum of the content, which is checked where it is unpacked (RFC 1952 section 2.3.1, RFC 8878 section
3.1.1): bytes that were damaged on their way end the try.
"""

from __future__ import annotations

import sys
import zlib
from typing import TYPE_CHECKING, Protocol

from senro.domain.errors import TreeError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Iterator

    from senro.domain.transfer.compression import Coding

LEVEL = 1
"""The quickest of both: a transfer is packed to save time."""

_GZIP_MAGIC, _ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_GZIP_WINDOW = 31  # zlib's own number for a gzip header and the largest window
_ZSTD_WINDOW = 23
"""The logarithm of the largest window that is taken, the least that RFC 8878 section 3.1.1.1.2 wants taken: `zstd -1`
needs 19, and whoever sends a frame decides how much memory it takes."""

_STEP = 1 << 18  # bytes unpacked at a time: a few kilobytes may stand for gigabytes


class Packer(Protocol):
    """Packs a stream: `compress` may hold bytes back, `flush` ends the stream."""

    def compress(self, data: bytes | memoryview, /) -> bytes:
        """What the data brings to send."""
        ...

    def flush(self) -> bytes:
        """The rest, with the checksum."""
        ...


def packer(coding: Coding) -> Packer | None:
    """A packer; None for `plain`."""
    if coding == "gzip":
        return zlib.compressobj(LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
    if coding == "zstd":
        parameters = zstd.CompressionParameter
        return zstd.ZstdCompressor(options={int(parameters.compression_level): LEVEL, int(parameters.checksum_flag): 1})
    return None


def ratio_of(sample: bytes) -> float:
    """The share of its size that the sample packs to; 1.0 for an empty one."""
    return len(zlib.compress(sample, LEVEL)) / len(sample) if sample else 1.0


class Unpacker:
    """Takes a stream of whatever coding, which its first bytes tell: an archive begins with the name of a member."""

    def __init__(self) -> None:
        self._head: bytes | None = b""
        self._inner: _Gzip | _Zstd | None = None

    def feed(self, data: bytes | memoryview) -> Iterator[bytes | memoryview]:
        """The content that the data brings, in pieces. Raises `TreeError` (rule `checksum`, `end`) for damage."""
        if self._head is not None:
            head = self._head + data
            if len(head) < len(_ZSTD_MAGIC):
                self._head = head
                return
            data, self._head = head, None
            if head.startswith(_GZIP_MAGIC):
                self._inner = _Gzip()
            elif head.startswith(_ZSTD_MAGIC):
                self._inner = _Zstd()
        if self._inner is None:
            if data:
                yield data
            return
        try:
            yield from self._inner.feed(data)
        except (zlib.error, zstd.ZstdError) as error:
            raise TreeError("", "checksum", f"the packed archive is damaged: {error}") from error

    def finish(self) -> bytes:
        """What a stream of fewer than four bytes brings. Raises `TreeError` (`truncated`) for one that is not whole."""
        if self._inner is not None and not self._inner.whole:
            raise TreeError("", "truncated", "the packed archive ended before its checksum; the transfer was cut")
        head, self._head = self._head, None
        return head or b""


class _Gzip:
    def __init__(self) -> None:
        self._inner = zlib.decompressobj(_GZIP_WINDOW)

    @property
    def whole(self) -> bool:
        return self._inner.eof

    def feed(self, data: bytes | memoryview) -> Iterator[bytes]:
        while data:
            if self._inner.eof:
                raise _after_the_end()
            piece = self._inner.decompress(data, _STEP)
            data = self._inner.unconsumed_tail or self._inner.unused_data
            if piece:
                yield piece
        # What is held back comes without another byte of input.
        while not self._inner.eof and (piece := self._inner.decompress(b"", _STEP)):
            yield piece


class _Zstd:
    def __init__(self) -> None:
        self._inner = zstd.ZstdDecompressor(options={int(zstd.DecompressionParameter.window_log_max): _ZSTD_WINDOW})

    @property
    def whole(self) -> bool:
        return self._inner.eof

    def feed(self, data: bytes | memoryview) -> Iterator[bytes]:
        while True:
            if self._inner.eof:
                if data:
                    raise _after_the_end()
                return
            piece = self._inner.decompress(data, _STEP)
            data = self._inner.unused_data
            if piece:
                yield piece
            if not data and (self._inner.needs_input or self._inner.eof):
                return


def _after_the_end() -> TreeError:
    return TreeError("", "end", "something follows the end of the packed archive")
