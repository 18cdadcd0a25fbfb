"""Cancelled requests, requests in a cancelled scope, and requests when the cluster is closed."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress

import anyio
import httpx
import pytest
from anyio.streams.tls import TLSStream

from senro.adapters.apiserver.cluster import ApiserverCluster
from senro.adapters.apiserver.request_task import RequestPhase
from senro.adapters.apiserver.sender import IN_FLIGHT
from senro.domain.errors import Unreachable
from senro.ports.cluster import Cluster
from tests.lib.fakes.server import Http2Server, read_head, server_context, tls_server
from tests.lib.harness.apiserver import configuration, connect_to

pytestmark = pytest.mark.anyio

POD = {"metadata": {"namespace": "ci", "name": "a"}}
CREATED = b'{"kind": "Pod", "metadata": {"namespace": "ci", "name": "a", "uid": "u-1"}}'
VERSION = b'{"gitVersion": "v1.36.2"}'
SOON = 5.0
"""Seconds, far below the timeouts of requests."""


async def wait_until_idle(cluster: Cluster) -> None:
    """Waits until no request is in flight, including cancelled ones."""
    assert isinstance(cluster, ApiserverCluster)
    with anyio.fail_after(SOON):
        while len(cluster._rest._sender._in_flight):
            await anyio.lowlevel.checkpoint()


async def until(condition: Callable[[], object]) -> None:
    """Waits until the condition holds."""
    with anyio.fail_after(SOON):
        while not condition():
            await anyio.lowlevel.checkpoint()


@pytest.mark.slow
async def test_cancelled_requests_do_not_spoil_the_connection() -> None:
    """Requests that are cancelled at any moment leave the connection usable for the others."""
    server = Http2Server(VERSION + b" " * 10_000, turns=10)
    told: list[str] = []

    async def ask(cluster: Cluster) -> None:
        told.append(await cluster.version())

    async def give_up_often(cluster: Cluster, first: int) -> None:
        for count in range(40):
            async with anyio.create_task_group() as group:
                group.start_soon(ask, cluster)
                for _ in range(3 * (1 + (first + 7 * count) % 20)):
                    await anyio.lowlevel.checkpoint()
                group.cancel_scope.cancel()

    async with tls_server(server) as port, connect_to(configuration(port)) as cluster:
        async with anyio.create_task_group() as group:
            for first in range(4):
                group.start_soon(give_up_often, cluster, first)
        with anyio.fail_after(5):
            assert await cluster.version() == "v1.36.2"
    assert 0 < len(told) < 160, "some are given up, and some are not"
    assert server.connections <= 4


@pytest.mark.parametrize("alpn", ["h2", "http/1.1"])
async def test_a_create_cancelled_in_the_handshake_is_never_sent(alpn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cancellation takes effect at once, and the connection ends without a request."""
    monkeypatch.setattr("senro.adapters.apiserver.rest.CREATE_GRACE_SECONDS", 2 * SOON)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    connected_to, go_on = anyio.Event(), anyio.Event()
    received = b""

    async def slow(raw: anyio.abc.SocketStream) -> None:
        nonlocal received
        connected_to.set()
        await go_on.wait()
        async with await TLSStream.wrap(
            raw, server_side=True, ssl_context=server_context([alpn]), standard_compatible=False
        ) as stream:
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                while True:
                    received += await stream.receive()

    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, slow)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        async with connect_to(configuration(port)) as cluster:
            with anyio.fail_after(SOON):
                async with anyio.create_task_group() as waiters:
                    waiters.start_soon(cluster.create_pod, POD)
                    await connected_to.wait()
                    waiters.cancel_scope.cancel()
            go_on.set()
            await wait_until_idle(cluster)
        group.cancel_scope.cancel()
    assert b"/api/v1" not in received
    assert b"POST" not in received


@pytest.mark.parametrize("what", ["exec", "log"])
async def test_a_cancelled_exec_or_log_leaves_no_connection(what: str) -> None:
    """An exec or a log that is cancelled before its answer leaves no connection open."""
    asked_for, ended = anyio.Event(), anyio.Event()

    async def handler(stream: TLSStream) -> None:
        await read_head(stream)
        asked_for.set()
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await stream.receive()
        ended.set()

    async def wait(cluster: Cluster) -> None:
        if what == "log":
            async with cluster.follow_log("ci", "a", "step"):
                pytest.fail("there was no answer")
        async with cluster.exec("ci", "a", "step", ["true"], stdin=False, idle_seconds=20):
            pytest.fail("there was no answer")

    async with tls_server(handler) as port, connect_to(configuration(port)) as cluster:
        async with anyio.create_task_group() as group:
            group.start_soon(wait, cluster)
            await asked_for.wait()
            group.cancel_scope.cancel()
        with anyio.fail_after(5):
            await ended.wait()


