"""What a kubelet refuses of pods that name their node themselves: admission.

See docs/design/pod-states.md#refusals-by-the-kubelet.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from senro.devcluster import DevCluster, DevClusterThread
from senro.devcluster.kubelet.rejection import rejection
from senro.devcluster.kubelet.scheduler import NodeInfo
from tests.lib.harness.devcluster import Client, Object, pod_manifest

NODE: Object = {
    "metadata": {"name": "one", "labels": {"kubernetes.io/os": "linux", "zone": "a"}},
    "spec": {},
    "status": {"allocatable": {"cpu": "1500m", "memory": "1Gi", "pods": "2", "example.com/gpu": "1"}},
}


def pod(*, labels: Object | None = None, requests: Object | None = None, **spec: Any) -> Object:
    containers = [{"name": "step", "resources": {"requests": requests or {}}}]
    return {"metadata": {"uid": "x", "labels": labels or {}}, "spec": {"containers": containers, **spec}}


def room(*pods: Object, **spec: Any) -> NodeInfo:
    found = NodeInfo({**NODE, "spec": spec})
    for other in pods:
        found.add(other)
    return found


RUNNING = pod(requests={"cpu": "0.7", "memory": "600Mi"})
SHORT = "Node didn't have enough resource: "
TAINT = {"key": "k", "value": "v", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("asked", "there", "told"),
    [
        (pod(requests={"cpu": "800m", "memory": "1Mi"}), room(RUNNING), None),
        (
            pod(requests={"cpu": "801m"}),
            room(RUNNING),
            ("OutOfcpu", SHORT + "cpu, requested: 801, used: 700, capacity: 1500"),
        ),
        (
            pod(requests={"memory": "500Mi"}),
            room(RUNNING),
            ("OutOfmemory", SHORT + "memory, requested: 524288000, used: 629145600, capacity: 1073741824"),
        ),
        (pod(), room(RUNNING, RUNNING), ("OutOfpods", SHORT + "pods, requested: 1, used: 2, capacity: 2")),
        (
            pod(requests={"example.com/gpu": "2"}),
            room(),
            ("OutOfexample.com/gpu", SHORT + "example.com/gpu, requested: 2, used: 0, capacity: 1"),
        ),
        (pod(requests={"ephemeral-storage": "5Ti"}), room(), None),
        (
            pod(nodeSelector={"zone": "b"}),
            room(),
            ("NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"),
        ),
        (
            pod(),
            room(taints=[TAINT]),
            ("TaintToleration", "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"),
        ),
        (pod(tolerations=[{"operator": "Exists"}]), room(taints=[TAINT]), None),
        (pod(), room(taints=[{**TAINT, "effect": "NoSchedule"}], unschedulable=True), None),
        (
            pod(labels={"kubernetes.io/os": "windows"}),
            room(),
            (
                "PodOSSelectorNodeLabelDoesNotMatch",
                "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
            ),
        ),
        (
            pod(os={"name": "windows"}),
            room(),
            ("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"),
        ),
    ],
)
def test_what_a_kubelet_takes(asked: Object, there: NodeInfo, told: tuple[str, str] | None) -> None:
    """Resources, the selector, NoExecute taints and the operating system decide, in the kubelet's words."""
    assert rejection(asked, there) == told


@pytest.fixture(scope="module")
def small() -> Iterator[DevCluster]:
    with DevClusterThread(nodes=("one",), capacity={"cpu": "1"}) as running:
        yield running


@pytest.fixture
def client(small: DevCluster) -> Iterator[Client]:
    client = Client(small)
    yield client
    for found in small.pods("ci"):
        client.delete(found["metadata"]["name"], gracePeriodSeconds=0)
    client.close()


def test_a_rejected_pod(client: Client) -> None:
    """Failed with a reason, a message and a startTime; no container, no condition; nothing was started; it goes."""
    asking = {"resources": {"requests": {"cpu": "600m"}}}
    client.create(pod_manifest("first", ["sleep", "600"], step=asking, nodeName="one"))
    client.running("first")
    client.create(pod_manifest("second", ["true"], step=asking, nodeName="one"))
    status = client.finished("second")["status"]
    assert status.pop("startTime")
    assert status == {
        "observedGeneration": 1,
        "phase": "Failed",
        "message": f"Pod was rejected: {SHORT}cpu, requested: 600, used: 600, capacity: 1000",
        "reason": "OutOfcpu",
        "qosClass": "Burstable",
    }
    told = [event for event in client.cluster.events("ci") if event["reason"] == "OutOfcpu"]
    assert [(event["type"], event["message"]) for event in told] == [
        ("Warning", f"{SHORT}cpu, requested: 600, used: 600, capacity: 1000")
    ]
    assert client.cluster.starts("ci", "second") == {}
    refused = client.log("second")
    assert (refused.status_code, refused.json()["message"]) == (
        400,
        'container "step" in pod "second" is not available',
    )
    client.delete("second")
    assert client.pod("second") is None


def test_a_pod_of_the_same_request_is_taken_later(client: Client) -> None:
    """What a rejected pod asked for is not counted, and what has ended is not either."""
    asking = {"resources": {"requests": {"cpu": "600m"}}}
    for number in range(3):
        client.create(pod_manifest(f"p{number}", ["true"], step=asking, nodeName="one"))
        assert client.finished(f"p{number}")["status"]["phase"] == "Succeeded"
