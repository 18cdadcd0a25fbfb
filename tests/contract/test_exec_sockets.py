"""What an exec does below its TLS: it reads widely, and leaves the system little that is not sent yet."""

from __future__ import annotations

import socket

import anyio
import pytest
from anyio.abc import ByteStream
from anyio.streams.tls import TLSStream

from senro.adapters.apiserver.exec_session import READ_BYTES, WebSocketExec
from senro.adapters.apiserver.large_reads import LargeReadStream
from senro.adapters.apiserver.tls import UNSENT_BYTES
from senro.domain.errors import StreamBroken
from senro.domain.kube.exec_protocol import Stdout
from tests.lib.fakes.network import server_frame
from tests.lib.fakes.server import read_head, tls_server
from tests.lib.harness.apiserver import SWITCHING, configuration, connect_to

pytestmark = pytest.mark.anyio


async def test_an_exec_reads_widely(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that an exec receives below its TLS comes in pieces of READ_BYTES, whatever the libraries between do."""
    size, passed = 2 * 1024 * 1024, 0
    receive = LargeReadStream.receive

    async def counting(self: LargeReadStream, max_bytes: int = 65536) -> bytes:
        nonlocal passed
        data = await receive(self, max_bytes)
        passed += len(data)
        return data

    async def handler(stream: TLSStream) -> None:
        await read_head(stream)
        await stream.send(SWITCHING.format(protocol="v4.channel.k8s.io").encode())
        await stream.send(server_frame(b"\x01" + b"x" * size))
        await anyio.sleep_forever()

    monkeypatch.setattr(LargeReadStream, "receive", counting)
    async with (
        tls_server(handler) as port,
        connect_to(configuration(port)) as cluster,
        cluster.exec("ci", "a", "step", ["true"], stdin=False, idle_seconds=20) as session,
    ):
        assert await session.receive() == Stdout(b"x" * size)
    assert passed >= size - 65536  # some may have come with the 101


async def test_the_socket_of_an_exec() -> None:
    """It notices a peer that vanished, and takes at most UNSENT_BYTES before it can send them."""

    async def handler(stream: TLSStream) -> None:
        await read_head(stream)
        await stream.send(SWITCHING.format(protocol="v4.channel.k8s.io").encode())
        await anyio.sleep_forever()

    async with (
        tls_server(handler) as port,
        connect_to(configuration(port)) as cluster,
        cluster.exec("ci", "a", "step", ["true"], stdin=False, idle_seconds=20) as session,
    ):
        assert isinstance(session, WebSocketExec)
        raw = session._stream.get_extra_info("socket")  # the port has no word for it
        assert raw.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == UNSENT_BYTES


class Held(ByteStream):
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent = b""

    async def receive(self, max_bytes: int = 65536) -> bytes:  # noqa: ARG002 - the name is anyio's
        raise anyio.EndOfStream

    async def send(self, item: bytes) -> None:
        self.sent += item

    async def send_eof(self) -> None:
        """Nobody needs it."""

    async def aclose(self) -> None:
        """Nothing is open."""


async def test_a_record_that_is_damaged_is_told_as_what_it_is() -> None:
    """What came before it, in the same moment, is given out; then the exec breaks with TLS' own words."""

    async def handler(stream: TLSStream) -> None:
        await read_head(stream)
        await stream.send(SWITCHING.format(protocol="v4.channel.k8s.io").encode())
        below, held = stream.transport_stream, Held()
        stream.transport_stream = held
        await stream.send(server_frame(b"\x01whole"))
        stream.transport_stream = below
        forged = b"\x17\x03\x03\x00\x40" + bytes(64)  # an application record (RFC 8446 section 5.1) without a key
        await stream.transport_stream.send(held.sent + forged)
        await anyio.sleep_forever()

    async with (
        tls_server(handler) as port,
        connect_to(configuration(port)) as cluster,
        cluster.exec("ci", "a", "step", ["true"], stdin=False, idle_seconds=20) as session,
    ):
        assert await session.receive() == Stdout(b"whole")
        with pytest.raises(StreamBroken, match="BAD_RECORD_MAC"):
            await session.receive()
        with pytest.raises(StreamBroken):
            await session.receive()


async def test_a_wide_stream_asks_for_more() -> None:
    """The stream below is asked for at least as much as was said; all else reaches it as it is."""
    asked: list[object] = []

    class Below(ByteStream):
        async def receive(self, max_bytes: int = 65536) -> bytes:
            asked.append(max_bytes)
            return b"data"

        async def send(self, item: bytes) -> None:
            asked.append(item)

        async def send_eof(self) -> None:
            asked.append("eof")

        async def aclose(self) -> None:
            asked.append("closed")

    wide = LargeReadStream(Below(), READ_BYTES)
    assert [await wide.receive(), await wide.receive(2 * READ_BYTES)] == [b"data", b"data"]
    await wide.send(b"out")
    await wide.send_eof()
    await wide.aclose()
    assert asked == [READ_BYTES, 2 * READ_BYTES, b"out", "eof", "closed"]
