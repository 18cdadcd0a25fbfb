"""The WebSocket subprotocols of exec: how a message names its channel, and what a status is.

See docs/design/exec-protocol.md#subprotocols.

The older ones are the container runtime's: `v4` and `base64` in every combination, and none at all.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from senro.devcluster.apiserver.websocket import BINARY, TEXT, BrokenFrameError, frame, frame_head

if TYPE_CHECKING:
    from senro.devcluster.objects import Object

STATUS = 3
_CHUNK = 32_768
"""Bytes of output in one message at most, as a real server sends them
(docs/design/measurements.md#message-sizes)."""


@dataclass(frozen=True, slots=True)
class Subprotocol:
    """One of them. Text ones write the channel as a digit and what follows in base64."""

    name: str
    half_close: bool = False
    """Whether the client can close a stream, with `[255, channel]`."""
    documents: bool = True
    """Whether a status is a document; else it is nothing on success and plain text on failure."""
    text: bool = False

    def first(self, channel: int) -> bytes:
        """The frame of the empty message that every exec begins with."""
        return self._frame(channel, b"")

    def messages(self, channel: int, data: bytes) -> bytes:
        """Output as frames of at most 32 KiB, put together with one copy: one encryption, one system call for all."""
        view = memoryview(data)
        if self.text:
            return b"".join(self._frame(channel, view[at : at + _CHUNK]) for at in range(0, len(data), _CHUNK))
        pieces: list[bytes | memoryview] = []
        for at in range(0, len(data), _CHUNK):
            piece = view[at : at + _CHUNK]
            pieces += (frame_head(BINARY, len(piece) + 1), bytes((channel,)), piece)
        return b"".join(pieces)

    def status(self, status: Object) -> bytes:
        """The frame of a status, or none where this subprotocol has no word for it."""
        if self.documents:
            return self._frame(STATUS, msgspec.json.encode(status))
        return b"" if status["status"] == "Success" else self._frame(STATUS, str(status["message"]).encode())

    def parse(self, payload: bytes) -> tuple[int, memoryview]:
        """The channel and the data of a client's message; `BrokenFrameError` for text that is not base64."""
        if not self.text:
            return payload[0], memoryview(payload)[1:]
        try:
            return payload[0] - ord("0"), memoryview(base64.b64decode(payload[1:], validate=True))
        except (binascii.Error, ValueError):
            raise BrokenFrameError(0) from None

    def _frame(self, channel: int, data: bytes | memoryview) -> bytes:
        if self.text:
            return frame(TEXT, str(channel).encode() + base64.b64encode(data))
        return frame(BINARY, bytes((channel,)) + data)


V5 = Subprotocol("v5.channel.k8s.io", half_close=True)
UNNAMED = Subprotocol("", documents=False)
"""What is spoken with a client that offers nothing."""
_SERVED = {
    served.name: served
    for served in (
        V5,
        Subprotocol("v4.channel.k8s.io"),
        Subprotocol("v4.base64.channel.k8s.io", text=True),
        Subprotocol("channel.k8s.io", documents=False),
        Subprotocol("base64.channel.k8s.io", documents=False, text=True),
    )
}


def choose(offered: list[str]) -> Subprotocol | None:
    """The first that the client offers and the server knows; None where it knows none of them."""
    if not offered:
        return UNNAMED
    return next((_SERVED[name] for name in offered if name in _SERVED), None)
