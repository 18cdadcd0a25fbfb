from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpcore
import httpx
import pytest
import respx

from senro.adapters.apiserver.configuration import TokenFile
from senro.adapters.apiserver.exec_session import MESSAGE_BYTES, PING_SECONDS, WebSocketExec
from senro.adapters.apiserver.execs import REFUSAL_LIMIT
from senro.adapters.apiserver.websocket import expected_accept
from senro.domain.errors import Forbidden, ProtocolError, Rejected, StreamBroken, Unauthorized, Unreachable
from senro.domain.kube.exec_protocol import V4, V5, Ended, ExecProtocol, ExitCode, IllegalTransition, StatusLost, Stdout
from senro.ports.cluster import Execs, ExecSession
from tests.lib.fakes.clock import FakeClock
from tests.lib.fakes.network import FakeNetworkStream, client_frames, server_frame
from tests.lib.harness.apiserver import Pieces, cluster_under_respx

pytestmark = pytest.mark.anyio

SUCCESS = server_frame(b'\x03{"status":"Success"}')
CLOSE = server_frame(b"\x03\xe8", opcode=8)
OPERATION = "exec cat in step of pod ci/a"


def session_over(
    stream: FakeNetworkStream, *, stdin: bool = True, idle: float = 60, clock: FakeClock | None = None
) -> WebSocketExec:
    subprotocol = V5 if stdin else V4
    return WebSocketExec(
        OPERATION,
        stream,
        ExecProtocol(OPERATION, subprotocol=subprotocol, stdin=stdin),
        idle_seconds=idle,
        clock=clock or FakeClock(),
    )


async def test_events_come_in_order() -> None:
    """One read may return several messages; their events come in order, and the end is the last one."""
    stream = FakeNetworkStream(
        [server_frame(b"\x01") + server_frame(b"\x01a") + server_frame(b"\x01b"), SUCCESS + CLOSE]
    )
    session = session_over(stream, stdin=False)
    events = [await session.receive() for _ in range(3)]
    assert events == [Stdout(b"a"), Stdout(b"b"), Ended(ExitCode(0))]
    with pytest.raises(StreamBroken, match="the exec has ended"):
        await session.receive()


async def test_stdin_is_split_into_messages() -> None:
    """The bytes of stdin are sent in messages of 128 KiB, four of them in one write."""
    stream = FakeNetworkStream([])
    session = session_over(stream)
    await session.send(b"x" * (4 * MESSAGE_BYTES + 1))
    await session.send(b"")
    await session.close_stdin()
    await session.close_stdin()
    frames = client_frames(stream.written)
    assert [len(payload) for _, _, payload in frames] == [*[MESSAGE_BYTES + 1] * 4, 2, 2]
    assert frames[-1] == (2, True, b"\xff\x00")
    assert stream.writes == 3


async def test_reading_goes_on_while_a_write_blocks() -> None:
    """If the buffers of both directions are full, a blocked writer does not block the reader."""
    stream = FakeNetworkStream([server_frame(b"\x01out"), SUCCESS], block_writes=True)
    session = session_over(stream)
    broken: list[StreamBroken] = []

    async def write() -> None:
        try:
            await session.send(b"x")
        except StreamBroken as error:
            broken.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(write)
        while not stream.writes:
            await anyio.lowlevel.checkpoint()
        assert await session.receive() == Stdout(b"out")
        assert await session.receive() == Ended(ExitCode(0))
    # The command has ended and does not read stdin any more, so the write is cancelled.
    assert len(broken) == 1


async def test_idle_stream_breaks() -> None:
    """A stream without data for `idle_seconds` raises `StreamBroken` with the number of bytes so far."""
    clock = FakeClock()
    session = session_over(FakeNetworkStream([server_frame(b"\x01abc")], clock=clock), idle=60, clock=clock)
    await session.send(b"12")
    await session.receive()
    with pytest.raises(StreamBroken, match="no data for 60 seconds") as caught:
        await session.receive()
    assert (caught.value.sent, caught.value.received) == (2, 3)
    with pytest.raises(StreamBroken):
        await session.send(b"x")
    with pytest.raises(StreamBroken):
        await session.close_stdin()


