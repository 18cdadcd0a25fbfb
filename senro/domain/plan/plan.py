"""A plan: a pipeline that was validated and frozen. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass

from senro.domain.pipeline.step import Step
from senro.domain.pipeline.workspace import ScratchCache, Workspace


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

    @property
    def persistent_workspaces(self) -> tuple[Workspace, ...]:
        """The persistent workspaces, sorted by name: runs that lock them in one order cannot block each other."""
        found = (workspace for workspace in self.workspaces if workspace.scope == "persistent")
        return tuple(sorted(found, key=lambda workspace: workspace.name))
