from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import respx

from senro.adapters.apiserver.answers import BODY_LIMIT
from senro.adapters.apiserver.configuration import TokenFile
from senro.adapters.apiserver.objects import FIRST_CONTACT_SECONDS
from senro.domain.errors import (
    Conflict,
    Forbidden,
    ProtocolError,
    Rejected,
    StreamBroken,
    Throttled,
    Unauthorized,
    Unavailable,
    Unreachable,
)
from senro.domain.kube.pod import Metadata, Pod, pod_from
from senro.domain.requests.idempotency import THROTTLED_SECONDS, RequestKind
from senro.ports.cluster import RETRY_SECONDS, Cluster
from tests.lib.fakes.clock import FakeClock, FakeRandomness
from tests.lib.harness.apiserver import SERVER, Pieces, cluster_under_respx

pytestmark = pytest.mark.anyio

POD = {"kind": "Pod", "metadata": {"namespace": "ci", "name": "a", "uid": "u-1"}}
MANIFEST = {"kind": "Pod", "metadata": {"namespace": "ci", "name": "a"}}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(auto=True)


@pytest.fixture
def route() -> Iterator[respx.Route]:
    with respx.mock:
        yield respx.route()


def elapsed(clock: FakeClock) -> float:
    return clock.monotonic() - FakeClock().monotonic()


@pytest.mark.parametrize(
    "trouble",
    [
        httpx.ConnectError("refused"),
        httpx.ReadError("reset"),
        httpx.RemoteProtocolError("disconnected"),
        httpx.Response(429, text="Too many requests"),
        httpx.Response(502, text="bad gateway"),
        httpx.Response(503),
        httpx.Response(504),
        httpx.Response(500, json={"kind": "Status", "reason": "ServerTimeout", "details": {"retryAfterSeconds": 1}}),
    ],
    ids=str,
)
async def test_reads_are_repeated(route: respx.Route, clock: FakeClock, trouble: httpx.Response | Exception) -> None:
    """A read is repeated after failures that may pass, each time after a pause."""
    route.mock(side_effect=[trouble, trouble, httpx.Response(200, json=POD)])
    async with cluster_under_respx(clock=clock) as cluster:
        pod = await cluster.read_pod("ci", "a")
    assert pod is not None
    assert pod.uid == "u-1"
    assert route.call_count == 3
    assert elapsed(clock) > 0.1


OWNER = pod_from(POD)
SECRET = {"kind": "Secret", "metadata": {"namespace": "ci", "name": "a"}}
LEASE = {"metadata": {"namespace": "ci", "name": "a", "uid": "u-1", "resourceVersion": "7"}, "spec": {}}
HELD = {**LEASE, "spec": {"holderIdentity": "me"}}
OWNED = {"metadata": {"uid": "u-2", "ownerReferences": [{"kind": "Pod", "name": "a", "uid": "u-1"}]}}


async def _log(cluster: Cluster) -> None:
    async with cluster.follow_log("ci", "a", "step"):
        pass


async def _exec(cluster: Cluster) -> None:
    async with cluster.exec("ci", "a", "step", ["true"], stdin=False, idle_seconds=1):
        pass


SENT: dict[RequestKind, tuple[Callable[[Cluster], Awaitable[object]], Mapping[str, Any]]] = {
    RequestKind.VERSION: (lambda cluster: cluster.version(), {"gitVersion": "v1.36.2"}),
    RequestKind.POD_READ: (lambda cluster: cluster.read_pod("ci", "a"), POD),
    RequestKind.POD_CREATE: (lambda cluster: cluster.create_pod(MANIFEST), POD),
    RequestKind.POD_DELETE: (lambda cluster: cluster.delete_pod("ci", "a", uid="u-1"), POD),
    RequestKind.SECRET_CREATE: (lambda cluster: cluster.create_secret(SECRET), OWNED),
    RequestKind.SECRET_OWN: (lambda cluster: cluster.own_secret("ci", "a", owner=OWNER), OWNED),
    RequestKind.SECRET_DELETE: (lambda cluster: cluster.delete_secret("ci", "a"), {}),
    RequestKind.EVENTS_LIST: (lambda cluster: cluster.list_events("ci", uid="u-1"), {"items": []}),
    RequestKind.LEASE_READ: (lambda cluster: cluster.read_lease("ci", "a"), LEASE),
    RequestKind.LEASE_CREATE: (lambda cluster: cluster.create_lease(HELD), HELD),
    RequestKind.LEASE_REPLACE: (lambda cluster: cluster.replace_lease(HELD), HELD),
    RequestKind.LEASE_DELETE: (lambda cluster: cluster.delete_lease("ci", "a", uid="u-1", version="7"), {}),
    RequestKind.LOG: (_log, {}),
    RequestKind.EXEC: (_exec, {}),
}
"""The call that sends each kind of request, and a successful answer."""


