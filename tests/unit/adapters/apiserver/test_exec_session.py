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
ASKED = "exec cat in step of pod ci/a"


def session_over(
    stream: FakeNetworkStream, *, stdin: bool = True, idle: float = 60, clock: FakeClock | None = None
) -> WebSocketExec:
    subprotocol = V5 if stdin else V4
    return WebSocketExec(
        ASKED,
        stream,
        ExecProtocol(ASKED, subprotocol=subprotocol, stdin=stdin),
        idle_seconds=idle,
        clock=clock or FakeClock(),
    )


async def test_events_in_order() -> None:
    """Messages come out in order, several from one read, and the end is the last."""
    stream = FakeNetworkStream(
        [server_frame(b"\x01") + server_frame(b"\x01a") + server_frame(b"\x01b"), SUCCESS + CLOSE]
    )
    session = session_over(stream, stdin=False)
    events = [await session.receive() for _ in range(3)]
    assert events == [Stdout(b"a"), Stdout(b"b"), Ended(ExitCode(0))]
    with pytest.raises(StreamBroken, match="the exec has ended"):
        await session.receive()


async def test_stdin_is_cut_into_messages() -> None:
    """A long piece of stdin crosses in messages of 128 KiB, four of them in one write."""
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


async def test_reading_goes_on_while_a_write_is_stuck() -> None:
    """Both directions may be full: a stuck writer must not keep the reader from setting it free."""
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
    # The status came: nobody reads stdin any more, so the writer is let go.
    assert len(broken) == 1


async def test_silence() -> None:
    """A stream where nothing moves for the idle bound is broken, and says how far it came."""
    clock = FakeClock()
    session = session_over(FakeNetworkStream([server_frame(b"\x01abc")], clock=clock), idle=60, clock=clock)
    await session.send(b"12")
    await session.receive()
    with pytest.raises(StreamBroken, match="nothing moved for 60 seconds") as caught:
        await session.receive()
    assert (caught.value.sent, caught.value.received) == (2, 3)
    with pytest.raises(StreamBroken):
        await session.send(b"x")
    with pytest.raises(StreamBroken):
        await session.close_stdin()


async def test_pongs_do_not_end_a_silence() -> None:
    """The server answers pings whatever the command does, so a pong is no sign that anything moves."""
    clock = FakeClock()

    class Ponging(FakeNetworkStream):
        async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
            clock.move(20)
            self._pieces = [server_frame(b"senro", opcode=10)]
            return await super().read(max_bytes, timeout)

    with pytest.raises(StreamBroken, match="nothing moved"):
        await session_over(Ponging([], clock=clock), clock=clock).receive()


async def test_a_write_that_moves_ends_a_silence() -> None:
    """The bound is for silence in both directions: while stdin moves, no output is no silence."""
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


async def test_a_write_that_is_stuck() -> None:
    """A write that nobody takes within the idle bound breaks the stream, and nothing is written after it."""
    stream = FakeNetworkStream([], block_writes=True)
    session = session_over(stream, idle=0.02)
    with pytest.raises(StreamBroken, match="nothing could be written"):
        await session.send(b"x")
    stream.block_writes = False
    with pytest.raises(StreamBroken):
        await session.send(b"y")
    with pytest.raises(StreamBroken):
        await session.receive()
    await session.send_close_frame()
    assert stream.written == b""


async def test_a_write_that_is_cancelled() -> None:
    """Part of a frame may be on the wire after a cancellation: the stream is dead, not a byte follows."""
    stream = FakeNetworkStream([], block_writes=True)
    session = session_over(stream)
    with anyio.move_on_after(0.01):
        await session.send(b"x")
    stream.block_writes = False
    with pytest.raises(StreamBroken, match="given up in the middle"):
        await session.send(b"y")
    await session.send_close_frame()
    assert stream.written == b""


@pytest.mark.parametrize(
    "error", [httpcore.WriteError("reset"), anyio.BusyResourceError("writing to"), OSError("reset")]
)
async def test_a_write_that_fails(error: Exception) -> None:
    """Every foreign exception of a write is a broken stream, chained to its cause."""
    with pytest.raises(StreamBroken) as caught:
        await session_over(FakeNetworkStream([], write_error=error)).send(b"x")
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    "error", [httpcore.ReadError("reset"), anyio.BusyResourceError("reading from"), httpcore.ReadError()]
)
async def test_a_read_that_fails(error: Exception) -> None:
    """Every foreign exception of a read is a broken stream, chained to its cause; what came before comes out first."""
    session = session_over(FakeNetworkStream([server_frame(b"\x01a"), error]))
    assert await session.receive() == Stdout(b"a")
    with pytest.raises(StreamBroken) as caught:
        await session.receive()
    assert caught.value.__cause__ is error
    with pytest.raises(StreamBroken):
        await session.receive()


async def test_an_end_without_a_close_frame() -> None:
    """A connection that just ends is a broken stream, in the middle of a frame too."""
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
async def test_a_broken_protocol(wire: bytes, words: str) -> None:
    """What came before a broken rule comes out first; then the rule is named, now and later, and nothing is sent."""
    session = session_over(FakeNetworkStream([server_frame(b"\x01a") + wire]))
    assert await session.receive() == Stdout(b"a")
    for _ in range(2):
        with pytest.raises(ProtocolError, match=words):
            await session.receive()
    with pytest.raises(StreamBroken):
        await session.send(b"x")


async def test_misuse_is_no_broken_stream() -> None:
    """Sending to a stdin that was not asked for is the caller's mistake, and the session goes on."""
    session = session_over(FakeNetworkStream([SUCCESS]), stdin=False)
    with pytest.raises(IllegalTransition):
        await session.send(b"x")
    assert await session.receive() == Ended(ExitCode(0))