class Http1Server:
    """Answers the HTTP/1.1 requests of a connection with `body`, none before `until`."""

    def __init__(self, body: bytes, *, until: anyio.Event | None = None) -> None:
        self._body = body
        self._until = until
        self.requests: list[bytes] = []
        self.ended = 0
        self.answered = 0

    async def __call__(self, stream: TLSStream) -> None:
        try:
            while True:
                head = await stream.receive()
                if not head.startswith((b"GET", b"POST")):
                    continue  # a body in a separate TLS record
                self.requests.append(head)
                if self._until is not None:
                    await self._until.wait()
                self.answered += 1
                await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(self._body), self._body))
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            self.ended += 1


SERVERS = {"h2": Http2Server, "http/1.1": Http1Server}
both = pytest.mark.parametrize("alpn", list(SERVERS))


@both
@pytest.mark.parametrize("warm", [True, False], ids=["warm", "cold"])
async def test_a_shielded_request_in_a_cancelled_scope(alpn: str, *, warm: bool) -> None:
    """A shielded request is answered while the scope around `connect` is cancelled, so that cleanups can delete."""
    server = SERVERS[alpn](VERSION)
    versions: list[str] = []
    async with tls_server(server, alpn=[alpn]) as port:
        with anyio.CancelScope() as outer:
            async with connect_to(configuration(port)) as cluster:
                if warm:
                    await cluster.version()
                outer.cancel()
                with anyio.CancelScope(shield=True), anyio.fail_after(SOON):
                    versions += [await cluster.version(), await cluster.version()]
                await cluster.version()
                pytest.fail("out of the shield the cancellation holds")
    assert versions == ["v1.36.2"] * 2


async def test_a_shielded_request_of_a_task_that_asyncio_cancels() -> None:
    """The same holds if asyncio cancels the task, as `asyncio.wait_for` does."""
    versions: list[str] = []
    waits = anyio.Event()

    async def use(port: int) -> None:
        async with connect_to(configuration(port)) as cluster:
            try:
                waits.set()
                await anyio.sleep_forever()
            finally:
                with anyio.CancelScope(shield=True), anyio.fail_after(SOON):
                    versions.append(await cluster.version())

    async with tls_server(Http2Server(VERSION)) as port:
        task = asyncio.create_task(use(port))
        await waits.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert versions == ["v1.36.2"]


@both
@pytest.mark.parametrize("what", ["pod", "secret"])
async def test_a_cancelled_create_waits_for_its_answer(alpn: str, what: str) -> None:
    """Once it is sent, the cancellation waits for the answer, so that its effect is known."""
    go_on = anyio.Event()
    server = SERVERS[alpn](CREATED, until=go_on)
    seen: list[int] = []

    async def create(cluster: Cluster) -> None:
        try:
            await (cluster.create_pod(POD) if what == "pod" else cluster.create_secret(POD))
        finally:
            seen.append(server.answered)

    async with tls_server(server, alpn=[alpn]) as port, connect_to(configuration(port)) as cluster:
        async with anyio.create_task_group() as group:
            group.start_soon(create, cluster)
            await until(lambda: server.requests)
            group.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                for _ in range(20):
                    await anyio.lowlevel.checkpoint()
                assert seen == []
            go_on.set()
        assert seen == [1]
        await wait_until_idle(cluster)


