"""Every disruption at every point of a pod's life does there what it says, and leaves what a cluster would leave."""

from __future__ import annotations

import pytest

from senro.devcluster import DISRUPTIONS, FAULT_POINTS, IMAGE
from tests.lib.harness.devcluster import Client, Object, pod_manifest, state_of

GO = "mkfifo /ctl/go && read line < /ctl/go"


def pipeline_pod(name: str) -> Object:
    """A pod as senro makes it: a stage container that is released, the step, and one that holds the pod."""
    mounts = [{"name": "ctl", "mountPath": "/ctl"}]
    stage = {"name": "senro-stage", "image": IMAGE, "command": ["sh", "-c", GO], "volumeMounts": mounts}
    idle = "trap 'exit 143' TERM; while :; do sleep 0.05; done"
    io = {"name": "senro-io", "image": IMAGE, "command": ["sh", "-c", idle]}
    volumes = [{"name": "ctl", "emptyDir": {}}]
    return pod_manifest(name, ["sleep", "0.2"], initContainers=[stage], more=[io], volumes=volumes)


def live(client: Client, name: str) -> None:
    """Go through all of a pod's life, as far as it goes."""
    client.create(pipeline_pod(name))
    client.until(name, lambda pod: pod is None or ended(pod) or "running" in state_of(pod, "senro-stage"))
    release = "until [ -p /ctl/go ]; do sleep 0.01; done; echo > /ctl/go"
    with client.exec(name, ["sh", "-c", release], container="senro-stage") as session:
        if session.status == 101:
            session.finish()
    client.until(name, lambda pod: pod is None or ended(pod) or "terminated" in state_of(pod, "step"))
    with client.exec(name, ["true"], container="senro-io") as session:
        if session.status == 101:
            session.finish()
    client.delete(name, gracePeriodSeconds=1)
    client.until(name, lambda pod: pod is None)


def ended(pod: Object) -> bool:
    return pod["status"]["phase"] in {"Succeeded", "Failed"} or "deletionTimestamp" in pod["metadata"]


STARTED = {
    "scheduling": set[str](),
    "image": set[str](),
    "stage": {"senro-stage"},
    "release": {"senro-stage"},
    "start": {"senro-stage", "step"},
}


@pytest.mark.bubblewrap
@pytest.mark.parametrize("point", FAULT_POINTS)
def test_a_pod_is_evicted_at_each_point(client: Client, name: str, point: str) -> None:
    """The condition is there from that moment on, and no container is started after it."""
    client.cluster.faults.fail_pod(step=name, at=point)
    live(client, name)
    assert client.cluster.faults.pending() == 0
    last = client.cluster.states("ci", name)[-1]
    signs = [one for one in last["status"].get("conditions", []) if one["type"] == "DisruptionTarget"]
    assert [sign["reason"] for sign in signs] == ["EvictionByEvictionAPI"]
    assert set(client.cluster.starts("ci", name)) <= STARTED.get(point, {"senro-stage", "step", "senro-io"})
    if point not in {"scheduling", "image"}:
        assert STARTED.get(point, {"step"}) <= set(client.cluster.starts("ci", name))


@pytest.mark.bubblewrap
@pytest.mark.parametrize("point", FAULT_POINTS)
def test_a_pod_vanishes_at_each_point(client: Client, name: str, point: str) -> None:
    """It is gone, and nothing in its last state tells why."""
    client.cluster.faults.vanish_pod(step=name, at=point)
    live(client, name)
    assert client.cluster.faults.pending() == 0
    last = client.cluster.states("ci", name)[-1]
    assert "DisruptionTarget" not in {one["type"] for one in last["status"].get("conditions", [])}


WANTED = {
    "Evicted": ("EvictionByEvictionAPI", None),
    "Preempted": ("PreemptionByScheduler", None),
    "Tainted": ("DeletionByTaintManager", None),
    "Deleted": (None, None),
    "ForceDeleted": (None, None),
    "LimitExceeded": (None, "Evicted"),
    "NodePressure": ("TerminationByKubelet", "Evicted"),
    "NodeShutdown": ("TerminationByKubelet", "Terminated"),
    "OutOfMemory": (None, None),
}


def test_every_disruption_has_its_test() -> None:
    """A lost node is the whole node's affair, and has its own."""
    assert set(WANTED) | {"NodeLost"} == set(DISRUPTIONS)


@pytest.mark.parametrize("reason", WANTED)
def test_each_disruption_leaves_its_traces(client: Client, name: str, reason: str) -> None:
    """The condition's reason and the pod's own, once the containers have ended."""
    client.cluster.faults.fail_pod(step=name, reason=reason)
    client.create(pod_manifest(name, ["sleep", "600"]))
    gone = reason in {"Evicted", "Preempted", "Tainted", "Deleted", "ForceDeleted"}
    client.until(name, lambda pod: pod is None if gone else pod is not None and pod["status"]["phase"] == "Failed")
    last = client.cluster.states("ci", name)[-1]
    signs = {one["type"]: one["reason"] for one in last["status"]["conditions"] if one["type"] == "DisruptionTarget"}
    assert (signs.get("DisruptionTarget"), last["status"].get("reason")) == WANTED[reason]
    if reason == "OutOfMemory":
        assert state_of(last, "step")["terminated"]["reason"] == "OOMKilled"
    if reason == "NodeShutdown":
        assert state_of(last, "step")["terminated"]["exitCode"] in {137, 143}


def test_a_disrupted_command_may_trap_term_with_zero(client: Client, name: str) -> None:
    """At `term` the phase becomes Succeeded, and the condition alone tells it from a success."""
    client.cluster.faults.fail_pod(step=name, at="term", reason="Preempted", grace_seconds=30)
    client.create(pod_manifest(name, ["sleep", "600"]))
    client.until(name, lambda pod: pod is None)
    last = client.cluster.states("ci", name)[-1]
    assert last["status"]["phase"] == "Succeeded"
    assert state_of(last, "step")["terminated"]["exitCode"] == 0
    assert "DisruptionTarget" in {one["type"] for one in last["status"]["conditions"]}


def test_the_kubelets_own_eviction_with_zero_leaves_no_trace(client: Client, name: str) -> None:
    """evicted-kubelet-trap-zero, at a point: no reason, no condition; an Event alone says so."""
    client.cluster.faults.fail_pod(step=name, at="term", reason="LimitExceeded")
    client.create(pod_manifest(name, ["sleep", "600"]))
    pod = client.finished(name)
    assert pod["status"]["phase"] == "Succeeded"
    assert "reason" not in pod["status"]
    reasons = [one["reason"] for one in client.cluster.events("ci") if one["involvedObject"]["name"] == name]
    assert reasons[-2:] == ["Evicted", "Killing"]


def test_a_fault_names_its_points(client: Client) -> None:
    """A point or a reason that does not exist is refused when the fault is armed."""
    with pytest.raises(ValueError, match="none of scheduling, image"):
        client.cluster.faults.vanish_pod(at="noon")
    with pytest.raises(ValueError, match="none of Evicted, Preempted"):
        client.cluster.evict("ci", "nobody", reason="Bored")
