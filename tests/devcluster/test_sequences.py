"""Pods on the embedded cluster go through the states of the recordings, in their order."""

from __future__ import annotations

from typing import Any

import pytest

from senro.devcluster import IMAGE
from tests.lib.harness.devcluster import Client, Object, pod_manifest, recorded_states, recording, statuses, summary


def manifest_of(scenario: str, pod: str) -> Object:
    """The recorded manifest, with the embedded cluster's image."""
    for exchange in recording(scenario)["exchanges"]:
        request = exchange["request"]
        document = request.get("json")
        if request["method"] == "POST" and document["metadata"]["name"] == pod:
            for container in document["spec"]["containers"] + document["spec"].get("initContainers", []):
                container["image"] = IMAGE
            found: Object = document
            return found
    raise AssertionError(f"{scenario} creates no pod {pod}")


def in_order(seen: list[Any], wanted: list[Any]) -> None:
    """Every wanted state was seen, in order; what else was seen lies between two polls of the recorder."""
    position = 0
    for state in wanted:
        while position < len(seen) and seen[position] != state:
            position += 1
        assert position < len(seen), f"not seen, or not in order: {state}\nseen: {seen}"


def tidy(states: list[Any]) -> list[Any]:
    return [state for index, state in enumerate(states) if index == 0 or states[index - 1] != state]


def seen_states(client: Client, pod: Object, end: str) -> list[Any]:
    name = pod["metadata"]["name"]
    client.create(pod)
    client.until(name, lambda found: found is not None and found["status"]["phase"] == end)
    return all_states(client, name)


def all_states(client: Client, name: str) -> list[Any]:
    """Every state the pod was in, polled or not; None at the end where it is gone."""
    seen = tidy([summary(state) for state in client.cluster.states("ci", name)])
    return seen if client.pod(name) is not None else [*seen, None]


@pytest.mark.parametrize(
    ("scenario", "pod", "end"),
    [
        ("exit-zero", "r-exit-zero", "Succeeded"),
        ("exit-three", "r-exit-three", "Failed"),
        ("killed-by-itself", "r-self-kill", "Failed"),
        ("command-not-found", "r-no-command", "Failed"),
        ("bad-workdir", "r-bad-workdir", "Failed"),
        ("init-container-fails", "r-init", "Failed"),
        ("variable-expansion", "r-expand", "Succeeded"),
    ],
)
@pytest.mark.bubblewrap
def test_a_pod_goes_through_the_recorded_states(client: Client, scenario: str, pod: str, end: str) -> None:
    """The recorded manifest gives the recorded sequence of phases, conditions and container states."""
    seen = seen_states(client, manifest_of(scenario, pod), end)
    wanted = [state for state in recorded_states(scenario, pod) if state is not None and state["deleting"] is None]
    in_order(seen, wanted)
    assert seen[-1] == wanted[-1]


@pytest.mark.bubblewrap
def test_a_deleted_pod_that_traps_term(client: Client) -> None:
    """deleted-trap-zero: deletionTimestamp first, then Succeeded in one step, then gone."""
    manifest = manifest_of("deleted-trap-zero", "r-del-trap")
    client.create(manifest)
    client.running("r-del-trap")
    until_trapped(client, "r-del-trap")
    client.delete("r-del-trap", gracePeriodSeconds=10)
    client.until("r-del-trap", lambda pod: pod is None)
    seen = all_states(client, "r-del-trap")
    wanted = recorded_states("deleted-trap-zero", "r-del-trap")
    in_order(seen, [state for state in wanted if state is None or state["deleting"] is not None])


@pytest.mark.bubblewrap
def test_an_evicted_pod_that_traps_term(client: Client) -> None:
    """evicted-api-trap-zero: DisruptionTarget, then Succeeded, as though nothing had happened."""
    client.create(manifest_of("evicted-api-trap-zero", "r-evict-api"))
    client.running("r-evict-api")
    until_trapped(client, "r-evict-api")
    client.cluster.evict("ci", "r-evict-api")
    client.until("r-evict-api", lambda pod: pod is None)
    wanted = recorded_states("evicted-api-trap-zero", "r-evict-api")
    in_order(
        all_states(client, "r-evict-api"), [state for state in wanted if state is None or state["deleting"] is not None]
    )
    final = client.cluster.states("ci", "r-evict-api")[-1]
    assert final["status"]["conditions"][0]["type"] == "DisruptionTarget"


def until_trapped(client: Client, name: str) -> None:
    """The trap is set once `up` stands in the log."""
    with client.http.stream("GET", f"/api/v1/namespaces/ci/pods/{name}/log", params={"follow": "true"}) as log:
        assert next(log.iter_lines()) == "up"


