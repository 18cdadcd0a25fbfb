"""One try of a step: whose it is, and what of the step it carries into its pod and back."""

from __future__ import annotations

from senro.domain.kube import names
from senro.domain.pipeline.step import Step
from senro.domain.pipeline.targets import Pod
from senro.domain.pipeline.workspace import AnyMount, Mount


def claimed(step: Step) -> tuple[tuple[Mount, str], ...]:
    """The mounts in whose place the step's pod has a PersistentVolumeClaim, with its name. Nothing of them crosses."""
    claims = step.on.claims if isinstance(step.on, Pod) else {}
    return tuple(
        (mount, claims[mount.name]) for mount in step.mounts if isinstance(mount, Mount) and mount.name in claims
    )


def claims_by_name(step: Step) -> dict[str, str]:
    """The PersistentVolumeClaims that the step's pod mounts, by the workspaces in whose place they are."""
    return {mount.name: claim for mount, claim in claimed(step)}


def workspace_mounts(step: Step) -> tuple[Mount, ...]:
    """The step's mounts of workspaces that have files here: its scratch caches and its claims left out."""
    claims = claims_by_name(step)
    return tuple(mount for mount in step.mounts if isinstance(mount, Mount) and mount.name not in claims)


def claim_names(step: Step) -> tuple[str, ...]:
    """The PersistentVolumeClaims that the step's pod mounts, in the order of its mounts."""
    return tuple(claim for _, claim in claimed(step))


def carried(step: Step) -> tuple[tuple[int, AnyMount], ...]:
    """The mounts whose files are carried into the pod, with their index: volume `ws-<n>`, `/senro/ws/<n>`."""
    elsewhere = [mount for mount, _ in claimed(step)]
    return tuple(enumerate(mount for mount in step.mounts if mount not in elsewhere))


def read_back(step: Step) -> tuple[tuple[int, AnyMount], ...]:
    """The carried mounts whose files come back: those mounted `rw`, of a step whose changes are kept."""
    if step.no_snapshot:
        return ()
    return tuple((index, mount) for index, mount in carried(step) if mount.mode == "rw")


def mount_variable(mount: AnyMount) -> str:
    """The variable that tells the step where the mount is."""
    of = names.workspace_variable if isinstance(mount, Mount) else names.scratch_variable
    return of(mount.name)


def pod_target(step: Step) -> Pod:
    """The step's target. Raises `TypeError` for a step that runs locally."""
    if not isinstance(step.on, Pod):
        raise TypeError(f"the step {step.id} does not run in a pod")
    return step.on
