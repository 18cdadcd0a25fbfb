"""The client's side of a WebSocket (RFC 6455), without extensions and without any I/O.

The `websockets` package does the framing and the masking; the connection comes from httpx after a 101
(docs/design/exec-protocol.md#taking-over-the-connection-from-httpx).
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass

import httpx
from websockets.frames import Opcode
from websockets.protocol import Protocol, Side, State

from senro.domain.errors import ProtocolError
from senro.domain.kube.status import bounded

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455 section 1.3


def handshake_headers(nonce: bytes, subprotocol: str) -> dict[str, str]:
    """Returns the headers of an upgrade. `nonce` has 16 random bytes, new for each request (RFC 6455 section 4.1).

    There is one subprotocol in one line, since the server reads only the first line.
    """
    return {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Key": base64.b64encode(nonce).decode("ascii"),
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Protocol": subprotocol,
    }


def expected_accept(nonce: bytes) -> str:
    """Returns the Sec-WebSocket-Accept that answers `nonce`."""
    key = base64.b64encode(nonce)
    return base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest()).decode("ascii")


def check_handshake(operation: str, answer: httpx.Response, nonce: bytes, subprotocol: str) -> None:
    """Raise `ProtocolError` if a 101 violates RFC 6455 section 4.1. Nothing may be written to it then."""
    headers, version = answer.headers, answer.http_version
    upgrade, connection = headers.get("Upgrade", ""), headers.get("Connection", "")
    accept, chosen, extensions = (headers.get(f"Sec-WebSocket-{name}") for name in ("Accept", "Protocol", "Extensions"))
    expected_and_got = [
        ("HTTP/1.1 for an upgrade", version, version == "HTTP/1.1"),
        ("Upgrade: websocket", repr(upgrade), upgrade.lower() == "websocket"),
        ("Connection: Upgrade", repr(connection), "upgrade" in connection.lower().replace(" ", "").split(",")),
        ("the Sec-WebSocket-Accept of this key", repr(accept), accept == expected_accept(nonce)),
        (f"the subprotocol {subprotocol}", repr(chosen), chosen == subprotocol),
        ("no WebSocket extension", repr(extensions), extensions is None),
    ]
    for rule, got, kept in expected_and_got:
        if not kept:
            raise ProtocolError(operation, rule=rule, got=bounded(got, 200))


@dataclass(frozen=True, slots=True)
class Message:
    """A binary message."""

    data: bytes


@dataclass(frozen=True, slots=True)
class TextMessage:
    """A text message."""

    text: str


@dataclass(frozen=True, slots=True)
class CloseFrame:
    """The server closed the WebSocket; it sends nothing more. `code` is 1005 if the frame had none."""

    code: int


@dataclass(frozen=True, slots=True)
class Pong:
    """The answer to the ping with this payload. The server has read everything that was sent before that ping."""

    payload: bytes


WebSocketEvent = Message | TextMessage | CloseFrame | Pong
"""What `Framing.receive` returns. `Framing` itself answers pings."""


class Framing:
    """The client's side of an open WebSocket: it turns bytes into events, and messages into bytes.

    `error`: set by received bytes that are not frames; no events follow then.
    """

    def __init__(self, operation: str) -> None:
        self._operation = operation
        # There is no limit, since none is documented for the server's frames
        # (docs/design/exec-protocol.md#message-size). `receive` returns everything, so nothing accumulates here.
        self._protocol = Protocol(Side.CLIENT, max_size=None)
        self._fragments: list[bytes] = []
        self._opcode = Opcode.BINARY
        self.error: ProtocolError | None = None

    def message(self, data: bytes) -> bytes:
        """Returns the bytes of one binary message in one frame."""
        self._protocol.send_binary(data)
        return self.to_send()

    def ping(self, payload: bytes = b"senro") -> bytes:
        """Returns the bytes of a ping, b"" if the WebSocket is closing."""
        if self._protocol.state is not State.OPEN:
            return b""
        self._protocol.send_ping(payload)
        return self.to_send()

    def close(self) -> bytes:
        """Returns the bytes of a close frame with code 1000, b"" if one was sent before."""
        if self._protocol.state is State.OPEN:
            self._protocol.send_close(1000)
        return self.to_send()

    def to_send(self) -> bytes:
        """Returns the bytes of pongs and of the answer to a close frame, which the caller must send."""
        return b"".join(self._protocol.data_to_send())

    def receive(self, data: bytes | memoryview) -> list[WebSocketEvent]:
        """Returns the events that `data` completes. It may begin and end anywhere in a frame, and is copied.

        The caller checks `error` afterwards.
        """
        self._protocol.receive_data(data)  # type: ignore[arg-type] # it is appended to a bytearray, which accepts any buffer
        events: list[WebSocketEvent] = []
        for frame in self._protocol.events_received():
            # These are frames: requests and responses occur only in handshakes.
            event = self._event(frame.opcode, bytes(frame.data), fin=frame.fin)  # type: ignore[union-attr] # as above
            if event is not None:
                events.append(event)
        if self._protocol.parser_exc is not None and self.error is None:
            got = bounded(str(self._protocol.parser_exc), 200)
            self.error = ProtocolError(self._operation, rule="frames by RFC 6455", got=got)
        return events

    def _event(self, opcode: Opcode, data: bytes, *, fin: bool) -> WebSocketEvent | None:
        if opcode is Opcode.CLOSE:
            return CloseFrame(int.from_bytes(data[:2], "big") if len(data) >= 2 else 1005)
        if opcode is Opcode.PONG:
            return Pong(data)
        if opcode is Opcode.PING:
            return None
        if opcode is not Opcode.CONT:
            self._opcode = opcode
        if fin and not self._fragments:
            whole = data
        else:
            # The apiserver does not fragment messages, but a proxy may (RFC 6455 section 5.4).
            self._fragments.append(data)
            if not fin:
                return None
            whole = b"".join(self._fragments)
            self._fragments.clear()
        if self._opcode is Opcode.TEXT:
            return TextMessage(whole.decode("utf-8", "replace"))
        return Message(whole)
