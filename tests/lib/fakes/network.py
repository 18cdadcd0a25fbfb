"""A network connection after its 101, with scripted answers of the server."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

import anyio
import httpcore

from tests.lib.fakes.clock import FakeClock


def server_frame(data: bytes, *, opcode: int = 2, fin: bool = True) -> bytes:
    """Returns a frame as a server sends it, unmasked (RFC 6455 section 5.2)."""
    head = bytes([(0x80 if fin else 0) | opcode])
    if len(data) < 126:
        return head + bytes([len(data)]) + data
    if len(data) < 65_536:
        return head + b"\x7e" + struct.pack("!H", len(data)) + data
    return head + b"\x7f" + struct.pack("!Q", len(data)) + data


def client_frames(wire: bytes) -> list[tuple[int, bool, bytes]]:
    """Returns (opcode, fin, payload) of each frame that a client sent. Fails for an unmasked or incomplete one."""
    frames = []
    while wire:
        opcode, fin, masked, length = wire[0] & 15, wire[0] >= 128, wire[1] >= 128, wire[1] & 127
        assert masked, "a client masks every frame"
        at = 2
        if length == 126:
            length, at = struct.unpack("!H", wire[2:4])[0], 4
        elif length == 127:
            length, at = struct.unpack("!Q", wire[2:10])[0], 10
        mask, body = wire[at : at + 4], wire[at + 4 : at + 4 + length]
        assert len(body) == length, "a frame is torn"
        key = (mask * (length // 4 + 1))[:length]
        payload = (int.from_bytes(body, "big") ^ int.from_bytes(key, "big")).to_bytes(length, "big")
        frames.append((opcode, fin, payload))
        wire = wire[at + 4 + length :]
    return frames


class FakeNetworkStream(httpcore.AsyncNetworkStream):
    """Returns `pieces` one by one and raises an exception among them; then reads time out.

    `written`: what the client sent. With `block_writes` a write never returns; with `write_error` it raises.
    """

    def __init__(
        self,
        pieces: Iterable[bytes | Exception],
        *,
        clock: FakeClock | None = None,
        block_writes: bool = False,
        write_error: Exception | None = None,
    ) -> None:
        self._pieces = list(pieces)
        self._clock = clock
        self._write_error = write_error
        self.block_writes = block_writes
        self.written = b""
        self.writes = 0
        self.closed = False
        self.reads: list[float | None] = []

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        await anyio.lowlevel.checkpoint()
        self.reads.append(timeout)
        if not self._pieces:
            if self._clock is None:
                await anyio.sleep_forever()
            assert self._clock is not None
            self._clock.move(timeout or 0.0)
            raise httpcore.ReadTimeout
        piece = self._pieces[0]
        if isinstance(piece, Exception):
            del self._pieces[0]
            raise piece
        self._pieces[0] = piece[max_bytes:]
        if not self._pieces[0]:
            del self._pieces[0]
        return piece[:max_bytes]

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002 - the interface
        await anyio.lowlevel.checkpoint()
        self.writes += 1
        if self.block_writes:
            await anyio.sleep_forever()
        if self._write_error is not None:
            raise self._write_error
        self.written += buffer

    async def aclose(self) -> None:
        self.closed = True

    def get_extra_info(self, info: str) -> Any:  # noqa: ARG002 - the interface
        return None
