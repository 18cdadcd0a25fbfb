"""Each fault of the embedded cluster does what it says, as often as it says, and then no more."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext

import httpx
import pytest

from senro.devcluster import IMAGE, Faults
from tests.lib.harness.devcluster import V4, Client, pod_manifest, state_of


@pytest.fixture
def pod(client: Client, name: str) -> Iterator[str]:
    client.create(pod_manifest(name, ["sleep", "600"]))
    client.running(name)
    yield name
    client.delete(name, gracePeriodSeconds=0)


@pytest.mark.parametrize("after", [1, 4096, 100_000])
def test_stdout_is_cut_after_so_many_bytes(client: Client, pod: str, after: int) -> None:
    """Exactly so many bytes arrive, no status, no close frame; the next exec is whole."""
    client.cluster.faults.cut_exec("stdout", after)
    command = ["head", "-c", "200000", "/dev/zero"]
    result = client.run(pod, command, protocol=V4)
    assert (len(result.channel(1)), result.status, result.close_code) == (after, None, None)
    assert len(client.run(pod, command, protocol=V4).channel(1)) == 200_000
    assert client.cluster.faults.pending() == 0


@pytest.mark.bubblewrap
@pytest.mark.parametrize("after", [1, 4096, 100_000])
def test_stdin_is_cut_after_so_many_bytes(client: Client, pod: str, after: int) -> None:
    """Exactly so many bytes reach the command, which then sees the end of its input."""
    client.cluster.faults.cut_exec("stdin", after, container="step")
    with client.exec(pod, ["sh", "-c", "cat > /tmp/got; : > /tmp/ended"], stdin=True) as session:
        assert session.frame() == (2, b"\x01")
        session.stdin(bytes(120_000))
        result = session.finish()
    assert (result.status, result.close_code) == (None, None)
    size = client.run(pod, ["sh", "-c", "until [ -e /tmp/ended ]; do sleep 0.02; done; wc -c < /tmp/got"])
    assert int(size.channel(1)) == after


def test_a_fault_is_for_the_container_it_names(client: Client, pod: str) -> None:
    """Another container's exec is left alone."""
    client.cluster.faults.drop_status(container="senro-io")
    assert client.run(pod, ["true"]).exit_code == 0
    assert client.cluster.faults.pending() == 1


def test_the_uses_of_a_step_are_counted_apart() -> None:
    """What is left in all, and of the faults for one step."""
    faults = Faults()
    faults.drop_status(times=2, step="a")
    faults.fail_pod(times=3, step="a")
    faults.cut_exec("stdin", 1, times=5, step="b")
    faults.throttle(times=7)
    assert [faults.pending(step=step) for step in ("", "a", "b", "c")] == [17, 5, 5, 0]


@pytest.mark.parametrize(
    "arm",
    [
        lambda faults, **of: faults.cut_exec("stdout", 2, **of),
        lambda faults, **of: faults.drop_status(**of),
        lambda faults, **of: faults.truncate_stdout(1, **of),
    ],
)
def test_an_execs_fault_is_for_the_step_it_names(client: Client, pod: str, arm: Callable[..., object]) -> None:
    """It waits for an exec in a pod of that step, and for that container of it."""
    arm(client.cluster.faults, step="another")
    arm(client.cluster.faults, step=pod, container="another")
    whole = client.run(pod, ["echo", "all"])
    assert (whole.channel(1), whole.exit_code) == (b"all\n", 0)
    client.cluster.faults.clear()
    arm(client.cluster.faults, step=pod, container="step")
    broken = client.run(pod, ["echo", "all"])
    assert (broken.channel(1), broken.exit_code) != (b"all\n", 0)
    assert client.cluster.faults.pending() == 0


def test_a_status_is_dropped_so_many_times(client: Client, pod: str) -> None:
    """The output is whole, the status is missing, twice; then it is there."""
    client.cluster.faults.drop_status(times=2)
    results = [client.run(pod, ["echo", "all"]) for _ in range(3)]
    assert [result.channel(1) for result in results] == [b"all\n"] * 3
    assert [result.exit_code for result in results] == [None, None, 0]


@pytest.mark.parametrize("lost", [1, 5000, 200_000])
def test_the_end_of_stdout_is_lost_with_success(client: Client, pod: str, lost: int) -> None:
    """Status Success, and the last bytes are missing."""
    client.cluster.faults.truncate_stdout(lost)
    result = client.run(pod, ["head", "-c", "100000", "/dev/zero"])
    assert (len(result.channel(1)), result.exit_code) == (max(0, 100_000 - lost), 0)