async def test_pings() -> None:
    """A quiet connection is pinged every thirty seconds, no more often."""
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


async def test_what_arrived_is_told_by_its_own_pong() -> None:
    """Each call pings after what was sent, and waits for the pong with its payload; other pongs say nothing."""
    stream = FakeNetworkStream([server_frame(b"senro", opcode=10) + server_frame(b"0", opcode=10), SUCCESS])
    session = session_over(stream)
    await session.send(b"x")
    async with anyio.create_task_group() as group:
        group.start_soon(session.wait_until_received)
        await anyio.lowlevel.checkpoint()
        assert await session.receive() == Ended(ExitCode(0))
    assert [(opcode, payload) for opcode, _, payload in client_frames(stream.written)] == [(2, b"\x00x"), (9, b"0")]


@pytest.mark.parametrize("rest", [[b""], [b"\xff\xff\xff\xff"]], ids=["cut", "no-frames"])
async def test_nobody_waits_for_a_pong_that_cannot_come(rest: list[bytes]) -> None:
    """A stream that is cut, or that breaks the protocol, ends the wait with what broke it."""
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


async def test_a_ping_is_answered() -> None:
    """A ping of the server is answered by the third task, so that the reader need not wait for it."""
    clock = FakeClock()
    stream = FakeNetworkStream([server_frame(b"you?", opcode=9) + server_frame(b"\x01a")])
    session = session_over(stream, clock=clock)
    async with anyio.create_task_group() as group:
        group.start_soon(session.run_keepalive)
        await session.receive()
        await clock.advance(1)
        group.cancel_scope.cancel()
    assert client_frames(stream.written) == [(10, True, b"you?")]


async def test_keeping_alive_ends_with_the_stream() -> None:
    """A ping that cannot be written ends the pings; the reader is the one that says what happened."""
    clock = FakeClock()
    session = session_over(FakeNetworkStream([], write_error=httpcore.WriteError("reset")), clock=clock)
    async with anyio.create_task_group() as group:
        group.start_soon(session.run_keepalive)
        await clock.advance(PING_SECONDS)
    with pytest.raises(StreamBroken, match="reset"):
        await session.receive()


async def test_no_ping_on_a_dead_stream() -> None:
    """A stream that died while the pings waited is left alone."""
    clock, stream = FakeClock(), FakeNetworkStream([b""])
    session = session_over(stream, clock=clock)
    async with anyio.create_task_group() as group:
        group.start_soon(session.run_keepalive)
        with pytest.raises(StreamBroken):
            await session.receive()
        await clock.advance(PING_SECONDS)
    assert stream.written == b""


# From here on the whole way: the handshake, the context, the closing.


@asynccontextmanager
async def opened(
    stream: FakeNetworkStream, *, stdin: bool = True, change: Callable[[httpx.Response], None] | None = None
) -> AsyncIterator[ExecSession]:
    """An exec over `stream`; `change` may spoil the 101 before it is given."""
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


async def test_goodbye() -> None:
    """Leaving before the end sends a close frame, so that the server drops stdin at once."""
    stream = FakeNetworkStream([])
    async with opened(stream):
        pass
    assert client_frames(stream.written) == [(8, True, b"\x03\xe8")]


async def test_a_close_is_echoed() -> None:
    """A close frame of the server is answered with its own code, once."""
    stream = FakeNetworkStream([server_frame(b"\x03\xf3", opcode=8)])
    async with opened(stream) as session:
        assert await session.receive() == Ended(StatusLost(1011))
    assert client_frames(stream.written) == [(8, True, b"\x03\xf3")]


async def test_an_exception_comes_out_as_it_is() -> None:
    """What is raised inside the context leaves it unwrapped, though a task group is around it."""
    error = KeyError("mine")
    with pytest.raises(KeyError) as caught:
        async with opened(FakeNetworkStream([])):
            raise error
    assert caught.value is error


async def test_a_cancellation_leaves_nothing_open() -> None:
    """A context that is cancelled while it receives says goodbye and ends within its scope."""
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
async def test_a_handshake_that_breaks_a_rule(change: Callable[[httpx.Response], None], words: str) -> None:
    """A 101 that does not keep RFC 6455 is refused by the rule that it broke, and nothing is written to it."""
    stream = FakeNetworkStream([])
    with pytest.raises(ProtocolError) as caught:
        async with opened(stream, change=change):
            pytest.fail("the session must not begin")
    assert words in str(caught.value)
    assert stream.written == b""


def test_accept() -> None:
    """The key and its answer are those of RFC 6455 section 1.3."""
    assert expected_accept(base64.b64decode("dGhlIHNhbXBsZSBub25jZQ==")) == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


async def run(cluster: Execs, *, stdin: bool = True) -> None:
    async with cluster.exec("ci", "a", "step", ["cat"], stdin=stdin, idle_seconds=60):
        pass


@respx.mock
async def test_an_older_server_is_refused_by_name() -> None:
    """A 403 without a body is the WebSocket server's, not RBAC's: it does not know the subprotocol."""
    respx.route().respond(403)
    async with cluster_under_respx() as cluster:
        with pytest.raises(ProtocolError, match=r"Kubernetes 1\.30 or later, which serves v5\.channel\.k8s\.io"):
            await run(cluster)
        with pytest.raises(ProtocolError, match=r"a server of v4\.channel\.k8s\.io"):
            await run(cluster, stdin=False)


@respx.mock
async def test_refusals_before_the_101() -> None:
    """Any other answer is the error that it says; one that is a success is none for an upgrade."""
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
async def test_a_rotated_token(tmp_path: Path) -> None:
    """After a 401 the token file is read again, and another token gets another try; the same one does not."""
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
