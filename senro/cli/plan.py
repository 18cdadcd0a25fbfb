"""`senro plan`: prints a plan as text, or the manifests of its pods as YAML."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import click
import yaml

from senro.cli.pipeline_file import load_pipeline
from senro.domain.manifests.identity import AttemptIdentity
from senro.domain.manifests.pod import pod_manifest, secret_manifest
from senro.domain.pipeline.retry import Retry
from senro.domain.pipeline.step import Step
from senro.domain.pipeline.step_mounts import claims_by_name
from senro.domain.pipeline.targets import Pod
from senro.domain.pipeline.workspace import AnyMount, Mount, Workspace
from senro.domain.plan.plan import Plan, PlannedStep

RUN_ID = "20260101T000000Z-000000"
"""Placeholder for the run's id, which is not known before a run."""

NONCE = "0" * 16
"""Placeholder for the nonce of an attempt."""


def show_plan(reference: str, *, pods: bool) -> int:
    """Prints the plan of the pipeline that `reference` (FILE[:NAME]) names, or its pods. Returns the exit code."""
    plan = load_pipeline(reference).build()
    click.echo(pods_text(plan) if pods else plan_text(plan), nl=False)
    return 0


def plan_text(plan: Plan) -> str:
    """Returns the plan as text: the steps in topological order, then the workspaces and the scratch caches."""
    lines = [f"pipeline {plan.name}: {len(plan.steps)} step{'' if len(plan.steps) == 1 else 's'}"]
    for planned in plan.steps:
        lines += ["", *_step_lines(planned)]
    if plan.workspaces or plan.scratches:
        lines.append("")
    claims = {name: claim for planned in plan.steps for name, claim in claims_by_name(planned.step).items()}
    lines += [f"workspace {one.name}: {_content(one, claims.get(one.name, ''))}" for one in plan.workspaces]
    lines += [f"scratch cache {cache.name}: key {cache.key}" for cache in plan.scratches]
    return "\n".join(lines) + "\n"


def _step_lines(planned: PlannedStep) -> Iterator[str]:
    step = planned.step
    yield f"{step.id}  ({_where(step)})"
    yield f"  {shlex.join(step.command)}"
    if planned.needs:
        yield f"  needs      {', '.join(planned.needs)}"
    yield from (f"  mounts     {_mount(step, mount)}" for mount in step.mounts)
    if step.no_snapshot:
        yield "  changes to its mounts are discarded: later steps see them as they were before"
    if step.pure:
        yield "  pure: its results depend only on its command, image, variables and mounts"
    if step.workdir:
        yield f"  workdir    {step.workdir}"
    if step.env:
        yield f"  env        {', '.join(sorted(step.env))}"
    yield from (f"  secret     {name} as a file, named by ${variable}" for variable, name in step.secrets.items())
    if step.timeout is not None:
        yield f"  timeout    {step.timeout:g} s"
    if step.retry is not None:
        yield f"  retry      {_retry(step.retry)}"
    if step.continue_on_error:
        yield "  a failure does not stop the steps that need it"


def pods_text(plan: Plan) -> str:
    """Returns a YAML document for the pod of each step's first attempt, preceded by its Secret without the values."""
    documents: list[Any] = []
    for planned in plan.steps:
        step = planned.step
        if isinstance(step.on, Pod):
            identity = AttemptIdentity(run_id=RUN_ID, step_id=step.id, attempt=1, nonce=NONCE)
            if step.secrets:
                secret = secret_manifest(step, identity, dict.fromkeys(step.secrets.values(), b""))
                documents.append({**secret, "data": dict.fromkeys(secret["data"], "(the value, in base64)")})
            documents.append(pod_manifest(step, identity))
    if not documents:
        return "# no step runs in a pod\n"
    head = (
        "# The run's id, the attempt's nonce and the names derived from them are placeholders;\n"
        "# a run adds a second to activeDeadlineSeconds for each MiB that it uploads.\n"
    )
    return head + yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True, width=120)


def _mount(step: Step, mount: AnyMount) -> str:
    claims = claims_by_name(step)
    if isinstance(mount, Mount) and mount.name in claims:
        return f"claim {claims[mount.name]} ({mount.name}) at {mount.path} ({mount.mode})"
    kind = "" if isinstance(mount, Mount) else "scratch cache "
    return f"{kind}{mount.name} at {mount.path} ({mount.mode})"


def _content(workspace: Workspace, claim: str) -> str:
    if claim:
        return f"the claim {claim}, which senro neither transfers nor stores"
    first = f"from {workspace.path}" if workspace.path is not None else "empty at first"
    if workspace.scope == "step":
        return f"{first}, a fresh copy for each step"
    if workspace.bounds is not None:
        age, size = workspace.bounds
        return f"{first}, kept for later runs, at most {age:g} s and {size} bytes"
    return first


def _where(step: Step) -> str:
    target = step.on
    return f"pod in {target.namespace}, {target.image}" if isinstance(target, Pod) else "local"


def _retry(retry: Retry) -> str:
    on = {"infra": "infrastructure failures", "failure": "failures of its command", "any": "any failure"}[retry.on]
    return f"{retry.attempts} attempts, on {on}"