@pytest.mark.parametrize(("after", "early"), [(1, 99_999), (5000, 95_000), (200_000, 0)])
def test_a_status_comes_before_the_end_of_stdout(client: Client, pod: str, after: int, early: int) -> None:
    """All of stdout arrives, so many bytes of it behind the status, and then the close frame; once."""
    client.cluster.faults.hasten_status(after)
    result = client.run(pod, ["head", "-c", "100000", "/dev/zero"])
    at = [message[0] for message in result.messages].index(3)
    assert sum(len(message) - 1 for message in result.messages[:at]) == early
    assert (len(result.channel(1)), result.exit_code, result.close_code) == (100_000, 0, 1000)
    assert client.run(pod, ["echo", "all"]).messages[-1][0] == 3


def test_a_status_is_late(client: Client, pod: str) -> None:
    """The output is there at once, the status after so many seconds of the cluster's clock."""
    client.cluster.faults.delay_status(1.5, container="step")
    with client.exec(pod, ["echo", "all"]) as session:
        assert [session.frame(), session.frame()] == [(2, b"\x01"), (2, b"\x01all\n")]
        session.raw.settimeout(0.1)
        with pytest.raises(TimeoutError):
            session.frame()
        session.raw.settimeout(20)
        assert session.finish().exit_code == 0
    assert client.cluster.faults.pending() == 0


@pytest.mark.parametrize("who", ["client", "kubelet"])
def test_who_leaves_while_a_status_is_late(client: Client, pod: str, who: str) -> None:
    """The wait for a status ends with the client that closes, and with the kubelet between: there is no status then."""
    client.cluster.faults.delay_status(600)
    with client.exec(pod, ["echo", "all"]) as session:
        client.until(pod, lambda _: client.cluster.faults.pending() == 0)
        if who == "client":
            session.send(b"\x03\xe8", opcode=8)
        else:
            client.cluster.restart_kubelet(seconds=0.05)
        result = session.finish()
    assert (result.channel(1), result.status) == (b"all\n", None)
    assert result.close_code == (1000 if who == "client" else None)
    client.until(pod, lambda _: client.log(pod).status_code == 200)


def test_a_status_that_is_lost_is_not_late(client: Client, pod: str) -> None:
    """Each fault is for an exec that it changes: what another one leaves nothing to do for waits for the next."""
    client.cluster.faults.drop_status()
    client.cluster.faults.delay_status(0.01)
    assert client.run(pod, ["true"]).exit_code is None
    assert client.cluster.faults.pending() == 1
    assert client.run(pod, ["true"]).exit_code == 0
    client.cluster.faults.truncate_stdout(2)
    client.cluster.faults.hasten_status(2)
    assert client.run(pod, ["echo", "all"]).messages[-2:] == [b"\x01al", b'\x03{"metadata":{},"status":"Success"}']
    assert client.cluster.faults.pending() == 1
    assert client.run(pod, ["echo", "all"]).messages[-1] == b"\x01l\n"
    assert client.cluster.faults.pending() == 0


@pytest.mark.parametrize("follow", ["true", "false"])
def test_a_log_is_cut_at_each_place_once(client: Client, name: str, follow: str) -> None:
    """The connection ends at that byte of the log, read or followed; a log that is shorter leaves the fault armed."""
    client.create(pod_manifest(name, ["seq", "-w", "1", "1000"]))
    client.finished(name)
    whole = client.log(name).content
    for place in (4000, 0, 1):
        client.cluster.faults.cut_log(place)
    client.cluster.faults.cut_log(5001, container="step")
    client.cluster.faults.cut_log(7, container="senro-io")
    path = f"/api/v1/namespaces/ci/pods/{name}/log?container=step&follow={follow}"
    for place in (0, 1, 4000):
        got: list[bytes] = []
        with client.http.stream("GET", path) as answer, pytest.raises(httpx.RemoteProtocolError):
            got.extend(answer.iter_raw())
        assert b"".join(got) == whole[:place]
    assert client.log(name).content == whole
    assert client.cluster.faults.pending() == 2


