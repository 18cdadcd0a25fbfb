"""Each recorded pod is made again on the embedded cluster, and must go through the recorded states, word for word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from senro.devcluster import IMAGE, DevCluster, DevClusterThread, VirtualClock
from tests.lib.harness.devcluster import Client, Object, pod_manifest, recording, state_of

RUNNER = "localhost/senro/runner@sha256:f8648823c762eb516699f47609cdc35c350c48946cf2ccba56fc4512096d2bf3"
SANDBOX = re.compile(r'"/var/lib/kubelet/pods/[^"]*"|open /[^ ]*/root(?:fs)?(?=/etc)|error mounting "[^"]*"')


@pytest.fixture(scope="module")
def moved() -> Iterator[DevCluster]:
    """A cluster of the recordings' node (two cores), whose minutes a test may skip."""
    with DevClusterThread(clock=VirtualClock(), capacity={"cpu": "2"}) as cluster:
        yield cluster


@pytest.fixture
def client(moved: DevCluster, request: pytest.FixtureRequest) -> Iterator[Client]:
    if request.node.get_closest_marker("bubblewrap") is not None and moved.mode != "bubblewrap":
        pytest.skip(f"bubblewrap cannot run: {moved.mode_reason}")
    client = Client(moved)
    yield client
    moved.faults.clear()
    for pod in moved.pods("ci"):
        client.delete(pod["metadata"]["name"], gracePeriodSeconds=0)
    client.close()


def summary_of_pod(pod: Object | None) -> Any:
    """All that a poller sees of a pod, but for times, identifiers, addresses and the image's name."""
    if pod is None:
        return None
    meta, status = pod["metadata"], pod["status"]
    return {
        "phase": status["phase"],
        "reason": status.get("reason"),
        "message": status.get("message"),
        "generation": (meta.get("generation"), status.get("observedGeneration")),
        "deleting": meta.get("deletionGracePeriodSeconds"),
        "conditions": [
            tuple(condition.get(key) for key in ("type", "status", "reason", "message", "observedGeneration"))
            for condition in status.get("conditions", [])
        ],
        "addressed": ("hostIP" in status, "podIP" in status, "startTime" in status),
        "init": [container(entry) for entry in status.get("initContainerStatuses", [])],
        "containers": [container(entry) for entry in status.get("containerStatuses", [])],
        "resources": (status.get("qosClass"), status.get("allocatedResources")),
    }


def container(entry: Object) -> Any:
    ((kind, state),) = entry["state"].items()
    known = {key: value for key, value in state.items() if not key.endswith("At") and key != "containerID"}
    known["message"] = SANDBOX.sub("...", known["message"]).replace(RUNNER, IMAGE) if "message" in known else None
    never = {key: value for key, value in state.items() if key.endswith("At") and (not value or value[:4] == "1970")}
    flags = [entry["ready"], entry["started"], entry["restartCount"], bool(entry.get("containerID"))]
    return entry["name"], kind, known, never, flags, entry["lastState"], entry.get("allocatedResources")


def recorded_states(scenario: str, pod: str) -> list[Any]:
    """The states that the recorder saw of that pod, each once."""
    states: list[Any] = []
    for exchange in recording(scenario)["exchanges"]:
        request, document = exchange["request"], exchange["response"].get("json")
        if request["method"] in {"GET", "POST"} and document is not None and exchange["response"]["status"] < 500:
            if document["kind"] == "Pod" and document["metadata"]["name"] == pod:
                states.append(summary_of_pod(document))
            elif document["kind"] == "Status" and request["path"].endswith(f"/pods/{pod}"):
                states.append(None)
    return tidy(states)


def stored_states(client: Client, pod: str) -> list[Any]:
    """The states that the embedded cluster stored of that pod, each once."""
    states = [summary_of_pod(state) for state in client.cluster.states("ci", pod)]
    return tidy(states if client.pod(pod) is not None else [*states, None])


def tidy(states: list[Any]) -> list[Any]:
    return [state for index, state in enumerate(states) if index == 0 or states[index - 1] != state]


def manifest(scenario: str, pod: str) -> Object:
    for exchange in recording(scenario)["exchanges"]:
        document = exchange["request"].get("json")
        if exchange["request"]["method"] == "POST" and document and document["metadata"].get("name") == pod:
            for entry in [*document["spec"]["containers"], *document["spec"].get("initContainers", [])]:
                entry["image"] = entry["image"].replace(RUNNER, IMAGE)
            found: Object = document
            return found
    raise AssertionError(f"{scenario} creates no pod {pod}")


