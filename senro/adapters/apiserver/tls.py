"""The two HTTP clients: their trust, their timeouts, and their limits of connections."""

from __future__ import annotations

import importlib.metadata
import socket
import ssl

import httpx

from senro.adapters.apiserver.configuration import ClientCertificate, Configuration

CONNECT_SECONDS = 5.0
"""The timeout of connecting by TCP, and of the TLS handshake. Each needs a few round trips. A coordinator that is
cancelled waits for a handshake that has begun."""

READ_SECONDS = 75.0
"""The timeout of each read of an answer. The apiserver ends a short request after 60 s
(docs/design/api-rules.md#server-timeouts)."""

WRITE_SECONDS = 30.0
"""The timeout of each write of a request's body, which has at most 3 MiB."""

POOL_SECONDS = 30.0
"""The timeout of waiting for a free connection."""

REST_LIMITS = httpx.Limits(max_connections=32, max_keepalive_connections=8, keepalive_expiry=60.0)
"""HTTP/2 needs one connection; HTTP/1.1, which a proxy may require, needs one for each request under way."""

STREAM_LIMITS = httpx.Limits(max_connections=2_048, max_keepalive_connections=8, keepalive_expiry=30.0)
"""Each followed log and each exec has a connection of its own, and hundreds may run at one time."""

KEEPALIVE_IDLE_SECONDS = 30
"""After this silence TCP sends three probes, 10 s apart. They detect a peer that is gone without closing its socket."""

UNSENT_BYTES = 1024 * 1024
"""How many unsent bytes the kernel accepts. The default is megabytes, and a ping waits until they are sent: on a slow
link that delays the measurement of its rate by seconds."""


def user_agent() -> str:
    """Returns the User-Agent, which the audit log of the apiserver has too."""
    try:
        return f"senro/{importlib.metadata.version('senro')}"
    except importlib.metadata.PackageNotFoundError:
        return "senro"


def tls_context(configuration: Configuration) -> ssl.SSLContext:
    """Returns a context for TLS 1.2 or later that trusts only the configured CA and checks host names."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A bundle may contain an intermediate CA without its root. Go's clients trust every certificate of a bundle.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=configuration.ca)
    if isinstance(configuration.credential, ClientCertificate):
        context.load_cert_chain(configuration.credential.cert_file, configuration.credential.key_file)
    return context


def rest_client(configuration: Configuration) -> httpx.AsyncClient:
    """Returns the client for requests with short answers, by HTTP/2 if the server supports it."""
    return _client(configuration, http2=True, limits=REST_LIMITS)


def stream_client(configuration: Configuration) -> httpx.AsyncClient:
    """Returns the client for logs and for execs, which take over the connection: HTTP/1.1 alone, also in ALPN."""
    return _client(configuration, http2=False, limits=STREAM_LIMITS)


def _client(configuration: Configuration, *, http2: bool, limits: httpx.Limits) -> httpx.AsyncClient:
    proxy = None
    if configuration.proxy is not None:
        # The CA of the cluster verifies the apiserver; the system's CAs verify the proxy itself, if it has https.
        outer = ssl.create_default_context() if configuration.proxy.startswith("https:") else None
        proxy = httpx.Proxy(configuration.proxy, ssl_context=outer)
    transport = httpx.AsyncHTTPTransport(
        verify=tls_context(configuration),  # a new one for each client: httpcore sets its ALPN list
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
        # Identity, because the limit of a body must limit its decompressed size.
        headers={"User-Agent": user_agent(), "Accept-Encoding": "identity"},
    )


def _socket_options() -> list[tuple[int, int, int]]:
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    named = {
        # TCP_KEEPIDLE on Linux, TCP_KEEPALIVE on macOS.
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
