"""The rules for workspaces that several steps mount: one name is one content, and no changes are lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from senro.domain.errors import Refusal
from senro.domain.pipeline.step_mounts import workspace_mounts
from senro.domain.pipeline.workspace import ScratchCache, ScratchMount, Workspace
from senro.domain.plan.validation.field_reader import name_steps
from senro.domain.plan.validation.graph import Graph, Unordered
from senro.domain.plan.validation.shared_mounts import refuse_shared_caches, refuse_shared_claims


def read_workspaces(graph: Graph, refusals: list[Refusal]) -> tuple[tuple[Workspace, ...], tuple[ScratchCache, ...]]:
    """The workspaces and scratch caches of all steps, in the order in which steps mount them."""
    workspaces: dict[str, tuple[Workspace, str]] = {}
    caches: dict[str, tuple[ScratchCache, str]] = {}
    for step_id, step in graph.steps.items():
        for mount in step.mounts:
            if isinstance(mount, ScratchMount):
                first = caches.setdefault(mount.name, (mount.cache, step_id))
                refusals += _differing("scratch cache", first, mount.cache, step_id)
            else:
                known = workspaces.setdefault(mount.name, (mount.workspace, step_id))
                refusals += _differing("workspace", known, mount.workspace, step_id)
    unordered = Unordered(graph)
    refusals += _lost_updates(graph, unordered)
    refusals += refuse_shared_caches(graph, unordered)
    refusals += refuse_shared_claims(graph)
    return tuple(found for found, _ in workspaces.values()), tuple(found for found, _ in caches.values())


def _differing(
    kind: str, first: tuple[Workspace | ScratchCache, str], here: Workspace | ScratchCache, step_id: str
) -> Iterator[Refusal]:
    known, elsewhere = first
    if known == here or not here.name:
        return
    difference = next(field.name for field in fields(here) if getattr(known, field.name) != getattr(here, field.name))
    message = (
        f"the {kind} {here.name} has another {difference} here than in {elsewhere}; make it once and mount that value, "
        "or give this one another name"
    )
    yield Refusal(step_id, "workspace-differs", message)


def _lost_updates(graph: Graph, unordered: Unordered) -> Iterator[Refusal]:
    """Refuses two steps without an order, one of which changes a workspace that the other mounts.

    Both would start with the same content, and the later download would replace the changes of the other. With scope
    `step` each has its own content, and one step at a time mounts a claim.
    """
    users: dict[str, list[str]] = {}
    writers: dict[str, set[str]] = {}
    for step_id, step in graph.steps.items():
        shared = {mount.name: mount.mode for mount in workspace_mounts(step) if mount.workspace.scope != "step"}
        for name, mode in shared.items():
            users.setdefault(name, []).append(step_id)
            if mode == "rw" and not step.no_snapshot:
                writers.setdefault(name, set()).add(step_id)
    for name, steps in users.items():
        changing = writers.get(name, set())
        for count, step_id in enumerate(steps):
            rivals = [
                other
                for other in steps[:count]
                if (step_id in changing or other in changing) and unordered(other, step_id)
            ]
            if rivals:
                yield _lost_update(step_id, rivals, name)


def _lost_update(step_id: str, rivals: list[str], name: str) -> Refusal:
    message = (
        f"this step and {name_steps(rivals)} mount the workspace {name}, not both 'ro', and no needs say which comes "
        "first, so the changes of one would be lost; add needs, mount it 'ro' in both, or give the workspace "
        "scope='step'"
    )
    return Refusal(step_id, "lost-update", message)
