"""The scheduler: what fits where, and what is said of what does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from senro.devcluster import DevCluster, DevClusterThread, VirtualClock
from senro.devcluster.kubelet.scheduler import NodeInfo, account, patience, refusal, requests_of, tolerates
from tests.lib.harness.devcluster import Client, Object, pod_manifest


def node(name: str = "n", *, taints: list[Object] | None = None, **spec: Any) -> Object:
    amounts = {"cpu": "2", "memory": "1Gi", "pods": "3"}
    labels = {"disk": "ssd", "size": "4"}
    spec = {**spec, **({"taints": taints} if taints else {})}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"allocatable": amounts}}


def pod(name: str = "p", cpu: str = "", **spec: Any) -> Object:
    requests = {"resources": {"requests": {"cpu": cpu}}} if cpu else {}
    meta = {"name": name, "uid": name, "creationTimestamp": "2026-11-29T00:00:00Z"}
    return {"metadata": meta, "spec": {"containers": [{"name": "c", **requests}], **spec}}


def why(wanted: Object, room: NodeInfo) -> tuple[str, ...]:
    found = refusal(wanted, room)
    return found.reasons if found is not None else ()


def test_requests_are_the_sum_or_the_largest_init_container() -> None:
    """Init containers run before, one after the other."""
    initial = [{"name": "i", "resources": {"requests": {"cpu": "900m", "memory": "1"}}}]
    spec = pod(cpu="300m", initContainers=initial)["spec"]
    assert {name: float(value) for name, value in requests_of(spec).items()} == {"cpu": 0.9, "memory": 1}


def test_what_is_bound_already_counts() -> None:
    """Requests of other pods are taken off what the node has, and so is their number."""
    room = NodeInfo(node())
    room.add(pod("a", "1500m"))
    assert why(pod(cpu="500m"), room) == ()
    assert why(pod(cpu="501m"), room) == ("Insufficient cpu",)
    room.add(pod("b"))
    room.add(pod("c"))
    assert why(pod(), room) == ("Too many pods",)


def test_a_cordoned_and_a_tainted_node() -> None:
    """Each with its own words; PreferNoSchedule keeps nobody away."""
    assert why(pod(), NodeInfo(node(unschedulable=True))) == ("node(s) were unschedulable",)
    taints = [{"key": "k", "value": "v", "effect": "NoSchedule"}]
    assert why(pod(), NodeInfo(node(taints=taints))) == ("node(s) had untolerated taint(s)",)
    assert why(pod(tolerations=[{"key": "k", "value": "v"}]), NodeInfo(node(taints=taints))) == ()
    assert why(pod(), NodeInfo(node(taints=[{"key": "k", "effect": "PreferNoSchedule"}]))) == ()


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "k", "operator": "Exists"}, True),
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "operator": "Equal", "value": "w"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "k", "operator": "Exists", "effect": "NoSchedule"}, False),
        ({"key": "k", "operator": "Exists", "effect": "NoExecute"}, True),
        ({"value": "v"}, False),
    ],
)
def test_a_toleration(toleration: Object, *, tolerated: bool) -> None:
    """Key, operator, value and effect, each where it is given."""
    assert tolerates([toleration], {"key": "k", "value": "v", "effect": "NoExecute"}) is tolerated


def test_how_long_a_taint_is_tolerated() -> None:
    """Not at all, for ever, or for the shortest time that a matching toleration gives."""
    taints = [{"key": "k", "effect": "NoExecute"}, {"key": "l", "effect": "NoExecute"}]
    every = {"operator": "Exists"}
    assert patience([], taints) == 0
    assert patience([{"key": "k", "operator": "Exists"}], taints) == 0
    assert patience([every], taints) is None
    assert patience([{**every, "tolerationSeconds": 9}, {"key": "l", **every, "tolerationSeconds": 4}], taints) == 4
    assert patience([{**every, "tolerationSeconds": -1}], taints) == 0


def test_the_sentence_about_all_nodes() -> None:
    """Reasons are counted and sorted; whether preemption could help is said for each node."""
    full, small = NodeInfo(node("full")), NodeInfo(node("small"))
    full.add(pod("a", "2"))
    small.document["status"]["allocatable"]["cpu"] = "1"
    refusals = [refusal(pod(cpu="2"), room) for room in (full, small, NodeInfo(node("off", unschedulable=True)))]
    assert account([found for found in refusals if found is not None]) == (
        "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu. no new claims to deallocate, "
        "preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod. "
        "2 Preemption is not helpful for scheduling."
    )
    assert account([]) == "no nodes available to schedule pods"


@pytest.fixture(scope="module")
def pair() -> Iterator[DevCluster]:
    with DevClusterThread(nodes=("one", "two"), capacity={"cpu": "1"}, clock=VirtualClock()) as cluster:
        yield cluster


@pytest.fixture
def client(pair: DevCluster) -> Iterator[Client]:
    client = Client(pair)
    yield client
    for found in pair.pods("ci"):
        client.delete(found["metadata"]["name"], gracePeriodSeconds=0)
    client.close()


def asking(name: str, cpu: str, **spec: Any) -> Object:
    return pod_manifest(name, ["sleep", "600"], step={"resources": {"requests": {"cpu": cpu}}}, **spec)


def test_two_nodes_share_the_work_and_a_third_pod_waits_its_turn(client: Client) -> None:
    """Each node takes what fits; the rest is scheduled as soon as there is room."""
    for name in ("a", "b", "c"):
        client.create(asking(name, "800m"))
    hosts = {client.running(name)["spec"]["nodeName"]: client.pod(name) for name in ("a", "b")}
    assert set(hosts) == {"one", "two"}
    assert {found["status"]["hostIP"] for found in hosts.values() if found} == {"10.85.0.1", "10.85.0.2"}
    waiting = client.until("c", lambda found: found is not None and bool(found["status"].get("conditions")))[-1]
    assert waiting is not None
    assert waiting["status"]["conditions"][0]["message"].startswith("0/2 nodes are available: 2 Insufficient cpu.")
    client.delete("a", gracePeriodSeconds=0)
    client.running("c")


def test_a_node_is_chosen_by_name(client: Client) -> None:
    """NodeSelector and nodeName; a name that no node has is waited for without a word."""
    client.create(asking("chosen", "100m", nodeSelector={"kubernetes.io/hostname": "two"}))
    assert client.running("chosen")["spec"]["nodeName"] == "two"
    client.create(asking("bound", "100m", nodeName="one"))
    assert client.running("bound")["status"]["hostIP"] == "10.85.0.1"


def test_one_silent_node_leaves_the_other_alone(client: Client) -> None:
    """Pods there run on; new ones go to the node that answers; a removed node's pods are collected."""
    cluster = client.cluster
    client.create(asking("far", "100m", nodeSelector={"kubernetes.io/hostname": "two"}))
    client.running("far")
    cluster.silence_node("two")
    cluster.advance(3)
    client.until("far", lambda found: found is not None and condition(found, "Ready") == ("False", None))
    found = {one["metadata"]["name"]: one for one in client.http.get("/api/v1/nodes").json()["items"]}
    assert condition(found["two"], "Ready") == ("Unknown", "NodeStatusUnknown")
    assert condition(found["one"], "Ready") == ("True", "KubeletReady")
    for number in range(3):
        client.create(asking(f"near-{number}", "100m"))
        assert client.running(f"near-{number}")["spec"]["nodeName"] == "one"
    assert client.log("far").status_code == 500
    cluster.remove_node("two")
    cluster.advance(5)
    client.until("far", lambda one: one is None)
    last = cluster.states("ci", "far")[-1]
    assert (last["status"]["phase"], condition(last, "DisruptionTarget")) == ("Failed", ("True", "DeletionByPodGC"))
    assert "running" in last["status"]["containerStatuses"][0]["state"]