async def test_pong_does_not_restart_the_idle_time() -> None:
    """The server answers pings even if the command hangs."""
    clock = FakeClock()

    class Ponging(FakeNetworkStream):
        async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
            clock.move(20)
            self._pieces = [server_frame(b"senro", opcode=10)]
            return await super().read(max_bytes, timeout)

    with pytest.raises(StreamBroken, match="no data"):
        await session_over(Ponging([], clock=clock), clock=clock).receive()


async def test_write_restarts_the_idle_time() -> None:
    """A stream whose stdin makes progress is not idle, although there is no output."""
    clock = FakeClock()
    session: WebSocketExec

    class Slow(FakeNetworkStream):
        async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
            if len(self.reads) < 5:
                clock.move(40)
                await session.send(b"x")
                self.reads.append(timeout)
                raise httpcore.ReadTimeout
            self._pieces = [SUCCESS]
            return await super().read(max_bytes, timeout)

    session = session_over(Slow([]), idle=60, clock=clock)
    assert await session.receive() == Ended(ExitCode(0))
    assert clock.monotonic() - FakeClock().monotonic() == 200


async def test_blocked_write_breaks_the_stream() -> None:
    """A write that blocks for `idle_seconds` breaks the stream, and nothing is written after it."""
    stream = FakeNetworkStream([], block_writes=True)
    session = session_over(stream, idle=0.02)
    with pytest.raises(StreamBroken, match="a write was blocked"):
        await session.send(b"x")
    stream.block_writes = False
    with pytest.raises(StreamBroken):
        await session.send(b"y")
    with pytest.raises(StreamBroken):
        await session.receive()
    await session.send_close_frame()
    assert stream.written == b""


async def test_cancelled_write_breaks_the_stream() -> None:
    """A cancelled write may have sent a part of a frame, so nothing is written after it."""
    stream = FakeNetworkStream([], block_writes=True)
    session = session_over(stream)
    with anyio.move_on_after(0.01):
        await session.send(b"x")
    stream.block_writes = False
    with pytest.raises(StreamBroken, match="not completed"):
        await session.send(b"y")
    await session.send_close_frame()
    assert stream.written == b""


@pytest.mark.parametrize(
    "error", [httpcore.WriteError("reset"), anyio.BusyResourceError("writing to"), OSError("reset")]
)
async def test_failed_write_breaks_the_stream(error: Exception) -> None:
    """Every exception of a write becomes `StreamBroken`, with the exception as its cause."""
    with pytest.raises(StreamBroken) as caught:
        await session_over(FakeNetworkStream([], write_error=error)).send(b"x")
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    "error", [httpcore.ReadError("reset"), anyio.BusyResourceError("reading from"), httpcore.ReadError()]
)
async def test_failed_read_breaks_the_stream(error: Exception) -> None:
    """Every exception of a read becomes `StreamBroken` with that cause, after the events received before it."""
    session = session_over(FakeNetworkStream([server_frame(b"\x01a"), error]))
    assert await session.receive() == Stdout(b"a")
    with pytest.raises(StreamBroken) as caught:
        await session.receive()
    assert caught.value.__cause__ is error
    with pytest.raises(StreamBroken):
        await session.receive()


async def test_end_without_a_close_frame_breaks_the_stream() -> None:
    """A connection that ends without a close frame, also inside a frame, raises `StreamBroken`."""
    for pieces in ([b""], [server_frame(b"\x01abc")[:-1], b""]):
        with pytest.raises(StreamBroken, match="without a close frame"):
            await session_over(FakeNetworkStream(pieces)).receive()


