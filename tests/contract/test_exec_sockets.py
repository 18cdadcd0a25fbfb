"""The socket of an exec: large reads, and few unsent bytes in the kernel."""

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


async def test_an_exec_reads_large_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Below TLS an exec reads in pieces of READ_BYTES, whatever the libraries in between do."""
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
    assert passed >= size - 65536  # some may have arrived with the 101


async def test_the_options_of_an_execs_socket() -> None:
    """TCP detects a peer that disappeared, and holds at most UNSENT_BYTES."""

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
        raw = session._stream.get_extra_info("socket")  # the port does not expose it
        assert raw.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == UNSENT_BYTES


class RecordingStream(ByteStream):
    """A stream that records what is sent."""

    def __init__(self) -> None:
        self.sent = b""

    async def receive(self, max_bytes: int = 65536) -> bytes:  # noqa: ARG002 - the name is anyio's
        raise anyio.EndOfStream

    async def send(self, item: bytes) -> None:
        self.sent += item

    async def send_eof(self) -> None:
        """Does nothing."""

    async def aclose(self) -> None:
        """Does nothing."""


async def test_a_damaged_record_breaks_the_exec() -> None:
    """What arrived before it is delivered. Then the exec fails with the message of TLS."""

    async def handler(stream: TLSStream) -> None:
        await read_head(stream)
        await stream.send(SWITCHING.format(protocol="v4.channel.k8s.io").encode())
        below, held = stream.transport_stream, RecordingStream()
        stream.transport_stream = held
        await stream.send(server_frame(b"\x01whole"))
        stream.transport_stream = below
        forged = b"\x17\x03\x03\x00\x40" + bytes(
            64
        )  # an application record (RFC 8446 section 5.1) that is not encrypted
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


async def test_a_large_read_stream_reads_more() -> None:
    """It reads at least its size from the stream below, and passes everything else on."""
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