@pytest.mark.parametrize("http2", [False, True])
def test_what_is_open_to_a_node_breaks_as_it_falls_silent(pair: DevCluster, *, http2: bool) -> None:
    """A followed log and an exec end in the middle; what runs there runs on, and is there again afterwards."""
    client = Client(pair, http2=http2)
    name = f"open-{http2}".lower()
    command = ["sh", "-c", "echo up; sleep 600"]
    client.create(pod_manifest(name, command, nodeSelector={"kubernetes.io/hostname": "one"}))
    client.running(name)
    with client.exec(name, ["sleep", "600"], stdin=True) as session:
        assert session.frame() == (2, b"\x01")
        path = f"/api/v1/namespaces/ci/pods/{name}/log"
        with client.http.stream("GET", path, params={"follow": "true"}) as log:
            lines = log.iter_lines()
            assert next(lines) == "up"
            pair.silence_node("one")
            with pytest.raises(httpx.RemoteProtocolError):
                next(lines)
        result = session.finish()
    assert (result.close_code, result.status) == (None, None)
    pair.revive_node("one")
    pair.advance(5)
    assert client.log(name).text == "up\n"
    assert client.run(name, ["true"]).exit_code == 0
    client.delete(name, gracePeriodSeconds=0)
    client.close()


def condition(document: Object, kind: str) -> tuple[str, str | None]:
    return next((one["status"], one.get("reason")) for one in document["status"]["conditions"] if one["type"] == kind)