@both
async def test_a_cancelled_create_waits_for_a_bounded_time(alpn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an answer the cancellation takes effect after a bounded time."""
    monkeypatch.setattr("senro.adapters.apiserver.rest.CREATE_GRACE_SECONDS", 0.05)
    server = SERVERS[alpn](CREATED, until=anyio.Event())
    async with tls_server(server, alpn=[alpn]) as port, connect_to(configuration(port)) as cluster:
        with anyio.fail_after(SOON):
            async with anyio.create_task_group() as group:
                group.start_soon(cluster.create_pod, POD)
                await until(lambda: server.requests)
                group.cancel_scope.cancel()
    assert server.answered == 0


@both
async def test_a_cancelled_read_does_not_wait(alpn: str) -> None:
    """The cancellation takes effect at once, since nothing depends on the answer."""
    server = SERVERS[alpn](CREATED, until=anyio.Event())
    async with tls_server(server, alpn=[alpn]) as port, connect_to(configuration(port)) as cluster:
        async with anyio.create_task_group() as group:
            group.start_soon(cluster.read_pod, "ci", "a")
            await until(lambda: server.requests)
            group.cancel_scope.cancel()
        assert server.answered == 0


@asynccontextmanager
async def full_backlog() -> AsyncIterator[int]:
    """Yields a port to which no connection succeeds: nobody accepts, and the kernel's queue is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        fillers = [socket.socket() for _ in range(4)]
        try:
            for filler in fillers:
                filler.setblocking(False)
                filler.connect_ex(listener.getsockname())
            yield listener.getsockname()[1]
        finally:
            for filler in fillers:
                filler.close()


@asynccontextmanager
async def silent_listener() -> AsyncIterator[int]:
    """Yields a port that accepts connections and never answers TLS."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@contextmanager
def check_nothing_is_open() -> Iterator[None]:
    """Fails for additional tasks, and for sockets that only the garbage collector closes, by pytest's warnings."""
    before = set(asyncio.all_tasks())
    yield
    assert set(asyncio.all_tasks()) <= before
    gc.collect()


Place = Callable[[], AbstractAsyncContextManager[int]]
Ask = Callable[[Cluster], Awaitable[object]]
ASKS: dict[str, Ask] = {
    "create": lambda cluster: cluster.create_pod(POD),
    "log": lambda cluster: cluster.read_log("ci", "a", "step"),
}


async def close_with(
    cluster_at: int, ask: Ask, how_many: int, far_enough: Callable[[Cluster], object]
) -> list[Unreachable]:
    """Closes the cluster while `how_many` tasks wait for an answer. Returns their errors."""
    told: list[Unreachable] = []

    async def wait(cluster: Cluster) -> None:
        try:
            await ask(cluster)
        except Unreachable as error:
            told.append(error)

    async with anyio.create_task_group() as group, connect_to(configuration(cluster_at)) as cluster:
        for _ in range(how_many):
            group.start_soon(wait, cluster)
        await until(lambda: far_enough(cluster))
        group.cancel_scope.deadline = anyio.current_time() + SOON
    assert not group.cancel_scope.cancelled_caught, "leaving took as long as the request"
    return told


def steps(cluster: Cluster) -> list[tuple[RequestPhase, bool]]:
    """Returns how far each request is, and whether it has a TCP connection."""
    assert isinstance(cluster, ApiserverCluster)
    return [(one._phase, one._connection is not None) for one in cluster._rest._sender._in_flight._live]


def reached(now: list[tuple[RequestPhase, bool]], place: Place) -> bool:
    """Whether all requests wait for a connection, and whether it is being made if `place` needs that."""
    return [step for step, _ in now] == [RequestPhase.CONNECTING] * 3 and (
        place is full_backlog or any(connect_to for _, connected in now)
    )


@pytest.mark.parametrize("ask", list(ASKS))
@pytest.mark.parametrize("place", [full_backlog, silent_listener], ids=["tcp", "tls"])
async def test_closing_while_a_connection_is_made(place: Place, ask: str) -> None:
    """Closing is prompt and leaves nothing open. All waiting requests fail as not sent."""
    with check_nothing_is_open():
        async with place() as port:
            told = await close_with(port, ASKS[ask], 3, lambda cluster: reached(steps(cluster), place))
    assert [(error.cause, error.sent) for error in told] == [("the client was closed", False)] * 3


@both
async def test_closing_while_requests_are_in_flight(alpn: str) -> None:
    """Closing is prompt and leaves nothing open. Errors say `sent` for requests that may have been sent."""
    go_on = anyio.Event()
    server = SERVERS[alpn](CREATED, until=go_on)
    begun = IN_FLIGHT if alpn == "h2" else 32
    with check_nothing_is_open():
        async with tls_server(server, alpn=[alpn]) as port:
            told = await close_with(port, ASKS["create"], IN_FLIGHT + 6, lambda _: len(server.requests) == begun)
            go_on.set()
            await until(lambda: server.ended)
    assert {error.cause for error in told} == {"the client was closed"}
    assert [error.sent for error in told].count(True) == begun
    assert len(told) == IN_FLIGHT + 6


async def test_a_closed_cluster_refuses_requests() -> None:
    """A request after closing fails without being sent or repeated."""
    async with connect_to(configuration(1)) as cluster:
        pass
    with anyio.fail_after(SOON), pytest.raises(Unreachable, match="the client was closed"):
        await cluster.read_pod("ci", "a")
    with pytest.raises(Unreachable, match=r"the client was closed.*nothing was sent"):
        await cluster.create_pod(POD)


async def test_closing_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client whose closing hangs is abandoned after a bounded time, and its requests end."""
    monkeypatch.setattr("senro.adapters.apiserver.in_flight_requests.LEAVE_SECONDS", 0.05)
    server = Http2Server(CREATED, until=anyio.Event())
    clients: list[httpx.AsyncClient] = []
    async with tls_server(server) as port:
        with anyio.fail_after(SOON):
            async with anyio.create_task_group() as group, connect_to(configuration(port)) as cluster:
                assert isinstance(cluster, ApiserverCluster)
                clients.append(cluster._rest._sender._client)
                group.start_soon(expect_the_end, cluster)
                await until(lambda: server.requests)
                monkeypatch.setattr(clients[0], "aclose", anyio.sleep_forever)
        monkeypatch.undo()
        await clients[0].aclose()


async def expect_the_end(cluster: Cluster) -> None:
    with pytest.raises(Unreachable, match="the client was closed"):
        await cluster.read_pod("ci", "a")
