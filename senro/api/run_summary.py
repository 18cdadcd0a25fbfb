"""Builds the reporter's description of a plan and of a result."""

from __future__ import annotations

from dataclasses import replace

from senro.api.result import Result, StepResult
from senro.app.runtime.recorder import Recorder
from senro.domain.kube.names import label_value
from senro.domain.pipeline.targets import Pod
from senro.domain.plan.plan import Plan
from senro.domain.verdict import Note
from senro.domain.verdict.kind_table import NOTES
from senro.ports.reporter import RunSummary, StepInfo, StepRow


def step_infos(plan: Plan) -> list[StepInfo]:
    """Returns the steps of the plan for `Reporter.run_started`."""
    return [
        StepInfo(
            step_id=planned.step.id,
            where=f"pod in {planned.step.on.namespace}" if isinstance(planned.step.on, Pod) else "local",
            needs=planned.needs,
        )
        for planned in plan.steps
    ]


def summarise(result: Result, recorder: Recorder, seconds: float) -> RunSummary:
    """Returns the summary for `Reporter.run_ended`. `seconds` is the duration of the run."""
    return RunSummary(
        run_id=result.run_id,
        state=result.state,
        folder=result.folder,
        seconds=seconds,
        rows=[_row(step, result, recorder) for step in result.steps.values()],
        workspaces={name: (place.digest, place.folder) for name, place in result.workspaces.items()},
    )


def _row(step: StepResult, result: Result, recorder: Recorder) -> StepRow:
    outcome = step.outcome
    log = f"{result.folder}/logs/{label_value(step.id)}/{step.attempts}.log" if step.attempts else ""
    row = StepRow(step_id=step.id, state=step.state, attempts=step.attempts, seconds=recorder.seconds(step.id), log=log)
    if outcome is None or (step.state in ("succeeded", "recovered") and not outcome.notes):
        return row
    detail = [NOTES[Note(note)].sentence for note in outcome.notes]
    if outcome.kind == "infra":
        ran = {"yes": "had run", "no": "had not run", "maybe": "may have run"}[outcome.did_run]
        detail.insert(0, f"The cluster failed it; its command {ran}.")
        if outcome.may_be_alive:
            detail.append(f"It may still be running on the node {outcome.node or '(unknown)'}.")
    elif outcome.kind == "failed" and outcome.code:
        detail.insert(0, f"Its command exited {outcome.code}.")
    elif outcome.kind == "timed_out":
        detail.insert(0, "It ran longer than its timeout.")
    return replace(
        row,
        detail=detail,
        hint=outcome.hint,
        kind=outcome.infra_kind or ("exited" if outcome.code is not None else outcome.kind),
        node=outcome.node,
        words=recorder.redactor.text(outcome.message),
    )
