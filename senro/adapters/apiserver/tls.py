"""The two clients: how they trust, how long they wait, how many connections they keep."""

from __future__ import annotations

import importlib.metadata
import socket
import ssl

import httpx

from senro.adapters.apiserver.configuration import ClientCertificate, Configuration

CONNECT_SECONDS = 5.0
"""For TCP, and again for TLS. An apiserver that answers at all does so within a round trip or three; a coordinator that
is cancelled waits for a handshake that has begun."""

READ_SECONDS = 75.0
"""Silence within an answer. The apiserver ends a short request itself after 60 s
(docs/design/api-rules.md#server-timeouts)."""

WRITE_SECONDS = 30.0
"""For one piece of a request's body, 3 MiB in all."""

POOL_SECONDS = 30.0
"""For a free connection."""

REST_LIMITS = httpx.Limits(max_connections=32, max_keepalive_connections=8, keepalive_expiry=60.0)
"""HTTP/2 needs one connection; an apiserver behind an HTTP/1.1 proxy needs one for each request in flight."""

STREAM_LIMITS = httpx.Limits(max_connections=2_048, max_keepalive_connections=8, keepalive_expiry=30.0)
"""Each followed log and each exec holds a connection for as long as it lasts: hundreds must not starve each other."""

KEEPALIVE_IDLE_SECONDS = 30
"""A peer that vanished without a word is noticed by TCP itself: three probes, 10 s apart, after this much silence."""


UNSENT_BYTES = 1024 * 1024
"""What the system takes from us before it can send it. A ping waits behind all of it, and megabytes are the default: on
a slow link that is a second in which nobody knows how slow it is."""


def user_agent() -> str:
    """What senro calls itself in a request and in the audit log."""
    try:
        return f"senro/{importlib.metadata.version('senro')}"
    except importlib.metadata.PackageNotFoundError:
        return "senro"


def tls_context(configuration: Configuration) -> ssl.SSLContext:
    """TLS 1.2 or later, the configured CA and no other, host names checked. There is no way to switch it off."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A bundle may hold an intermediate CA without its root; Go's clients trust whatever the bundle holds.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=configuration.ca)
    if isinstance(configuration.credential, ClientCertificate):
        context.load_cert_chain(configuration.credential.cert_file, configuration.credential.key_file)
    return context


def rest_client(configuration: Configuration) -> httpx.AsyncClient:
    """For requests with a short answer: HTTP/2 where the server has it."""
    return _client(configuration, http2=True, limits=REST_LIMITS)


def stream_client(configuration: Configuration) -> httpx.AsyncClient:
    """For execs, which take over the connection, and for followed logs: HTTP/1.1 alone, by ALPN too."""
    return _client(configuration, http2=False, limits=STREAM_LIMITS)


def _client(configuration: Configuration, *, http2: bool, limits: httpx.Limits) -> httpx.AsyncClient:
    proxy = None
    if configuration.proxy is not None:
        # The tunnel's far end is verified with the cluster's CA; a proxy by https with the system's.
        outer = ssl.create_default_context() if configuration.proxy.startswith("https:") else None
        proxy = httpx.Proxy(configuration.proxy, ssl_context=outer)
    transport = httpx.AsyncHTTPTransport(
        verify=tls_context(configuration),  # one each: httpcore writes the ALPN list into it
        http1=True,
        http2=http2,
        limits=limits,
        trust_env=False,
        proxy=proxy,
        socket_options=_socket_options(),
    )
    return httpx.AsyncClient(
        transport=transport,
        base_url=configuration.server,
        trust_env=False,
        follow_redirects=False,
        timeout=httpx.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS, write=WRITE_SECONDS, pool=POOL_SECONDS),
        # Identity: a bound on a body must be a bound on what it unpacks to.
        headers={"User-Agent": user_agent(), "Accept-Encoding": "identity"},
    )


def _socket_options() -> list[tuple[int, int, int]]:
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    named = {
        # Linux says TCP_KEEPIDLE, macOS TCP_KEEPALIVE.
        "TCP_KEEPIDLE": KEEPALIVE_IDLE_SECONDS,
        "TCP_KEEPALIVE": KEEPALIVE_IDLE_SECONDS,
        "TCP_KEEPINTVL": 10,
        "TCP_KEEPCNT": 3,
        "TCP_NOTSENT_LOWAT": UNSENT_BYTES,
    }
    for name, value in named.items():
        option = getattr(socket, name, None)
        if option is not None:
            options.append((socket.IPPROTO_TCP, option, value))
    return options
