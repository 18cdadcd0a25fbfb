"""Reads more bytes at once from the socket below TLS.

anyio's TLS stream reads 64 KiB at a time from the stream that it wraps, of up to 256 KiB that asyncio has received. The
rest is copied and stored again, and each read costs a turn of the event loop: a third of the client's CPU for a stream
of 100 MiB (`benchmarks/bench_exec.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpcore
from anyio.abc import ByteStream
from anyio.streams.tls import TLSStream


class LargeReadStream(ByteStream):
    """Wraps a stream, and reads at least `least` bytes of it at a time."""

    def __init__(self, inner: ByteStream, least: int) -> None:
        self._inner = inner
        self._least = least

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Receive up to `least` bytes, also if `max_bytes` is less, so the caller must accept as many."""
        return await self._inner.receive(max(max_bytes, self._least))

    async def send(self, item: bytes) -> None:
        """See anyio."""
        await self._inner.send(item)

    async def send_eof(self) -> None:
        """See anyio."""
        await self._inner.send_eof()

    async def aclose(self) -> None:
        """See anyio."""
        await self._inner.aclose()

    @property
    def extra_attributes(self) -> Mapping[Any, Any]:
        """See anyio."""
        return self._inner.extra_attributes


def enable_large_reads(stream: httpcore.AsyncNetworkStream, least: int) -> None:
    """Wrap the stream below the TLS of `stream` in a `LargeReadStream`.

    httpcore has no public name for the streams that its own ones wrap (one for the upgrade, one of anyio). A version
    that keeps them elsewhere gets no wrapper and reads slowly; tests/contract/test_exec_sockets.py fails then.
    """
    tls: object = stream
    while isinstance(tls, httpcore.AsyncNetworkStream):
        tls = getattr(tls, "_stream", None)
    below = tls.transport_stream if isinstance(tls, TLSStream) else None
    if isinstance(tls, TLSStream) and isinstance(below, ByteStream):
        tls.transport_stream = LargeReadStream(below, least)
