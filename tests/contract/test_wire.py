"""The bytes on the wire: TLS, ALPN, the handshake, frames and chunks, with a scripted server."""

from __future__ import annotations

import socket
import ssl
import struct
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import anyio
import pytest
from anyio.streams.tls import TLSAttribute, TLSStream

from senro.adapters.apiserver import Configuration, connect
from senro.adapters.apiserver.configuration import ClientCertificate, Token
from senro.adapters.apiserver.tls import stream_client, tls_context, user_agent
from senro.domain.errors import StreamBroken, Unreachable
from senro.domain.kube.exec_protocol import Ended, ExitCode, Stdout
from tests.lib.fakes.certificates import authority
from tests.lib.fakes.clock import FakeClock, FakeRandomness
from tests.lib.fakes.network import client_frames, server_frame
from tests.lib.fakes.server import (
    Http2Server,
    alpn_of,
    connect_proxy,
    read_head,
    tls_server,
)
from tests.lib.harness.apiserver import SWITCHING, configuration, connect_to

pytestmark = pytest.mark.anyio

VERSION = b'{"gitVersion": "v1.36.2"}'


async def answer_http1(stream: TLSStream, body: bytes = VERSION) -> bytes:
    head = await read_head(stream)
    await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    return head


async def test_rest_uses_http2() -> None:
    """A request uses HTTP/2 if the server supports it, with the token and senro's user agent."""
    server = Http2Server(VERSION)
    async with tls_server(server) as port, connect_to(configuration(port)) as cluster:
        assert await cluster.version() == "v1.36.2"
        assert cluster.address == f"https://127.0.0.1:{port}"
    (request,) = server.requests
    assert request[":path"] == "/version"
    assert request["authorization"] == "Bearer made-up-token"
    assert request["user-agent"] == user_agent()
    assert request["accept-encoding"] == "identity"
    assert user_agent().startswith("senro")


async def test_rest_uses_http1_without_http2() -> None:
    """A server or proxy without HTTP/2 works too."""

    async def handler(stream: TLSStream) -> None:
        await answer_http1(stream)
        await anyio.sleep_forever()

    async with tls_server(handler, alpn=["http/1.1"]) as port, connect_to(configuration(port)) as cluster:
        assert await cluster.version() == "v1.36.2"


async def test_exec_byte_by_byte() -> None:
    """The handshake is exactly this text; frames are masked and whole, and stdin ends with the bytes 255, 0."""
    heads: list[bytes] = []
    wire = b""

    async def handler(stream: TLSStream) -> None:
        nonlocal wire
        assert alpn_of(stream) == "http/1.1"
        heads.append(await read_head(stream))
        # In one packet with the 101: the bytes after the head must not be lost.
        await stream.send(SWITCHING.format(protocol="v5.channel.k8s.io").encode() + server_frame(b"\x01"))
        while len(wire) < 21:  # the two frames of the client
            wire += await stream.receive()
        await stream.send(server_frame(b"\x01" + b"o" * 70_000) + server_frame(b'\x03{"status":"Success"}'))
        await stream.send(server_frame(b"\x03\xe8", opcode=8))
        while True:
            try:
                wire += await stream.receive()
            except anyio.EndOfStream:
                return

    async with tls_server(handler) as port, connect_to(configuration(port)) as cluster:
        async with cluster.exec("ci", "a", "step", ["cat", "-"], stdin=True, idle_seconds=20) as session:
            await session.send(b"hello\n")
            await session.close_stdin()
            got = b""
            while isinstance(event := await session.receive(), Stdout):
                got += event.data
            assert event == Ended(ExitCode(0))
            assert got == b"o" * 70_000
        with anyio.fail_after(5):
            while len(client_frames(wire)) < 3:
                await anyio.lowlevel.checkpoint()
    assert heads == [
        (
            "GET /api/v1/namespaces/ci/pods/a/exec?container=step&command=cat&command=-"
            "&stdin=true&stdout=true&stderr=true HTTP/1.1\r\n"
            f"Host: 127.0.0.1:{port}\r\n"
            "Accept: */*\r\n"
            f"User-Agent: {user_agent()}\r\n"
            "Accept-Encoding: identity\r\n"
            "Connection: Upgrade\r\n"
            "Upgrade: websocket\r\n"
            "Sec-WebSocket-Key: MDAwMDAwMDAwMDAwMDAwMQ==\r\n"
            "Sec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n"
            "Authorization: Bearer made-up-token"
        ).encode()
    ]
    assert wire[:2] == b"\x82\x87"  # binary, FIN; masked, seven bytes
    mask = wire[2:6]
    assert bytes(byte ^ mask[i % 4] for i, byte in enumerate(wire[6:13])) == b"\x00hello\n"
    assert wire[13:15] == b"\x82\x82"
    assert client_frames(wire) == [(2, True, b"\x00hello\n"), (2, True, b"\xff\x00"), (8, True, b"\x03\xe8")]


