"""Listening: TLS, ALPN, and one protocol or the other for each connection."""

from __future__ import annotations

import logging
import socket
import ssl
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import anyio
from anyio.abc import SocketAttribute
from anyio.streams.tls import TLSAttribute, TLSStream

from senro.devcluster.apiserver.certificates import subject_of
from senro.devcluster.apiserver.http import AbortedError
from senro.devcluster.apiserver.http1 import serve_http1
from senro.devcluster.apiserver.http2 import serve_http2

_Attribute = TypeVar("_Attribute")

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio import TypedAttributeProvider
    from anyio.abc import SocketStream, TaskGroup
    from anyio.streams.stapled import MultiListener

    from senro.devcluster.apiserver.http import Answer, Request

_LOG = logging.getLogger("senro.devcluster")
_HANDSHAKE_SECONDS = 10


async def listen(port: int) -> tuple[MultiListener[SocketStream], int]:
    """Bind 127.0.0.1 (port 0 takes a free one); returns the listener and its port."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port, backlog=512)
    return listener, int(_attribute(listener, SocketAttribute.local_port))


async def serve(
    listener: MultiListener[SocketStream],
    context: ssl.SSLContext,
    handle: Callable[[Request], Awaitable[Answer]],
    admit: Callable[[], bool],
    tasks: TaskGroup,
) -> None:
    """Accept connections for ever; each is a task of `tasks`. `admit` may refuse one before its handshake."""

    async def connection(stream: SocketStream) -> None:
        try:
            await _serve_connection(stream, context, handle, admit)
        except Exception:  # noqa: BLE001 - one broken connection must not end the cluster; it is logged whole
            _LOG.exception("a connection failed")
        finally:
            # A stream that was cut on purpose, or whose client is gone, is closed without ceremony.
            with anyio.CancelScope(shield=True):
                await anyio.aclose_forcefully(stream)

    async with listener:
        await listener.serve(connection, tasks)


async def _serve_connection(
    stream: SocketStream,
    context: ssl.SSLContext,
    handle: Callable[[Request], Awaitable[Answer]],
    admit: Callable[[], bool],
) -> None:
    if not admit():
        return
    raw = _attribute(stream, SocketAttribute.raw_socket)
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        with anyio.fail_after(_HANDSHAKE_SECONDS):
            secured = await TLSStream.wrap(stream, server_side=True, ssl_context=context, standard_compatible=False)
        certificate = subject_of(_attribute(secured, TLSAttribute.peer_certificate))

        async def handle_as(request: Request) -> Answer:
            return await handle(replace(request, certificate=certificate))

        serve_protocol = serve_http2 if _attribute(secured, TLSAttribute.alpn_protocol) == "h2" else serve_http1
        await serve_protocol(secured, handle_as)
    except* (AbortedError, anyio.BrokenResourceError, anyio.EndOfStream, anyio.ClosedResourceError, OSError):
        # The client went away, or never spoke TLS (ssl.SSLError and TimeoutError are OSErrors): its own affair, and
        # there is nobody left to tell.
        pass


def _attribute(provider: TypedAttributeProvider, attribute: _Attribute) -> _Attribute:
    return provider.extra(attribute)  # noqa: S610 - anyio's typed attributes; there is no SQL here
