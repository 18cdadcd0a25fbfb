"""Reads workflows and steps field by field, and refuses invalid fields."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from senro.domain.errors import Refusal
from senro.domain.manifests.containers import step_environment
from senro.domain.manifests.identity import AttemptIdentity
from senro.domain.manifests.pod import manifest_bytes, pod_manifest
from senro.domain.pipeline.step import Step
from senro.domain.pipeline.targets import Pod, Target
from senro.domain.pipeline.workflow import Workflow
from senro.domain.plan.validation.commands import read_command, read_workdir, refuse_manifest, refuse_sizes
from senro.domain.plan.validation.environment import read_environment, read_secrets, refuse_overlap
from senro.domain.plan.validation.field_reader import FieldReader, is_instance, name_steps, quote
from senro.domain.plan.validation.mounts import read_mounts
from senro.domain.plan.validation.retries import MOST_ATTEMPTS, read_retry
from senro.domain.plan.validation.targets import read_target
from senro.domain.plan.validation.workspace_fields import Known

_RUN_ID = "x" * 64  # no run id and no nonce is longer


@dataclass(frozen=True, slots=True)
class ReadWorkflow:
    """A workflow whose fields have their types."""

    name: str
    needs: tuple[str, ...]
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class _Known:
    """What was read before, by `id()`, so that an object that many steps share is refused once.

    `targets`: the targets.
    `mounted`: the workspaces and caches.
    `users`: the ids of the steps of each target.
    """

    targets: dict[int, Target] = field(default_factory=dict)
    mounted: Known = field(default_factory=Known)
    users: dict[int, list[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Draft:
    """A step that is to be read, with its names for refusals."""

    step: Step
    workflow: str
    name: str

    @property
    def id(self) -> str:
        return f"{self.workflow}.{self.name}"


def read_workflows(name: object, workflows: object, refusals: list[Refusal]) -> tuple[str, tuple[ReadWorkflow, ...]]:
    """The name of the pipeline and its workflows, without those that are refused."""
    read_name = FieldReader("pipeline", refusals).name(name, "the pipeline's name", "pipeline")
    reader = FieldReader(read_name, refusals)
    known = _Known()
    drafts = []
    for number, item in enumerate(reader.items(workflows, "the workflows"), start=1):
        if is_instance(item, Workflow):
            drafts.append(_read_names(item, number, known, refusals))
        else:
            reader.refuse("type", f"workflow {number} is {quote(item)}; add workflows by pipeline.workflow(...)")
    if not known.users and not any(refusal.rule == "type" for refusal in refusals):
        reader.refuse(
            "empty", "the pipeline has no steps; add one by pipeline.workflow('build').step('make', ['make'])"
        )
    return read_name, tuple(
        ReadWorkflow(
            workflow, needs, tuple(_read_step(draft, known, FieldReader(draft.id, refusals)) for draft in steps)
        )
        for workflow, needs, steps in drafts
    )


def _read_names(
    workflow: Workflow, number: int, known: _Known, refusals: list[Refusal]
) -> tuple[str, tuple[str, ...], list[_Draft]]:
    """The workflow's name, its needs, and its steps with their names."""
    place = f"workflow {number}"
    name = FieldReader(place, refusals).name(workflow.name, "the workflow's name", place)
    reader = FieldReader(name, refusals)
    needs = _read_needs(workflow.needs, "['build']", reader)
    drafts = []
    for count, item in enumerate(reader.items(workflow.steps, "the steps"), start=1):
        place = f"step {count}"
        if not is_instance(item, Step):
            reader.refuse("type", f"{place} is {quote(item)}; add steps by workflow.step(...)")
            continue
        if item.workflow is not workflow.name and not (is_instance(item.workflow, str) and item.workflow == name):
            reader.refuse("workflow", f"{place} is of workflow {quote(item.workflow)}; add it to that one")
        draft = _Draft(item, name, FieldReader(f"{name}.{place}", refusals).name(item.name, "the step's name", place))
        known.users.setdefault(id(item.on), []).append(draft.id)
        drafts.append(draft)
    return name, needs, drafts


def _read_step(draft: _Draft, known: _Known, reader: FieldReader) -> Step:
    step = draft.step
    key = id(step.on)
    if key not in known.targets:
        others = known.users[key][1:]
        known.targets[key] = read_target(
            step.on, replace(reader, also=f" (also: {name_steps(others)})" if others else "")
        )
    on = known.targets[key]
    target_env = dict(on.env) if isinstance(on, Pod) else {}
    read = Step(
        workflow=draft.workflow,
        name=draft.name,
        command=read_command(step.command, reader),
        needs=_read_needs(step.needs, "['make']", reader),
        on=on,
        mounts=read_mounts(step.mounts, reader, known.mounted),
        workdir=read_workdir(step.workdir, reader, in_pod=isinstance(on, Pod)),
        env=(env := read_environment(step.env, "env", reader)),
        secrets=(secrets := read_secrets(step.secrets, reader)),
        retry=read_retry(step.retry, reader),
        timeout=None if step.timeout is None else reader.seconds(step.timeout, "timeout", "timeout"),
        continue_on_error=reader.flag(step.continue_on_error, "continue_on_error"),
        no_snapshot=reader.flag(step.no_snapshot, "no_snapshot"),
        pure=reader.flag(step.pure, "pure"),
    )
    refuse_overlap(target_env, env, secrets, reader)
    identity = AttemptIdentity(_RUN_ID, read.id, MOST_ATTEMPTS, _RUN_ID)
    refuse_sizes(read.command, step_environment(read, identity), reader)
    if isinstance(on, Pod):
        refuse_manifest(len(manifest_bytes(pod_manifest(read, identity))), reader)
    return read


def _read_needs(value: object, example: str, reader: FieldReader) -> tuple[str, ...]:
    if is_instance(value, str):
        reader.refuse("type", f"needs is one string, {quote(value)}; write a list, e.g. {example}")
        return ()
    return tuple(dict.fromkeys(reader.texts(value, "needs")))
