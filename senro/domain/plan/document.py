"""`plan.json`: a plan for people and programs.

None, False and empty values are left out. Secrets are given by name, never by value.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from senro.domain.pipeline.retry import Retry
from senro.domain.pipeline.step import Step
from senro.domain.pipeline.step_mounts import claims_by_name
from senro.domain.pipeline.targets import Pod
from senro.domain.pipeline.workspace import Mount, Workspace
from senro.domain.plan.plan import Plan, PlannedStep

# Defaults are only None, False and empty values: msgspec leaves any other one out only if the value is the same object,
# and then equal plans would not have equal bytes.

FORMAT: Final = "senro.dev/plan/1"
"""The first field of the document. The number changes if a reader of the old format would misread the new one."""


class WorkspaceDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """A workspace. `path` is the folder of its initial content, absent if it starts empty."""

    name: str
    scope: str
    path: str | None = None
    exclude: tuple[str, ...] = ()
    keep_links: bool = False
    follow_links: bool = False
    max_age: float | None = None
    max_size: int | None = None


class ScratchDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """A scratch cache. Its keys are evaluated when the plan runs."""

    name: str
    key: str
    restore_keys: tuple[str, ...] = ()


class MountDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """A workspace or a scratch cache at a path. `claim` is the PersistentVolumeClaim that replaces it."""

    path: str
    mode: str
    workspace: str | None = None
    scratch: str | None = None
    claim: str | None = None


class PodDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """A `senro.domain.pipeline.targets.Pod`."""

    image: str
    namespace: str
    security: str
    start_timeout: float
    max_lifetime: float
    grace: int
    user: int | None = None
    group: int | None = None
    helper: str | None = None
    claims: dict[str, str] = {}
    resources: dict[str, Any] = {}
    transfer_resources: dict[str, Any] = {}
    service_account: str | None = None
    node_selector: dict[str, str] = {}
    tolerations: tuple[dict[str, Any], ...] = ()
    image_pull_secrets: tuple[str, ...] = ()
    priority_class: str | None = None
    runtime_class: str | None = None
    env: dict[str, str] = {}
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    max_pods: int | None = None


class StepDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step. `needs` has ids, also those of its workflow's needs. `pod` is absent if the step runs locally."""

    id: str
    command: tuple[str, ...]
    needs: tuple[str, ...] = ()
    pod: PodDocument | None = None
    mounts: tuple[MountDocument, ...] = ()
    workdir: str | None = None
    env: dict[str, str] = {}
    secrets: dict[str, str] = {}
    retry: Retry | None = None
    timeout: float | None = None
    continue_on_error: bool = False
    no_snapshot: bool = False
    pure: bool = False


class PlanDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """The document, for `msgspec.json.decode(data, type=PlanDocument)`."""

    format: str
    name: str
    workspaces: tuple[WorkspaceDocument, ...]
    secrets: tuple[str, ...]
    steps: tuple[StepDocument, ...]
    scratches: tuple[ScratchDocument, ...] = ()


def plan_document(plan: Plan) -> bytes:
    """The plan as indented JSON with a newline at its end. Equal plans have equal bytes."""
    document = PlanDocument(
        FORMAT,
        plan.name,
        tuple(_workspace(workspace) for workspace in plan.workspaces),
        plan.secrets,
        tuple(_step(planned) for planned in plan.steps),
        tuple(ScratchDocument(cache.name, cache.key, tuple(cache.restore_keys)) for cache in plan.scratches),
    )
    return msgspec.json.format(msgspec.json.encode(document, order="deterministic"), indent=2) + b"\n"


def _workspace(workspace: Workspace) -> WorkspaceDocument:
    age, size = workspace.bounds or (None, None)
    return WorkspaceDocument(
        name=workspace.name,
        scope=workspace.scope,
        path=workspace.path,
        exclude=tuple(workspace.exclude),
        keep_links=workspace.links == "keep",
        follow_links=not workspace.preserve_symlinks,
        max_age=age,
        max_size=size,
    )


def _mounts(step: Step) -> tuple[MountDocument, ...]:
    claims = claims_by_name(step)
    return tuple(
        MountDocument(mount.path, mount.mode, workspace=mount.name, claim=claims.get(mount.name))
        if isinstance(mount, Mount)
        else MountDocument(mount.path, mount.mode, scratch=mount.name)
        for mount in step.mounts
    )


def _step(planned: PlannedStep) -> StepDocument:
    step: Step = planned.step
    return StepDocument(
        id=step.id,
        command=tuple(step.command),
        needs=planned.needs,
        pod=msgspec.convert(step.on, PodDocument, from_attributes=True) if isinstance(step.on, Pod) else None,
        mounts=_mounts(step),
        workdir=step.workdir,
        env=dict(step.env),
        secrets=dict(step.secrets),
        retry=step.retry,
        timeout=step.timeout,
        continue_on_error=step.continue_on_error,
        no_snapshot=step.no_snapshot,
        pure=step.pure,
    )