async def test_a_reset_exec_is_a_broken_stream() -> None:
    """A connection that is reset within a frame is a broken stream with its counts."""

    async def handler(stream: TLSStream) -> None:
        await read_head(stream)
        await stream.send(SWITCHING.format(protocol="v4.channel.k8s.io").encode() + server_frame(b"\x01abc"))
        await stream.send(server_frame(b"\x01" + b"x" * 1_000)[:500])
        raw = stream.extra(anyio.abc.SocketAttribute.raw_socket)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async with (
        tls_server(handler) as port,
        connect_to(configuration(port)) as cluster,
        cluster.exec("ci", "a", "step", ["true"], stdin=False, idle_seconds=20) as session,
    ):
        assert await session.receive() == Stdout(b"abc")
        with pytest.raises(StreamBroken) as caught:
            await session.receive()
    assert (caught.value.sent, caught.value.received) == (0, 3)


@pytest.mark.parametrize("end", ["spoilt", "closed"])
async def test_an_exec_whose_tls_ends_is_a_broken_stream(end: str) -> None:
    """Complete data is delivered. A record that does not decrypt, or the end of TLS, breaks the stream."""
    spoilt = b"\x17\x03\x03\x00\x20" + bytes(32)  # application data (RFC 8446 section 5.2) that is not encrypted
    first, second = server_frame(b"\x01" + b"a" * 20_000), server_frame(b"\x01" + b"b" * 30_000)

    async def handler(stream: TLSStream) -> None:
        await read_head(stream)
        await stream.send(SWITCHING.format(protocol="v4.channel.k8s.io").encode() + first)
        await stream.send(second)
        if end == "spoilt":
            await stream.transport_stream.send(spoilt)
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError, ssl.SSLError):
            await stream.unwrap()

    async with tls_server(handler) as port, connect_to(configuration(port)) as cluster:
        async with cluster.exec("ci", "a", "step", ["true"], stdin=False, idle_seconds=20) as session:
            assert await session.receive() == Stdout(b"a" * 20_000)
            assert await session.receive() == Stdout(b"b" * 30_000)
            with pytest.raises(StreamBroken) as caught:
                await session.receive()
        assert caught.value.received == 50_000


