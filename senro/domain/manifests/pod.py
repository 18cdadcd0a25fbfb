"""The manifests of an attempt's pod and Secret (docs/design/attempt.md#sequence).

The functions expect steps of a validated plan and raise `TypeError` for a local one. Equal input gives equal bytes.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from typing import Any, Final

from senro.domain.manifests.containers import (
    Manifest,
    io_container,
    pod_volumes,
    secret_names,
    stage_container,
    step_container,
    without_empty,
)
from senro.domain.manifests.identity import AttemptIdentity
from senro.domain.manifests.security import pod_security
from senro.domain.pipeline.durations import seconds
from senro.domain.pipeline.step import Step
from senro.domain.pipeline.step_mounts import claim_mounts, pod_target, transferred_mounts
from senro.domain.pipeline.targets import Pod

STAGING_RATE: Final = 1024 * 1024
"""Bytes per second: the slowest upload that the deadline of the pod allows for."""

READ_BACK_SECONDS: Final = 3600
"""Seconds that the deadline of the pod allows for the download of workspaces."""

LONGEST_DEADLINE: Final = 2_147_483_647
"""The largest activeDeadlineSeconds of a create (docs/design/api-rules.md#activedeadlineseconds)."""

STARTS: Final = 2
"""How often the start timeout counts (docs/design/attempt.md#start-timeout)."""


def own_deadline(step: Step, staged_bytes: int) -> int:
    """The pod's activeDeadlineSeconds, which ends what a killed coordinator left.

    See docs/design/attempt.md#deadline-of-the-pod.
    """
    target = pod_target(step)
    deadline = (
        STARTS * math.ceil(seconds(target.start_timeout))
        + math.ceil(seconds(target.max_lifetime) if step.timeout is None else step.timeout)
        + -(-staged_bytes // STAGING_RATE)
        + (READ_BACK_SECONDS if any(each.returns for each in transferred_mounts(step)) else 0)
        + target.grace
    )
    return max(1, min(deadline, LONGEST_DEADLINE))


def pod_manifest(step: Step, identity: AttemptIdentity, *, staged_bytes: int = 0) -> Manifest:
    """The pod of an attempt. `staged_bytes` is the length of the archive to upload."""
    target = pod_target(step)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": identity.name,
            "namespace": target.namespace,
            "labels": {**target.labels, **identity.labels},
            "annotations": {**target.annotations, **identity.annotations},
        },
        "spec": _spec(step, target, identity, own_deadline(step, staged_bytes)),
    }


def secret_manifest(step: Step, identity: AttemptIdentity, values: Mapping[str, bytes]) -> Manifest:
    """The immutable Secret with the step's secrets, whose `values` are given by name. It has the pod's name.

    Raises `KeyError` for a secret without a value.
    """
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": identity.name,
            "namespace": pod_target(step).namespace,
            "labels": identity.labels,
            "annotations": identity.annotations,
        },
        "type": "Opaque",
        "immutable": True,
        "data": {name: base64.b64encode(values[name]).decode() for name in secret_names(step)},
    }


def manifest_bytes(manifest: Mapping[str, Any]) -> bytes:
    """The manifest as JSON with sorted keys and no spaces."""
    return json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _spec(step: Step, target: Pod, identity: AttemptIdentity, deadline: int) -> Manifest:
    transferred = transferred_mounts(step)
    containers = [step_container(step, target, identity, transferred)]
    init_containers = []
    if transferred:
        init_containers.append(stage_container(target, transferred))
    if any(each.returns for each in transferred):
        containers.append(io_container(target, transferred))
    spec: Manifest = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "shareProcessNamespace": False,
        "activeDeadlineSeconds": deadline,
        "terminationGracePeriodSeconds": target.grace,
        "securityContext": pod_security(target, claims=bool(claim_mounts(step))),
        "initContainers": init_containers,
        "containers": containers,
        "volumes": pod_volumes(step, target, identity, transferred),
        "serviceAccountName": target.service_account,
        "nodeSelector": dict(target.node_selector),
        "tolerations": [dict(toleration) for toleration in target.tolerations],
        "imagePullSecrets": [{"name": name} for name in target.image_pull_secrets],
        "priorityClassName": target.priority_class,
        "runtimeClassName": target.runtime_class,
    }
    return without_empty(spec)
