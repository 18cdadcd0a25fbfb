"""The pod and the Secret of one attempt, as the apiserver is asked for them (design.md section 4).

Every function takes steps as `build_plan` left them: validated, with a `k8s.Pod` as target. Same input, same bytes.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from senro.domain import names
from senro.domain.escape import escape
from senro.domain.pipeline import Step
from senro.domain.pod_security import container_security, pod_security, secret_file_mode, transfer_security
from senro.domain.targets import Pod
from senro.domain.transfer import (
    CONTROL_MOUNT,
    IO_COMMAND,
    IO_CONTAINER,
    SECRETS_MOUNT,
    STAGE_COMMAND,
    STAGE_CONTAINER,
    STEP_CONTAINER,
    VOLUMES_MOUNT,
)
from senro.domain.workspace import Mount

Manifest = dict[str, Any]
"""A Kubernetes object as JSON has it: dicts, lists, strings, numbers, booleans."""

STAGING_RATE: Final = 1024 * 1024
"""Bytes a second: the slowest transfer into a pod that the pod's own deadline allows for."""

READ_BACK_SECONDS: Final = 3600
"""What the pod's own deadline allows for reading workspaces back."""

LONGEST_DEADLINE: Final = 2_147_483_647
"""activeDeadlineSeconds is 1 to this on create (facts/api-rules.md section 3)."""

_CONTROL_VOLUME: Final = "senro-ctl"
_SECRETS_VOLUME: Final = "senro-secrets"


@dataclass(frozen=True, slots=True)
class AttemptIdentity:
    """One try of a step. `attempt` counts from 1; `nonce` is drawn for this attempt and makes its objects ours."""

    run_id: str
    step_id: str
    attempt: int
    nonce: str

    @property
    def name(self) -> str:
        """The name of the pod, and of its Secret."""
        return names.attempt_name(self.run_id, self.step_id, self.attempt, self.nonce)

    @property
    def labels(self) -> dict[str, str]:
        """The labels that are senro's, by which a sweep finds what a dead coordinator left."""
        return {
            names.MANAGED_LABEL: "true",
            names.RUN_LABEL: names.label_value(self.run_id),
            names.STEP_LABEL: names.label_value(self.step_id),
            names.ATTEMPT_LABEL: str(self.attempt),
        }

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations that are senro's: the whole step id, and the nonce."""
        return {names.STEP_ID_ANNOTATION: self.step_id, names.ATTEMPT_UID_ANNOTATION: self.nonce}


def carried(step: Step) -> tuple[tuple[int, Mount], ...]:
    """The mounts whose files are carried into the pod, with their index: volume `ws-<n>`, `/senro/ws/<n>`."""
    return tuple(enumerate(step.mounts))


def read_back(step: Step) -> tuple[tuple[int, Mount], ...]:
    """The carried mounts whose files come back: those mounted `rw`."""
    return tuple((index, mount) for index, mount in carried(step) if mount.mode == "rw")


def own_deadline(step: Step, staged_bytes: int) -> int:
    """The pod's activeDeadlineSeconds: it ends what a dead coordinator left and nothing else.

    Start timeout, timeout (or `max_lifetime`), `staged_bytes` at 1 MiB/s, an hour where anything is read back, and
    grace. The apiserver takes 1 to 2147483647.
    """
    target = pod_target(step)
    seconds = (
        math.ceil(target.start_timeout)
        + math.ceil(target.max_lifetime if step.timeout is None else step.timeout)
        + -(-staged_bytes // STAGING_RATE)
        + (READ_BACK_SECONDS if read_back(step) else 0)
        + target.grace
    )
    return max(1, min(seconds, LONGEST_DEADLINE))


def pod_target(step: Step) -> Pod:
    """The step's target. Raises `TypeError` for a step that runs locally."""
    if not isinstance(step.on, Pod):
        raise TypeError(f"the step {step.id} does not run in a pod")
    return step.on


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
        "data": {name: base64.b64encode(values[name]).decode() for name in _secret_names(step)},
    }


def manifest_bytes(manifest: Mapping[str, Any]) -> bytes:
    """The manifest as JSON with sorted keys and no blanks: equal manifests have equal bytes."""
    return json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _spec(step: Step, target: Pod, identity: AttemptIdentity, deadline: int) -> Manifest:
    containers = [_step_container(step, target, identity)]
    init_containers = []
    if carried(step):
        init_containers.append(_stage_container(step, target))
    if read_back(step):
        containers.append(_io_container(step, target))
    spec: Manifest = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "shareProcessNamespace": False,
        "activeDeadlineSeconds": deadline,
        "terminationGracePeriodSeconds": target.grace,
        "securityContext": pod_security(target),
        "initContainers": init_containers,
        "containers": containers,
        "volumes": _volumes(step, target, identity),
        "serviceAccountName": target.service_account,
        "nodeSelector": dict(target.node_selector),
        "tolerations": [dict(toleration) for toleration in target.tolerations],
        "imagePullSecrets": [{"name": name} for name in target.image_pull_secrets],
        "priorityClassName": target.priority_class,
        "runtimeClassName": target.runtime_class,
    }
    return _without_empty(spec)


