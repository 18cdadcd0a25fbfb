"""Compresses and decompresses archives by gzip or zstd, compatible with the programs of these names.

Both formats end with a checksum of the content, which is verified when it is decompressed (RFC 1952 section 2.3.1,
RFC 8878 section 3.1.1): bytes that were damaged in transit end the try of a transfer.
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
"""The fastest level of both: transfers are compressed to save time."""

_GZIP_MAGIC, _ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_GZIP_WINDOW = 31  # zlib's value for a gzip header with the largest window
_ZSTD_WINDOW = 23
"""Base-2 logarithm of the largest accepted window, since the sender of a frame decides how much memory it needs. RFC
8878 section 3.1.1.1.2 asks decoders to accept at least this much; `zstd -1` needs 19."""

_OUTPUT_LIMIT = 1 << 18  # bytes decompressed at a time: a few kilobytes may expand to gigabytes


class Compressor(Protocol):
    """Compresses a stream: `compress` may hold bytes back, `flush` ends the stream."""

    def compress(self, data: bytes | memoryview, /) -> bytes:
        """Returns the compressed bytes that are ready."""

    def flush(self) -> bytes:
        """Returns the remaining bytes, with the checksum."""


def make_compressor(coding: Coding) -> Compressor | None:
    """A new compressor; None for `plain`."""
    if coding == "gzip":
        return zlib.compressobj(LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
    if coding == "zstd":
        parameters = zstd.CompressionParameter
        return zstd.ZstdCompressor(options={int(parameters.compression_level): LEVEL, int(parameters.checksum_flag): 1})
    return None


def ratio_of(sample: bytes) -> float:
    """The compressed size of the sample divided by its size; 1.0 for an empty sample."""
    return len(zlib.compress(sample, LEVEL)) / len(sample) if sample else 1.0


class Decompressor:
    """Decompresses a stream. The first bytes tell its coding: a plain archive begins with the name of a member."""

    def __init__(self) -> None:
        self._head: bytes | None = b""
        self._decoder: _Gzip | _Zstd | None = None

    def feed(self, data: bytes | memoryview) -> Iterator[bytes | memoryview]:
        """Yields the decompressed bytes in pieces. Raises `TreeError` (rule `checksum` or `end`) for damaged data."""
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
            raise TreeError("", "checksum", f"the compressed archive is damaged: {error}") from error

    def finish(self) -> bytes:
        """Returns the bytes of a stream of fewer than four. Raises `TreeError` (rule `truncated`) for a cut stream."""
        if self._decoder is not None and not self._decoder.stream.eof:
            raise TreeError("", "truncated", "the compressed archive ended before its checksum; the transfer was cut")
        head, self._head = self._head, None
        return head or b""


class _Gzip:
    def __init__(self) -> None:
        self.stream = zlib.decompressobj(_GZIP_WINDOW)

    def feed(self, data: bytes | memoryview) -> Iterator[bytes]:
        while data:
            if self.stream.eof:
                raise _trailing_data()
            piece = self.stream.decompress(data, _OUTPUT_LIMIT)
            data = self.stream.unconsumed_tail or self.stream.unused_data
            if piece:
                yield piece
        # The decoder returns output that it holds back without more input.
        while not self.stream.eof and (piece := self.stream.decompress(b"", _OUTPUT_LIMIT)):
            yield piece


class _Zstd:
    def __init__(self) -> None:
        self.stream = zstd.ZstdDecompressor(options={int(zstd.DecompressionParameter.window_log_max): _ZSTD_WINDOW})

    def feed(self, data: bytes | memoryview) -> Iterator[bytes]:
        while True:
            if self.stream.eof:
                if data:
                    raise _trailing_data()
                return
            piece = self.stream.decompress(data, _OUTPUT_LIMIT)
            data = self.stream.unused_data
            if piece:
                yield piece
            if not data and (self.stream.needs_input or self.stream.eof):
                return


def _trailing_data() -> TreeError:
    return TreeError("", "end", "something follows the end of the compressed archive")
