"""The rules of workspaces across steps: one name is one workspace, and no step's changes are lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from senro.domain.errors import Refusal
from senro.domain.pipeline import Step
from senro.domain.refusals.needs import Graph
from senro.domain.workspace import Workspace

_NAMED_STEPS: Final = 3


def read_workspaces(graph: Graph, refusals: list[Refusal]) -> tuple[Workspace, ...]:
    """The workspaces of all steps, in the order in which steps mount them."""
    first: dict[str, tuple[Workspace, str]] = {}
    for step_id, step in graph.steps.items():
        for mount in step.mounts:
            workspace = mount.workspace
            known, elsewhere = first.setdefault(workspace.name, (workspace, step_id))
            if known != workspace and workspace.name:
                message = (
                    f"the workspace {workspace.name} has another {_difference(known, workspace)} here than in "
                    f"{elsewhere}; make it once and mount that value, or give this one another name"
                )
                refusals.append(Refusal(step_id, "workspace-differs", message))
    refusals += _lost_updates(graph)
    return tuple(workspace for workspace, _ in first.values())


def _difference(one: Workspace, other: Workspace) -> str:
    if one.path != other.path:
        return "path"
    return "scope" if one.scope != other.scope else "exclude"


def _lost_updates(graph: Graph) -> Iterator[Refusal]:
    """Two steps that no needs put in order, one of which changes a workspace of scope `run` that the other mounts.

    Both start from the same content, and whichever is read back last silently replaces what the other one did.
    """
    before = _before(graph.needs)
    users: dict[str, list[str]] = {}
    writers: dict[str, set[str]] = {}
    for step_id, step in graph.steps.items():
        for name, mode in _run_scoped(step).items():
            users.setdefault(name, []).append(step_id)
            if mode == "rw":
                writers.setdefault(name, set()).add(step_id)
    places = {step_id: place for place, step_id in enumerate(graph.needs)}
    for name, steps in users.items():
        changing = writers.get(name, set())
        for count, step_id in enumerate(steps):
            rivals = [
                other
                for other in steps[:count]
                if (step_id in changing or other in changing)
                and not before[step_id] >> places[other] & 1
                and graph.unsure.isdisjoint((step_id, other))
            ]
            if rivals:
                yield _lost_update(step_id, rivals, name)


def _run_scoped(step: Step) -> dict[str, str]:
    return {mount.workspace.name: mount.mode for mount in step.mounts if mount.workspace.scope == "run"}


def _before(needs: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """For each step the set of all that come before it for sure: bit n for the n-th step of the order."""
    places = {step_id: place for place, step_id in enumerate(needs)}
    found: dict[str, int] = {}
    for step_id, wanted in needs.items():
        bits = 0
        for need in wanted:
            bits |= found.get(need, 0) | 1 << places[need]
        found[step_id] = bits
    return found


def _lost_update(step_id: str, rivals: list[str], name: str) -> Refusal:
    others = ", ".join(rivals[:_NAMED_STEPS])
    if len(rivals) > _NAMED_STEPS:
        others += f" and {len(rivals) - _NAMED_STEPS} more"
    message = (
        f"this step and {others} mount the workspace {name}, not both 'ro', and no needs say which comes first, so the "
        "changes of one would be lost; add needs, mount it 'ro' in both, or give the workspace scope='step'"
    )
    return Refusal(step_id, "lost-update", message)
