"""The server's side of WebSocket as the exec endpoint speaks it: every frame is a message, FIN is not looked at.

That is what a real server does (docs/design/exec-protocol.md#one-frame-is-one-message), and a general library would
rightly not.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

try:
    from websockets.speedups import apply_mask
except ImportError:  # no compiled module for this platform
    from websockets.utils import apply_mask

if TYPE_CHECKING:
    from senro.devcluster.apiserver.http import Headers

FRAME_LIMIT = 33_554_432
"""Bytes of a client's frame; a larger one ends the connection."""

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
_ACCEPT_SUFFIX = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455 section 1.3


class BrokenFrameError(Exception):
    """The client broke a rule; `code` is what the close frame says, 0 where the connection just ends."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of the client, unmasked."""

    opcode: int
    payload: bytes


class FrameReader:
    """Cuts a client's bytes into frames."""

    def __init__(self, first: bytes = b"") -> None:
        self._buffer = bytearray(first)

    def feed(self, data: bytes) -> None:
        """Take what came off the wire."""
        self._buffer += data

    def next(self) -> Frame | None:
        """The next whole frame, or None until more has come. `BrokenFrameError` for one that may not be."""
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        opcode, length = buffer[0] & 0x0F, buffer[1] & 0x7F
        if not buffer[1] & 0x80:
            raise BrokenFrameError(1002)
        start = 2
        if length == 126:
            if len(buffer) < 4:
                return None
            (length,) = struct.unpack_from("!H", buffer, 2)
            start = 4
        elif length == 127:
            if len(buffer) < 10:
                return None
            (length,) = struct.unpack_from("!Q", buffer, 2)
            start = 10
        if length > FRAME_LIMIT:
            raise BrokenFrameError(0)
        end = start + 4 + length
        if len(buffer) < end:
            return None
        mask = bytes(buffer[start : start + 4])
        with memoryview(buffer) as view:
            payload = apply_mask(view[start + 4 : end], mask)
        del buffer[:end]
        return Frame(opcode, payload)


def frame(opcode: int, payload: bytes) -> bytes:
    """One unfragmented frame of the server."""
    return frame_head(opcode, len(payload)) + payload


def frame_head(opcode: int, size: int) -> bytes:
    """What stands before so many bytes of payload."""
    if size < 126:
        return bytes((0x80 | opcode, size))
    if size < 65_536:
        return struct.pack("!BBH", 0x80 | opcode, 126, size)
    return struct.pack("!BBQ", 0x80 | opcode, 127, size)


def close_frame(code: int) -> bytes:
    """A close frame."""
    return frame(CLOSE, struct.pack("!H", code))


def accept_headers(key: str, protocol: str) -> Headers:
    """The headers of the 101; no protocol where the client offered none."""
    digest = hashlib.sha1(key.encode() + _ACCEPT_SUFFIX).digest()  # noqa: S324 - RFC 6455 wants it
    headers = (
        ("upgrade", "websocket"),
        ("connection", "Upgrade"),
        ("sec-websocket-accept", base64.b64encode(digest).decode()),
    )
    return (*headers, ("sec-websocket-protocol", protocol)) if protocol else headers
