"""Replays every recorded exchange through the adapter, and checks its requests and results.

An exchange for which a port has a method goes through that method. The others (`NO_CALL` has the reasons) go through
the REST layer, so that the decoding of every recorded answer is checked.

More than 500 lines: the tests of each kind of exchange are next to the table of those without a method.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from typing import Any
from urllib.parse import parse_qsl

import httpx
import pytest
import respx

from senro.adapters.apiserver.websocket import expected_accept
from senro.domain.claims.lease import Lease
from senro.domain.errors import AlreadyExists, ApiError, ClusterError, ProtocolError, StreamBroken
from senro.domain.kube.exec_protocol import V4, V5, Ended, ExecFailure, ExecResult, ExitCode, StatusLost, Stdout
from senro.domain.kube.pod import Pod, pod_from
from senro.domain.kube.status import error_class
from senro.domain.requests.idempotency import RequestKind
from senro.ports.cluster import Cluster, ExecSession
from tests.lib.fakes.clock import FakeClock
from tests.lib.fakes.network import FakeNetworkStream, client_frames, server_frame
from tests.lib.harness.apiserver import (
    Exchange,
    Pieces,
    body_of,
    cluster_under_respx,
    exchanges,
    recording,
    rest_under_respx,
)

pytestmark = pytest.mark.anyio

NO_CALL = {
    ("GET", "pods"): "listing and watching: the identity may only get",
    ("POST", "selfsubjectaccessreviews"): "asked by preflight, which is not built yet",
    ("POST", "selfsubjectrulesreviews"): "asked by preflight, which is not built yet",
    ("GET", "nodes"): "nodes are not read yet",
    ("GET", "nodes/*"): "nodes are not read yet",
    ("GET", "secrets/*"): "Secrets are never read back",
    ("POST", "pods/*/exec"): "senro upgrades by GET alone",
}


def kind_of(exchange: Exchange) -> tuple[str, str]:
    """The method and the resource, with `*` for a name."""
    parts = exchange["request"]["path"].strip("/").split("/")
    del parts[: 2 if parts[0] == "api" else 3]
    if parts[:1] == ["namespaces"]:
        del parts[:2]
    if len(parts) > 1:
        parts[1] = "*"
    return exchange["request"]["method"], "/".join(parts)


ALL = list(exchanges())


def chosen(*kinds: tuple[str, str]) -> list[Any]:
    return [
        pytest.param(exchange, id=f"{scenario}-{position}")
        for scenario, position, exchange in ALL
        if kind_of(exchange) in kinds
    ]


CALLS = {
    ("GET", ""): "version",
    ("POST", "pods"): "create_pod",
    ("GET", "pods/*"): "read_pod",
    ("DELETE", "pods/*"): "delete_pod",
    ("GET", "pods/*/log"): "follow_log or read_log",
    ("GET", "pods/*/exec"): "exec",
    ("POST", "secrets"): "create_secret",
    ("PATCH", "secrets/*"): "own_secret",
    ("DELETE", "secrets/*"): "delete_secret",
    ("GET", "leases/*"): "read_lease",
    ("POST", "leases"): "create_lease",
    ("PUT", "leases/*"): "replace_lease",
    ("DELETE", "leases/*"): "delete_lease",
}


def test_every_exchange_is_replayed() -> None:
    """Each kind of recorded exchange has a test below, and no kind is listed without an exchange."""
    seen = Counter(kind_of(exchange) for _, _, exchange in ALL)
    assert not CALLS.keys() & NO_CALL.keys()
    assert set(seen) == CALLS.keys() | NO_CALL.keys()
    assert sum(seen.values()) == len(ALL) > 500


def answer_with_recording(exchange: Exchange) -> respx.Route:
    """Makes respx answer any request with the recorded answer."""
    answer = exchange["response"]
    headers = {name: value for name, value in answer["headers"].items() if name != "content-length"}
    return respx.route().mock(
        return_value=httpx.Response(answer["status"], headers=headers, stream=Pieces(body_of(answer)))
    )


def sent_request(route: respx.Route) -> httpx.Request:
    """Returns the only request that was sent."""
    assert route.call_count == 1
    request = route.calls.last.request
    assert request.headers["Authorization"] == "Bearer made-up-token"
    return request


def assert_request(route: respx.Route, exchange: Exchange, **added: str) -> httpx.Request:
    """Checks that the adapter sent the recorded request, with additional parameters `added`."""
    request, recorded = sent_request(route), exchange["request"]
    assert (request.method, request.url.path) == (recorded["method"], recorded["path"])
    query = [(name, value) for name, value in recorded["query"] if name not in added]
    assert parse_qsl(request.url.query.decode(), keep_blank_values=True) == query + list(added.items())
    return request


def assert_error(caught: pytest.ExceptionInfo[ApiError], exchange: Exchange) -> None:
    """Checks that the error has the right class and quotes the cluster."""
    answer = exchange["response"]
    said = answer.get("json") or {"message": body_of(answer).decode().strip()}
    error = caught.value
    assert type(error) is error_class(answer["status"], said.get("reason", ""))
    assert (error.response.code, error.response.reason) == (answer["status"], said.get("reason", ""))
    assert error.response.message[:8_000] == said["message"][:8_000]
    causes = said.get("details", {}).get("causes", [])
    assert [(cause.field, cause.reason) for cause in error.response.causes] == [
        (cause.get("field", ""), cause.get("reason", "")) for cause in causes
    ]
    assert said["message"][:200].strip() in str(error)


@pytest.mark.parametrize("exchange", chosen(("GET", "")))
@respx.mock
async def test_version(exchange: Exchange) -> None:
    """GET /version returns the version of the cluster."""
    route = answer_with_recording(exchange)
    async with cluster_under_respx() as cluster:
        assert await cluster.version() == "v1.36.2"
    assert_request(route, exchange)


@pytest.mark.parametrize("exchange", chosen(("GET", "pods/*")))
@respx.mock
async def test_read_pod(exchange: Exchange) -> None:
    """A pod is decoded, a missing pod is None, and any other answer is an error."""
    route = answer_with_recording(exchange)
    namespace, name = namespace_and_name(exchange)
    status = exchange["response"]["status"]
    async with cluster_under_respx() as cluster:
        if status in (200, 404):
            expected = pod_from(exchange["response"]["json"]) if status == 200 else None
            assert await cluster.read_pod(namespace, name) == expected
        else:
            with pytest.raises(ApiError) as caught:
                await cluster.read_pod(namespace, name)
            assert_error(caught, exchange)
    assert_request(route, exchange)


@pytest.mark.parametrize("exchange", chosen(("POST", "pods")))
@respx.mock
async def test_create_pod(exchange: Exchange) -> None:
    """A create sends the manifest once, with strict validation, and returns the pod or raises the refusal."""
    route = answer_with_recording(exchange)
    manifest = exchange["request"].get("json")
    if not isinstance(manifest, dict):
        # The recorder sent a body that no manifest encodes to; the refusal is checked nevertheless.
        manifest = {"metadata": {"namespace": "ci", "name": "r-not-json"}}
    namespace = namespace_and_name(exchange)[0]
    manifest = {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}
    async with cluster_under_respx() as cluster:
        if exchange["response"]["status"] == 201:
            assert await cluster.create_pod(manifest) == pod_from(exchange["response"]["json"])
        else:
            with pytest.raises(ApiError) as caught:
                await cluster.create_pod(manifest)
            assert_error(caught, exchange)
            assert isinstance(caught.value, AlreadyExists) == (exchange["response"]["status"] == 409)
    request = assert_request(route, exchange, fieldValidation="Strict")
    assert request.headers["Content-Type"] == "application/json"
    assert json.loads(request.content) == manifest


@pytest.mark.parametrize("exchange", chosen(("DELETE", "pods/*")))
@respx.mock
async def test_delete_pod(exchange: Exchange) -> None:
    """A delete has the uid and the grace in its body, which the apiserver respects; the pod may still exist."""
    route = answer_with_recording(exchange)
    namespace, name = namespace_and_name(exchange)
    uid = exchange["response"]["json"]["metadata"]["uid"]
    async with cluster_under_respx() as cluster:
        assert await cluster.delete_pod(namespace, name, uid=uid, grace_seconds=0) is False
    request = sent_request(route)
    assert (request.method, request.url.raw_path.decode()) == ("DELETE", exchange["request"]["path"])
    assert json.loads(request.content) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": uid},
        "gracePeriodSeconds": 0,
    }


@pytest.mark.parametrize("exchange", chosen(("GET", "pods/*/log")))
@respx.mock
async def test_log(exchange: Exchange) -> None:
    """The bytes of a log are returned as they arrive, none for a pod without a node; a refusal comes before any."""
    route = answer_with_recording(exchange)
    namespace, name = namespace_and_name(exchange)
    query = dict(exchange["request"]["query"])
    container, follow = query.get("container", "step"), "follow" in query
    async with cluster_under_respx() as cluster:
        if exchange["response"]["status"] in (200, 204):
            assert await read_all(cluster, namespace, name, container, follow=follow) == body_of(exchange["response"])
        else:
            with pytest.raises(ApiError) as caught:
                await read_all(cluster, namespace, name, container, follow=follow)
            assert_error(caught, exchange)
    request = sent_request(route)
    assert request.url.path == exchange["request"]["path"]
    expected = {"container": container, "timestamps": "true"} | ({"follow": "true"} if follow else {})
    assert dict(request.url.params) == expected


async def read_all(cluster: Cluster, namespace: str, name: str, container: str, *, follow: bool) -> bytes:
    if not follow:
        return await cluster.read_log(namespace, name, container)
    async with cluster.follow_log(namespace, name, container) as pieces:
        return b"".join([piece async for piece in pieces])


@pytest.mark.parametrize("exchange", chosen(("POST", "secrets")))
@respx.mock
async def test_create_secret(exchange: Exchange) -> None:
    """A Secret is created once, with strict validation; only its uid is returned."""
    route = answer_with_recording(exchange)
    manifest = exchange["request"]["json"]
    manifest = {**manifest, "metadata": {**manifest["metadata"], "namespace": "ci"}}
    async with cluster_under_respx() as cluster:
        if exchange["response"]["status"] == 201:
            uid = exchange["response"]["json"]["metadata"]["uid"]
            assert await cluster.create_secret(manifest) == uid
        else:
            with pytest.raises(ApiError) as caught:
                await cluster.create_secret(manifest)
            assert_error(caught, exchange)
    assert_request(route, exchange, fieldValidation="Strict")


@pytest.mark.parametrize("exchange", chosen(("PATCH", "secrets/*")))
@respx.mock
async def test_own_secret(exchange: Exchange) -> None:
    """A merge patch sets the owner, and the answer must contain it."""
    route = answer_with_recording(exchange)
    namespace, name = namespace_and_name(exchange)
    created = next(e for e in recording("secret-lifecycle")["exchanges"] if kind_of(e) == ("POST", "pods"))
    owner = pod_from(created["response"]["json"])
    async with cluster_under_respx() as cluster:
        if exchange["response"]["status"] == 200:
            await cluster.own_secret(namespace, name, owner=owner)
        else:
            with pytest.raises(ApiError) as caught:
                await cluster.own_secret(namespace, name, owner=owner)
            assert_error(caught, exchange)
    request = assert_request(route, exchange, fieldValidation="Strict")
    assert request.headers["Content-Type"] == "application/merge-patch+json"
    reference = {"apiVersion": "v1", "kind": "Pod", "name": owner.name, "uid": owner.uid}
    assert json.loads(request.content) == {"metadata": {"ownerReferences": [reference]}}
    if exchange["response"]["status"] == 200:
        assert json.loads(request.content) == exchange["request"]["json"]


@respx.mock
async def test_own_secret_checks_the_answer() -> None:
    """An answer with another owner is an error, since the Secret would outlive its pod."""
    exchange = next(e for e in recording("secret-lifecycle")["exchanges"] if kind_of(e) == ("PATCH", "secrets/*"))
    answer_with_recording(exchange)
    async with cluster_under_respx() as cluster:
        with pytest.raises(ProtocolError, match="expected the owner"):
            await cluster.own_secret("ci", "r-secret-pod-secrets", owner=Pod())


@pytest.mark.parametrize("exchange", chosen(("DELETE", "secrets/*")))
@respx.mock
async def test_delete_secret(exchange: Exchange) -> None:
    """A Secret that the garbage collector removed before is no error."""
    route = answer_with_recording(exchange)
    namespace, name = namespace_and_name(exchange)
    async with cluster_under_respx() as cluster:
        await cluster.delete_secret(namespace, name)
    assert_request(route, exchange)


@pytest.mark.parametrize("exchange", chosen(("GET", "leases/*")))
@respx.mock
async def test_read_lease(exchange: Exchange) -> None:
    """A Lease is decoded with its state and its holder; a missing one is None."""
    route = answer_with_recording(exchange)
    namespace, name = namespace_and_name(exchange, api=3)
    async with cluster_under_respx() as cluster:
        lease = await cluster.read_lease(namespace, name)
    if exchange["response"]["status"] == 404:
        assert lease is None
    else:
        assert_lease(lease, exchange["response"]["json"])
    assert_request(route, exchange)


@pytest.mark.parametrize("exchange", chosen(("POST", "leases"), ("PUT", "leases/*")))
@respx.mock
async def test_write_lease(exchange: Exchange) -> None:
    """A Lease is written once, with strict validation; the Lease is returned, or the refusal raised."""
    route = answer_with_recording(exchange)
    manifest = exchange["request"]["json"]
    async with cluster_under_respx() as cluster:
        write = cluster.create_lease if exchange["request"]["method"] == "POST" else cluster.replace_lease
        if exchange["response"]["status"] in (200, 201):
            assert_lease(await write(manifest), exchange["response"]["json"])
        else:
            with pytest.raises(ApiError) as caught:
                await write(manifest)
            assert_error(caught, exchange)
    assert json.loads(assert_request(route, exchange, fieldValidation="Strict").content) == manifest


@respx.mock
async def test_write_lease_checks_the_answer() -> None:
    """An answer with another holder, or that is no Lease, is an error: it would count as acquired."""
    exchange = next(e for e in recording("lease-lifecycle")["exchanges"] if kind_of(e) == ("POST", "leases"))
    route = answer_with_recording(exchange)
    manifest = exchange["request"]["json"]
    other = {**manifest, "spec": {**manifest["spec"], "holderIdentity": "somebody else"}}
    async with cluster_under_respx() as cluster:
        with pytest.raises(ProtocolError, match="expected the holder somebody else, got run-a"):
            await cluster.create_lease(other)
        for body in (b"{}", b"<html>", b'{"metadata": {"uid": "u"}}'):
            route.mock(return_value=httpx.Response(200, content=body))
            with pytest.raises(ProtocolError, match="expected a Lease with uid and resourceVersion"):
                await cluster.create_lease(manifest)


@pytest.mark.parametrize("exchange", chosen(("DELETE", "leases/*")))
@respx.mock
async def test_delete_lease(exchange: Exchange) -> None:
    """A Lease is deleted only in the state that was read; one that is gone is no error."""
    route = answer_with_recording(exchange)
    namespace, name = namespace_and_name(exchange, api=3)
    async with cluster_under_respx() as cluster:
        await cluster.delete_lease(namespace, name, uid="u", version="7")
    assert json.loads(assert_request(route, exchange).content)["preconditions"] == {"uid": "u", "resourceVersion": "7"}


def assert_lease(lease: Lease | None, document: dict[str, Any]) -> None:
    """Checks that the Lease equals the answer."""
    assert lease is not None
    assert lease.state == (document["metadata"]["uid"], document["metadata"]["resourceVersion"])
    spec = document["spec"]
    assert (lease.holder, lease.seconds) == (spec["holderIdentity"], spec["leaseDurationSeconds"])
    assert lease.spec.acquire_time == spec["acquireTime"]


@pytest.mark.parametrize("exchange", chosen(*NO_CALL))
@respx.mock
async def test_answers_without_a_method(exchange: Exchange) -> None:
    """Answers to requests that no port sends are decoded too: the whole body, or the error."""
    route = answer_with_recording(exchange)
    recorded, answer = exchange["request"], exchange["response"]
    query = "&".join(f"{name}={value}" for name, value in recorded["query"])
    target = recorded["path"] + (f"?{query}" if query else "")
    body = json.dumps(recorded["json"]).encode() if "json" in recorded else None
    as_told = next(each for each in RequestKind if each.method == recorded["method"] and not each.is_idempotent)
    async with rest_under_respx() as rest:
        if answer["status"] < 400:
            reply = await rest.send(as_told, "replay", target, body=body)
            assert (reply.status, reply.body) == (answer["status"], body_of(answer))
        else:
            with pytest.raises(ApiError) as caught:
                await rest.send(as_told, "replay", target, body=body)
            assert_error(caught, exchange)
    assert sent_request(route).method == recorded["method"]


@pytest.mark.parametrize("exchange", chosen(("GET", "pods/*/exec")))
@respx.mock
async def test_exec(exchange: Exchange) -> None:
    """An exec offers one subprotocol, sends whole masked messages, and ends as recorded."""
    namespace, name = namespace_and_name(exchange)
    query = exchange["request"]["query"]
    command = [value for word, value in query if word == "command"]
    container = dict(query).get("container", "step")
    stdin = ["stdin", "true"] in query
    stream = FakeNetworkStream(server_bytes(exchange), clock=(clock := FakeClock()))
    route = respx.route().mock(side_effect=lambda request: upgrade_answer(request, exchange, stream))
    got = {1: b"", 2: b""}
    end: ExecResult | ClusterError
    sent: list[bytes] = []
    async with cluster_under_respx(clock=clock) as cluster:
        try:
            async with cluster.exec(namespace, name, container, command, stdin=stdin, idle_seconds=60) as session:
                if stdin:
                    sent = await send_recorded(session, exchange)
                end = await receive_all(session, got)
        except ClusterError as error:
            end = error
    request = sent_request(route)
    assert request.url.path == exchange["request"]["path"]
    expected = [("container", container), *(("command", word) for word in command)]
    expected += [("stdin", "true")] if stdin else []
    assert parse_qsl(request.url.query.decode(), keep_blank_values=True) == [
        *expected,
        ("stdout", "true"),
        ("stderr", "true"),
    ]
    assert request.headers["Sec-WebSocket-Protocol"] == (V5 if stdin else V4)
    if exchange["response"]["status"] == 101:
        result = exchange["result"]
        assert (len(got[1]), len(got[2])) == (result["stdout_len"], result["stderr_len"])
        frames = client_frames(stream.written)
        assert [payload for opcode, _, payload in frames if opcode == 2] == sent
        assert all(fin for _, fin, _ in frames)
    assert_end(end, exchange)


def server_bytes(exchange: Exchange) -> list[bytes | Exception]:
    """Returns the bytes that the server sent, and how it ended. Bodies that were not recorded are zeros."""
    opcodes = {"binary": 2, "text": 1, "close": 8, "ping": 9, "pong": 10}
    pieces: list[bytes | Exception] = [
        server_frame(payload_of(frame), opcode=opcodes[frame["opcode"]], fin=frame["fin"])
        for frame in exchange.get("frames", [])
        if frame["from"] == "server"
    ]
    if "without a close frame" in (exchange.get("ended") or {"how": ""})["how"]:
        pieces.append(b"")
    return pieces


def payload_of(frame: dict[str, Any]) -> bytes:
    return base64.b64decode(frame.get("base64") or frame["head_base64"]).ljust(frame["len"], b"\0")


def upgrade_answer(request: httpx.Request, exchange: Exchange, stream: FakeNetworkStream) -> httpx.Response:
    """Returns the recorded answer; a 101 has the accept for this key and the offered subprotocol."""
    answer = exchange["response"]
    if answer["status"] != 101:
        headers = {name: value for name, value in answer["headers"].items() if name != "content-length"}
        return httpx.Response(answer["status"], headers=headers, stream=Pieces(body_of(answer)))
    headers = {
        **answer["headers"],
        "sec-websocket-accept": expected_accept(base64.b64decode(request.headers["Sec-WebSocket-Key"])),
        "sec-websocket-protocol": request.headers["Sec-WebSocket-Protocol"],
    }
    extensions = {"network_stream": stream, "http_version": b"HTTP/1.1"}
    return httpx.Response(101, headers=headers, extensions=extensions)


async def send_recorded(session: ExecSession, exchange: Exchange) -> list[bytes]:
    """Sends what the recorder sent, except the size of a terminal, which senro never sends. Returns the messages."""
    sent = [frame for frame in exchange.get("frames", []) if frame["from"] == "client"]
    messages = [payload_of(frame) for frame in sent if frame["opcode"] == "binary"]
    messages = [message for message in messages if message[0] != 4]
    for message in messages:
        if message == b"\xff\x00":
            await session.close_stdin()
        else:
            assert message[:1] == b"\x00"
            await session.send(message[1:])
    return messages


async def receive_all(session: ExecSession, got: dict[int, bytes]) -> ExecResult:
    while True:
        event = await session.receive()
        if isinstance(event, Ended):
            return event.result
        got[1 if isinstance(event, Stdout) else 2] += event.data


def assert_end(end: ExecResult | ClusterError, exchange: Exchange) -> None:
    """Checks that the end is as recorded: a code, an error, a lost status, a broken stream or a refusal."""
    answer = exchange["response"]
    if answer["status"] == 403 and not body_of(answer):
        assert isinstance(end, ProtocolError)
        assert "without a body" in str(end)
    elif answer["status"] != 101:
        assert isinstance(end, ApiError)
        said = answer.get("json") or {"message": body_of(answer).decode()}
        assert type(end) is error_class(answer["status"], said.get("reason", ""))
        assert end.response.message == said["message"]
    elif not exchange["result"]["status"]:
        if exchange["ended"]["how"] == "close frame":
            assert end == StatusLost(1000)
        else:
            assert isinstance(end, StreamBroken)
    else:
        status = json.loads(exchange["result"]["status"])
        if status["status"] == "Success":
            assert end == ExitCode(0)
        elif status["reason"] == "NonZeroExitCode":
            assert end == ExitCode(int(status["details"]["causes"][0]["message"]))
        else:
            assert end == ExecFailure(status["reason"], status["message"])


def namespace_and_name(exchange: Exchange, api: int = 2) -> tuple[str, str]:
    """Returns namespace and name from a path with an API like `api/v1` or `apis/coordination.k8s.io/v1`."""
    parts = exchange["request"]["path"].split("/")[api:]
    return parts[2], parts[4] if len(parts) > 4 else ""
