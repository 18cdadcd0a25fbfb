"""HTTP/2 connections: h2 speaks, this module moves the bytes and keeps every stream's task."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio
import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

from senro.devcluster.apiserver.http import BODY_LIMIT, AbortedError, Response, Upgrade, request_from, text_response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio.abc import TaskGroup
    from anyio.streams.tls import TLSStream

    from senro.devcluster.apiserver.http import Answer, Request

_READ = 65_536
_STREAMS = 250
"""Streams at once on one connection, as Go's server allows."""

_CONNECTION_HEADERS = frozenset({"connection", "transfer-encoding", "upgrade", "keep-alive"})
"""RFC 9113 section 8.2.2: HTTP/1.1's own, never on HTTP/2."""


@dataclass(slots=True)
class _Incoming:
    headers: list[tuple[str, str]]
    body: bytearray = field(default_factory=bytearray)
    oversized: bool = False
    started: bool = False
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)


class Http2Connection:
    """One connection and its streams."""

    def __init__(self, stream: TLSStream, handle: Callable[[Request], Awaitable[Answer]]) -> None:
        self._stream = stream
        self._handle = handle
        config = h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        self._connection = h2.connection.H2Connection(config)
        self._incoming: dict[int, _Incoming] = {}
        self._sending = anyio.Lock()
        self._window_changed = anyio.Event()

    async def run(self) -> None:
        """Serve until the client goes away or a fault drops the connection."""
        self._connection.initiate_connection()
        self._connection.update_settings({h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: _STREAMS})
        await self._flush()
        async with anyio.create_task_group() as tasks:
            # The client is gone, and with it everybody who waits for an answer.
            with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                await self._read(tasks)
            tasks.cancel_scope.cancel()

    async def _read(self, tasks: TaskGroup) -> None:
        while True:
            data = await self._stream.receive(_READ)
            try:
                events = self._connection.receive_data(data)
            except h2.exceptions.ProtocolError:
                await self._flush()
                return
            for event in events:
                if isinstance(event, h2.events.ConnectionTerminated):
                    return
                self._take(event, tasks)
            await self._flush()

    def _take(self, event: h2.events.Event, tasks: TaskGroup) -> None:
        if isinstance(event, h2.events.RequestReceived):
            headers = [(_text(name), _text(value)) for name, value in event.headers or ()]
            self._incoming[event.stream_id] = _Incoming(headers)
        elif isinstance(event, h2.events.DataReceived):
            self._connection.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id)
            incoming = self._incoming.get(event.stream_id)
            if incoming is not None and not incoming.oversized:
                incoming.body += event.data or b""
                if len(incoming.body) > BODY_LIMIT:
                    incoming.oversized = True
                    incoming.body.clear()
                    self._start(event.stream_id, tasks)
        elif isinstance(event, h2.events.StreamEnded):
            self._start(event.stream_id, tasks)
        elif isinstance(event, h2.events.StreamReset):
            incoming = self._incoming.pop(event.stream_id, None)
            if incoming is not None:
                incoming.scope.cancel()
        elif isinstance(event, h2.events.WindowUpdated | h2.events.RemoteSettingsChanged):
            self._notify()

    def _start(self, stream_id: int, tasks: TaskGroup) -> None:
        incoming = self._incoming.get(stream_id)
        if incoming is not None and not incoming.started:
            incoming.started = True
            tasks.start_soon(self._serve, stream_id, incoming)

    async def _serve(self, stream_id: int, incoming: _Incoming) -> None:
        pseudo = dict(incoming.headers)
        request = request_from(
            pseudo.get(":method", ""),
            pseudo.get(":path", "/"),
            [pair for pair in incoming.headers if not pair[0].startswith(":")],
            bytes(incoming.body),
            "HTTP/2",
            oversized=incoming.oversized,
        )
        try:
            with incoming.scope:
                answer = await self._handle(request)
                if isinstance(answer, Upgrade):
                    answer = text_response(400, "not websocket protocol")
                if answer.drop:
                    await anyio.aclose_forcefully(self._stream)
                    return
                await self._respond(stream_id, answer)
        except (h2.exceptions.ProtocolError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # the stream or the connection ended while the answer was on its way
        finally:
            self._incoming.pop(stream_id, None)

    async def _respond(self, stream_id: int, answer: Response) -> None:
        headers = [(":status", str(answer.status))]
        headers += [(name, value) for name, value in answer.headers if name not in _CONNECTION_HEADERS]
        empty = answer.body == b""
        self._connection.send_headers(stream_id, headers, end_stream=empty)
        if empty:
            await self._flush()
            return
        if isinstance(answer.body, bytes):
            await self._send(stream_id, answer.body)
        else:
            await self._flush()
            try:
                async for piece in answer.body:
                    await self._send(stream_id, piece)
            except AbortedError:
                self._connection.reset_stream(stream_id, h2.errors.ErrorCodes.INTERNAL_ERROR)
                await self._flush()
                return
        self._connection.end_stream(stream_id)
        await self._flush()

    async def _send(self, stream_id: int, data: bytes) -> None:
        left = memoryview(data)
        while left:
            changed = self._window_changed
            window = self._connection.local_flow_control_window(stream_id)
            if window <= 0:
                await changed.wait()
                continue
            size = min(window, self._connection.max_outbound_frame_size, len(left))
            self._connection.send_data(stream_id, bytes(left[:size]))
            left = left[size:]
            await self._flush()

    async def _flush(self) -> None:
        async with self._sending:
            data = self._connection.data_to_send()
            if data:
                await self._stream.send(data)

    def _notify(self) -> None:
        happened, self._window_changed = self._window_changed, anyio.Event()
        happened.set()


async def serve_http2(stream: TLSStream, handle: Callable[[Request], Awaitable[Answer]]) -> None:
    """Answer requests, many at a time, until the client closes."""
    await Http2Connection(stream, handle).run()


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
