"""One exec that runs: a WebSocket that is read, written and kept alive at the same time."""

from __future__ import annotations

import ssl
from collections import deque
from typing import NoReturn

import anyio
import httpcore

from senro.adapters.apiserver.failures import TRANSPORT_ERRORS, describe_error
from senro.adapters.apiserver.large_reads import enable_large_reads
from senro.adapters.apiserver.waiting import wait_at_most
from senro.adapters.apiserver.websocket import CloseFrame, Framing, Message, Pong, WebSocketEvent
from senro.domain.errors import ProtocolError, StreamBroken
from senro.domain.kube.exec_protocol import ExecEvent, ExecProtocol
from senro.ports.clock import Clock

READ_BYTES = 256 * 1024
"""Read at once, at most; the server's frames are at most 32 KiB, so several come together."""

MESSAGE_BYTES = 128 * 1024
"""The largest message to stdin: larger ones are slower, and the server fails at 32 MiB
(docs/design/measurements.md#message-sizes)."""

WRITE_BYTES = 4 * MESSAGE_BYTES
"""Bytes of stdin that are written together: a write costs a turn of the event loop, whatever its size. A piece of an
archive is one; half of it takes a tenth more of the client's CPU."""

PING_SECONDS = 30.0
"""Between pings, which keep load balancers from cutting a quiet exec. Pongs are not waited for: while the command
does not read its stdin the server answers none (docs/design/exec-protocol.md#back-pressure-stops-the-pongs)."""

GOODBYE_SECONDS = 1.0
"""For the close frame when the context is left; the connection is closed whatever becomes of it."""


