"""The subprotocols `v4.channel.k8s.io` and `v5.channel.k8s.io` of pods/exec, without any I/O.

A WebSocket message is a channel byte and a payload. The server sends 1 (stdout), 2 (stderr) and at last 3, a JSON
status that says how the command ended. The client sends 0 (stdin) and, on v5 alone, `[255, 0]`, the end of stdin
(docs/design/exec-protocol.md#messages).

`ExecProtocol` turns messages into events; frames, sockets and clocks belong to the adapter.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from senro.domain.errors import ProtocolError, StreamBroken
from senro.domain.kube.status import Status, bounded

V4 = "v4.channel.k8s.io"
"""Requested without stdin: on v5 a slow reader silently loses the end of stdout
(docs/design/measurements.md#slow-readers-lose-output-on-v5)."""

V5 = "v5.channel.k8s.io"
"""Requested with stdin: only v5 can end it."""

STDIN, STDOUT, STDERR, STATUS, CLOSE = 0, 1, 2, 3, 255
"""The channel bytes. 4 resizes a terminal, which senro does not use."""

STDIN_LIMIT = 33_554_432 - 1
"""Bytes of stdin in one message: the server accepts frames of 32 MiB, with the channel byte
(docs/design/exec-protocol.md#message-size)."""

EXIT_CODES = range(1, 256)
"""The exit codes of a failure: eight bits, and not 0."""


@dataclass(frozen=True, slots=True)
class Stdout:
    """Bytes of the command's stdout, never empty."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Stderr:
    """Bytes of the command's stderr, never empty."""

    data: bytes


@dataclass(frozen=True, slots=True)
class ExitCode:
    """The command ended with `code`, 0 to 255; 128+n if signal n killed it."""

    code: int


@dataclass(frozen=True, slots=True)
class ExecFailure:
    """The server could not run the command, or lost it.

    `reason`: mostly InternalError. A missing program is reported like this by one runtime, as an exit code by another.
    `message`: what the server says.
    """

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class StatusLost:
    """The server closed the connection in order and sent no status: how the command ended is unknown.

    `close_code`: the WebSocket's close code, 1005 for a close frame without one.
    """

    close_code: int


ExecResult = ExitCode | ExecFailure | StatusLost
"""How an exec ended."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The last event of an exec."""

    result: ExecResult


ExecEvent = Stdout | Stderr | Ended
"""The events of an exec, in order within a channel."""


class IllegalTransition(RuntimeError):
    """The caller sent to a stdin that was not requested or is closed, or after the end: a bug of the caller."""


class ExecProtocol:
    """One exec, from the 101 to its end.

    `operation`: names the exec in errors.
    `subprotocol`: the one that the server chose.
    `stdin`: whether stdin was requested, which v5 alone allows, since v4 cannot end it.
    `stdin_open`: whether stdin may still be sent.
    `ended`: whether the last event has come.
    """

    def __init__(self, operation: str, *, subprotocol: str, stdin: bool) -> None:
        if subprotocol not in (V4, V5):
            raise ProtocolError(operation, rule=f"the subprotocol {V4} or {V5}", got=repr(bounded(subprotocol, 100)))
        if stdin and subprotocol != V5:
            raise ValueError("stdin needs v5.channel.k8s.io: v4 cannot end it")
        self._operation = operation
        self._may_close = stdin
        self.stdin_open = stdin
        self.ended = False
        self._sent = 0
        self._received = 0

    def __repr__(self) -> str:
        return f"<ExecProtocol {'ended' if self.ended else 'running'}, stdin {'open' if self.stdin_open else 'closed'}>"

    def send(self, data: bytes | memoryview) -> bytes:
        """The message that sends `data`, 1 to STDIN_LIMIT bytes. It must be one frame, since the server ignores FIN.

        Raises IllegalTransition if stdin was not requested or is closed, or the session has ended.
        """
        if not 0 < len(data) <= STDIN_LIMIT:
            raise ValueError(f"a message to stdin has 1 to {STDIN_LIMIT} bytes, not {len(data)}")
        if not self.stdin_open:
            raise IllegalTransition("stdin is closed")
        self._sent += len(data)
        return b"\x00" + data

    def close_stdin(self) -> bytes:
        """The message that ends stdin; b"" if it has ended before, so that nothing is to be sent."""
        if self.ended or not self._may_close:
            raise IllegalTransition("stdin was not requested, or the session has ended")
        was_open, self.stdin_open = self.stdin_open, False
        return bytes((CLOSE, STDIN)) if was_open else b""

    def receive_message(self, message: bytes) -> ExecEvent | None:
        """The event of one binary message; None if it has none.

        These are a message without a payload, which begins every session; an unknown channel, which other clients
        ignore as well; and anything after the end. Raises ProtocolError for a malformed status.
        """
        if self.ended or len(message) < 2:
            return None
        channel, payload = message[0], message[1:]
        if channel == STATUS:
            return self._end(decode_status(self._operation, payload))
        if channel not in (STDOUT, STDERR):
            return None
        self._received += len(payload)
        return Stdout(payload) if channel == STDOUT else Stderr(payload)

    def receive_text(self, text: str) -> None:
        """Raises ProtocolError, since neither subprotocol has text messages, unless the session has ended."""
        if not self.ended:
            raise ProtocolError(self._operation, rule="binary messages", got=f"a text message: {bounded(text, 200)!r}")

    def receive_close(self, close_code: int) -> Ended | None:
        """The event of the server's close frame; None if the status came before it."""
        if self.ended:
            return None
        return self._end(StatusLost(close_code))

    def broken(self, cause: str) -> StreamBroken:
        """The error for a connection that failed, or ended without a close frame."""
        self._end(StatusLost(1006))
        return StreamBroken(self._operation, cause=cause, sent=self._sent, received=self._received)

    def _end(self, result: ExecResult) -> Ended:
        self.ended, self.stdin_open = True, False
        return Ended(result)


def decode_status(operation: str, payload: bytes) -> ExecResult:
    """The result in a status document (docs/design/exec-protocol.md#status-document). Raises ProtocolError."""
    try:
        status = msgspec.json.decode(payload, type=Status)
    except (msgspec.DecodeError, UnicodeDecodeError):
        got = bounded(payload.decode("utf-8", "replace"), 200)
        raise ProtocolError(operation, rule="a status document on channel 3", got=repr(got)) from None
    if status.status == "Success":
        return ExitCode(0)
    if status.status != "Failure":
        raise ProtocolError(operation, rule="a status of Success or Failure", got=repr(status.status))
    words = bounded(status.message or "")
    if status.reason != "NonZeroExitCode":
        return ExecFailure(reason=status.reason or "", message=words)
    said = next((cause.message or "" for cause in status.causes if cause.reason == "ExitCode"), "")
    if said.isascii() and said.isdecimal() and len(said) <= 3 and int(said) in EXIT_CODES:
        return ExitCode(int(said))
    return ExecFailure(
        reason="InternalError", message=f"{words} (an exit code of {bounded(said, 40)!r} is not from 1 to 255)"
    )