@pytest.mark.parametrize("request_of", RequestKind, ids=lambda request: request.name)
async def test_safe_requests_are_repeated(route: respx.Route, clock: FakeClock, request_of: RequestKind) -> None:
    """After a 503, exactly the kinds of requests that are safe to repeat are sent again."""
    ask, document = SENT[request_of]
    route.mock(side_effect=[httpx.Response(503), httpx.Response(200, json=document)])
    async with cluster_under_respx(clock=clock) as cluster:
        if request_of.is_idempotent:
            await ask(cluster)
        else:
            with pytest.raises(Unavailable):
                await ask(cluster)
    assert [call.request.method for call in route.calls] == [request_of.method] * (2 if request_of.is_idempotent else 1)


@pytest.mark.parametrize(
    ("message", "least"),
    [
        ("etcdserver: request timed out", 0.0),
        ("etcdserver: leader changed", 0.0),
        ("rpc error: code = Unavailable desc = no leader", 0.0),
        ('failed calling webhook "p.example": context deadline exceeded', THROTTLED_SECONDS),
        ("runtime error: index out of range", None),
    ],
)
async def test_500_is_repeated_by_its_message(
    route: respx.Route, clock: FakeClock, message: str, least: float | None
) -> None:
    """A 500 is repeated if its message names etcd or a webhook that failed for a moment."""
    status = {"kind": "Status", "reason": "InternalError", "message": message}
    route.mock(side_effect=[httpx.Response(500, json=status), httpx.Response(200, json=POD)])
    async with cluster_under_respx(clock=clock) as cluster:
        if least is None:
            with pytest.raises(Unavailable):
                await cluster.read_pod("ci", "a")
        else:
            await cluster.read_pod("ci", "a")
            assert elapsed(clock) >= least


@pytest.mark.parametrize(
    ("trouble", "error"),
    [
        (httpx.Response(400), Rejected),
        (httpx.Response(403), Forbidden),
        (httpx.Response(409), Conflict),
        (httpx.Response(500), Unavailable),
        (httpx.Response(302), ProtocolError),
        (httpx.LocalProtocolError("illegal"), ProtocolError),
        (httpx.Response(200, text="<html>"), ProtocolError),
        (httpx.Response(200, json={}), ProtocolError),
    ],
    ids=str,
)
async def test_final_errors_are_not_repeated(
    route: respx.Route, clock: FakeClock, trouble: httpx.Response | Exception, error: type[Exception]
) -> None:
    """An answer that would be the same again is raised at once."""
    route.mock(side_effect=[trouble])
    async with cluster_under_respx(clock=clock) as cluster:
        with pytest.raises(error):
            await cluster.read_pod("ci", "a")
    assert route.call_count == 1
    assert elapsed(clock) == 0


async def test_retries_end(route: respx.Route, clock: FakeClock) -> None:
    """A failure that goes on is raised after `RETRY_SECONDS`; the pauses grow to five seconds."""
    moments: list[float] = []

    def refuse(_: httpx.Request) -> httpx.Response:
        moments.append(elapsed(clock))
        raise httpx.ConnectError("refused")

    route.mock(side_effect=refuse)
    async with cluster_under_respx(clock=clock, randomness=FakeRandomness(0.0)) as cluster:
        with pytest.raises(Unreachable) as caught:
            await cluster.read_pod("ci", "a")
    assert caught.value.sent is False
    assert caught.value.operation == "read pod ci/a"
    pauses = [round(later - earlier, 3) for earlier, later in pairwise(moments)]
    assert pauses[:7] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.5]
    assert elapsed(clock) == pytest.approx(RETRY_SECONDS)