async def test_an_exec_transfers_megabytes_in_both_directions() -> None:
    """Reading while writing never blocks, with megabytes in both directions at once."""
    size = 8 * 1024 * 1024

    async def handler(stream: TLSStream) -> None:
        await read_head(stream)
        await stream.send(SWITCHING.format(protocol="v5.channel.k8s.io").encode())
        # Sends all output before it reads input: more than the buffers between the two hold.
        for _ in range(size // 65_536):
            await stream.send(server_frame(b"\x01" + b"o" * 65_536))
        seen = 0
        while seen < size:
            seen += len(await stream.receive())
        await stream.send(server_frame(b'\x03{"status":"Success"}'))
        await anyio.sleep_forever()

    async with tls_server(handler) as port, connect_to(configuration(port)) as cluster:
        async with (
            cluster.exec("ci", "a", "step", ["cat"], stdin=True, idle_seconds=20) as session,
            anyio.create_task_group() as group,
        ):
            group.start_soon(session.send, b"i" * size)
            got = 0
            while isinstance(event := await session.receive(), Stdout):
                got += len(event.data)
        assert (got, event) == (size, Ended(ExitCode(0)))


async def test_a_followed_log_has_its_own_connection() -> None:
    """It uses HTTP/1.1, and delivers pieces when they are written."""
    heads: list[bytes] = []
    go_on = anyio.Event()

    async def handler(stream: TLSStream) -> None:
        assert alpn_of(stream) == "http/1.1"
        heads.append(await read_head(stream))
        await stream.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
        await go_on.wait()
        await stream.send(b"6\r\nsecond\r\n")

    async with (
        tls_server(handler) as port,
        connect_to(configuration(port)) as cluster,
        cluster.follow_log("ci", "a", "step") as pieces,
    ):
        assert await anext(aiter(pieces)) == b"first"
        go_on.set()
        assert await anext(aiter(pieces)) == b"second"
        with pytest.raises(StreamBroken) as caught:  # no last chunk
            await anext(aiter(pieces))
    assert caught.value.received == 11
    assert heads[0].startswith(
        b"GET /api/v1/namespaces/ci/pods/a/log?container=step&timestamps=true&follow=true HTTP/1.1\r\n"
    )


async def test_a_hundred_followed_logs_block_no_poll() -> None:
    """A poll is answered while more logs are followed than a pool of short requests could hold."""
    follows = 120
    asked = 0

    async def log(stream: TLSStream) -> None:
        nonlocal asked
        await read_head(stream)
        asked += 1
        await stream.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n.\n\r\n")
        await anyio.sleep_forever()

    rest = Http2Server(b'{"metadata": {"name": "a", "namespace": "ci", "uid": "u-1"}}')

    async def handler(stream: TLSStream) -> None:
        await (rest if alpn_of(stream) == "h2" else log)(stream)

    async with (
        tls_server(handler) as port,
        connect_to(configuration(port)) as cluster,
        AsyncExitStack() as open_logs,
    ):
        for number in range(follows):
            pieces = await open_logs.enter_async_context(cluster.follow_log("ci", f"a-{number}", "step"))
            assert await anext(aiter(pieces)) == b".\n"
        with anyio.fail_after(20):
            for _ in range(3):
                pod = await cluster.read_pod("ci", "a")
                assert pod is not None
    assert asked == follows
    assert rest.connections == 1


async def test_a_quiet_log_has_a_long_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """The short timeout applies before the head, and the long one after it, since a container may be quiet."""
    monkeypatch.setattr("senro.adapters.apiserver.logs.SILENCE_SECONDS", 0.05)

    async def handler(stream: TLSStream) -> None:
        await read_head(stream)
        await stream.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        await anyio.sleep_forever()

    async with (
        tls_server(handler) as port,
        connect_to(configuration(port)) as cluster,
        cluster.follow_log("ci", "a", "step") as pieces,
    ):
        with pytest.raises(StreamBroken, match="ReadTimeout"):
            await anext(aiter(pieces))


async def test_a_certificate_of_another_ca_is_refused() -> None:
    """The connection fails at once, and the error says what to check."""
    clock = FakeClock()
    async with tls_server(answer_nothing) as port:
        server = f"https://127.0.0.1:{port}"
        chosen = Configuration(server=server, ca=authority("other").cert.decode(), credential=Token("made-up"))
        async with connect(chosen, clock=clock, randomness=FakeRandomness()) as cluster:
            # A repetition would sleep, which never ends with this clock.
            with anyio.fail_after(5), pytest.raises(Unreachable, match="check SENRO_K8S_CA_FILE") as caught:
                await cluster.version()
    assert caught.value.sent is False


async def test_a_certificate_for_another_address_is_refused() -> None:
    """A certificate for another address is refused too."""
    host = "127.0.0.2"
    async with tls_server(answer_nothing, host=host) as port, connect_to(configuration(port, host=host)) as cluster:
        with anyio.fail_after(5), pytest.raises(Unreachable, match="check SENRO_K8S_CA_FILE"):
            await cluster.version()


async def answer_nothing(_: TLSStream) -> None:
    await anyio.sleep_forever()


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 on loopback")
async def test_an_ipv6_literal() -> None:
    """An IPv6 literal works as an address."""

    async def handler(stream: TLSStream) -> None:
        await answer_http1(stream)

    async with (
        tls_server(handler, alpn=["http/1.1"], host="::1") as port,
        connect_to(configuration(port, host="[::1]")) as cluster,
    ):
        assert await cluster.version() == "v1.36.2"


async def test_a_refused_connection_is_unreachable() -> None:
    """A refused connection is `Unreachable`, and nothing was sent."""
    async with tls_server(answer_nothing) as port:
        pass
    async with connect_to(configuration(port)) as cluster:
        with pytest.raises(Unreachable, match="nothing was sent"):
            await cluster.create_pod({"metadata": {"namespace": "ci", "name": "a"}})


async def test_a_connection_without_an_answer_may_have_been_sent() -> None:
    """A connection that ends without an answer may have sent the request: `sent` is true."""

    async def handler(stream: TLSStream) -> None:
        await read_head(stream)

    async with tls_server(handler, alpn=["http/1.1"]) as port, connect_to(configuration(port)) as cluster:
        with pytest.raises(Unreachable, match="it may have taken effect"):
            await cluster.create_pod({"metadata": {"namespace": "ci", "name": "a"}})


async def test_a_client_certificate(tmp_path: Path) -> None:
    """A client certificate is sent to the server, and no token."""
    clients = authority("made-up-client-ca")
    pair = clients.issue("senro")
    (tmp_path / "cert").write_bytes(pair.cert)
    (tmp_path / "key").write_bytes(pair.key)
    heads: list[bytes] = []

    async def handler(stream: TLSStream) -> None:
        peer = stream.extra(TLSAttribute.peer_certificate)
        assert peer is not None
        assert peer["subject"] == ((("commonName", "senro"),),)
        heads.append(await answer_http1(stream))

    credential = ClientCertificate(str(tmp_path / "cert"), str(tmp_path / "key"))
    async with (
        tls_server(handler, alpn=["http/1.1"], client_ca=clients.cert) as port,
        connect_to(configuration(port, credential=credential)) as cluster,
    ):
        assert await cluster.version() == "v1.36.2"
    assert b"authorization" not in heads[0].lower()


async def test_no_proxy_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Proxies and credentials of the environment are not used."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login somebody password made-up\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    heads: list[bytes] = []
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("SSL_CERT_FILE", "/nonexistent")

    async def handler(stream: TLSStream) -> None:
        heads.append(await answer_http1(stream))

    async with tls_server(handler, alpn=["http/1.1"]) as port, connect_to(configuration(port)) as cluster:
        assert await cluster.version() == "v1.36.2"
    assert b"\r\nAuthorization: Bearer made-up-token" in heads[0]
    assert heads[0].lower().count(b"authorization:") == 1


async def test_a_proxy() -> None:
    """Both clients use CONNECT of the proxy; TLS and the upgrade are end to end."""

    async def handler(stream: TLSStream) -> None:
        head = await read_head(stream)
        if b"/exec?" in head:
            await stream.send(SWITCHING.format(protocol="v4.channel.k8s.io").encode() + server_frame(b"\x01abc"))
            await anyio.sleep_forever()
        await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(VERSION), VERSION))

    async with tls_server(handler, alpn=["http/1.1"]) as port, connect_proxy() as (proxy_port, heads):
        chosen = configuration(port, proxy=f"http://me:made-up-pass@127.0.0.1:{proxy_port}")
        async with connect_to(chosen) as cluster:
            assert await cluster.version() == "v1.36.2"
            async with cluster.exec("ci", "a", "step", ["true"], stdin=False, idle_seconds=20) as session:
                assert await session.receive() == Stdout(b"abc")
    assert [head.splitlines()[0] for head in heads] == [f"CONNECT 127.0.0.1:{port} HTTP/1.1".encode()] * 2
    assert all(b"made-up-token" not in head for head in heads)
    assert all(b"Proxy-Authorization: Basic" in head for head in heads)


