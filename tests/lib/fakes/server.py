"""A TLS server on loopback whose handler the test provides."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

import anyio
import anyio.abc
import h2.config
import h2.connection
import h2.events
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.tls import TLSAttribute, TLSListener, TLSStream

from tests.lib.fakes.certificates import Authority, authority

Handler = Callable[[TLSStream], Awaitable[None]]


@cache
def server_authority() -> Authority:
    """Returns the CA of all servers here."""
    return authority("made-up-cluster-ca")


@asynccontextmanager
async def tls_server(
    handler: Handler,
    *,
    alpn: Sequence[str] = ("h2", "http/1.1"),
    client_ca: bytes | None = None,
    host: str = "127.0.0.1",
) -> AsyncIterator[int]:
    """Serves each connection with `handler` and yields the port. An error of the handler fails the test."""
    context = server_context(alpn)
    if client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=client_ca.decode())
    tcp = await anyio.create_tcp_listener(local_host=host)
    listener = TLSListener(tcp, context, standard_compatible=False)

    async def serve(stream: TLSStream) -> None:
        async with stream:
            await handler(stream)

    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        yield tcp.extra(anyio.abc.SocketAttribute.local_port)
        group.cancel_scope.cancel()


def server_context(alpn: Sequence[str]) -> ssl.SSLContext:
    """Returns a TLS context of a server with a new certificate."""
    pair = server_authority().issue("apiserver")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(list(alpn))
    with tempfile.TemporaryDirectory() as folder:
        cert, key = Path(folder, "cert"), Path(folder, "key")
        cert.write_bytes(pair.cert)
        key.write_bytes(pair.key)
        context.load_cert_chain(cert, key)
    return context


async def read_head(stream: anyio.abc.ByteReceiveStream) -> bytes:
    """Returns the head of an HTTP/1.1 request."""
    return await BufferedByteReceiveStream(stream).receive_until(b"\r\n\r\n", 65_536)


def alpn_of(stream: TLSStream) -> str | None:
    """Returns the protocol that client and server negotiated."""
    return stream.extra(TLSAttribute.alpn_protocol)


class Http2Server:
    """Answers each HTTP/2 request of a connection with `body`, after `turns` turns of the event loop.

    With `until`, it answers no request before that event.
    """

    def __init__(self, body: bytes, *, turns: int = 0, until: anyio.Event | None = None) -> None:
        self._body = body
        self._turns = turns
        self._until = until
        self.connections = 0
        self.ended = 0
        self.answered = 0
        self.requests: list[dict[str, str]] = []

    async def __call__(self, stream: TLSStream) -> None:
        assert alpn_of(stream) == "h2"
        self.connections += 1
        configuration = h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        connection = h2.connection.H2Connection(configuration)
        connection.initiate_connection()
        lock = anyio.Lock()

        async def flush() -> None:
            async with lock:
                await stream.send(connection.data_to_send())

        async def answer(stream_id: int) -> None:
            for _ in range(self._turns):
                await anyio.lowlevel.checkpoint()
            if self._until is not None:
                await self._until.wait()
            self.answered += 1
            connection.send_headers(stream_id, [(":status", "200"), ("content-type", "application/json")])
            connection.send_data(stream_id, self._body, end_stream=True)
            await flush()

        async with anyio.create_task_group() as group:
            while True:
                await flush()
                try:
                    events = connection.receive_data(await stream.receive())
                except (anyio.EndOfStream, anyio.BrokenResourceError):
                    self.ended += 1
                    group.cancel_scope.cancel()
                    return
                for event in events:
                    if isinstance(event, h2.events.RequestReceived):
                        self.requests.append({str(name): str(value) for name, value in event.headers})
                    if isinstance(event, h2.events.StreamEnded):
                        group.start_soon(answer, event.stream_id)


@asynccontextmanager
async def connect_proxy() -> AsyncIterator[tuple[int, list[bytes]]]:
    """Serves CONNECT requests. Yields the port, and the heads of the requests."""
    heads: list[bytes] = []
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")

    async def copy(
        source: anyio.abc.ByteReceiveStream, target: anyio.abc.ByteSendStream, scope: anyio.CancelScope
    ) -> None:
        try:
            async for data in source:
                await target.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # either end may close first
        scope.cancel()

    async def serve(client: anyio.abc.SocketStream) -> None:
        async with client:
            heads.append(head := await read_head(client))
            host, _, port = head.split()[1].decode().rpartition(":")
            async with await anyio.connect_tcp(host, int(port)) as server, anyio.create_task_group() as group:
                await client.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
                group.start_soon(copy, client, server, group.cancel_scope)
                group.start_soon(copy, server, client, group.cancel_scope)

    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        yield listener.extra(anyio.abc.SocketAttribute.local_port), heads
        group.cancel_scope.cancel()
