from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import kubernetes_validate.utils
import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.domain.manifests.identity import AttemptIdentity
from senro.domain.manifests.pod import (
    manifest_bytes,
    own_deadline,
    pod_manifest,
    secret_manifest,
)
from senro.domain.pipeline.step import Step
from senro.domain.pipeline.step_mounts import TransferredMount, pod_target, transferred_mounts
from senro.domain.pipeline.targets import Local, Pod
from senro.domain.pipeline.workspace import Workspace
from tests.lib.builders import pod_security as standard
from tests.lib.builders.plans import IMAGE, one_step, only_step, pod, steps

ATTEMPT = AttemptIdentity("20261129T231308Z-5f0c9a", "build.make", 1, "0f9c2d")
SRC = Workspace("src")
OUT = Workspace("out")


@pytest.fixture(scope="module", autouse=True)
def _schemas_read_once() -> Iterator[None]:
    """Caches the schemas, of which the package reads a megabyte for each call."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kubernetes_validate.utils, "schema_contents", cache(kubernetes_validate.utils.schema_contents))
        yield


def manifest(step: Step, *, staged_bytes: int = 0) -> dict[str, Any]:
    return pod_manifest(step, ATTEMPT, staged_bytes=staged_bytes)


def containers(step: Step) -> dict[str, Any]:
    spec = manifest(step)["spec"]
    return {container["name"]: container for container in [*spec.get("initContainers", []), *spec["containers"]]}


@pytest.mark.slow
@given(steps(), st.integers(0, 2**50))
def test_every_pod_matches_the_schema(step: Step, staged_bytes: int) -> None:
    """The oldest and the newest supported API have every field and type of any step's pod."""
    for version in ("1.30", "1.36"):
        kubernetes_validate.validate(manifest(step, staged_bytes=staged_bytes), version, strict=True)


@pytest.mark.parametrize("version", ["1.30", "1.36"])
def test_every_secret_matches_the_schema(version: str) -> None:
    """The API has every field and type of a Secret."""
    step = only_step(one_step(secrets={"A": "a", "B": "b"}))
    kubernetes_validate.validate(secret_manifest(step, ATTEMPT, {"a": b"1", "b": b"2"}), version, strict=True)


@given(steps())
def test_no_pod_is_refused_by_its_pod_security_standard(step: Step) -> None:
    """`baseline` accepts every pod, `restricted` every pod of a restricted target."""
    assert standard.baseline(manifest(step)) == []
    assert isinstance(step.on, Pod)
    if step.on.security == "restricted":
        assert standard.restricted(manifest(step)) == []


def test_the_model_of_pod_security() -> None:
    """It refuses the recorded pod without a security context for the reasons that the apiserver gave."""
    bare = {"spec": {"containers": [{"name": "step"}]}}
    assert standard.restricted(bare) == [
        "step allowPrivilegeEscalation",
        "step runAsNonRoot",
        "step seccompProfile",
        "step drop",
    ]
    assert standard.baseline({"spec": {"hostPID": True, "containers": []}}) == ["hostPID"]


@given(steps())
def test_equal_steps_have_equal_bytes(step: Step) -> None:
    """The order of variables, labels and secrets does not matter."""
    target = step.on
    assert isinstance(target, Pod)
    turned = replace(
        step,
        env=dict(reversed(list(step.env.items()))),
        secrets=dict(reversed(list(step.secrets.items()))),
        on=replace(
            target,
            labels=dict(reversed(list(target.labels.items()))),
            env=dict(reversed(list(target.env.items()))),
        ),
    )
    assert turned == step
    assert manifest_bytes(manifest(turned)) == manifest_bytes(manifest(step))
    assert json.loads(manifest_bytes(manifest(step))) == manifest(step)


@given(steps(), st.binary(min_size=12, max_size=40))
def test_no_secret_value_is_in_a_pod(step: Step, value: bytes) -> None:
    """Only the Secret has values; the pod has names and paths."""
    values = dict.fromkeys(step.secrets.values(), value)
    secret = secret_manifest(step, ATTEMPT, values)
    spelled = base64.b64encode(value).decode()
    assert secret.pop("data") == dict.fromkeys(sorted(set(step.secrets.values())), spelled)
    for document in (manifest_bytes(secret), manifest_bytes(manifest(step))):
        assert spelled.encode() not in document
        assert value not in document


