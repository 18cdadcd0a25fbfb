"""The containers of an attempt's pod and their volumes (docs/design/attempt.md#containers)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from senro.domain.kube import names
from senro.domain.kube.variable_expansion import escape
from senro.domain.manifests.identity import AttemptIdentity
from senro.domain.manifests.security import container_security, secret_file_mode, transfer_security
from senro.domain.pipeline.step import Step
from senro.domain.pipeline.step_mounts import TransferredMount, claim_mounts, mount_variable
from senro.domain.pipeline.targets import Pod
from senro.domain.transfer.containers import (
    CONTROL_MOUNT,
    IO_COMMAND,
    IO_CONTAINER,
    SECRETS_MOUNT,
    STAGE_COMMAND,
    STAGE_CONTAINER,
    STEP_CONTAINER,
    VOLUMES_MOUNT,
)

Manifest = dict[str, Any]
"""A Kubernetes object as decoded JSON."""

_CONTROL_VOLUME: Final = "senro-ctl"
_SECRETS_VOLUME: Final = "senro-secrets"


def step_container(
    step: Step, target: Pod, identity: AttemptIdentity, transferred: Sequence[TransferredMount]
) -> Manifest:
    """The container that runs the step's command."""
    mounts = [
        {"name": _volume(each.index), "mountPath": each.mount.path, "readOnly": each.mount.mode == "ro"}
        for each in transferred
    ]
    mounts += [
        {"name": _claim(index), "mountPath": mount.path, "readOnly": mount.mode == "ro"}
        for index, (mount, _) in enumerate(claim_mounts(step))
    ]
    if step.secrets:
        mounts.append({"name": _SECRETS_VOLUME, "mountPath": SECRETS_MOUNT, "readOnly": True})
    variables = step_environment(step, identity)
    container = _container(STEP_CONTAINER, step.command, target, mounts)
    container["env"] = [{"name": name, "value": escape(variables[name])} for name in sorted(variables)]
    container["workingDir"] = step.workdir
    container["resources"] = _resources(target.resources)
    container["securityContext"] = container_security(target)
    return without_empty(container)


def step_environment(step: Step, identity: AttemptIdentity) -> dict[str, str]:
    """The variables of the step's container, unescaped: of the target, of the step, of senro, and paths of secrets."""
    return {
        **(step.on.env if isinstance(step.on, Pod) else {}),
        **step.env,
        **{variable: f"{SECRETS_MOUNT}/{name}" for variable, name in step.secrets.items()},
        **{mount_variable(mount): mount.path for mount in step.mounts},
        names.RUN_VARIABLE: identity.run_id,
        names.STEP_VARIABLE: identity.step_id,
        names.ATTEMPT_VARIABLE: str(identity.attempt),
    }


def stage_container(target: Pod, transferred: Sequence[TransferredMount]) -> Manifest:
    """The init container in which every transferred mount is unpacked, before the step starts."""
    mounts = [
        {"name": _volume(each.index), "mountPath": f"{VOLUMES_MOUNT}/{each.index}", "readOnly": False}
        for each in transferred
    ]
    mounts.append({"name": _CONTROL_VOLUME, "mountPath": CONTROL_MOUNT, "readOnly": False})
    return _transfer_container(STAGE_CONTAINER, STAGE_COMMAND, target, mounts)


def io_container(target: Pod, transferred: Sequence[TransferredMount]) -> Manifest:
    """The container from which the mounts that return are downloaded, after the step has ended."""
    mounts = [
        {"name": _volume(each.index), "mountPath": f"{VOLUMES_MOUNT}/{each.index}", "readOnly": True}
        for each in transferred
        if each.returns
    ]
    return _transfer_container(IO_CONTAINER, IO_COMMAND, target, mounts)


def _transfer_container(name: str, command: tuple[str, ...], target: Pod, mounts: list[Manifest]) -> Manifest:
    container = _container(name, command, target, mounts)
    container["image"] = target.helper or target.image
    container["resources"] = _resources(target.transfer_resources)
    container["securityContext"] = transfer_security(target)
    return without_empty(container)


def _container(name: str, command: Iterable[str], target: Pod, mounts: list[Manifest]) -> Manifest:
    return {
        "name": name,
        "image": target.image,
        # An image with a digest is the same on the node and in the registry.
        "imagePullPolicy": "IfNotPresent",
        "command": [escape(word) for word in command],
        "terminationMessagePolicy": "File",
        "volumeMounts": mounts,
    }


def pod_volumes(
    step: Step, target: Pod, identity: AttemptIdentity, transferred: Sequence[TransferredMount]
) -> list[Manifest]:
    """An emptyDir for each transferred mount, one for the fifo, the claims, and the files of the secrets.

    A claim that is mounted `ro` is a read-only volume: some claims can be attached to many nodes only so.
    """
    volumes: list[Manifest] = [{"name": _volume(each.index), "emptyDir": {}} for each in transferred]
    if volumes:
        volumes.append({"name": _CONTROL_VOLUME, "emptyDir": {}})
    volumes += [
        {"name": _claim(index), "persistentVolumeClaim": {"claimName": claim, "readOnly": mount.mode == "ro"}}
        for index, (mount, claim) in enumerate(claim_mounts(step))
    ]
    if step.secrets:
        mode = secret_file_mode(target, claims=bool(claim_mounts(step)))
        items = [{"key": name, "path": name, "mode": mode} for name in secret_names(step)]
        volumes.append({"name": _SECRETS_VOLUME, "secret": {"secretName": identity.name, "items": items}})
    return volumes


def secret_names(step: Step) -> list[str]:
    """The names of the secrets that the step uses, sorted."""
    return sorted(set(step.secrets.values()))


def _volume(index: int) -> str:
    return f"ws-{index}"


def _claim(index: int) -> str:
    return f"claim-{index}"


def _resources(resources: Mapping[str, Any]) -> Manifest:
    """The resources with their quantities as text, as the API's schema requires."""
    return {
        kind: {name: str(quantity) for name, quantity in quantities.items()} for kind, quantities in resources.items()
    }


def without_empty(fields: Manifest) -> Manifest:
    """The fields without null, empty lists and empty mappings, which the API treats like absent ones."""
    return {key: value for key, value in fields.items() if value not in (None, [], {})}