def test_a_cut_lies_in_the_log_not_in_the_answer(client: Client, name: str) -> None:
    """What `sinceTime` leaves out counts: a log that is resumed behind the place is whole."""
    client.create(pod_manifest(name, ["sh", "-c", "echo early; sleep 1.1; echo late"]))
    client.finished(name)
    last = client.log(name, timestamps="true").content.splitlines()[-1][:30].decode()
    client.cluster.faults.cut_log(3)
    assert client.log(name, sinceTime=last).content == b"late\n"
    assert client.cluster.faults.pending() == 1
    client.cluster.faults.cut_log(8)
    with pytest.raises(httpx.RemoteProtocolError):
        client.log(name, sinceTime=last)
    with pytest.raises(ValueError, match="negative"):
        client.cluster.faults.cut_log(-1)


@pytest.mark.parametrize("follow", ["true", "false"])
@pytest.mark.parametrize("timestamps", ["true", "false"])
def test_a_cut_lies_in_the_part_of_a_log_that_is_served(
    client: Client, name: str, timestamps: str, follow: str
) -> None:
    """A place that a tail leaves out, or that lies behind a limit, is not reached; one in between is, to the byte."""
    client.create(pod_manifest(name, ["seq", "-w", "1", "1000"]))
    client.finished(name)
    whole = client.log(name, timestamps=timestamps).content
    line = len(whole) // 1000
    path = f"/api/v1/namespaces/ci/pods/{name}/log?container=step&follow={follow}&timestamps={timestamps}"
    for lines, limit in itertools.product((None, 0, 3, 1000), (None, 1, 2 * line + 1, 3 * line)):
        start = 0 if lines is None else len(whole) - lines * line
        end = len(whole) if limit is None else min(len(whole), start + limit)
        options = ("" if lines is None else f"&tailLines={lines}") + ("" if limit is None else f"&limitBytes={limit}")
        for place in {0, start - 1, start, start + 1, end - 1, end, end + 1} - {-1}:
            client.cluster.faults.cut_log(place)
            cut, got = start <= place <= end, bytearray()
            with client.http.stream("GET", path + options) as answer:
                ending = pytest.raises(httpx.RemoteProtocolError) if cut else nullcontext()
                with ending:
                    for piece in answer.iter_raw():
                        got += piece
            assert (bytes(got), client.cluster.faults.pending()) == (
                whole[start : place if cut else end],
                0 if cut else 1,
            )
            client.cluster.faults.clear()


def test_a_handshake_is_refused(client: Client, pod: str) -> None:
    """500 text, as when the kubelet cannot be reached."""
    client.cluster.faults.refuse_handshake(step="another")
    assert client.run(pod, ["true"]).exit_code == 0
    client.cluster.faults.clear()
    client.cluster.faults.refuse_handshake(step=pod, container="step")
    with client.exec(pod, ["true"]) as session:
        assert session.status == 500
        assert json.loads(session.body())["message"].startswith("error dialing backend")
    assert client.run(pod, ["true"]).exit_code == 0


def test_an_answer_takes_the_place_of_the_real_one(client: Client, name: str) -> None:
    """429 with Retry-After for the method and path that were named, once."""
    text = "Too many requests, please try again later."
    client.cluster.faults.answer(429, text, method="GET", path_contains=name, retry_after=1)
    assert client.http.get("/version").status_code == 200
    answer = client.http.get(f"/api/v1/namespaces/ci/pods/{name}")
    assert (answer.status_code, answer.text, answer.headers["retry-after"]) == (429, text, "1")
    assert client.http.get(f"/api/v1/namespaces/ci/pods/{name}").status_code == 404


@pytest.mark.parametrize("http2", [False, True])
def test_the_answer_to_a_create_is_lost(client: Client, name: str, *, http2: bool) -> None:
    """The pod is there, the connection is not."""
    speaker = Client(client.cluster, http2=http2)
    client.cluster.faults.lose_create_answer(step=name)
    with pytest.raises(httpx.TransportError):
        speaker.http.post("/api/v1/namespaces/ci/pods", json=pod_manifest(name, ["sleep", "60"]))
    again = client.http.post("/api/v1/namespaces/ci/pods", json=pod_manifest(name, ["sleep", "60"]))
    assert again.json()["reason"] == "AlreadyExists"
    assert ("POST", "/api/v1/namespaces/ci/pods", -1) in client.cluster.history
    client.delete(name, gracePeriodSeconds=0)
    speaker.close()