def goes_through(client: Client, scenario: str, pod: str, *, to_removal: bool = True) -> None:
    """Every recorded state was stored, in the recorded order; what lies between two is what no poll happened to see."""
    wanted = [state for state in recorded_states(scenario, pod) if to_removal or state is not None]
    there = stored_states(client, pod)
    position = 0
    for state in wanted:
        start = position
        while position < len(there) and there[position] != state:
            position += 1
        assert position < len(there), f"missing, or out of order:\n{state}\nseen since:\n" + "\n".join(
            str(one) for one in there[start:]
        )


def waits_with(client: Client, pod: str, reason: str, name: str = "step") -> None:
    client.until(pod, lambda found: found is not None and waiting(found, name) == reason)


def waiting(pod: Object, name: str) -> str:
    return str(state_of(pod, name).get("waiting", {}).get("reason", ""))


ENDED = [
    ("exit-zero", "r-exit-zero", "Succeeded"),
    ("exit-three", "r-exit-three", "Failed"),
    ("killed-by-itself", "r-self-kill", "Failed"),
    ("command-not-found", "r-no-command", "Failed"),
    ("bad-workdir", "r-bad-workdir", "Failed"),
    ("create-container-error", "r-create", "Failed"),
    ("init-container-fails", "r-init", "Failed"),
    ("variable-expansion", "r-expand", "Succeeded"),
    ("oom-killed", "r-oom", "Failed"),
    ("oom-child", "r-oom-child", "Succeeded"),
    ("injected-sidecars", "r-side-fails", "Failed"),
    ("image-pull-kinds", "r-pull-foreign", "Failed"),
]


@pytest.mark.bubblewrap
@pytest.mark.parametrize(("scenario", "pod", "end"), ENDED, ids=[pod for _, pod, _ in ENDED])
def test_a_pod_that_ends_by_itself(client: Client, scenario: str, pod: str, end: str) -> None:
    """From Pending to its final phase: every state, reason and message of the recording, in its order."""
    client.create(manifest(scenario, pod))
    client.until(pod, lambda found: found is not None and found["status"]["phase"] == end)
    goes_through(client, scenario, pod, to_removal=False)


PULLS = [
    ("r-pull-digest", "image-pull-kinds"),
    ("r-pull-repository", "image-pull-kinds"),
    ("r-pull-denied", "image-pull-kinds"),
    ("r-pull-limited", "image-pull-kinds"),
    ("r-pull-broken", "image-pull-kinds"),
    ("r-pull-host", "image-pull-kinds"),
    ("r-pull-refused", "image-pull-kinds"),
    ("r-pull-platform", "image-pull-kinds"),
    ("r-pull", "image-pull-backoff"),
]


@pytest.mark.parametrize(("pod", "scenario"), PULLS, ids=[pod for pod, _ in PULLS])
def test_an_image_that_cannot_be_pulled(client: Client, pod: str, scenario: str) -> None:
    """ErrImagePull and ImagePullBackOff alternate, in the runtime's own words for each kind of failure."""
    client.create(manifest(scenario, pod))
    for reason in ("ErrImagePull", "ImagePullBackOff", "ErrImagePull", "ImagePullBackOff"):
        for _ in range(20):
            found = client.pod(pod)
            assert found is not None
            if waiting(found, "step") == reason:
                break
            client.cluster.advance(0.5)
        waits_with(client, pod, reason)
    goes_through(client, scenario, pod, to_removal=False)


def test_the_back_off_of_pulls_grows(client: Client, name: str) -> None:
    """Each try comes later than the one before, up to five minutes (a tenth of it at this cluster's pace)."""
    image = "127.0.0.1:1/none/such@sha256:" + "0" * 64
    client.create(pod_manifest(name, ["true"], step={"image": image}))
    waits_with(client, name, "ErrImagePull")
    moments: list[float] = []
    known = 0
    for quarter in range(600):
        client.cluster.advance(0.25)
        tries = [
            event["count"]
            for event in client.cluster.events("ci")
            if event["involvedObject"]["name"] == name and event["reason"] == "Pulling"
        ]
        if tries[0] > known:
            known = tries[0]
            moments.append(quarter * 0.25)
    gaps = [later - before for before, later in pairwise(moments)]
    assert len(gaps) >= 5
    # The host's own time goes on between two moves: no gap is exact.
    assert all(later > before - 1 for before, later in pairwise(gaps))
    assert gaps[3] > 2 * gaps[0]
    assert max(gaps) < 33


NEVER = [
    ("err-image-never-pull", "r-never-pull", "ErrImageNeverPull"),
    ("invalid-image-name", "r-image-name", "InvalidImageName"),
    ("create-container-config-error", "r-config", "CreateContainerConfigError"),
]


