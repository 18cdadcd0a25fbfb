"""Disruptions of pods and faults of the control plane, from a user's view."""

from __future__ import annotations

from pathlib import Path

import pytest

import senro
from senro import Reporter, retry
from senro.devcluster import DevCluster, DevClusterThread
from senro.devcluster.apiserver.access import Rule
from senro.domain.run.events import AttemptEnded, Noted, PodCreated, PodDeleted
from senro.ports.reporter import StepState, Stream
from senro.testing import Bench


@pytest.mark.parametrize(
    ("reason", "kind"), [("Evicted", "evicted"), ("Preempted", "preempted"), ("Tainted", "evicted")]
)
def test_a_disrupted_step_that_exits_zero_is_no_success(bench: Bench, reason: str, kind: str) -> None:
    """A command that traps SIGTERM and exits with 0 leaves a pod that Succeeded, and its step is Infra."""
    bench.faults.fail_pod(step="w.s", reason=reason, grace_seconds=5)
    result = bench.one("sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done")
    outcome = result.steps["w.s"].outcome
    assert outcome is not None
    assert (outcome.kind, outcome.infra_kind, outcome.did_run) == ("infra", kind, "yes")


@pytest.mark.parametrize("at", ["stage", "middle"])
def test_a_disrupted_step_recovers(bench: Bench, at: str) -> None:
    """retry.on_infra runs the step again, in a new pod, after the first one is gone."""
    bench.faults.fail_pod(step="w.s", at=at, grace_seconds=1)
    src = senro.Workspace("src")
    result = bench.one(
        "sh",
        "-c",
        "echo $SENRO_ATTEMPT > /w/f; sleep 1",
        mounts=[src.at("/w")],
        retry=retry.on_infra(attempts=2, delay=0.01),
    )
    assert (result.state, result.steps["w.s"].state) == ("succeeded_with_recovery", "recovered")
    assert bench.tree("src") == {"f": b"2\n"}
    kinds = [
        name for name in (event.__class__.__name__ for event in bench.events()) if name in ("PodCreated", "PodDeleted")
    ]
    assert kinds == ["PodCreated", "PodDeleted"] * 2


class LosingItsNode(Reporter):
    """Silences the node of the first pod after its step has printed a line, and removes it when the pod is ended."""

    def __init__(self, cluster: DevCluster) -> None:
        self._cluster = cluster
        self.node = ""

    def log_line(self, step_id: str, stream: Stream, text: str) -> None:
        del step_id, stream, text
        if not self.node:
            (pod,) = self._cluster.pods("ci")
            self.node = pod["spec"]["nodeName"]
            self._cluster.silence_node(self.node)

    def step_state(self, step_id: str, state: StepState, *, attempt: int, phase: str = "") -> None:
        del step_id, state
        if attempt == 1 and phase.startswith("the cluster is removing the pod"):
            self._cluster.remove_node(self.node)


@pytest.mark.parametrize("unsafe", [False, True])
def test_a_step_on_an_unreachable_node(tmp_path: Path, *, unsafe: bool) -> None:
    """The outcome says that it may be alive, and names the node. It is repeated only if the policy allows that."""
    nodes = ("one", "two")
    with DevClusterThread(namespaces=("ci",), nodes=nodes, time_scale=0.02, toleration_seconds=1) as cluster:
        bench = Bench.embedded(tmp_path, cluster)
        reporter = LosingItsNode(cluster)
        result = bench.one(
            "sh",
            "-c",
            'echo "$SENRO_ATTEMPT"; [ "$SENRO_ATTEMPT" = 2 ] || sleep 600',
            retry=retry.on_infra(attempts=2, delay=0.01, unsafe=unsafe),
            run={"reporter": reporter},
        )
        first, *more = (event.outcome for event in bench.of(AttemptEnded))
        assert (first.infra_kind, first.did_run, first.may_be_alive) == ("node-lost", "yes", True)
        assert first.node == reporter.node
        assert [outcome.kind for outcome in more] == (["succeeded"] if unsafe else [])
        assert result.state == ("succeeded_with_recovery" if unsafe else "failed")
        assert cluster.doubled == ([tuple(bench.pods())] if unsafe else [])


def test_a_create_with_a_lost_answer(bench: Bench) -> None:
    """The pod is recognised by its nonce, and the command runs once."""
    bench.faults.lose_create_answer()
    result = bench.one("echo", "once")
    assert result.state == "succeeded"
    assert [event.adopted for event in bench.of(PodCreated)] == [True]
    assert bench.log("w.s") == b"once\n"
    assert bench.starts() == 1


@pytest.mark.parametrize(
    ("status", "text", "method", "path"),
    [
        (429, "Too many requests, please try again later.", "", ""),
        (503, "apiserver is shutting down", "", ""),
        (500, "Internal error occurred", "GET", "/pods/"),
        (429, "Too many requests, please try again later.", "POST", "/pods"),
        (503, "apiserver is shutting down", "DELETE", "/pods/"),
        (502, "bad gateway", "GET", "/log"),
    ],
)
def test_failing_requests_are_repeated(bench: Bench, status: int, text: str, method: str, path: str) -> None:
    """A failing request does not fail the step."""
    bench.faults.answer(
        status, text, times=3, method=method, path_contains=path, retry_after=0 if status == 429 else None
    )
    result = bench.one("sh", "-c", "echo whole; sleep 0.5; echo log")
    assert result.state == "succeeded", bench.events()
    assert bench.log("w.s") == b"whole\nlog\n"
    assert bench.starts() == 1


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/pods/"), ("DELETE", "/pods/"), ("GET", "/log"), ("POST", "/pods")]
)
def test_dropped_connections(bench: Bench, method: str, path: str) -> None:
    """A connection that ends without an answer and without an effect does not fail the step either."""
    bench.faults.drop_connection(times=2, method=method, path_contains=path)
    result = bench.one("echo", "fine")
    assert result.state == "succeeded", bench.events()
    assert bench.log("w.s") == b"fine\n"
    assert bench.starts() == 1


def test_a_forbidden_namespace(bench: Bench) -> None:
    """A refusal of the apiserver is Infra with its message, and the step is not repeated."""
    target = bench.pod()
    p = senro.Pipeline("forbidden")
    on = senro.k8s.Pod(target.image, namespace="kube-system")
    p.workflow("w", on=on).step("s", ["true"], retry=retry.on_infra(attempts=3))
    result = bench.run(p)
    outcome = result.steps["w.s"].outcome
    assert outcome is not None
    assert (outcome.infra_kind, outcome.did_run, result.steps["w.s"].attempts) == ("forbidden", "no", 1)
    assert 'cannot create resource "pods"' in outcome.message


def test_a_pod_that_cannot_be_deleted_is_reported(tmp_path: Path) -> None:
    """The verdict stands, and the result and the ledger have a command to delete the pod."""
    with DevClusterThread(namespaces=("ci",)) as cluster:
        cluster.access.set_runner_rules([Rule("", ("pods",), ("create", "get")), Rule("", ("pods/log",), ("get",))])
        bench = Bench.embedded(tmp_path, cluster)
        result = bench.one("echo", "done")
        (pod,) = bench.pods()
        remedy = f"kubectl --namespace ci delete pod {pod}"
        assert (result.state, result.leftovers) == ("succeeded", (remedy,))
        assert [(event.confirmed, event.remedy) for event in bench.of(PodDeleted)] == [(False, remedy)]
        assert any("cannot delete resource" in event.message and remedy in event.message for event in bench.of(Noted))
        assert [document["metadata"]["name"] for document in cluster.pods()] == [pod]
