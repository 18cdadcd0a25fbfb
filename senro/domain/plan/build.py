"""Builds a plan of a pipeline."""

from __future__ import annotations

from senro.domain.errors import PlanError, Refusal
from senro.domain.plan.plan import Plan, PlannedStep
from senro.domain.plan.validation.graph import read_graph
from senro.domain.plan.validation.workflows import read_workflows
from senro.domain.plan.validation.workspace_conflicts import read_workspaces


def build_plan(name: object, workflows: object) -> Plan:
    """Builds the plan of a pipeline, whatever types its values have. Raises `PlanError` with every refusal."""
    refusals: list[Refusal] = []
    checked_name, checked_workflows = read_workflows(name, workflows, refusals)
    graph = read_graph(checked_workflows, refusals)
    workspaces, scratches = read_workspaces(graph, refusals)
    if refusals:
        raise PlanError(tuple(refusals))
    secrets = {secret for step in graph.steps.values() for secret in step.secrets.values()}
    return Plan(
        checked_name,
        tuple(PlannedStep(step, graph.needs[step_id]) for step_id, step in graph.steps.items()),
        workspaces,
        scratches,
        tuple(sorted(secrets)),
    )
