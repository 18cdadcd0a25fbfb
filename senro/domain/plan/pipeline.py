"""A pipeline, which a pipeline file fills and builds into a plan.

Nothing is checked before `build`, so that `PlanError` has every refusal. The class is not next to `Step`, since `build`
depends on the validation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from senro.domain.pipeline.targets import Local, Target
from senro.domain.pipeline.workflow import Workflow

if TYPE_CHECKING:
    from senro.domain.plan.plan import Plan


class Pipeline:
    """A named list of workflows."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.workflows: list[Workflow] = []

    def __repr__(self) -> str:
        return f"<Pipeline {self.name!r} of {len(self.workflows)} workflows>"

    def workflow(self, name: str, *, needs: Sequence[str] = (), on: Target | None = None) -> Workflow:
        """Adds a workflow. Its steps need every step of the workflows in `needs`.

        `on` is `senro.local()`, the default, or a `senro.k8s.Pod(...)`.
        """
        workflow = Workflow(name, needs=needs, on=Local() if on is None else on)
        self.workflows.append(workflow)
        return workflow

    def build(self) -> Plan:
        """Returns the validated plan. Raises `PlanError` with every refusal."""
        from senro.domain.plan.build import build_plan  # noqa: PLC0415 - a pod that imports the file does not build it

        return build_plan(self.name, self.workflows)
