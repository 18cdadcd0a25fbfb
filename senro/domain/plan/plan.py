"""A plan: a validated, immutable pipeline."""

from __future__ import annotations

from dataclasses import dataclass

from senro.domain.pipeline.step import Step
from senro.domain.pipeline.workspace import ScratchCache, Workspace


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step, and the ids of the steps that it needs, also by the needs of its workflow."""

    step: Step
    needs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run executes. Made by `build_plan`; later changes of the pipeline do not affect it.

    `name`: the name of the pipeline.
    `steps`: the steps, each after those that it needs, else in the order of the pipeline.
    `workspaces`, `scratches`: the workspaces and scratch caches that are mounted.
    `secrets`: the names of the secrets, sorted.
    """

    name: str
    steps: tuple[PlannedStep, ...]
    workspaces: tuple[Workspace, ...]
    scratches: tuple[ScratchCache, ...]
    secrets: tuple[str, ...]

    @property
    def persistent_workspaces(self) -> tuple[Workspace, ...]:
        """The persistent workspaces, sorted by name. Runs that lock them in this order cannot deadlock."""
        found = (workspace for workspace in self.workspaces if workspace.scope == "persistent")
        return tuple(sorted(found, key=lambda workspace: workspace.name))
