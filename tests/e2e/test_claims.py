"""Steps that mount a PersistentVolumeClaim: their files, the exclusive use, and the messages for unusable claims.

On a real cluster `SENRO_TEST_CLAIM` names a claim for the tests, since senro creates none.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

import senro
from senro import secret
from senro.devcluster import DevClusterThread
from senro.devcluster.apiserver.access import RUNNER_RULES, Rule
from senro.domain.run.events import (
    LeaseAcquired,
    LeaseReleased,
    PodCreated,
    PodDeleted,
    PodPending,
    SnapshotTaken,
    decode_event,
)
from senro.testing import Bench

pytestmark = pytest.mark.slow

CACHE = senro.Workspace("build-cache")


def claim_of(bench: Bench, name: str = "senro-build-cache") -> str:
    """Returns an existing claim."""
    if bench.cluster is None:
        if not os.environ.get("SENRO_TEST_CLAIM"):
            pytest.skip("SENRO_TEST_CLAIM names no PersistentVolumeClaim of the namespace")
        return os.environ["SENRO_TEST_CLAIM"]
    try:
        bench.cluster.claim_folder(bench.namespace, name)
    except LookupError:
        bench.cluster.create_claim(bench.namespace, name)
    return name


@contextmanager
def rules(bench: Bench, *changed: Rule) -> Iterator[None]:
    """Returns a function that replaces the rights of the runner."""
    bench.devcluster.access.set_runner_rules(changed)
    try:
        yield
    finally:
        bench.devcluster.access.set_runner_rules(RUNNER_RULES)


def test_a_claim_is_mounted_and_not_transferred(bench: Bench) -> None:
    """The next step finds a step's files in the claim, at another path. Nothing is transferred or stored."""
    target = bench.pod(claims={"build-cache": claim_of(bench)})
    pipeline = senro.Pipeline("claims")
    workflow = pipeline.workflow("w", on=target)
    write = 'test "$SENRO_WORKSPACE_BUILD_CACHE" = /cache && date +%s%N > /cache/made && cat /cache/made'
    workflow.step("fill", ["sh", "-c", write], mounts=[CACHE.at("/cache")])
    workflow.step("use", ["cat", "/elsewhere/made"], mounts=[CACHE.at("/elsewhere")], needs=["fill"])
    result = bench.run(pipeline)
    assert result.ok
    assert bench.log("w.use") == bench.log("w.fill")
    assert "build-cache" not in result.workspaces
    assert not bench.of(SnapshotTaken)
    kinds = [type(event) for event in bench.events() if getattr(event, "step", "") == "w.fill"]
    assert kinds.index(LeaseAcquired) < kinds.index(PodCreated) < kinds.index(PodDeleted) < kinds.index(LeaseReleased)
    assert [event.freed for event in bench.of(LeaseReleased)] == [True, True]
    if bench.cluster is not None:
        assert bench.starts("senro-stage") == bench.starts("senro-io") == 0
        assert bench.cluster.leases() == []


def test_a_claim_and_a_workspace(bench: Bench) -> None:
    """A step mounts a workspace and a claim: the workspace is downloaded, and the claim is not part of it."""
    source = senro.Workspace("src")
    target = bench.pod(claims={"build-cache": claim_of(bench)})
    script = "echo built > /src/out; echo cached > /cache/file; cat /cache/file"
    result = bench.one("sh", "-c", script, on=target, mounts=[source.at("/src"), CACHE.at("/cache")])
    assert result.ok
    assert bench.tree("src") == {"out": b"built\n"}


@pytest.mark.bubblewrap
def test_a_read_only_claim(bench: Bench) -> None:
    """The kubelet refuses to write to a claim that is mounted `ro`."""
    target = bench.pod(claims={"build-cache": claim_of(bench)})
    result = bench.one("sh", "-c", "touch /cache/file || exit 7", on=target, mounts=[CACHE.at("/cache", "ro")])
    assert result.steps["w.s"].outcome is not None
    assert result.steps["w.s"].outcome.code == 7
    assert b"Read-only file system" in bench.log("w.s")


def test_a_declared_user_with_a_claim(bench: Bench) -> None:
    """A restricted pod with a declared user mounts a claim without an fsGroup, and can read its secrets."""
    target = bench.pod(claims={"build-cache": claim_of(bench)}, user=1000, group=1000, security="restricted")
    result = bench.one(
        "sh",
        "-c",
        'cat "$TOKEN" && ls -d /cache',
        on=target,
        mounts=[CACHE.at("/cache", "ro")],
        secrets={"TOKEN": "token"},
        run={"secrets": {"token": secret.value("made-up-text")}},
    )
    assert result.ok, bench.log("w.s")
    if bench.cluster is not None:
        spec = bench.states(bench.pods()[0])[0]["spec"]
        assert "fsGroup" not in spec["securityContext"]
        assert spec["securityContext"]["runAsUser"] == 1000


def test_steps_that_share_a_claim_run_one_after_the_other(bench: Bench) -> None:
    """Each has the claim exclusively without `needs`: no two of their pods exist at the same time."""
    target = bench.pod(claims={"build-cache": claim_of(bench)})
    pipeline = senro.Pipeline("claims")
    workflow = pipeline.workflow("w", on=target)
    for name in ("a", "b", "c"):
        script = "mkdir /cache/alone || exit 9; sleep 0.2; rmdir /cache/alone"
        workflow.step(name, ["sh", "-c", script], mounts=[CACHE.at("/cache")])
    assert bench.run(pipeline).ok
    alive = 0
    for event in bench.events():
        alive += isinstance(event, PodCreated) - isinstance(event, PodDeleted)
        assert alive <= 1


