"""One running exec: reads and writes its WebSocket, and sends pings."""

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
"""The most bytes of one read. The server's frames have at most 32 KiB, so one read may return several."""

MESSAGE_BYTES = 128 * 1024
"""The largest message of stdin. Larger ones are slower, and the server refuses 32 MiB
(docs/design/measurements.md#message-sizes)."""

WRITE_BYTES = 4 * MESSAGE_BYTES
"""How many bytes of stdin one write has. It is a whole piece of an archive: each write costs a turn of the event loop,
and half of this size takes a tenth more of the client's CPU."""

PING_SECONDS = 10.0
"""The time between two pings, which keep load balancers from cutting a quiet exec. senro does not wait for their pongs:
a server whose command does not read sends none (docs/design/exec-protocol.md#back-pressure-stops-the-pongs)."""

CLOSE_FRAME_SECONDS = 1.0
"""How long sending the close frame may take. The connection is closed in any case."""


class WebSocketExec:
    """Implements `senro.ports.cluster.ExecSession`.

    One task receives and one sends. A third runs `run_keepalive`, which writes pings, pongs and the answer to a close
    frame. The receiver never waits for a writer: if both ends have full buffers, only reading frees them
    (docs/design/exec-protocol.md#read-while-writing).
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
        self._buffer: memoryview | None = None
        self._tls_error: ssl.SSLError | None = None
        self._protocol = protocol
        self._framing = Framing(operation)
        self._idle = idle_seconds
        self._clock = clock
        self._active_at = clock.monotonic()
        self._writing = anyio.Lock()
        self._write_scope: anyio.CancelScope | None = None
        self._control = b""
        self._control_queued = anyio.Event()
        self._events: deque[ExecEvent] = deque()
        self._pongs: dict[bytes, anyio.Event] = {}
        self._confirmed: set[bytes] = set()
        self._error: ProtocolError | None = None
        self._failure: str | None = None

    async def send(self, data: bytes | memoryview) -> None:
        """See the port. Sends messages of at most `MESSAGE_BYTES`."""
        for start in range(0, len(data), WRITE_BYTES):
            end = min(start + WRITE_BYTES, len(data))
            async with self._writing:
                self._check_open()
                pieces = (data[at : min(at + MESSAGE_BYTES, end)] for at in range(start, end, MESSAGE_BYTES))
                await self._write(b"".join([self._framing.message(self._protocol.send(piece)) for piece in pieces]))
                self._note_activity()

    async def close_stdin(self) -> None:
        """See the port. A second call does nothing."""
        async with self._writing:
            self._check_open()
            message = self._protocol.close_stdin()
            if message:
                await self._write(self._framing.message(message))
                self._note_activity()

    async def wait_until_received(self) -> None:
        """See the port. The server confirms by answering a ping."""
        payload = b"%d" % len(self._pongs)
        answered = self._pongs[payload] = anyio.Event()
        async with self._writing:
            self._check_open()
            await self._write(self._framing.ping(payload))
        await answered.wait()
        if payload not in self._confirmed:
            self._check_open()

    async def receive(self) -> ExecEvent:
        """See the port."""
        while not self._events:
            if self._error is not None:
                raise self._error
            self._check_open()
            data = await self._read()
            try:
                for event in self._framing.receive(data):
                    self._handle(event)
                if not self._protocol.ended:
                    self._error = self._framing.error
            except ProtocolError as error:
                self._error = error
            if self._error is not None:
                self._failure = "the server violated the protocol"
                self._wake()
            self._queue_control(self._framing.to_send())
            if self._protocol.ended:
                self._wake()
                if self._write_scope is not None:
                    self._write_scope.cancel()  # the command has ended and does not read stdin any more
        return self._events.popleft()

    async def run_keepalive(self) -> None:
        """Write pings, pongs and the answer to a close frame until cancelled. Raises nothing: `receive` does."""
        while True:
            requested = await wait_at_most(self._control_queued, PING_SECONDS, self._clock)
            async with self._writing:
                if self._failure is not None:
                    return
                control, self._control = self._control, b""
                self._control_queued = anyio.Event()
                if not requested:
                    control += self._framing.ping()
                try:
                    await self._write(control)
                except StreamBroken:
                    return

    async def send_close_frame(self) -> None:
        """Send a close frame, if the connection is usable: the server then ends the command's stdin at once."""
        if self._failure is not None or self._writing.locked():
            return
        with anyio.move_on_after(CLOSE_FRAME_SECONDS, shield=True):
            try:
                await self._write(self._control + self._framing.close())
            except StreamBroken:
                return

    def _handle(self, event: WebSocketEvent) -> None:
        found: ExecEvent | None
        if isinstance(event, Message):
            # A pong comes from the server, not from the command, so it does not restart the idle time.
            self._note_activity()
            found = self._protocol.receive_message(event.data)
        elif isinstance(event, Pong):
            if event.payload in self._pongs:
                self._confirmed.add(event.payload)
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
            if self._tls_error is not None:
                self._fail(describe_error(self._tls_error), self._tls_error)
            left = self._active_at + self._idle - self._clock.monotonic()
            if left <= 0:
                self._fail(f"no data for {self._idle:g} seconds")
            try:
                data = await self._stream.read(READ_BYTES, timeout=left)
            except httpcore.ReadTimeout:
                continue  # a write may have restarted the idle time meanwhile
            except TRANSPORT_ERRORS as error:
                self._fail(describe_error(error), error)
            if not data:
                self._fail("the connection ended without a close frame and without a status")
            return self._with_decrypted_records(data)

    def _with_decrypted_records(self, data: bytes) -> bytes | memoryview:
        """Returns `data` and the TLS records that were received with it. The next read reuses the memory.

        A read returns one TLS record of at most 16 KiB, and costs several times as much CPU as decrypting it; four and
        more records are received together. An `SSLObject` reads only from memory, so reading more of it never blocks.
        """
        if self._tls is None:
            return data
        if self._buffer is None:
            self._buffer = memoryview(bytearray(2 * READ_BYTES))
        buffer, size = self._buffer, len(data)
        buffer[:size] = data
        try:
            while size < len(buffer) and (count := self._tls.read(READ_BYTES, buffer[size:])):
                size += count  # type: ignore[operator] # the stubs lack the overload with a buffer, which returns a count
        except (ssl.SSLWantReadError, ssl.SSLEOFError):
            pass  # no more complete records
        except ssl.SSLError as error:
            self._tls_error = error  # a second read would not raise it
        return buffer[:size]

    async def _write(self, data: bytes) -> None:
        """Write `data`; the caller has the lock. A failure makes the stream unusable: part of a frame may be sent."""
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
            if not whole and self._failure is None:
                self._failure = "a write was not completed"
        if not whole:
            self._fail(f"a write was blocked for {self._idle:g} seconds")

    def _note_activity(self) -> None:
        """Restart the idle time, also that of a write under way."""
        self._active_at = self._clock.monotonic()
        if self._write_scope is not None:
            self._write_scope.deadline = anyio.current_time() + self._idle

    def _queue_control(self, control: bytes) -> None:
        if control:
            self._control += control
            self._control_queued.set()

    def _check_open(self) -> None:
        if self._failure is not None:
            raise self._protocol.broken(self._failure)
        if self._protocol.ended:
            raise self._protocol.broken("the exec has ended")

    def _fail(self, cause: str, error: Exception | None = None) -> NoReturn:
        self._failure = cause
        self._wake()
        raise self._protocol.broken(cause) from error

    def _wake(self) -> None:
        """Wake the tasks that wait for a pong, since none can come any more."""
        for answered in self._pongs.values():
            answered.set()
