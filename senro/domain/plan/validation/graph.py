"""The rules for needs: every name exists once, and there is no cycle."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from senro.domain.errors import Refusal
from senro.domain.pipeline.step import Step
from senro.domain.plan.topological_order import topological_order
from senro.domain.plan.validation.field_reader import quote
from senro.domain.plan.validation.workflows import ReadWorkflow


@dataclass(frozen=True, slots=True)
class Graph:
    """The dependencies of the steps.

    `steps`: the steps by id, in a stable topological order.
    `needs`: the ids that each step needs.
    `unsure`: the steps whose needs were refused, and all that need them. Their order is unknown.
    """

    steps: Mapping[str, Step]
    needs: Mapping[str, tuple[str, ...]]
    unsure: frozenset[str]


class Unordered:
    """Whether two steps may run at the same time."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._places = {step_id: place for place, step_id in enumerate(graph.needs)}
        # For each step a bit set of all steps that precede it: bit n is the n-th step of the order.
        self._before: dict[str, int] = {}
        for step_id, wanted in graph.needs.items():
            bits = 0
            for need in wanted:
                bits |= self._before.get(need, 0) | 1 << self._places[need]
            self._before[step_id] = bits

    def __call__(self, earlier: str, later: str) -> bool:
        """Whether no needs order the steps, of which `earlier` is first in `steps`. False if one of them is unsure."""
        return not self._before[later] >> self._places[earlier] & 1 and self._graph.unsure.isdisjoint((earlier, later))


def read_graph(workflows: Sequence[ReadWorkflow], refusals: list[Refusal]) -> Graph:
    """Resolves the needs of steps and workflows. Of steps with one id the first counts."""
    by_workflow: dict[str, list[str]] = {}
    for workflow in workflows:
        by_workflow.setdefault(workflow.name, []).extend(step.id for step in workflow.steps)
    steps: dict[str, Step] = {}
    for step in (step for workflow in workflows for step in workflow.steps):
        steps.setdefault(step.id, step)
    unsure = set(_refuse_duplicates(workflows, refusals))
    shared, unclear = _workflow_needs(workflows, by_workflow, refusals)
    needs: dict[str, tuple[str, ...]] = {}
    for step_id, step in steps.items():
        own, unknown = _step_needs(step, steps, by_workflow)
        refusals += unknown
        needs[step_id] = tuple(dict.fromkeys((*shared[step.workflow], *own)))
        if unknown or step.workflow in unclear:
            unsure.add(step_id)
    order, cycles = topological_order(needs)
    for cycle in cycles:
        refusals.append(_cycle_refusal(cycle, "step", list(steps)))
        unsure.update(cycle)
    for step_id in order:
        if not unsure.isdisjoint(needs[step_id]):
            unsure.add(step_id)
    return Graph(
        {step_id: steps[step_id] for step_id in order},
        {step_id: needs[step_id] for step_id in order},
        frozenset(unsure),
    )


def _refuse_duplicates(workflows: Sequence[ReadWorkflow], refusals: list[Refusal]) -> list[str]:
    for name, count in Counter(workflow.name for workflow in workflows).items():
        if count > 1:
            message = f"{count} workflows have this name; add all steps to one, or rename the others"
            refusals.append(Refusal(name, "duplicate-workflow", message))
    twice = [
        (step_id, count)
        for step_id, count in Counter(step.id for workflow in workflows for step in workflow.steps).items()
        if count > 1
    ]
    for step_id, count in twice:
        refusals.append(Refusal(step_id, "duplicate-step", f"{count} steps have this id; give each its own name"))
    return [step_id for step_id, _ in twice]


def _workflow_needs(
    workflows: Sequence[ReadWorkflow], by_workflow: Mapping[str, list[str]], refusals: list[Refusal]
) -> tuple[dict[str, tuple[str, ...]], set[str]]:
    """The step ids that every step of each workflow needs, and the workflows whose needs were refused.

    A workflow without steps passes on its own needs.
    """
    wanted: dict[str, list[str]] = {name: [] for name in by_workflow}
    unclear = set()
    for workflow in workflows:
        for need in workflow.needs:
            if need in by_workflow:
                wanted[workflow.name].append(need)
                continue
            unclear.add(workflow.name)
            message = f"needs {quote(need)}, and there is no such workflow{_hint(need, by_workflow)}"
            refusals.append(Refusal(workflow.name, "unknown-need", message))
    order, cycles = topological_order(wanted)
    for cycle in cycles:
        refusals.append(_cycle_refusal(cycle, "workflow", list(by_workflow)))
        unclear.update(cycle)
        for name in cycle:
            wanted[name] = [need for need in wanted[name] if need not in cycle]
    shared: dict[str, tuple[str, ...]] = {}
    for name in order:
        shared[name] = tuple(step_id for need in wanted[name] for step_id in by_workflow[need] or shared.get(need, ()))
        if any(need in unclear and not by_workflow[need] for need in wanted[name]):
            unclear.add(name)
    return shared, unclear


def _step_needs(
    step: Step, steps: Mapping[str, Step], by_workflow: Mapping[str, list[str]]
) -> tuple[list[str], list[Refusal]]:
    """The steps that the step itself needs: names in its own workflow, else ids."""
    found = []
    refusals = []
    for need in step.needs:
        if (sibling := f"{step.workflow}.{need}") in steps:
            found.append(sibling)
        elif need in steps:
            found.append(need)
        else:
            if need in by_workflow:
                hint = "; that is a workflow: name its steps, or let this workflow need it"
            else:
                hint = _hint(need, [*(step_id.removeprefix(f"{step.workflow}.") for step_id in steps)])
            message = f"needs {quote(need)}, which is no step of its workflow and no id '<workflow>.<step>'{hint}"
            refusals.append(Refusal(step.id, "unknown-need", message))
    return found, refusals


def _hint(need: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(need, list(names), n=1)
    return f"; did you mean {quote(near[0])}?" if near else "; add it, or remove it from needs"


def _cycle_refusal(cycle: Sequence[str], kind: str, written: Sequence[str]) -> Refusal:
    """The refusal of a cycle, which begins with the key that was written first."""
    first = min(range(len(cycle)), key=lambda place: written.index(cycle[place]))
    path = [*cycle[first:], *cycle[:first], cycle[first]]
    words = " needs ".join(path)
    return Refusal(path[0], "cycle", f"the needs of {kind}s form a cycle: {words}; remove one of them")