@pytest.mark.parametrize(("scenario", "pod", "reason"), NEVER, ids=[pod for _, pod, _ in NEVER])
def test_a_container_that_cannot_be_configured(client: Client, scenario: str, pod: str, reason: str) -> None:
    """It waits with the recorded reason and message."""
    client.create(manifest(scenario, pod))
    waits_with(client, pod, reason)
    goes_through(client, scenario, pod, to_removal=False)


QUIET = [("missing-secret-volume", "r-novol"), ("image-pull-silent", "r-pull-silent")]


@pytest.mark.parametrize(("scenario", "pod"), QUIET, ids=[pod for _, pod in QUIET])
def test_a_pod_that_tells_nothing(client: Client, scenario: str, pod: str) -> None:
    """ContainerCreating for ever, however long one waits; an Event alone says more."""
    client.create(manifest(scenario, pod))
    waits_with(client, pod, "ContainerCreating")
    for _ in range(4):
        client.cluster.advance(60)
    goes_through(client, scenario, pod, to_removal=False)
    assert stored_states(client, pod)[-1] == [state for state in recorded_states(scenario, pod) if state][-1]
    notes = {note["note"] for note in recording(scenario)["notes"] if note["note"].startswith("event: ")}
    events = {
        f"event: {event['type']} {event['reason']}: {event['message']}"
        for event in client.cluster.events("ci")
        if event["involvedObject"]["name"] == pod
    }
    assert notes <= events


UNSCHEDULABLE = [
    ("unschedulable-cpu", "r-cpu"),
    ("unschedulable-selector", "r-sel"),
    ("unschedulable-claim", "r-claim"),
]


@pytest.mark.parametrize(("scenario", "pod"), UNSCHEDULABLE, ids=[pod for _, pod in UNSCHEDULABLE])
def test_a_pod_that_fits_nowhere(client: Client, scenario: str, pod: str) -> None:
    """PodScheduled False with the scheduler's account of the nodes."""
    client.create(manifest(scenario, pod))
    client.until(pod, lambda found: found is not None and bool(found["status"].get("conditions")))
    goes_through(client, scenario, pod, to_removal=False)
    reasons = [event["reason"] for event in client.cluster.events("ci") if event["involvedObject"]["name"] == pod]
    assert reasons == ["FailedScheduling"]


@pytest.mark.bubblewrap
def test_a_deadline_that_passes(client: Client) -> None:
    """deadline-exceeded: PodFailed first; phase, reason, message and code come together after a whole grace."""
    client.create(manifest("deadline-exceeded", "r-deadline"))
    client.running("r-deadline")
    client.cluster.advance(3)
    client.cluster.advance(31)
    client.finished("r-deadline")
    goes_through(client, "deadline-exceeded", "r-deadline", to_removal=False)


EVICTED = [
    ("evicted-kubelet-trap-zero", "r-evict-kubelet", "Succeeded"),
    ("evicted-kubelet-killed", "r-evict-kill", "Failed"),
]


@pytest.mark.bubblewrap
@pytest.mark.parametrize(("scenario", "pod", "end"), EVICTED, ids=[pod for _, pod, _ in EVICTED])
def test_a_volume_that_outgrows_its_limit(client: Client, scenario: str, pod: str, end: str) -> None:
    """Succeeded without a trace where SIGTERM is trapped with 0; lost, and found as unknown, where it is killed."""
    client.create(manifest(scenario, pod))
    client.running(pod)
    client.until(pod, lambda found: found is not None and found["status"]["phase"] == end)
    if end == "Failed":
        client.until(pod, lambda found: found is not None and "terminated" in state_of(found, "step"))
        log = client.log(pod)
        assert log.status_code == 200
        assert log.text.startswith("unable to retrieve container logs for containerd://")
    goes_through(client, scenario, pod, to_removal=False)
    events = [event for event in client.cluster.events("ci") if event["involvedObject"]["name"] == pod]
    assert [event["reason"] for event in events][-2:] == ["Evicted", "Killing"]
    assert events[-2]["message"] == 'Usage of EmptyDir volume "d" exceeds the limit "8Mi". '


def until_up(client: Client, name: str) -> None:
    """The trap is set once `up` stands in the log."""
    with client.http.stream("GET", f"/api/v1/namespaces/ci/pods/{name}/log", params={"follow": "true"}) as log:
        assert next(log.iter_lines()) == "up"