@given(steps())
def test_what_a_pod_never_has(step: Step) -> None:
    """No token, no service variables, no shared processes, no restart, no null or empty field."""
    spec = manifest(step)["spec"]
    assert spec["restartPolicy"] == "Never"
    assert [
        spec[field] for field in ("automountServiceAccountToken", "enableServiceLinks", "shareProcessNamespace")
    ] == [
        False,
        False,
        False,
    ]
    assert all(value not in (None, [], {}) for value in spec.values())
    assert all(container["imagePullPolicy"] == "IfNotPresent" for container in containers(step).values())
    helper = pod_target(step).helper or IMAGE
    for name, container in containers(step).items():
        assert container["image"] == (IMAGE if name == "step" else helper)


@given(steps())
def test_every_mount_has_a_volume_and_no_two_share_a_path(step: Step) -> None:
    """Each mounted volume exists, and a container mounts each path once."""
    volumes = [volume["name"] for volume in manifest(step)["spec"].get("volumes", [])]
    assert len(set(volumes)) == len(volumes)
    for container in containers(step).values():
        paths = [mount["mountPath"] for mount in container.get("volumeMounts", [])]
        assert len(set(paths)) == len(paths)
        assert {mount["name"] for mount in container.get("volumeMounts", [])} <= set(volumes)


def test_a_pod_without_mounts() -> None:
    """It has one container and no volume."""
    step = only_step(one_step())
    assert list(containers(step)) == ["step"]
    assert "volumes" not in manifest(step)["spec"]
    assert transferred_mounts(step) == ()


def test_read_only_mounts() -> None:
    """Only `senro-stage` transfers them: the kubelet enforces `readOnly`, so nothing returns."""
    step = only_step(one_step(mounts=[SRC.at("/src", "ro")]))
    assert list(containers(step)) == ["senro-stage", "step"]
    assert containers(step)["step"]["volumeMounts"] == [{"name": "ws-0", "mountPath": "/src", "readOnly": True}]
    assert [each.returns for each in transferred_mounts(step)] == [False]


def test_read_write_mounts() -> None:
    """Each is a volume with the number of its mount, in every container that uses it."""
    step = only_step(one_step(mounts=[SRC.at("/src", "ro"), OUT.at("/out")]))
    found = {name: container["volumeMounts"] for name, container in containers(step).items()}
    assert found == {
        "senro-stage": [
            {"name": "ws-0", "mountPath": "/senro/ws/0", "readOnly": False},
            {"name": "ws-1", "mountPath": "/senro/ws/1", "readOnly": False},
            {"name": "senro-ctl", "mountPath": "/senro/ctl", "readOnly": False},
        ],
        "step": [
            {"name": "ws-0", "mountPath": "/src", "readOnly": True},
            {"name": "ws-1", "mountPath": "/out", "readOnly": False},
        ],
        "senro-io": [{"name": "ws-1", "mountPath": "/senro/ws/1", "readOnly": True}],
    }
    assert transferred_mounts(step) == (
        TransferredMount(0, step.mounts[0], returns=False),
        TransferredMount(1, step.mounts[1], returns=True),
    )


def test_a_claim_is_mounted_and_not_transferred() -> None:
    """Only the step mounts it; `ro` holds for the volume and the mount."""
    target = Pod(IMAGE, namespace="ci", claims={"cache": "senro-cache", "data": "senro-data"})
    mounts = [SRC.at("/src"), Workspace("cache").at("/cache"), Workspace("data").at("/data", "ro")]
    spec = manifest(only_step(one_step(on=target, mounts=mounts)))["spec"]
    of_claims = [volume for volume in spec["volumes"] if "persistentVolumeClaim" in volume]
    assert of_claims == [
        {"name": "claim-0", "persistentVolumeClaim": {"claimName": "senro-cache", "readOnly": False}},
        {"name": "claim-1", "persistentVolumeClaim": {"claimName": "senro-data", "readOnly": True}},
    ]
    containers: list[dict[str, Any]] = [*spec["containers"], *spec["initContainers"]]
    others = containers[1:]
    assert containers[0]["volumeMounts"][1:] == [
        {"name": "claim-0", "mountPath": "/cache", "readOnly": False},
        {"name": "claim-1", "mountPath": "/data", "readOnly": True},
    ]
    assert [other["name"] for other in others] == ["senro-io", "senro-stage"]
    assert not [mount for other in others for mount in other["volumeMounts"] if "claim" in mount["name"]]
    alone = manifest(only_step(one_step(on=target, mounts=mounts[1:])))["spec"]
    assert (len(alone["containers"]), "initContainers" in alone) == (1, False)


