"""What the cluster does to a step, and troubles of the control plane, from the outside."""

from __future__ import annotations

import pytest

import senro
from senro import retry
from senro.domain.events import PodCreated
from senro.testing import Bench


@pytest.mark.parametrize(
    ("reason", "kind"), [("Evicted", "evicted"), ("Preempted", "preempted"), ("Tainted", "evicted")]
)
def test_a_disrupted_step_that_exits_zero_is_no_success(bench: Bench, reason: str, kind: str) -> None:
    """A command that traps SIGTERM and exits 0 leaves a pod that Succeeded; the step is Infra all the same."""
    bench.faults.fail_pod(step="w.s", reason=reason, grace_seconds=5)
    result = bench.one("sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done")
    outcome = result.steps["w.s"].outcome
    assert outcome is not None
    assert (outcome.kind, outcome.infra_kind, outcome.did_run) == ("infra", kind, "yes")


@pytest.mark.parametrize("at", ["staging", "running"])
def test_a_disrupted_step_recovers(bench: Bench, at: str) -> None:
    """retry.on_infra runs it again, in a new pod, after the first one is gone."""
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


def test_a_create_whose_answer_was_lost(bench: Bench) -> None:
    """The pod is adopted by its nonce, and the command runs once."""
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
def test_troubles_of_the_control_plane_are_sat_out(
    bench: Bench, status: int, text: str, method: str, path: str
) -> None:
    """A failing request is not a failing step."""
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
def test_connections_that_are_dropped(bench: Bench, method: str, path: str) -> None:
    """So is a connection that ends without an answer, before anything took effect."""
    bench.faults.drop_connection(times=2, method=method, path_contains=path)
    result = bench.one("echo", "fine")
    assert result.state == "succeeded", bench.events()
    assert bench.log("w.s") == b"fine\n"
    assert bench.starts() == 1


def test_a_namespace_that_may_not_be_used(bench: Bench) -> None:
    """A refusal of the apiserver is Infra with its words, and not repeated."""
    target = bench.pod()
    p = senro.Pipeline("forbidden")
    on = senro.k8s.Pod(target.image, namespace="kube-system")
    p.workflow("w", on=on).step("s", ["true"], retry=retry.on_infra(attempts=3))
    result = bench.run(p)
    outcome = result.steps["w.s"].outcome
    assert outcome is not None
    assert (outcome.infra_kind, outcome.did_run, result.steps["w.s"].attempts) == ("forbidden", "no", 1)
    assert 'cannot create resource "pods"' in outcome.message
