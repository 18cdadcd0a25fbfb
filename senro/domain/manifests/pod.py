"""The pod and the Secret of one attempt, as the apiserver is asked for them (docs/design/attempt.md#sequence).

Every function takes steps as `build_plan` left them: validated, with a `k8s.Pod` as target. Same input, same bytes.
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
"""Bytes a second: the slowest transfer into a pod that the pod's own deadline allows for."""

READ_BACK_SECONDS: Final = 3600
"""What the pod's own deadline allows for reading workspaces back."""

LONGEST_DEADLINE: Final = 2_147_483_647
"""activeDeadlineSeconds is 1 to this on create (docs/design/api-rules.md#activedeadlineseconds)."""

STARTS: Final = 2
"""The start timeout counts until `senro-stage` runs and again until the step does. Counted once, a pod whose starts
were slow would be ended before its step's own timeout, and be called timed out."""


def own_deadline(step: Step, staged_bytes: int) -> int:
    """The pod's activeDeadlineSeconds: it ends what a dead coordinator left and nothing else.

    Start timeout for each of the two starts, timeout (or `max_lifetime`), `staged_bytes` at 1 MiB/s, an hour where
    anything is read back, and grace. The apiserver takes 1 to 2147483647.
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
    """The pod of one attempt. `staged_bytes` is the length of the archive that fills its workspaces.

    Raises `TypeError` for a step that runs locally.
    """
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
    """The immutable Secret with the files of a step's secrets, taken from `values` by name; others are left out.

    It has the pod's name. The pod becomes its owner once it exists. Raises `KeyError` for a secret without a value,
    `TypeError` for a step that runs locally.
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
    """The manifest as JSON with sorted keys and no blanks: equal manifests have equal bytes."""
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