def test_a_missing_claim(bench: Bench) -> None:
    """The pod stays pending, and the message quotes the scheduler and ends with the name of the claim."""
    target = bench.pod(claims={"build-cache": "senro-no-such-claim"}, start_timeout=4)
    result = bench.one("true", on=target, mounts=[CACHE.at("/cache")])
    outcome = result.steps["w.s"].outcome
    assert outcome is not None
    assert (outcome.kind, outcome.infra_kind) == ("infra", "unschedulable")
    assert 'persistentvolumeclaim "senro-no-such-claim" not found' in outcome.message
    told = "Create the claim senro-no-such-claim in the pod's namespace: senro creates none."
    assert outcome.message.endswith(told)
    assert any(event.message.endswith(told) for event in bench.of(PodPending))


def test_an_identity_without_leases(bench: Bench) -> None:
    """A step with a claim fails with a message that lists the required verbs; a step without one runs."""
    target = bench.pod(claims={"build-cache": claim_of(bench)})
    without = [rule for rule in RUNNER_RULES if "leases" not in rule.resources]
    with rules(bench, *without):
        refused = bench.one("true", on=target, mounts=[CACHE.at("/cache")]).steps["w.s"].outcome
        assert bench.one("true").ok
    assert (refused.kind, refused.infra_kind, refused.did_run) == ("infra", "forbidden", "no")
    assert 'cannot get resource "leases" in API group "coordination.k8s.io"' in refused.message
    assert refused.message.endswith(
        f"For the claim {claim_of(bench)} the identity needs get, create, update and delete on leases of "
        f"coordination.k8s.io in the namespace {bench.namespace}."
    )


class Until(senro.Reporter):
    """Calls `do` when the step prints a line."""

    def __init__(self, do: Callable[[], object]) -> None:
        self._do = do

    def log_line(self, step_id: str, stream: str, text: str) -> None:  # noqa: ARG002 - the interface
        self._do()


def test_a_cancelled_run_releases_its_claim(bench: Bench) -> None:
    """A run that is cancelled during a step releases the claim after it has deleted the pod."""
    pipeline = senro.Pipeline("claims")
    target = bench.pod(claims={"build-cache": claim_of(bench)})
    endless = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    pipeline.workflow("w", on=target).step("s", ["sh", "-c", endless], mounts=[CACHE.at("/cache")])

    async def run() -> None:
        with anyio.fail_after(60), anyio.CancelScope() as scope:
            await senro.run(pipeline.build(), run_dir="runs", environ=bench.environ, reporter=Until(scope.cancel))

    anyio.run(run)
    (folder,) = Path("runs").iterdir()
    events = [decode_event(line) for line in Path(folder, "events.jsonl").read_bytes().splitlines()]
    kinds = [type(event) for event in events]
    assert kinds.index(PodDeleted) < kinds.index(LeaseReleased)
    assert [event.freed for event in events if isinstance(event, LeaseReleased)] == [True]


def test_a_claim_on_another_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod whose ReadWriteOnce claim is attached to another node waits, and the message explains such claims.

    If the identity may list Events, it quotes the attach controller; if not, it names the possible reason.
    """
    monkeypatch.chdir(tmp_path)
    with DevClusterThread(nodes=("one", "two"), capacity={"cpu": "4"}, time_scale=0.02) as cluster:
        bench = Bench.embedded(tmp_path, cluster)
        claim = claim_of(bench)
        kubectl(bench, "create", "-f", "-", told=holder_of(bench, claim))
        for events in (True, False):
            with rules(bench, *RUNNER_RULES, *([Rule("", ("events",), ("list",))] if events else [])):
                target = bench.pod(
                    claims={"build-cache": claim},
                    node_selector={"kubernetes.io/hostname": "two"},
                    start_timeout=9,
                )
                outcome = bench.one("true", on=target, mounts=[CACHE.at("/cache")]).steps["w.s"].outcome
            assert (outcome.kind, outcome.did_run) == ("infra", "no")
            if events:
                assert outcome.infra_kind == "volume"
                assert "Multi-Attach error for volume" in outcome.message
                assert outcome.message.endswith(
                    f"The claim {claim} is in use elsewhere: a ReadWriteOnce claim is on one node at a time, so "
                    "the pods that mount it run one after the other."
                )
            else:
                assert any("a ReadWriteOnce claim that is in use on" in event.message for event in pending(bench))
                assert "It mounts the claim senro-build-cache; a ReadWriteOnce claim" in outcome.message
        kubectl(bench, "delete", "pod", "holder", "--grace-period=1")


def pending(bench: Bench) -> list[PodPending]:
    return bench.of(PodPending)


def kubectl(bench: Bench, *words: str, told: dict[str, Any] | None = None) -> None:
    """Runs kubectl as an administrator."""
    program, configuration = str(Path(sys.executable).with_name("kubectl")), str(bench.devcluster.kubeconfig())
    command = [program, "--kubeconfig", configuration, "--namespace", bench.namespace, *words]
    subprocess.run(command, input=json.dumps(told).encode(), check=True, capture_output=True, timeout=60)


def holder_of(bench: Bench, claim: str) -> dict[str, Any]:
    """Creates a foreign pod on the node `one` that mounts the claim."""
    container = {
        "name": "holder",
        "image": bench.image,
        "command": ["sleep", "120"],
        "volumeMounts": [{"name": "v", "mountPath": "/data"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "holder"},
        "spec": {
            "restartPolicy": "Never",
            "nodeSelector": {"kubernetes.io/hostname": "one"},
            "containers": [container],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}],
        },
    }