def test_a_connection_is_dropped_or_refused(client: Client) -> None:
    """Before the handling of a request, and before TLS."""
    client.cluster.faults.drop_connection(path_contains="/version")
    with pytest.raises(httpx.TransportError):
        client.http.get("/version")
    assert client.http.get("/version").status_code == 200
    client.cluster.faults.refuse_connection()
    fresh = Client(client.cluster)
    with pytest.raises(httpx.TransportError):
        fresh.http.get("/version")
    assert fresh.http.get("/version").status_code == 200
    fresh.close()


@pytest.mark.parametrize(
    ("reason", "condition"),
    [
        ("Evicted", "EvictionByEvictionAPI"),
        ("Preempted", "PreemptionByScheduler"),
        ("Tainted", "DeletionByTaintManager"),
    ],
)
def test_the_first_pod_of_a_step_is_taken_away(client: Client, name: str, reason: str, condition: str) -> None:
    """DisruptionTarget and deletion once the step runs; the second pod of the step lives."""
    client.cluster.faults.fail_pod(step="deploy", reason=reason)
    for attempt in (1, 2):
        manifest = pod_manifest(f"{name}-{attempt}"[-60:].strip("-"), ["sleep", "0.2"])
        manifest["metadata"]["labels"]["senro.dev/step"] = "deploy"
        client.create(manifest)
        pod = manifest["metadata"]["name"]
        if attempt == 1:
            client.until(pod, lambda found: found is None)
            final = client.cluster.states("ci", pod)[-1]
            assert final["status"]["conditions"][0]["reason"] == condition
        else:
            assert client.finished(pod)["status"]["phase"] == "Succeeded"


def test_a_pod_is_taken_away_while_it_is_staged(client: Client, name: str) -> None:
    """At `staging` the step's container has never started."""
    client.cluster.faults.fail_pod(step=name, at="stage")
    manifest = pod_manifest(name, ["true"])
    image = manifest["spec"]["containers"][0]["image"]
    manifest["spec"]["initContainers"] = [{"name": "senro-stage", "image": image, "command": ["sleep", "60"]}]
    client.create(manifest)
    client.until(name, lambda found: found is None)
    final = client.cluster.states("ci", name)[-1]
    assert state_of(final, "step") == {"waiting": {"reason": "PodInitializing"}}
    assert client.cluster.starts("ci", name) == {"senro-stage": 1}


def test_an_init_container_runs_again(client: Client, name: str) -> None:
    """In the same volumes, with another containerID and log, before anything else of the pod; once."""
    client.cluster.faults.repeat_stage(step=name)
    volumes = [{"name": "v", "emptyDir": {}}]
    mounts = [{"name": "v", "mountPath": "/v"}]
    command = ["sh", "-c", "echo ran >> /v/log; wc -l < /v/log"]
    stage = {"name": "i", "image": IMAGE, "command": command, "volumeMounts": mounts}
    manifest = pod_manifest(name, ["cat", "/v/log"], volumes=volumes, step={"volumeMounts": mounts})
    manifest["spec"]["initContainers"] = [stage]
    client.create(manifest)
    assert client.finished(name)["status"]["phase"] == "Succeeded"
    assert client.log(name).text == "ran\nran\n"
    assert client.log(name, "i").text.strip() == "2"
    seen = [pod["status"].get("initContainerStatuses") or [{}] for pod in client.cluster.states("ci", name)]
    assert len({statuses[0].get("containerID", "") for statuses in seen} - {""}) == 2
    assert client.cluster.faults.pending() == 0


def test_an_init_container_that_failed_does_not_run_again(client: Client, name: str) -> None:
    """The fault stays armed for one that succeeds."""
    client.cluster.faults.repeat_stage(step=name)
    manifest = pod_manifest(name, ["true"])
    manifest["spec"]["initContainers"] = [{"name": "i", "image": IMAGE, "command": ["sh", "-c", "exit 3"]}]
    client.create(manifest)
    assert client.finished(name)["status"]["phase"] == "Failed"
    assert (client.cluster.starts("ci", name), client.cluster.faults.pending()) == ({"i": 1}, 1)
    client.delete(name)
    manifest["spec"]["initContainers"][0]["command"] = ["true"]
    client.create(manifest)
    assert client.finished(name)["status"]["phase"] == "Succeeded"
    assert (client.cluster.starts("ci", name), client.cluster.faults.pending()) == ({"i": 2, "step": 1}, 0)


