"""A pipeline: what a pipeline file collects and builds into a plan. Standard library only.

A `Pipeline` collects; nothing is checked before `build`, so that `PlanError` carries every refusal at once. The class
is in this package, and not beside `Step`, because `build` needs the plan's rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from senro.domain.pipeline.targets import Local, Target
from senro.domain.pipeline.workflow import Workflow

if TYPE_CHECKING:
    from senro.domain.plan.plan import Plan


class Pipeline:
    """Workflows of steps. `build` freezes it into a plan, or says everything that is wrong with it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.workflows: list[Workflow] = []

    def __repr__(self) -> str:
        return f"<Pipeline {self.name!r} of {len(self.workflows)} workflows>"

    def workflow(self, name: str, *, needs: Sequence[str] = (), on: Target | None = None) -> Workflow:
        """Add a workflow. Its steps start when every step of the workflows in `needs` has settled well.

        `on` is `senro.local()`, the default, or a `senro.k8s.Pod(...)`.
        """
        workflow = Workflow(name, needs=needs, on=Local() if on is None else on)
        self.workflows.append(workflow)
        return workflow

    def build(self) -> Plan:
        """The plan, frozen and validated. Raises `PlanError` with every refusal; touches nothing."""
        from senro.domain.plan.build import build_plan  # noqa: PLC0415 - a pod that imports the file never builds

        return build_plan(self.name, self.workflows)
