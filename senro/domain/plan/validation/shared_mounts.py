"""The rules for scratch caches and claims that several steps mount."""

from __future__ import annotations

from collections.abc import Iterator

from senro.domain.errors import Refusal
from senro.domain.pipeline.step import Step
from senro.domain.pipeline.step_mounts import claims_by_name
from senro.domain.pipeline.targets import Pod
from senro.domain.pipeline.workspace import Mount, ScratchMount, Workspace
from senro.domain.plan.validation.graph import Graph, Unordered


def refuse_shared_caches(graph: Graph, unordered: Unordered) -> Iterator[Refusal]:
    """Refuses a local step and one in a pod that mount one cache without an order: it could not be passed on."""
    users: dict[str, list[str]] = {}
    for step_id, step in graph.steps.items():
        for name in sorted({mount.name for mount in step.mounts if isinstance(mount, ScratchMount) and mount.name}):
            for other in users.setdefault(name, []):
                here, there = _place(step), _place(graph.steps[other])
                if here != there and unordered(other, step_id):
                    message = (
                        f"this step ({here}) and {other} ({there}) share the scratch cache {name}, and no needs say "
                        "which comes first, so it cannot be passed from one to the other; add needs, or give one of "
                        "them a cache of its own"
                    )
                    yield Refusal(step_id, "scratch-shared", message)
            users[name].append(step_id)


def _place(step: Step) -> str:
    return "in a pod" if isinstance(step.on, Pod) else "local"


_Claim = tuple[str, str]
"""The namespace of a PersistentVolumeClaim and its name."""


def refuse_shared_claims(graph: Graph) -> Iterator[Refusal]:
    """Refuses a workspace that is a claim in one step and none in another, and a claim that replaces two workspaces.

    A step that mounts a claim, which has no digest, cannot be pure.
    """
    first: dict[str, tuple[_Claim | None, str]] = {}
    names: dict[_Claim, tuple[str, str]] = {}
    for step_id, step in graph.steps.items():
        namespace = (step.on.namespace or "") if isinstance(step.on, Pod) else ""
        claims = {name: (namespace, claim) for name, claim in claims_by_name(step).items()}
        for mount in step.mounts:
            if not isinstance(mount, Mount) or not mount.name:
                continue
            claim = claims.get(mount.name)
            if claim is not None and step.pure:
                message = (
                    f"the step is pure, but mounts the workspace {mount.name}, which the claim {claim[1]} replaces and "
                    "other pods may change; leave out pure=True, or the claim"
                )
                yield Refusal(step_id, "claim-pure", message)
            known, elsewhere = first.setdefault(mount.name, (claim, step_id))
            if known != claim:
                yield Refusal(step_id, "claim-differs", _mixed(mount.name, claim, known, elsewhere))
            elif claim is not None and elsewhere == step_id:
                yield from _of_claim(step_id, mount.workspace, claim, names)


def _of_claim(
    step_id: str, workspace: Workspace, claim: _Claim, names: dict[_Claim, tuple[str, str]]
) -> Iterator[Refusal]:
    if workspace != Workspace(workspace.name):
        message = (
            f"the claim {claim[1]} replaces the workspace {workspace.name}, whose content senro does not manage then; "
            "leave out its path, scope, exclude, links and preserve_symlinks"
        )
        yield Refusal(step_id, "claim-content", message)
    name, elsewhere = names.setdefault(claim, (workspace.name, step_id))
    if name != workspace.name:
        message = (
            f"the claim {claim[1]} replaces the workspace {workspace.name} here and {name} in {elsewhere}, and each "
            "name has a Lease of its own, so both steps would use the claim at once; mount one workspace in both"
        )
        yield Refusal(step_id, "claim-names", message)


def _mixed(name: str, claim: _Claim | None, known: _Claim | None, elsewhere: str) -> str:
    here, there = (f"the claim {one[1]} of {one[0]}" if one else "transferred" for one in (claim, known))
    return (
        f"the workspace {name} is {here} here and {there} in {elsewhere}, which are two contents; mount the same claim "
        "in both, or give one of the workspaces another name"
    )