async def test_version_is_given_up_early(clock: FakeClock) -> None:
    """A cluster that does not answer at all fails within seconds, since the user waits."""
    with respx.mock:
        asked = respx.get(f"{SERVER}/version").mock(side_effect=httpx.ConnectError("refused"))
        async with cluster_under_respx(clock=clock) as cluster:
            with pytest.raises(Unreachable, match="refused"):
                await cluster.version()
    assert asked.call_count > 3
    assert elapsed(clock) == pytest.approx(FIRST_CONTACT_SECONDS)


@pytest.mark.parametrize("code", [429, 503])
async def test_version_of_a_busy_cluster_is_repeated(clock: FakeClock, code: int) -> None:
    """A cluster that answers with Retry-After is asked again at that time."""
    answers = [httpx.Response(code, headers={"Retry-After": "9"}), httpx.Response(200, json={"gitVersion": "v1.36.2"})]
    with respx.mock:
        respx.get(f"{SERVER}/version").mock(side_effect=answers)
        async with cluster_under_respx(clock=clock, randomness=FakeRandomness(0.0)) as cluster:
            assert await cluster.version() == "v1.36.2"
    assert elapsed(clock) == 9


async def test_jitter(route: respx.Route, clock: FakeClock) -> None:
    """Half of each pause is random. The same part is added to a delay that the apiserver requests."""
    throttled = httpx.Response(429, headers={"Retry-After": "7"})
    route.mock(
        side_effect=[httpx.ConnectError("x"), httpx.Response(200, json=POD), throttled, httpx.Response(200, json=POD)]
    )
    async with cluster_under_respx(clock=clock, randomness=FakeRandomness(0.5)) as cluster:
        await cluster.read_pod("ci", "a")
        assert elapsed(clock) == pytest.approx(0.075)
        await cluster.read_pod("ci", "a")
    assert elapsed(clock) == pytest.approx(0.075 + 7.025)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7),
        ({"Retry-After": "0"}, 0.05),
        ({}, 1),
        ({"Retry-After": "soon"}, 1),
        ({"Retry-After": "9" * 400}, 1),
        (
            {"Retry-After": "Sun, 29 Nov 2026 23:13:18 GMT", "Date": "Sun, 29 Nov 2026 23:13:08 GMT"},
            10,
        ),
        ({"Retry-After": "Sun, 29 Nov 2026 23:13:18 GMT"}, 1),
    ],
)
async def test_retry_after(route: respx.Route, clock: FakeClock, headers: dict[str, str], seconds: float) -> None:
    """Retry-After is kept, in seconds or as a date relative to the answer's Date; a 429 without one waits a second."""
    route.mock(side_effect=[httpx.Response(429, headers=headers), httpx.Response(200, json=POD)])
    async with cluster_under_respx(clock=clock, randomness=FakeRandomness(0.0)) as cluster:
        await cluster.read_pod("ci", "a")
    assert elapsed(clock) == pytest.approx(seconds)


async def test_retry_after_beyond_the_bound(route: respx.Route, clock: FakeClock) -> None:
    """An answer whose Retry-After reaches beyond `RETRY_SECONDS` is raised at once."""
    route.respond(429, headers={"Retry-After": "60"})
    async with cluster_under_respx(clock=clock) as cluster:
        with pytest.raises(Throttled) as caught:
            await cluster.read_pod("ci", "a")
    assert caught.value.response.retry_after == 60
    assert elapsed(clock) == 0


async def test_creates_are_sent_once(route: respx.Route, clock: FakeClock) -> None:
    """Only the caller can tell whether repeating a create is safe; `sent` tells it whether the request was sent."""
    async with cluster_under_respx(clock=clock) as cluster:
        for trouble, sent in ((httpx.ConnectError("x"), False), (httpx.ReadTimeout("x"), True)):
            route.mock(side_effect=[trouble])
            with pytest.raises(Unreachable) as caught:
                await cluster.create_pod(MANIFEST)
            assert caught.value.sent is sent
        route.mock(side_effect=[httpx.Response(429)])
        with pytest.raises(Throttled):
            await cluster.create_secret(MANIFEST)
        route.mock(side_effect=[httpx.Response(503)])
        with pytest.raises(Unavailable):
            await cluster.own_secret("ci", "a", owner=Pod())
    assert route.call_count == 4