def _step_container(step: Step, target: Pod, identity: AttemptIdentity) -> Manifest:
    mounts = [
        {"name": _volume(index), "mountPath": mount.path, "readOnly": mount.mode == "ro"}
        for index, mount in carried(step)
    ]
    if step.secrets:
        mounts.append({"name": _SECRETS_VOLUME, "mountPath": SECRETS_MOUNT, "readOnly": True})
    variables = step_environment(step, identity)
    container = _container(STEP_CONTAINER, step.command, target, mounts)
    container["env"] = [{"name": name, "value": escape(variables[name])} for name in sorted(variables)]
    container["workingDir"] = step.workdir
    container["resources"] = _resources(target.resources)
    container["securityContext"] = container_security(target)
    return _without_empty(container)


def step_environment(step: Step, identity: AttemptIdentity) -> dict[str, str]:
    """The variables of the step's container, unescaped: the target's, the step's, senro's own, paths of secrets.

    For a step that runs locally these are what it would have in a pod.
    """
    return {
        **(step.on.env if isinstance(step.on, Pod) else {}),
        **step.env,
        **{variable: f"{SECRETS_MOUNT}/{name}" for variable, name in step.secrets.items()},
        **{names.workspace_variable(mount.workspace.name): mount.path for mount in step.mounts},
        names.RUN_VARIABLE: identity.run_id,
        names.STEP_VARIABLE: identity.step_id,
        names.ATTEMPT_VARIABLE: str(identity.attempt),
    }


def _stage_container(step: Step, target: Pod) -> Manifest:
    mounts = [
        {"name": _volume(index), "mountPath": f"{VOLUMES_MOUNT}/{index}", "readOnly": False}
        for index, _ in carried(step)
    ]
    mounts.append({"name": _CONTROL_VOLUME, "mountPath": CONTROL_MOUNT, "readOnly": False})
    return _transfer_container(STAGE_CONTAINER, STAGE_COMMAND, target, mounts)


def _io_container(step: Step, target: Pod) -> Manifest:
    mounts = [
        {"name": _volume(index), "mountPath": f"{VOLUMES_MOUNT}/{index}", "readOnly": True}
        for index, _ in read_back(step)
    ]
    return _transfer_container(IO_CONTAINER, IO_COMMAND, target, mounts)


def _transfer_container(name: str, command: tuple[str, ...], target: Pod, mounts: list[Manifest]) -> Manifest:
    container = _container(name, command, target, mounts)
    container["resources"] = _resources(target.transfer_resources)
    container["securityContext"] = transfer_security(target)
    return _without_empty(container)


def _container(name: str, command: Iterable[str], target: Pod, mounts: list[Manifest]) -> Manifest:
    return {
        "name": name,
        "image": target.image,
        # A digest names one content: what the node has is as good as what the registry has.
        "imagePullPolicy": "IfNotPresent",
        "command": [escape(word) for word in command],
        "terminationMessagePolicy": "File",
        "volumeMounts": mounts,
    }


def _volumes(step: Step, target: Pod, identity: AttemptIdentity) -> list[Manifest]:
    volumes: list[Manifest] = [{"name": _volume(index), "emptyDir": {}} for index, _ in carried(step)]
    if volumes:
        volumes.append({"name": _CONTROL_VOLUME, "emptyDir": {}})
    if step.secrets:
        mode = secret_file_mode(target)
        items = [{"key": name, "path": name, "mode": mode} for name in _secret_names(step)]
        volumes.append({"name": _SECRETS_VOLUME, "secret": {"secretName": identity.name, "items": items}})
    return volumes


def _secret_names(step: Step) -> list[str]:
    return sorted(set(step.secrets.values()))


def _volume(index: int) -> str:
    return f"ws-{index}"


def _resources(resources: Mapping[str, Any]) -> Manifest:
    """Quantities as text, which the apiserver takes as it takes numbers, and which its schema asks for."""
    return {
        kind: {name: str(quantity) for name, quantity in quantities.items()} for kind, quantities in resources.items()
    }


def _without_empty(fields: Manifest) -> Manifest:
    """What the API means by an absent field: no null, no empty list or mapping."""
    return {key: value for key, value in fields.items() if value not in (None, [], {})}