@pytest.mark.parametrize(
    ("wire", "words"),
    [
        (b"\xc2\x00", "frames by RFC 6455"),  # a reserved bit: an extension that was not negotiated
        (b"\x82\x80\x00\x00\x00\x00", "frames by RFC 6455"),  # a masked frame from a server
        (server_frame(b"hello", opcode=1), "binary messages"),
        (server_frame(b"\x03nonsense"), "a status document"),
    ],
)
async def test_broken_protocol(wire: bytes, words: str) -> None:
    """Events before a protocol error are returned; then every call raises the error, and nothing is sent."""
    session = session_over(FakeNetworkStream([server_frame(b"\x01a") + wire]))
    assert await session.receive() == Stdout(b"a")
    for _ in range(2):
        with pytest.raises(ProtocolError, match=words):
            await session.receive()
    with pytest.raises(StreamBroken):
        await session.send(b"x")


async def test_send_without_stdin_is_an_error_of_the_caller() -> None:
    """Sending to an exec without stdin raises, and the session goes on."""
    session = session_over(FakeNetworkStream([SUCCESS]), stdin=False)
    with pytest.raises(IllegalTransition):
        await session.send(b"x")
    assert await session.receive() == Ended(ExitCode(0))


async def test_ping_interval() -> None:
    """An idle connection sends a ping every thirty seconds."""
    clock, stream = FakeClock(), FakeNetworkStream([])
    session = session_over(stream, clock=clock)
    async with anyio.create_task_group() as group:
        group.start_soon(session.run_keepalive)
        await clock.advance(PING_SECONDS - 1)
        assert stream.written == b""
        await clock.advance(1)
        await clock.advance(2 * PING_SECONDS)
        group.cancel_scope.cancel()
    assert [(opcode, len(payload)) for opcode, _, payload in client_frames(stream.written)] == [(9, 5)] * 3


async def test_wait_until_received_needs_its_own_pong() -> None:
    """Each call sends a ping and waits for the pong with its payload; other pongs do not count."""
    stream = FakeNetworkStream([server_frame(b"senro", opcode=10) + server_frame(b"0", opcode=10), SUCCESS])
    session = session_over(stream)
    await session.send(b"x")
    async with anyio.create_task_group() as group:
        group.start_soon(session.wait_until_received)
        await anyio.lowlevel.checkpoint()
        assert await session.receive() == Ended(ExitCode(0))
    assert [(opcode, payload) for opcode, _, payload in client_frames(stream.written)] == [(2, b"\x00x"), (9, b"0")]


@pytest.mark.parametrize("rest", [[b""], [b"\xff\xff\xff\xff"]], ids=["cut", "no-frames"])
async def test_broken_stream_ends_the_wait_for_a_pong(rest: list[bytes]) -> None:
    """A cut stream or a protocol error ends `wait_until_received` with its error."""
    session = session_over(FakeNetworkStream(rest))
    failures: list[StreamBroken] = []

    async def wait() -> None:
        try:
            await session.wait_until_received()
        except StreamBroken as error:
            failures.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await anyio.lowlevel.checkpoint()
        with pytest.raises((StreamBroken, ProtocolError)):
            await session.receive()
    assert len(failures) == 1


async def test_ping_of_the_server_is_answered() -> None:
    """The task of `run_keepalive` answers a ping, so that the reader does not wait for it."""
    clock = FakeClock()
    stream = FakeNetworkStream([server_frame(b"you?", opcode=9) + server_frame(b"\x01a")])
    session = session_over(stream, clock=clock)
    async with anyio.create_task_group() as group:
        group.start_soon(session.run_keepalive)
        await session.receive()
        await clock.advance(1)
        group.cancel_scope.cancel()
    assert client_frames(stream.written) == [(10, True, b"you?")]


async def test_keepalive_ends_with_the_stream() -> None:
    """A ping that cannot be written ends `run_keepalive` without an exception; the reader raises it."""
    clock = FakeClock()
    session = session_over(FakeNetworkStream([], write_error=httpcore.WriteError("reset")), clock=clock)
    async with anyio.create_task_group() as group:
        group.start_soon(session.run_keepalive)
        await clock.advance(PING_SECONDS)
    with pytest.raises(StreamBroken, match="reset"):
        await session.receive()


