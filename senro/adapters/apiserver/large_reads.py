"""Larger reads from the socket below TLS.

anyio's TLS stream asks what it wraps for 64 KiB, of up to 256 KiB that asyncio has read already: the rest is copied,
put back and asked for again, each time with a turn of the event loop. For a stream of 100 MiB that is a third of the
client's CPU (`benchmarks/bench_exec.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpcore
from anyio.abc import ByteStream
from anyio.streams.tls import TLSStream


class LargeReadStream(ByteStream):
    """The stream that it wraps, which is asked for at least `least` bytes at a time."""

    def __init__(self, inner: ByteStream, least: int) -> None:
        self._inner = inner
        self._least = least

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """See anyio. A caller that can take less must not be given this stream."""
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
    """Let what lies below the TLS of this stream be asked for at least `least` bytes at a time.

    httpcore has no public name for what its own streams wrap (one for the upgrade, one for anyio's). Where it is kept
    elsewhere nothing is changed, and reading is slower: tests/contract/test_exec_sockets.py would say so.
    """
    tls: object = stream
    while isinstance(tls, httpcore.AsyncNetworkStream):
        tls = getattr(tls, "_stream", None)
    below = tls.transport_stream if isinstance(tls, TLSStream) else None
    if isinstance(tls, TLSStream) and isinstance(below, ByteStream):
        tls.transport_stream = LargeReadStream(below, least)