@pytest.mark.bubblewrap
def test_a_workspace_round_trip(client: Client) -> None:
    """workspace-round-trip: the staging container runs, is released, the step ends while senro-io holds the pod."""
    manifest = manifest_of("workspace-round-trip", "r-ws")
    client.create(manifest)
    client.running("r-ws", "senro-stage")
    put = client.run("r-ws", ["sh", "-c", "echo hello > /senro/ws/0/in.txt"], container="senro-stage")
    assert put.exit_code == 0
    # Process 1 may take the exec with it before its status is known: both are what a real cluster does.
    assert client.run("r-ws", ["sh", "-c", "kill -TERM 1"], container="senro-stage").exit_code in {0, 137}
    client.until("r-ws", lambda pod: pod is not None and "terminated" in _state(pod, "step"))
    wanted = [state for state in recorded_states("workspace-round-trip", "r-ws") if state is not None]
    seen = all_states(client, "r-ws")
    in_order(seen, wanted[:-1])
    assert seen[-1]["containers"] == wanted[-1]["containers"]
    assert client.run("r-ws", ["cat", "/senro/ws/0/link"], container="senro-io").channel(1) == b"made\n"
    with client.exec("r-ws", ["true"]) as refused:
        assert (refused.status, refused.body()) == (500, b'container not found ("step")')
    client.delete("r-ws", gracePeriodSeconds=0)


def _state(pod: Object, container: str) -> Object:
    state: Object = statuses(pod).get(container, {}).get("state", {})
    return state


def test_a_deadline_fails_the_pod(client: Client, name: str) -> None:
    """deadline-exceeded: Ready turns PodFailed first, reason and message come with the phase."""
    client.create(pod_manifest(name, ["sleep", "30"], activeDeadlineSeconds=1))
    client.finished(name)
    before, last = client.cluster.states("ci", name)[-2:]
    assert (last["status"]["reason"], last["status"]["message"]) == (
        "DeadlineExceeded",
        "Pod was active on the node longer than the specified deadline",
    )
    assert "reason" not in before["status"]
    ready = next(condition for condition in before["status"]["conditions"] if condition["type"] == "Ready")
    assert (before["status"]["phase"], ready["reason"]) == ("Running", "PodFailed")
    assert "running" in _state(before, "step")


def test_grace_zero_removes_the_object_at_once(client: Client, name: str) -> None:
    """deleted-force: the answer shows the pod being deleted, the next read says 404."""
    created = client.create(pod_manifest(name, ["sleep", "30"]))
    client.running(name)
    answer = client.delete(name, gracePeriodSeconds=0, preconditions={"uid": created["metadata"]["uid"]})
    assert answer.status_code == 200
    assert answer.json()["metadata"]["deletionGracePeriodSeconds"] == 0
    assert client.pod(name) is None


@pytest.mark.bubblewrap
def test_a_command_that_ignores_term_is_killed_after_its_grace(client: Client, name: str) -> None:
    """deleted-ignores-term: Failed with 137 once the grace is over, then gone."""
    client.create(pod_manifest(name, ["sh", "-c", "trap '' TERM; echo up; while true; do sleep 0.1; done"]))
    client.running(name)
    until_trapped(client, name)
    client.delete(name, gracePeriodSeconds=1)
    client.until(name, lambda pod: pod is None)
    final = client.cluster.states("ci", name)[-1]
    assert final["status"]["phase"] == "Failed"
    assert _state(final, "step")["terminated"]["exitCode"] == 137


def test_a_missing_secret_is_waited_for(client: Client, name: str) -> None:
    """missing-secret-volume: ContainerCreating until the Secret is there, and then the pod runs."""
    volumes = [{"name": "s", "secret": {"secretName": f"{name}-s", "defaultMode": 0o400}}]
    mounts = [{"name": "s", "mountPath": "/run/senro/secrets", "readOnly": True}]
    step = {"volumeMounts": mounts}
    client.create(pod_manifest(name, ["cat", "/run/senro/secrets/k"], volumes=volumes, step=step))
    client.until(name, lambda pod: pod is not None and _state(pod, "step").get("waiting") is not None)
    secret = {"metadata": {"name": f"{name}-s"}, "data": {"k": "dmFsdWU="}}
    assert client.http.post("/api/v1/namespaces/ci/secrets", json=secret).status_code == 201
    client.finished(name)
    assert client.log(name).text == "value"


def test_a_missing_secret_key_is_a_config_error(client: Client, name: str) -> None:
    """create-container-config-error: the waiting reason and message name the Secret."""
    reference = {"secretKeyRef": {"name": "no-such-secret", "key": "k"}}
    step = {"env": [{"name": "X", "valueFrom": reference}]}
    client.create(pod_manifest(name, ["true"], step=step))
    last = client.until(
        name,
        lambda pod: (
            pod is not None and _state(pod, "step").get("waiting", {}).get("reason") == "CreateContainerConfigError"
        ),
    )[-1]
    assert last is not None
    assert _state(last, "step")["waiting"]["message"] == 'secret "no-such-secret" not found'
    client.delete(name)


def test_a_pod_that_fits_nowhere_stays_unscheduled(client: Client, name: str) -> None:
    """unschedulable-selector: PodScheduled False, Unschedulable, the scheduler's words; deleted at once."""
    client.create(pod_manifest(name, ["true"], nodeSelector={"no": "such"}))
    last = client.until(name, lambda pod: pod is not None and bool(pod["status"].get("conditions")))[-1]
    assert last is not None
    (condition,) = last["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert client.log(name).status_code == 204
    client.delete(name)
    assert client.pod(name) is None