class WebSocketExec:
    """`senro.ports.cluster.ExecSession`.

    One task receives, one sends, and a third writes what neither asked for: pings, pongs, the echo of a close frame.
    The receiver must never wait for a writer: both ends may be full, and then reading is what sets them free.
    """

    def __init__(
        self,
        operation: str,
        stream: httpcore.AsyncNetworkStream,
        protocol: ExecProtocol,
        *,
        idle_seconds: float,
        clock: Clock,
    ) -> None:
        self._operation = operation
        self._stream = stream
        enable_large_reads(stream, READ_BYTES)
        tls = stream.get_extra_info("ssl_object")
        self._tls = tls if isinstance(tls, ssl.SSLObject) else None
        self._room: memoryview | None = None
        self._broken: ssl.SSLError | None = None
        self._protocol = protocol
        self._framing = Framing(operation)
        self._idle = idle_seconds
        self._clock = clock
        self._moved = clock.monotonic()
        self._writing = anyio.Lock()
        self._write_scope: anyio.CancelScope | None = None
        self._control = b""
        self._control_waits = anyio.Event()
        self._events: deque[ExecEvent] = deque()
        self._pongs: dict[bytes, anyio.Event] = {}
        self._answered: set[bytes] = set()
        self._error: ProtocolError | None = None
        self._dead: str | None = None

    async def send(self, data: bytes | memoryview) -> None:
        """Send to stdin, in messages of at most MESSAGE_BYTES."""
        for start in range(0, len(data), WRITE_BYTES):
            end = min(start + WRITE_BYTES, len(data))
            async with self._writing:
                self._refuse_if_over()
                pieces = (data[at : min(at + MESSAGE_BYTES, end)] for at in range(start, end, MESSAGE_BYTES))
                await self._write(b"".join([self._framing.message(self._protocol.send(piece)) for piece in pieces]))
                self._touch()

    async def close_stdin(self) -> None:
        """End stdin; harmless where it was ended before."""
        async with self._writing:
            self._refuse_if_over()
            message = self._protocol.close_stdin()
            if message:
                await self._write(self._framing.message(message))
                self._touch()

    async def wait_until_received(self) -> None:
        """Return when the server has answered a ping that was sent after everything else."""
        payload = b"%d" % len(self._pongs)
        answered = self._pongs[payload] = anyio.Event()
        async with self._writing:
            self._refuse_if_over()
            await self._write(self._framing.ping(payload))
        await answered.wait()
        if payload not in self._answered:
            self._refuse_if_over()

    async def receive(self) -> ExecEvent:
        """The next event."""
        while not self._events:
            if self._error is not None:
                raise self._error
            self._refuse_if_over()
            data = await self._read()
            try:
                for event in self._framing.receive(data):
                    self._take(event)
                if not self._protocol.ended:
                    self._error = self._framing.error
            except ProtocolError as error:
                self._error = error
            if self._error is not None:
                self._dead = "the server broke the protocol"
                self._wake()
            self._say(self._framing.to_send())
            if self._protocol.ended:
                self._wake()
                if self._write_scope is not None:
                    self._write_scope.cancel()  # nobody reads stdin any more
        return self._events.popleft()

    async def run_keepalive(self) -> None:
        """Write pings and answers until cancelled. Never raises: a failure shows where it matters, in receive."""
        while True:
            asked_to = await wait_at_most(self._control_waits, PING_SECONDS, self._clock)
            async with self._writing:
                if self._dead is not None:
                    return
                control, self._control = self._control, b""
                self._control_waits = anyio.Event()
                if not asked_to:
                    control += self._framing.ping()
                try:
                    await self._write(control)
                except StreamBroken:
                    return

    async def send_close_frame(self) -> None:
        """A close frame, if the connection can still take one: the server then drops the command's stdin at once."""
        if self._dead is not None or self._writing.locked():
            return
        with anyio.move_on_after(GOODBYE_SECONDS, shield=True):
            try:
                await self._write(self._control + self._framing.close())
            except StreamBroken:
                return

    def _take(self, event: WebSocketEvent) -> None:
        found: ExecEvent | None
        if isinstance(event, Message):
            # A pong is no sign of life of the command, so only messages end a silence.
            self._touch()
            found = self._protocol.receive_message(event.data)
        elif isinstance(event, Pong):
            if event.payload in self._pongs:
                self._answered.add(event.payload)
                self._pongs[event.payload].set()
            return
        elif isinstance(event, CloseFrame):
            found = self._protocol.receive_close(event.code)
        else:
            self._protocol.receive_text(event.text)
        if found is not None:
            self._events.append(found)

    async def _read(self) -> bytes | memoryview:
        while True:
            if self._broken is not None:
                self._fail(describe_error(self._broken), self._broken)
            left = self._moved + self._idle - self._clock.monotonic()
            if left <= 0:
                self._fail(f"nothing moved for {self._idle:g} seconds")
            try:
                data = await self._stream.read(READ_BYTES, timeout=left)
            except httpcore.ReadTimeout:
                continue  # a writer may have moved something meanwhile
            except TRANSPORT_ERRORS as error:
                self._fail(describe_error(error), error)
            if not data:
                self._fail("the connection ended without a close frame and without a status")
            return self._with_what_came_too(data)

    def _with_what_came_too(self, data: bytes) -> bytes | memoryview:
        """`data`, and what was received with it and waits to be decrypted. Use it before the next read.

        A read gives one TLS record, 16 KiB at most, and costs several times what decrypting it does; four records and
        more are received together. An `SSLObject` reads from memory alone, so asking it for more never waits.
        """
        if self._tls is None:
            return data
        if self._room is None:
            self._room = memoryview(bytearray(2 * READ_BYTES))
        room, size = self._room, len(data)
        room[:size] = data
        try:
            while size < len(room) and (count := self._tls.read(READ_BYTES, room[size:])):
                size += count  # type: ignore[operator] # the stubs know of no buffer, with which it is a count
        except (ssl.SSLWantReadError, ssl.SSLEOFError):
            pass  # that was all
        except ssl.SSLError as error:
            self._broken = error  # the next read would not say it again
        return room[:size]

    async def _write(self, data: bytes) -> None:
        """Write all of `data`, or the stream is dead: part of a frame may be on the wire. Call with the lock held."""
        if not data:
            return
        whole = False
        try:
            with anyio.CancelScope(deadline=anyio.current_time() + self._idle) as scope:
                self._write_scope = scope
                await self._stream.write(data)
                whole = True
        except TRANSPORT_ERRORS as error:
            self._fail(describe_error(error), error)
        finally:
            self._write_scope = None
            if not whole and self._dead is None:
                self._dead = "a write was given up in the middle"
        if not whole:
            self._fail(f"nothing could be written for {self._idle:g} seconds")

    def _touch(self) -> None:
        """Something moved: the silence begins again, for whoever waits in the other direction too."""
        self._moved = self._clock.monotonic()
        if self._write_scope is not None:
            self._write_scope.deadline = anyio.current_time() + self._idle

    def _say(self, control: bytes) -> None:
        if control:
            self._control += control
            self._control_waits.set()

    def _refuse_if_over(self) -> None:
        if self._dead is not None:
            raise self._protocol.broken(self._dead)
        if self._protocol.ended:
            raise self._protocol.broken("the exec has ended")

    def _fail(self, cause: str, error: Exception | None = None) -> NoReturn:
        self._dead = cause
        self._wake()
        raise self._protocol.broken(cause) from error

    def _wake(self) -> None:
        """Let nobody wait for a pong that cannot come."""
        for answered in self._pongs.values():
            answered.set()