@pytest.mark.bubblewrap
@pytest.mark.parametrize(
    ("scenario", "pod"),
    [
        ("deleted-trap-zero", "r-del-trap"),
        ("evicted-api-trap-zero", "r-evict-api"),
        ("preempted-trap-zero", "r-preempt"),
        ("tainted-trap-zero", "r-taint"),
    ],
)
def test_a_command_that_traps_term_with_zero(client: Client, scenario: str, pod: str) -> None:
    """The condition and the deletion first, then Succeeded at once, then gone."""
    client.create(manifest(scenario, pod))
    client.running(pod)
    until_up(client, pod)
    cluster = client.cluster
    match scenario:
        case "deleted-trap-zero":
            client.delete(pod, gracePeriodSeconds=10)
        case "evicted-api-trap-zero":
            cluster.evict("ci", pod)
        case "preempted-trap-zero":
            cluster.evict("ci", pod, reason="Preempted")
        case _:
            cluster.taint_node("dedicated", "x")
    client.until(pod, lambda found: found is None)
    if scenario == "tainted-trap-zero":
        cluster.untaint_node("dedicated")
    goes_through(client, scenario, pod)
    reasons = {event["reason"] for event in cluster.events("ci") if event["involvedObject"]["name"] == pod}
    expected = {"TaintManagerEviction"} if scenario == "tainted-trap-zero" else set()
    assert expected | {"Scheduled", "Created", "Started", "Killing"} <= reasons


@pytest.mark.bubblewrap
def test_a_command_that_ignores_term(client: Client) -> None:
    """deleted-ignores-term: killed once the grace is over, whatever it does meanwhile."""
    client.create(manifest("deleted-ignores-term", "r-del-ign"))
    client.running("r-del-ign")
    client.delete("r-del-ign", gracePeriodSeconds=3)
    client.cluster.advance(3)
    client.until("r-del-ign", lambda found: found is None)
    goes_through(client, "deleted-ignores-term", "r-del-ign")


def test_a_forced_deletion(client: Client) -> None:
    """deleted-force: the object is gone at once."""
    client.create(manifest("deleted-force", "r-del-force"))
    client.running("r-del-force")
    client.delete("r-del-force", gracePeriodSeconds=0)
    goes_through(client, "deleted-force", "r-del-force")


@pytest.mark.bubblewrap
def test_a_pod_deleted_after_its_step_has_ended(client: Client) -> None:
    """finished-then-deleted: the step's end stays what it was, the idle container is killed."""
    client.create(manifest("finished-then-deleted", "r-fin-del2"))
    client.until("r-fin-del2", lambda found: found is not None and "terminated" in state_of(found, "step"))
    client.delete("r-fin-del2", gracePeriodSeconds=2)
    client.until("r-fin-del2", lambda found: found is None)
    goes_through(client, "finished-then-deleted", "r-fin-del2")


@pytest.mark.bubblewrap
@pytest.mark.parametrize("pod", ["r-side-lives", "r-side-pull"])
def test_a_sidecar_that_someone_else_put_there(client: Client, pod: str) -> None:
    """injected-sidecars: the step ends all the same, beside one that outlives it and one that cannot be pulled."""
    client.create(manifest("injected-sidecars", pod))
    client.until(pod, lambda found: found is not None and "terminated" in state_of(found, "step"))
    goes_through(client, "injected-sidecars", pod, to_removal=False)


@pytest.mark.bubblewrap
def test_a_node_that_falls_silent_and_comes_back(client: Client) -> None:
    """node-lost: Ready False without a reason, the taint manager, 500s; after its return the pod ends as it must."""
    pod, cluster = "r-node-lost", client.cluster
    client.create(manifest("node-lost", pod))
    client.running(pod)
    cluster.silence_node()
    cluster.advance(2.5)
    client.until(pod, lambda found: found is not None and ready(found) == "False")
    cluster.advance(2)
    client.until(pod, lambda found: found is not None and "deletionTimestamp" in found["metadata"])
    wanted = {
        exchange["request"]["path"].rsplit("/", 1)[1]: exchange["response"]["json"]
        for exchange in recording("node-lost")["exchanges"]
        if exchange["response"]["status"] == 500
    }
    log = client.http.get(f"/api/v1/namespaces/ci/pods/{pod}/log", params={"container": "step"})
    assert (log.status_code, log.json()) == (500, wanted["log"])
    with client.exec(pod, ["true"]) as refused:
        assert refused.status == 500
        assert refused.document() == wanted["exec"]
    cluster.revive_node()
    client.until(pod, lambda found: found is not None and ready(found) == "True")
    cluster.advance(30)
    client.until(pod, lambda found: found is None)
    goes_through(client, "node-lost", pod)
    reasons = {event["reason"] for event in cluster.events("ci") if event["involvedObject"]["name"] == pod}
    assert {"NodeNotReady", "TaintManagerEviction"} <= reasons


def ready(pod: Object) -> str:
    return next((one["status"] for one in pod["status"].get("conditions", []) if one["type"] == "Ready"), "")
