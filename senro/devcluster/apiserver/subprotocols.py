"""The two WebSocket subprotocols of exec that senro and kubectl use (docs/design/exec-protocol.md#subprotocols)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from senro.devcluster.apiserver.websocket import BINARY, frame, frame_head

if TYPE_CHECKING:
    from senro.devcluster.objects import Object

STATUS = 3
"""The channel of the status that ends an exec."""

_CHUNK = 32_768
"""Bytes of output in one message at most, as a real server sends them (docs/design/measurements.md#message-sizes)."""


@dataclass(frozen=True, slots=True)
class Subprotocol:
    """A subprotocol: its name, and whether the client can close a stream with the message `[255, channel]`."""

    name: str
    half_close: bool = False

    def first(self, channel: int) -> bytes:
        """The frame of the empty message that every exec begins with."""
        return _frame(channel, b"")

    def messages(self, channel: int, data: bytes) -> bytes:
        """Output as frames of at most 32 KiB, put together with one copy: one encryption, one system call for all."""
        view = memoryview(data)
        pieces: list[bytes | memoryview] = []
        for at in range(0, len(data), _CHUNK):
            piece = view[at : at + _CHUNK]
            pieces += (frame_head(BINARY, len(piece) + 1), bytes((channel,)), piece)
        return b"".join(pieces)

    def status(self, status: Object) -> bytes:
        """The frame of a status."""
        return _frame(STATUS, msgspec.json.encode(status))

    def parse(self, payload: bytes) -> tuple[int, memoryview]:
        """The channel and the data of a client's message, which is not empty."""
        return payload[0], memoryview(payload)[1:]


V5 = Subprotocol("v5.channel.k8s.io", half_close=True)
_SERVED = {served.name: served for served in (V5, Subprotocol("v4.channel.k8s.io"))}


def choose(offered: list[str]) -> Subprotocol | None:
    """The first that the client offers and the server knows; None if it knows none of them."""
    return next((_SERVED[name] for name in offered if name in _SERVED), None)


def _frame(channel: int, data: bytes) -> bytes:
    return frame(BINARY, bytes((channel,)) + data)
