"""The mounts of a step in a pod: which are transferred, and which are PersistentVolumeClaims."""

from __future__ import annotations

from dataclasses import dataclass

from senro.domain.kube import names
from senro.domain.pipeline.step import Step
from senro.domain.pipeline.targets import Pod
from senro.domain.pipeline.workspace import AnyMount, Mount


@dataclass(frozen=True, slots=True)
class TransferredMount:
    """A mount whose files are uploaded into a volume of the pod.

    `index`: the number of the volume `ws-<index>` and of its folder `/senro/ws/<index>`.
    `returns`: whether the files are downloaded after the step: it mounts them `rw` and its changes are kept.
    """

    index: int
    mount: AnyMount
    returns: bool


def claim_mounts(step: Step) -> tuple[tuple[Mount, str], ...]:
    """The mounts for which the step's pod mounts a PersistentVolumeClaim, each with the name of the claim."""
    claims = step.on.claims if isinstance(step.on, Pod) else {}
    return tuple(
        (mount, claims[mount.name]) for mount in step.mounts if isinstance(mount, Mount) and mount.name in claims
    )


def claims_by_name(step: Step) -> dict[str, str]:
    """The PersistentVolumeClaims that the step's pod mounts, by the names of the workspaces that they replace."""
    return {mount.name: claim for mount, claim in claim_mounts(step)}


def workspace_mounts(step: Step) -> tuple[Mount, ...]:
    """The step's mounts of workspaces whose files are on the coordinator: no scratch caches and no claims."""
    claims = claims_by_name(step)
    return tuple(mount for mount in step.mounts if isinstance(mount, Mount) and mount.name not in claims)


def claim_names(step: Step) -> tuple[str, ...]:
    """The PersistentVolumeClaims that the step's pod mounts, in the order of its mounts."""
    return tuple(claim for _, claim in claim_mounts(step))


def transferred_mounts(step: Step) -> tuple[TransferredMount, ...]:
    """The step's mounts whose files are transferred, in order: all but those that are claims."""
    claims = [mount for mount, _ in claim_mounts(step)]
    transferred = (mount for mount in step.mounts if mount not in claims)
    return tuple(
        TransferredMount(index, mount, returns=mount.mode == "rw" and not step.no_snapshot)
        for index, mount in enumerate(transferred)
    )


def mount_variable(mount: AnyMount) -> str:
    """The environment variable that holds the path of the mount."""
    return names.content_variable("WORKSPACE" if isinstance(mount, Mount) else "SCRATCH", mount.name)


def pod_target(step: Step) -> Pod:
    """The step's target. Raises `TypeError` for a step that runs locally."""
    if not isinstance(step.on, Pod):
        raise TypeError(f"the step {step.id} does not run in a pod")
    return step.on