@pytest.mark.parametrize("fields", [{"user": 1000}, {"group": 2000}, {"user": 1000, "group": 2000}])
def test_no_fs_group_for_a_claim(fields: dict[str, Any]) -> None:
    """A pod with a claim has no fsGroup, and its secrets are readable."""
    target = Pod(IMAGE, namespace="ci", claims={"cache": "senro-cache"}, **fields)
    step = only_step(one_step(on=target, mounts=[Workspace("cache").at("/cache")], secrets={"A": "a"}))
    spec = manifest(step)["spec"]
    assert not {"fsGroup", "fsGroupChangePolicy"} & spec.get("securityContext", {}).keys()
    (secret,) = [volume["secret"] for volume in spec["volumes"] if "secret" in volume]
    assert [item["mode"] for item in secret["items"]] == [0o444]


def test_the_environment_of_a_step() -> None:
    """The target's variables, those of the step over them, senro's, and the paths of secrets."""
    step = only_step(
        one_step(
            on=Pod(IMAGE, namespace="ci", env={"A": "target", "B": "target"}),
            env={"A": "step $HOME", "EMPTY": ""},
            mounts=[Workspace("my-src").at("/src")],
            secrets={"KUBECONFIG": "Kubeconfig"},
        )
    )
    assert {entry["name"]: entry["value"] for entry in containers(step)["step"]["env"]} == {
        "A": "step $$HOME",
        "B": "target",
        "EMPTY": "",
        "KUBECONFIG": "/run/senro/secrets/Kubeconfig",
        "SENRO_ATTEMPT": "1",
        "SENRO_RUN": ATTEMPT.run_id,
        "SENRO_STEP": "build.make",
        "SENRO_WORKSPACE_MY_SRC": "/src",
    }
    assert "env" not in containers(step)["senro-stage"]


def test_labels_and_annotations() -> None:
    """Labels find senro's objects, annotations have step id and nonce, and the user's remain."""
    step = only_step(pod(labels={"team": "web"}, annotations={"note": "any text: $x"}))
    identity = replace(ATTEMPT, step_id="deploy to prod.apply")
    metadata = pod_manifest(step, identity)["metadata"]
    assert metadata["labels"] == {
        "team": "web",
        "senro.dev/managed": "true",
        "senro.dev/run": "20261129T231308Z-5f0c9a",
        "senro.dev/step": identity.labels["senro.dev/step"],
        "senro.dev/attempt": "1",
    }
    assert metadata["annotations"] == {
        "note": "any text: $x",
        "senro.dev/step-id": "deploy to prod.apply",
        "senro.dev/attempt-uid": "0f9c2d",
    }
    assert metadata["name"] == identity.name
    assert metadata["namespace"] == "ci"


@pytest.mark.parametrize(
    ("fields", "added", "whole"),
    [
        ({}, ["DAC_OVERRIDE", "FOWNER"], {}),
        ({"user": 0}, ["DAC_OVERRIDE", "FOWNER"], {"runAsUser": 0, "fsGroup": 0}),
        ({"user": 7}, None, {"runAsUser": 7, "fsGroup": 7}),
        ({"user": 7, "group": 8}, None, {"runAsUser": 7, "runAsGroup": 8, "fsGroup": 8}),
        ({"group": 8}, ["DAC_OVERRIDE", "FOWNER"], {"fsGroup": 8}),
    ],
)
def test_the_users_of_a_baseline_pod(fields: dict[str, int], added: list[str] | None, whole: dict[str, int]) -> None:
    """Transfer containers run as the step does, with few rights; only root gets two capabilities."""
    step = only_step(pod_with_mount(**fields))
    context = dict(manifest(step)["spec"].get("securityContext", {}))
    assert context.pop("fsGroupChangePolicy", None) == ("OnRootMismatch" if fields else None)
    assert context == whole
    for name in ("senro-stage", "senro-io"):
        security = dict(containers(step)[name]["securityContext"])
        capabilities = {"drop": ["ALL"], "add": added} if added else {"drop": ["ALL"]}
        assert security.pop("runAsGroup", None) == (8 if fields == {"group": 8} else None)
        assert security == {
            "allowPrivilegeEscalation": False,
            "capabilities": capabilities,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
    expected = {"runAsGroup": 8} if fields == {"group": 8} else None
    assert containers(step)["step"].get("securityContext") == expected


def pod_with_mount(**fields: Any) -> Any:
    return one_step(on=Pod(IMAGE, namespace="ci", **fields), mounts=[SRC.at("/src")], secrets={"T": "Token"})


@pytest.mark.parametrize(("user", "mode"), [(None, 0o444), (0, 0o440), (1000, 0o440)])
def test_the_mode_of_secret_files(user: int | None, mode: int) -> None:
    """They belong to root and the pod's group: 0440 if the group is known, else 0444."""
    step = only_step(pod_with_mount(user=user))
    volume = manifest(step)["spec"]["volumes"][-1]
    assert volume == {
        "name": "senro-secrets",
        "secret": {"secretName": ATTEMPT.name, "items": [{"key": "Token", "path": "Token", "mode": mode}]},
    }
    mounts = {name: [mount["name"] for mount in box["volumeMounts"]] for name, box in containers(step).items()}
    assert [name for name, found in mounts.items() if "senro-secrets" in found] == ["step"]


def test_a_secret_is_immutable_and_holds_what_the_step_uses() -> None:
    """It has the step's secrets of all those of the run, and needs a value for each."""
    step = only_step(pod_with_mount())
    secret = secret_manifest(step, ATTEMPT, {"Token": b"\xff", "Other": b"x"})
    assert secret == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": ATTEMPT.name,
            "namespace": "ci",
            "labels": ATTEMPT.labels,
            "annotations": ATTEMPT.annotations,
        },
        "type": "Opaque",
        "immutable": True,
        "data": {"Token": "/w=="},
    }
    with pytest.raises(KeyError):
        secret_manifest(step, ATTEMPT, {})