async def test_no_ping_after_the_stream_broke() -> None:
    """No ping is written to a stream that broke meanwhile."""
    clock, stream = FakeClock(), FakeNetworkStream([b""])
    session = session_over(stream, clock=clock)
    async with anyio.create_task_group() as group:
        group.start_soon(session.run_keepalive)
        with pytest.raises(StreamBroken):
            await session.receive()
        await clock.advance(PING_SECONDS)
    assert stream.written == b""


# The tests below include the handshake and the closing.


@asynccontextmanager
async def opened(
    stream: FakeNetworkStream, *, stdin: bool = True, change: Callable[[httpx.Response], None] | None = None
) -> AsyncIterator[ExecSession]:
    """An exec over `stream`; `change` may modify the 101 first."""
    with respx.mock:
        respx.route().mock(side_effect=lambda request: switching(request, stream, change))
        async with (
            cluster_under_respx(clock=FakeClock()) as cluster,
            cluster.exec("ci", "a", "step", ["cat"], stdin=stdin, idle_seconds=60) as session,
        ):
            yield session


def switching(
    request: httpx.Request, stream: FakeNetworkStream, change: Callable[[httpx.Response], None] | None = None
) -> httpx.Response:
    nonce = base64.b64decode(request.headers["Sec-WebSocket-Key"])
    answer = httpx.Response(
        101,
        headers={
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Accept": expected_accept(nonce),
            "Sec-WebSocket-Protocol": request.headers["Sec-WebSocket-Protocol"],
        },
        extensions={"network_stream": stream, "http_version": b"HTTP/1.1"},
    )
    if change is not None:
        change(answer)
    return answer


async def test_leaving_sends_a_close_frame() -> None:
    """Leaving the context before the end sends a close frame, which ends stdin at once."""
    stream = FakeNetworkStream([])
    async with opened(stream):
        pass
    assert client_frames(stream.written) == [(8, True, b"\x03\xe8")]


async def test_close_frame_is_answered() -> None:
    """A close frame of the server is answered once, with its own code."""
    stream = FakeNetworkStream([server_frame(b"\x03\xf3", opcode=8)])
    async with opened(stream) as session:
        assert await session.receive() == Ended(StatusLost(1011))
    assert client_frames(stream.written) == [(8, True, b"\x03\xf3")]


async def test_exception_in_the_context_is_not_wrapped() -> None:
    """An exception inside the context is raised as it is, although the context has a task group."""
    error = KeyError("mine")
    with pytest.raises(KeyError) as caught:
        async with opened(FakeNetworkStream([])):
            raise error
    assert caught.value is error


async def test_cancellation_leaves_nothing_open() -> None:
    """A context that is cancelled while it receives sends a close frame and closes the connection."""
    stream = FakeNetworkStream([])
    async with anyio.create_task_group() as group:

        async def use() -> None:
            async with opened(stream) as session:
                await session.receive()
                pytest.fail("there was nothing to receive")

        group.start_soon(use)
        while not stream.reads:
            await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    assert client_frames(stream.written) == [(8, True, b"\x03\xe8")]


def drop(name: str) -> Callable[[httpx.Response], None]:
    return lambda answer: answer.headers.__delitem__(name)


def put(name: str, value: str) -> Callable[[httpx.Response], None]:
    return lambda answer: answer.headers.__setitem__(name, value)


