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

_OUTPUT_LIMIT = 1 << 18  # bytes unpacked at a time: a few kilobytes may stand for gigabytes


class Compressor(Protocol):
    """Packs a stream: `compress` may hold bytes back, `flush` ends the stream."""

    def compress(self, data: bytes | memoryview, /) -> bytes:
        """What the data brings to send."""
        ...

    def flush(self) -> bytes:
        """The rest, with the checksum."""
        ...


def make_compressor(coding: Coding) -> Compressor | None:
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


class Decompressor:
    """Takes a stream of whatever coding, which its first bytes tell: an archive begins with the name of a member."""

    def __init__(self) -> None:
        self._head: bytes | None = b""
        self._decoder: _Gzip | _Zstd | None = None

    def feed(self, data: bytes | memoryview) -> Iterator[bytes | memoryview]:
        """The content that the data brings, in pieces. Raises `TreeError` (rule `checksum`, `end`) for damage."""
        if self._head is not None:
            head = self._head + data
            if len(head) < len(_ZSTD_MAGIC):
                self._head = head
                return
            data, self._head = head, None
            if head.startswith(_GZIP_MAGIC):
                self._decoder = _Gzip()
            elif head.startswith(_ZSTD_MAGIC):
                self._decoder = _Zstd()
        if self._decoder is None:
            if data:
                yield data
            return
        try:
            yield from self._decoder.feed(data)
        except (zlib.error, zstd.ZstdError) as error:
            raise TreeError("", "checksum", f"the packed archive is damaged: {error}") from error

    def finish(self) -> bytes:
        """What a stream of fewer than four bytes brings. Raises `TreeError` (`truncated`) for one that is not whole."""
        if self._decoder is not None and not self._decoder.complete:
            raise TreeError("", "truncated", "the packed archive ended before its checksum; the transfer was cut")
        head, self._head = self._head, None
        return head or b""


class _Gzip:
    def __init__(self) -> None:
        self._decoder = zlib.decompressobj(_GZIP_WINDOW)

    @property
    def complete(self) -> bool:
        return self._decoder.eof

    def feed(self, data: bytes | memoryview) -> Iterator[bytes]:
        while data:
            if self._decoder.eof:
                raise _trailing_data()
            piece = self._decoder.decompress(data, _OUTPUT_LIMIT)
            data = self._decoder.unconsumed_tail or self._decoder.unused_data
            if piece:
                yield piece
        # What is held back comes without another byte of input.
        while not self._decoder.eof and (piece := self._decoder.decompress(b"", _OUTPUT_LIMIT)):
            yield piece


class _Zstd:
    def __init__(self) -> None:
        self._decoder = zstd.ZstdDecompressor(options={int(zstd.DecompressionParameter.window_log_max): _ZSTD_WINDOW})

    @property
    def complete(self) -> bool:
        return self._decoder.eof

    def feed(self, data: bytes | memoryview) -> Iterator[bytes]:
        while True:
            if self._decoder.eof:
                if data:
                    raise _trailing_data()
                return
            piece = self._decoder.decompress(data, _OUTPUT_LIMIT)
            data = self._decoder.unused_data
            if piece:
                yield piece
            if not data and (self._decoder.needs_input or self._decoder.eof):
                return


def _trailing_data() -> TreeError:
    return TreeError("", "end", "something follows the end of the packed archive")