async def test_a_refusing_proxy_is_unreachable() -> None:
    """A refusal of the proxy is `Unreachable`, and nothing reached the apiserver."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")

    async def refuse(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await read_head(stream)
            await stream.send(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")

    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, refuse)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        async with connect_to(configuration(9, proxy=f"http://127.0.0.1:{port}")) as cluster:
            with pytest.raises(Unreachable, match=r"407.*nothing was sent"):
                await cluster.create_pod({"metadata": {"namespace": "ci", "name": "a"}})
        group.cancel_scope.cancel()


def test_tls_settings() -> None:
    """TLS 1.2 or later, with certificate and name checked against only the given CA."""
    context = tls_context(configuration(1))
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert len(context.get_ca_certs()) == 1


async def test_every_wait_is_bounded() -> None:
    """No client has a timeout of None, and TCP detects a dead peer."""
    async with stream_client(configuration(1)) as client:
        assert None not in client.timeout.as_dict().values()


async def test_an_https_proxy() -> None:
    """A proxy with https is verified with the system's CAs, not with the cluster's."""
    async with connect_to(configuration(1, proxy="https://127.0.0.1:1")) as cluster:
        with pytest.raises(Unreachable, match="nothing was sent"):
            await cluster.create_pod({"metadata": {"namespace": "ci", "name": "a"}})