def test_the_options_of_a_target() -> None:
    """Each is in its field of the pod, and quantities are text."""
    step = only_step(
        one_step(
            on=Pod(
                IMAGE,
                namespace="ci",
                resources={"requests": {"cpu": 1, "memory": "1Gi"}},
                transfer_resources={"limits": {"cpu": 0.5}},
                service_account="runner",
                node_selector={"disk": "fast"},
                tolerations=[{"operator": "Exists"}],
                image_pull_secrets=["registry"],
                priority_class="high",
                runtime_class="gvisor",
                grace=5,
            ),
            mounts=[SRC.at("/src")],
        )
    )
    spec = manifest(step)["spec"]
    assert containers(step)["step"]["resources"] == {"requests": {"cpu": "1", "memory": "1Gi"}}
    assert containers(step)["senro-stage"]["resources"] == {"limits": {"cpu": "0.5"}}
    assert containers(step)["senro-io"]["resources"] == {"limits": {"cpu": "0.5"}}
    assert spec["serviceAccountName"] == "runner"
    assert spec["nodeSelector"] == {"disk": "fast"}
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["priorityClassName"] == "high"
    assert spec["runtimeClassName"] == "gvisor"
    assert spec["terminationGracePeriodSeconds"] == 5


@pytest.mark.parametrize(
    ("fields", "staged_bytes", "seconds"),
    [
        ({}, 0, 2 * 300 + 86_400 + 30),
        ({"timeout": 600}, 0, 2 * 300 + 600 + 30),
        ({"timeout": 0.2}, 0, 2 * 300 + 1 + 30),
        ({"mounts": [SRC.at("/src", "ro")], "timeout": 600}, 1, 2 * 300 + 600 + 1 + 30),
        ({"mounts": [SRC.at("/src")], "timeout": 600}, 10 * 2**20, 2 * 300 + 600 + 10 + 3600 + 30),
        ({"timeout": 2**31 - 1}, 2**60, 2**31 - 1),
    ],
)
def test_the_deadline_of_a_pod(fields: dict[str, Any], staged_bytes: int, seconds: int) -> None:
    """It is the sum of start timeouts, timeout or max_lifetime, upload, download and grace, at most an int32."""
    step = only_step(one_step(**fields))
    assert own_deadline(step, staged_bytes) == seconds
    assert manifest(step, staged_bytes=staged_bytes)["spec"]["activeDeadlineSeconds"] == seconds


@given(steps(), st.integers(0, 2**70))
def test_every_deadline_is_valid(step: Step, staged_bytes: int) -> None:
    """It is 1 to 2147483647, whatever the durations of the step are."""
    assert 1 <= own_deadline(step, staged_bytes) <= 2_147_483_647


def test_a_local_step_has_no_pod() -> None:
    """Requesting one raises TypeError."""
    step = replace(only_step(one_step()), on=Local())
    with pytest.raises(TypeError, match=r"build\.make does not run in a pod"):
        pod_manifest(step, ATTEMPT)