async def test_bodies_are_bounded(route: respx.Route) -> None:
    """A body beyond the limit is refused before it fills the memory."""
    piece = b"x" * (1024 * 1024)
    route.mock(return_value=httpx.Response(200, stream=Pieces(*[piece] * (BODY_LIMIT // len(piece) + 1))))
    async with cluster_under_respx() as cluster:
        with pytest.raises(ProtocolError, match=f"at most {BODY_LIMIT} bytes"):
            await cluster.read_pod("ci", "a")


async def test_cut_answer_is_repeated(route: respx.Route, clock: FakeClock) -> None:
    """A read whose answer is cut inside its body is repeated."""
    broken = httpx.Response(200, stream=Pieces(b'{"kind"', httpx.ReadError("reset")))
    route.mock(side_effect=[broken, httpx.Response(200, json=POD)])
    async with cluster_under_respx(clock=clock) as cluster:
        assert await cluster.read_pod("ci", "a") is not None


GONE = httpx.Response(
    404, json={"kind": "Status", "reason": "NotFound", "message": "gone", "details": {"name": "a", "kind": "pods"}}
)


async def test_delete_with_another_uid(route: respx.Route) -> None:
    """A 409 for the uid means that the pod is gone only if a read shows another uid."""
    conflict = httpx.Response(409, json={"kind": "Status", "reason": "Conflict", "message": "uid differs"})
    async with cluster_under_respx() as cluster:
        route.mock(side_effect=[conflict, httpx.Response(200, json=POD)])
        assert await cluster.delete_pod("ci", "a", uid="u-0") is True
        route.mock(side_effect=[conflict, GONE])
        assert await cluster.delete_pod("ci", "a", uid="u-0") is True
        route.mock(side_effect=[conflict, httpx.Response(200, json=POD)])
        with pytest.raises(Conflict):
            await cluster.delete_pod("ci", "a", uid="u-1")


async def test_delete_of_a_pod_that_is_gone(route: respx.Route) -> None:
    """`delete_pod` returns False for an accepted deletion, True if there is no pod; by default it sends no grace."""
    route.mock(side_effect=[httpx.Response(200, json=POD), httpx.ReadError("reset"), GONE])
    async with cluster_under_respx() as cluster:
        assert await cluster.delete_pod("ci", "a", uid="u-1") is False
        assert "gracePeriodSeconds" not in json.loads(route.calls.last.request.content)
        assert await cluster.delete_pod("ci", "a", uid="u-1") is True


async def test_incomplete_answers(route: respx.Route) -> None:
    """An answer without the expected fields is an error, which does not quote a Secret."""
    route.respond(201, json={"data": {"k": "bWFkZS11cA=="}})
    async with cluster_under_respx() as cluster:
        with pytest.raises(ProtocolError, match="without a uid") as caught:
            await cluster.create_secret(MANIFEST)
        assert "bWFkZS11cA" not in str(caught.value)
        with pytest.raises(ProtocolError, match="a gitVersion"):
            await cluster.version()
        route.respond(200, text="not json")
        with pytest.raises(ProtocolError, match="an object as JSON"):
            await cluster.create_secret(MANIFEST)


async def test_delete_of_a_secret(route: respx.Route) -> None:
    """A success returns nothing; a refusal is raised."""
    route.respond(200, json={"kind": "Status", "status": "Success"})
    async with cluster_under_respx() as cluster:
        await cluster.delete_secret("ci", "a")
        route.respond(403)
        with pytest.raises(Forbidden):
            await cluster.delete_secret("ci", "a")


async def test_no_token_in_any_error(route: respx.Route, clock: FakeClock) -> None:
    """Neither an error nor a repr shows the token."""
    async with cluster_under_respx(clock=clock) as cluster:
        route.mock(side_effect=httpx.LocalProtocolError("Illegal header value"))
        with pytest.raises(ProtocolError) as caught:
            await cluster.read_pod("ci", "a")
        shown = [str(caught.value), repr(caught.value), repr(cluster), repr(vars(cluster))]
    assert not any("made-up-token" in text for text in shown)
    assert cluster.address == "https://apiserver.example:6443"


async def collect(cluster: Cluster, got: list[bytes]) -> None:
    async with cluster.follow_log("ci", "a", "step") as pieces:
        async for piece in pieces:
            got.append(piece)  # noqa: PERF401 - the caller checks the pieces that came before an error


async def test_cut_log(route: respx.Route) -> None:
    """A followed log that is cut yields what came, then raises the error with the number of bytes."""
    route.mock(return_value=httpx.Response(200, stream=Pieces(b"abc", b"", b"de", httpx.ReadTimeout("silent"))))
    got: list[bytes] = []
    async with cluster_under_respx() as cluster:
        with pytest.raises(StreamBroken) as caught:
            await collect(cluster, got)
    assert got == [b"abc", b"de"]
    assert caught.value.received == 5


async def test_leaving_a_log_closes_it(route: respx.Route) -> None:
    """Leaving the context closes the stream although more would come."""
    body = Pieces(b"a", b"b", b"c")
    route.mock(return_value=httpx.Response(200, stream=body))
    async with cluster_under_respx() as cluster:
        async with cluster.follow_log("ci", "a", "step", since="2026-11-29T23:13:08Z") as pieces:
            assert await anext(aiter(pieces)) == b"a"
        assert body.closed
    assert route.calls.last.request.url.params["sinceTime"] == "2026-11-29T23:13:08Z"


async def test_log_is_requested_once(route: respx.Route) -> None:
    """A failure before the head of the answer is raised and not repeated."""
    async with cluster_under_respx() as cluster:
        for trouble, error in (
            (httpx.ConnectError("refused"), Unreachable),
            (httpx.Response(404), Unavailable),
            (httpx.Response(500, stream=Pieces(httpx.ReadError("reset"))), Unreachable),
            (httpx.Response(302), ProtocolError),
        ):
            route.mock(side_effect=[trouble])
            with pytest.raises(error):
                await cluster.read_log("ci", "a", "step")
    assert route.call_count == 4


async def test_log_of_a_pod_without_a_node(route: respx.Route) -> None:
    """A 204 is a log without content."""
    route.mock(return_value=httpx.Response(204))
    async with cluster_under_respx() as cluster:
        async with cluster.follow_log("ci", "a", "step") as stream:
            assert [piece async for piece in stream] == []
        assert await cluster.read_log("ci", "a", "step") == b""


async def test_log_is_repeated_with_another_token(route: respx.Route, tmp_path: Path) -> None:
    """After a 401 the token file is read again; another token is tried once, the same one is not."""
    path = tmp_path / "token"
    path.write_text("first")

    def answer(request: httpx.Request) -> httpx.Response:
        if request.headers["Authorization"] == "Bearer second":
            return httpx.Response(200, text="hello")
        path.write_text("second")
        return httpx.Response(401)

    route.mock(side_effect=answer)
    async with cluster_under_respx(credential=TokenFile(str(path))) as cluster:
        assert await cluster.read_log("ci", "a", "step") == b"hello"
        route.mock(side_effect=None, return_value=httpx.Response(401))
        with pytest.raises(Unauthorized):
            await cluster.read_log("ci", "a", "step")


async def test_end_of_a_long_log(route: respx.Route, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a log beyond the limit the end is returned."""
    monkeypatch.setattr("senro.adapters.apiserver.logs.READ_LIMIT", 10)
    route.mock(return_value=httpx.Response(200, stream=Pieces(*[f"{n:04}".encode() for n in range(20)])))
    async with cluster_under_respx() as cluster:
        assert await cluster.read_log("ci", "a", "step") == b"1700180019"


async def test_unknown_exception_reaches_its_caller(route: respx.Route) -> None:
    """An exception that no table has is raised by the call itself, and other requests go on."""
    route.mock(side_effect=[KeyError("a mistake"), httpx.Response(200, json={"gitVersion": "v1.36.2"})])
    async with cluster_under_respx() as cluster:
        with pytest.raises(KeyError, match="a mistake"):
            await cluster.version()
        assert await cluster.version() == "v1.36.2"


async def test_owner_among_others(route: respx.Route) -> None:
    """The Secret may have other owners besides the pod."""
    owners = [{"kind": "Pod", "name": "x", "uid": "u-9"}, {"kind": "Pod", "name": "a", "uid": "u-1"}]
    route.respond(200, content=msgspec.json.encode({"metadata": {"ownerReferences": owners}}))
    async with cluster_under_respx() as cluster:
        await cluster.own_secret("ci", "s", owner=Pod(metadata=Metadata(name="a", uid="u-1")))
        with pytest.raises(ProtocolError, match="got Pod x u-9, Pod a u-1"):
            await cluster.own_secret("ci", "s", owner=Pod(metadata=Metadata(name="a", uid="u-2")))
