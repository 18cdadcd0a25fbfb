"""A plan: a pipeline that was validated and frozen. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass

from senro.domain.errors import PlanError, Refusal
from senro.domain.pipeline.pipeline import Pipeline, Step
from senro.domain.pipeline.workspace import ScratchCache, Workspace
from senro.domain.plan.validation.field_reader import is_a, shown
from senro.domain.plan.validation.graph import read_graph
from senro.domain.plan.validation.workflows import read_workflows
from senro.domain.plan.validation.workspace_conflicts import read_workspaces


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step and the ids of all steps that must be settled before it starts, its workflow's needs among them."""

    step: Step
    needs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run carries out. Made by `build_plan`; its steps keep every rule of `senro.domain.plan.validation`.

    `steps` stand after what they need, else as they were written. `workspaces` and `scratches` hold each one that is
    mounted, once. `secrets` are the names that the steps use, sorted; no value of one is ever here. Nothing in it
    changes when the pipeline does.
    """

    name: str
    steps: tuple[PlannedStep, ...]
    workspaces: tuple[Workspace, ...]
    scratches: tuple[ScratchCache, ...]
    secrets: tuple[str, ...]


def build_plan(pipeline: Pipeline) -> Plan:
    """The plan of a pipeline. Raises `PlanError` with every refusal, whatever stands in the pipeline's fields."""
    if not is_a(pipeline, Pipeline):
        raise PlanError((Refusal("pipeline", "type", f"this is {shown(pipeline)}; write senro.Pipeline('name')"),))
    refusals: list[Refusal] = []
    name, workflows = read_workflows(pipeline, refusals)
    graph = read_graph(workflows, refusals)
    workspaces, scratches = read_workspaces(graph, refusals)
    if refusals:
        raise PlanError(tuple(refusals))
    secrets = {secret for step in graph.steps.values() for secret in step.secrets.values()}
    return Plan(
        name,
        tuple(PlannedStep(step, graph.needs[step_id]) for step_id, step in graph.steps.items()),
        workspaces,
        scratches,
        tuple(sorted(secrets)),
    )