def test_a_pod_vanishes_without_a_trace(client: Client, name: str) -> None:
    """404 from one read to the next, no deletionTimestamp before, and an exec in it is lost or killed."""
    client.cluster.faults.vanish_pod(step=name)
    client.create(pod_manifest(name, ["sleep", "60"]))
    client.until(name, lambda found: found is None)
    assert not any("deletionTimestamp" in state["metadata"] for state in client.cluster.states("ci", name))


def test_a_pod_vanishes_while_it_is_read(client: Client, name: str) -> None:
    """At `reading` an exec in senro-io finds no container, and the pod is gone; other execs do not count."""
    client.cluster.faults.vanish_pod(step=name, at="read-back")
    manifest = pod_manifest(name, ["sleep", "60"])
    image = manifest["spec"]["containers"][0]["image"]
    manifest["spec"]["containers"].append({"name": "senro-io", "image": image, "command": ["sleep", "60"]})
    client.create(manifest)
    client.running(name)
    assert client.run(name, ["true"]).exit_code == 0
    with client.exec(name, ["true"], container="senro-io", protocol=V4) as session:
        assert (session.status, session.body()) == (500, b'container not found ("senro-io")')
    assert client.pod(name) is None


def test_a_fault_that_cannot_be_is_refused(client: Client) -> None:
    """No such reason, no times: ValueError when it is armed."""
    with pytest.raises(ValueError, match="none of Evicted, Preempted, Tainted"):
        client.cluster.faults.fail_pod(reason="Bored")
    with pytest.raises(ValueError, match="none of scheduling, image, stage, release"):
        client.cluster.faults.vanish_pod(at="noon")
    with pytest.raises(ValueError, match="at least 1"):
        client.cluster.faults.drop_status(times=0)
    with pytest.raises(ValueError, match="more than 0"):
        client.cluster.faults.delay_status(0)


@pytest.mark.parametrize("steps", [(), ("w.a", "w.b")])
def test_faults_of_a_seed(steps: tuple[str, ...]) -> None:
    """A seed arms the same faults each time, every kind comes up, and each of them is told and can be armed."""
    kinds: set[str] = set()
    for seed in range(200):
        faults = Faults()
        told = faults.arm_random(seed, steps, at_most=2)
        assert told == Faults().arm_random(seed, steps, at_most=2)
        assert len(told) <= 2
        assert faults.pending() == sum(arguments.get("times", 1) for _, arguments in told)
        assert {arguments["step"] for _, arguments in told if "step" in arguments} <= set(steps or ("",))
        kinds |= {name for name, _ in told}
    assert kinds == {
        *("fail_pod", "vanish_pod", "cut_exec", "drop_status", "hasten_status", "truncate_stdout", "refuse_handshake"),
        *("throttle", "answer", "drop_connection", "refuse_connection", "lose_answer"),
    }


def test_an_answer_is_lost_and_the_write_took_effect(client: Client, name: str) -> None:
    """`lose_answer` handles the request and closes the connection: the Secret is there, the client was told nothing."""
    client.cluster.faults.lose_answer(method="POST", path_contains="/secrets")
    document = {"metadata": {"name": name}, "stringData": {"k": "v"}}
    with pytest.raises(httpx.RemoteProtocolError):
        client.http.post("/api/v1/namespaces/ci/secrets", json=document)
    again = client.http.post("/api/v1/namespaces/ci/secrets", json=document)
    assert (again.status_code, again.json()["reason"]) == (409, "AlreadyExists")
    client.http.delete(f"/api/v1/namespaces/ci/secrets/{name}")


def test_flow_control_answers_in_plain_text(client: Client) -> None:
    """`throttle` answers as APF does: 429, no Status, and Retry-After."""
    client.cluster.faults.throttle(times=1, retry_after=3)
    answer = client.http.get("/api/v1/nodes")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "3")
    assert answer.text == "Too many requests, please try again later.\n"
    assert client.http.get("/api/v1/nodes").status_code == 200


def test_a_token_expires(client: Client) -> None:
    """`expire_token` answers 401 so many times, and then the token is good again."""
    client.cluster.faults.expire_token(times=2)
    statuses = [client.http.get("/api/v1/nodes").status_code for _ in range(3)]
    assert statuses == [401, 401, 200]