def over_http2(answer: httpx.Response) -> None:
    answer.extensions["http_version"] = b"HTTP/2"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (over_http2, "HTTP/1.1 for an upgrade"),
        (drop("Upgrade"), "Upgrade: websocket"),
        (put("Upgrade", "SPDY/3.1"), "Upgrade: websocket"),
        (drop("Connection"), "Connection: Upgrade"),
        (drop("Sec-WebSocket-Accept"), "Sec-WebSocket-Accept"),
        (put("Sec-WebSocket-Accept", expected_accept(b"another nonce 16")), "Sec-WebSocket-Accept"),
        (drop("Sec-WebSocket-Protocol"), f"the subprotocol {V5}"),
        (put("Sec-WebSocket-Protocol", V4), f"the subprotocol {V5}"),
        (put("Sec-WebSocket-Extensions", "permessage-deflate"), "no WebSocket extension"),
    ],
)
async def test_refused_handshakes(change: Callable[[httpx.Response], None], words: str) -> None:
    """A 101 that violates RFC 6455 section 4.1 raises `ProtocolError` with the rule, and nothing is written."""
    stream = FakeNetworkStream([])
    with pytest.raises(ProtocolError) as caught:
        async with opened(stream, change=change):
            pytest.fail("the session must not begin")
    assert words in str(caught.value)
    assert stream.written == b""


def test_expected_accept() -> None:
    """The key and its answer are those of RFC 6455 section 1.3."""
    assert expected_accept(base64.b64decode("dGhlIHNhbXBsZSBub25jZQ==")) == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


async def run(cluster: Execs, *, stdin: bool = True) -> None:
    async with cluster.exec("ci", "a", "step", ["cat"], stdin=stdin, idle_seconds=60):
        pass


@respx.mock
async def test_older_server_is_named() -> None:
    """A 403 without a body comes from a WebSocket server that does not support the subprotocol, and not from RBAC."""
    respx.route().respond(403)
    async with cluster_under_respx() as cluster:
        with pytest.raises(ProtocolError, match=r"Kubernetes 1\.30 or later, which serves v5\.channel\.k8s\.io"):
            await run(cluster)
        with pytest.raises(ProtocolError, match=r"a server of v4\.channel\.k8s\.io"):
            await run(cluster, stdin=False)


@respx.mock
async def test_answers_other_than_101() -> None:
    """Any other answer raises its error; one that is a success is a `ProtocolError`."""
    route = respx.route()
    async with cluster_under_respx() as cluster:
        route.respond(403, text="no")
        with pytest.raises(Forbidden):
            await run(cluster)
        route.respond(400, text="Upgrade request required")
        with pytest.raises(Rejected, match="Upgrade request required"):
            await run(cluster)
        route.respond(200, text="hello")
        with pytest.raises(ProtocolError, match="expected 101 Switching Protocols, got HTTP status 200"):
            await run(cluster)
        route.mock(side_effect=httpx.ConnectError("refused"))
        with pytest.raises(Unreachable, match="nothing was sent"):
            await run(cluster)
        route.mock(side_effect=None, return_value=httpx.Response(500, stream=Pieces(b"half", httpx.ReadError("reset"))))
        with pytest.raises(Unreachable):
            await run(cluster)
        route.mock(return_value=httpx.Response(500, stream=Pieces(b"x" * (REFUSAL_LIMIT + 1))))
        with pytest.raises(ProtocolError, match="at most 65536 bytes"):
            await run(cluster)


@respx.mock
async def test_401_is_repeated_with_another_token(tmp_path: Path) -> None:
    """After a 401 the token file is read again; another token is tried once, the same one is not."""
    path = tmp_path / "token"
    path.write_text("first")
    stream = FakeNetworkStream([])

    def answer(request: httpx.Request) -> httpx.Response:
        if request.headers["Authorization"] == "Bearer second":
            return switching(request, stream)
        path.write_text("second")
        return httpx.Response(401)

    route = respx.route().mock(side_effect=answer)
    async with cluster_under_respx(credential=TokenFile(str(path)), clock=FakeClock()) as cluster:
        await run(cluster)
        assert route.call_count == 2
        route.mock(side_effect=None, return_value=httpx.Response(401))
        with pytest.raises(Unauthorized):
            await run(cluster)
        assert route.call_count == 3
