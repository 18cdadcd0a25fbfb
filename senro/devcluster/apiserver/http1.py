"""HTTP/1.1 connections: h11 speaks, this module moves the bytes."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

import anyio
import h11

from senro.devcluster.apiserver.http import BODY_LIMIT, Response, Upgrade, request_from

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio.streams.tls import TLSStream

    from senro.devcluster.apiserver.http import Answer, Request

_READ = 65_536
# A request line and its headers: an exec carries its whole command in the URL
# (docs/design/exec-protocol.md#the-argv-travels-in-the-url).
_HEAD_LIMIT = 1_048_576


async def serve_http1(stream: TLSStream, handle: Callable[[Request], Awaitable[Answer]]) -> None:
    """Answer requests one after another until the client closes, an answer closes, or one is an upgrade."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_LIMIT)
    while True:
        try:
            request = await _next_request(stream, connection)
        except h11.RemoteProtocolError as error:
            await _refuse(stream, connection, error)
            return
        if request is None:
            return
        answer = await handle(request)
        if isinstance(answer, Upgrade):
            head = h11.InformationalResponse(
                status_code=101, headers=list(answer.headers), reason=b"Switching Protocols"
            )
            await stream.send(connection.send(head) or b"")
            await answer.run(stream, connection.trailing_data[0])
            return
        if answer.drop:
            return
        await _respond(stream, connection, answer)
        if answer.close or connection.our_state is h11.MUST_CLOSE or connection.their_state is not h11.DONE:
            return
        connection.start_next_cycle()


async def _next_request(stream: TLSStream, connection: h11.Connection) -> Request | None:
    head: h11.Request | None = None
    body = bytearray()
    oversized = False
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            if connection.they_are_waiting_for_100_continue:
                go_on = h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
                await stream.send(connection.send(go_on) or b"")
            try:
                connection.receive_data(await stream.receive(_READ))
            except anyio.EndOfStream:
                connection.receive_data(b"")
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            if len(body) + len(event.data) > BODY_LIMIT:
                oversized = True
                break
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            break
        else:  # the client has closed, or an upgrade was offered with a body, which nobody does
            return None
    if head is None:
        return None
    return request_from(
        head.method.decode(),
        head.target.decode("latin-1"),
        [(name.decode("latin-1"), value.decode("latin-1")) for name, value in head.headers],
        b"" if oversized else bytes(body),
        "HTTP/1.1",
        oversized=oversized,
    )


async def _respond(stream: TLSStream, connection: h11.Connection, answer: Response) -> None:
    headers = list(answer.headers)
    if answer.close and answer.body == b"" and not any(name == "content-length" for name, _ in headers):
        # The WebSocket server's own refusals: no length, no body, the end of the connection ends them.
        lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}", *(f"{k}: {v}" for k, v in headers)]
        await stream.send("\r\n".join([*lines, "", ""]).encode())
        return
    if answer.close and not any(name == "connection" for name, _ in headers):
        headers.append(("connection", "close"))
    head = connection.send(h11.Response(status_code=answer.status, headers=headers)) or b""
    if isinstance(answer.body, bytes):
        data = connection.send(h11.Data(data=answer.body)) or b""
        end = connection.send(h11.EndOfMessage()) or b""
        await stream.send(head + data + end)
        return
    await stream.send(head)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_cancel_when_closed, stream, tasks.cancel_scope)
        async for piece in answer.body:
            await stream.send(connection.send(h11.Data(data=piece)) or b"")
        await stream.send(connection.send(h11.EndOfMessage()) or b"")
        tasks.cancel_scope.cancel()
    if connection.our_state is not h11.DONE:
        raise anyio.BrokenResourceError


async def _cancel_when_closed(stream: TLSStream, scope: anyio.CancelScope) -> None:
    """End a followed log or a watch as soon as its client is gone, though nothing is being written."""
    try:
        await stream.receive(1)
    except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        scope.cancel()


async def _refuse(stream: TLSStream, connection: h11.Connection, error: h11.RemoteProtocolError) -> None:
    if connection.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
        return
    text = f"400 Bad Request: {error}".encode()
    answer = Response(
        error.error_status_hint, (("content-type", "text/plain"), ("content-length", str(len(text)))), text, close=True
    )
    await _respond(stream, connection, answer)
