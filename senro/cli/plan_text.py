"""A plan as a person reads it, and its pods as the apiserver would get them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import yaml

from senro.domain.manifests.identity import AttemptIdentity
from senro.domain.manifests.pod import pod_manifest, secret_manifest
from senro.domain.pipeline.retry import Retry
from senro.domain.pipeline.step import Step
from senro.domain.pipeline.step_mounts import claims_by_name
from senro.domain.pipeline.targets import Pod
from senro.domain.pipeline.workspace import AnyMount, Mount, Workspace
from senro.domain.plan.plan import Plan

RUN_ID = "20260101T000000Z-000000"
"""Stands for the run's id, which a plan has not got yet; so do the nonce and the number of bytes to stage."""

NONCE = "0" * 16


def plan_text(plan: Plan) -> str:
    """The steps in the order in which they may start, with what matters of each."""
    lines = [f"pipeline {plan.name}: {len(plan.steps)} step{'' if len(plan.steps) == 1 else 's'}"]
    for planned in plan.steps:
        step = planned.step
        lines += ["", f"{step.id}  ({_where(step)})", f"  {shlex.join(step.command)}"]
        if planned.needs:
            lines.append(f"  needs      {', '.join(planned.needs)}")
        lines += [f"  mounts     {_mount(step, mount)}" for mount in step.mounts]
        lines += _promised(step)
        if step.workdir:
            lines.append(f"  workdir    {step.workdir}")
        if step.env:
            lines.append(f"  env        {', '.join(sorted(step.env))}")
        lines += [f"  secret     {name} as a file, named by ${variable}" for variable, name in step.secrets.items()]
        if step.timeout is not None:
            lines.append(f"  timeout    {step.timeout:g} s")
        if step.retry is not None:
            lines.append(f"  retry      {_retry(step.retry)}")
        if step.continue_on_error:
            lines.append("  a failure does not stop what needs it")
    if plan.workspaces or plan.scratches:
        lines.append("")
    claims = {name: claim for planned in plan.steps for name, claim in claims_by_name(planned.step).items()}
    lines += [f"workspace {one.name}: {_content(one, claims.get(one.name, ''))}" for one in plan.workspaces]
    lines += [f"scratch cache {cache.name}: under {cache.key}" for cache in plan.scratches]
    return "\n".join(lines) + "\n"


def _promised(step: Step) -> Iterator[str]:
    if step.no_snapshot:
        yield "  nothing that it does to its mounts is kept: later steps see them as they were before"
    if step.pure:
        yield "  pure: what it leaves follows from its command, image, variables and mounts"


def pods_text(plan: Plan) -> str:
    """One YAML document for each pod of a first attempt, and for each Secret with its values left out."""
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
        "# The run's id, the attempt's nonce and what is derived of them are known when it runs;\n"
        "# activeDeadlineSeconds grows by a second for each MiB that is staged.\n"
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
        return f"the claim {claim}, which senro neither carries nor keeps"
    first = f"from {workspace.path}" if workspace.path is not None else "empty at first"
    if workspace.scope == "step":
        return f"{first}, a fresh copy for each step"
    if workspace.bounds is not None:
        age, size = workspace.bounds
        return f"{first}, kept for later runs for {age:g} s and up to {size} bytes"
    return first


def _where(step: Step) -> str:
    target = step.on
    return f"pod in {target.namespace}, {target.image}" if isinstance(target, Pod) else "local"


def _retry(retry: Retry) -> str:
    on = {"infra": "what the cluster did to it", "failure": "its own failure", "any": "any failure"}[retry.on]
    return f"{retry.attempts} attempts, on {on}"
