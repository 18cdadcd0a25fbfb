from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

import pytest

from senro.api.result import Result, StepResult, WorkspaceResult
from senro.api.run_summary import step_infos, summarise
from senro.domain.run.outcome import Outcome, OutcomeKind
from senro.domain.run.state_names import StepState
from senro.domain.verdict import NOTES, Note
from senro.ports.reporter import StepInfo, StepRow
from tests.lib.builders.events import attempt_started, step_ended
from tests.lib.harness.app import App, pod_plan

pytestmark = pytest.mark.anyio

FOLDER = "/runs/r"
LOG = f"{FOLDER}/logs/build.make/2.log"


def result_of(outcome: Outcome | None, state: StepState, attempts: int = 2) -> Result:
    step = StepResult("build.make", state, attempts, outcome)
    workspaces = {"src": WorkspaceResult("sha256:00", f"{FOLDER}/workspaces/src")}
    return Result("r", "failed", FOLDER, MappingProxyType({"build.make": step}), MappingProxyType(workspaces))


ROWS: list[tuple[str, Outcome | None, StepState, dict[str, Any]]] = [
    ("succeeded", Outcome(kind="succeeded", code=0), "succeeded", {}),
    ("recovered", Outcome(kind="succeeded", code=0, node="n"), "recovered", {}),
    (
        "a child was killed",
        Outcome(kind="succeeded", code=0, notes=("oom",), hint="h"),
        "succeeded",
        {"detail": ["The kernel killed a process of it for memory."], "kind": "exited", "hint": "h"},
    ),
    (
        "failed",
        Outcome(kind="failed", code=3, node="n", message="m", hint="h"),
        "failed",
        {"detail": ["Its command exited 3."], "kind": "exited", "node": "n", "words": "m", "hint": "h"},
    ),
    (
        "failed with 0, since it left what was refused",
        Outcome(kind="failed", code=0, message="m"),
        "failed",
        {"detail": [], "kind": "exited", "words": "m"},
    ),
    (
        "could not be started",
        Outcome(kind="failed", notes=("start-error",), did_run="no", message="m"),
        "failed",
        {"detail": ["Its command could not be started."], "kind": "failed", "words": "m"},
    ),
    (
        "evicted",
        Outcome(kind="infra", infra_kind="evicted", did_run="yes", code=0, notes=("tie",), node="n"),
        "failed",
        {
            "detail": [
                "The cluster failed it; its command had run.",
                (
                    "Its end and the disruption were first seen together, too close for the clocks of two machines to "
                    "order."
                ),
            ],
            "kind": "evicted",
            "node": "n",
        },
    ),
    (
        "lost",
        Outcome(kind="infra", infra_kind="node-lost", did_run="maybe", may_be_alive=True, node="n"),
        "failed",
        {
            "detail": [
                "The cluster failed it; its command may have run.",
                "It may still be running on the node n.",
            ],
            "kind": "node-lost",
            "node": "n",
        },
    ),
    (
        "lost, nobody knows where",
        Outcome(kind="infra", infra_kind="apiserver", did_run="no", may_be_alive=True),
        "failed",
        {
            "detail": [
                "The cluster failed it; its command had not run.",
                "It may still be running on the node (unknown).",
            ],
            "kind": "apiserver",
        },
    ),
    (
        "timed out",
        Outcome(kind="timed_out", hint="h"),
        "timed_out",
        {"detail": ["It ran longer than its timeout."], "kind": "timed_out", "hint": "h"},
    ),
    ("cancelled", Outcome(kind="cancelled"), "cancelled", {"detail": [], "kind": "cancelled"}),
]


@pytest.mark.parametrize(("outcome", "state", "row"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
async def test_the_row_of_a_step(
    tmp_path: Path, outcome: Outcome | None, state: StepState, row: dict[str, Any]
) -> None:
    """Each outcome gives sentences, kind, node, the cluster's message, a hint and the last log."""
    app = App(tmp_path, pod_plan())
    await app.recorder.record(attempt_started("build.make"))
    app.clock.move(4)
    await app.recorder.record(step_ended("build.make", state, 2))
    app.clock.move(99)
    summary = summarise(result_of(outcome, state), app.recorder, 12.5)
    assert list(summary.rows) == [StepRow(step_id="build.make", state=state, attempts=2, seconds=4, log=LOG, **row)]


async def test_a_step_that_never_started(tmp_path: Path) -> None:
    """It has no seconds, no log and no details."""
    app = App(tmp_path, pod_plan())
    summary = summarise(result_of(None, "skipped_upstream_failed", 0), app.recorder, 1)
    assert list(summary.rows) == [
        StepRow(step_id="build.make", state="skipped_upstream_failed", attempts=0, seconds=None, log="")
    ]


async def test_the_summary_of_a_run(tmp_path: Path) -> None:
    """It has id, state, folder, seconds, and each workspace with digest and folder."""
    app = App(tmp_path, pod_plan())
    summary = summarise(result_of(Outcome(kind="succeeded", code=0), "succeeded"), app.recorder, 12.5)
    assert (summary.run_id, summary.state, summary.folder, summary.seconds) == ("r", "failed", FOLDER, 12.5)
    assert summary.workspaces == {"src": ("sha256:00", f"{FOLDER}/workspaces/src")}


async def test_messages_of_the_cluster_are_redacted(tmp_path: Path) -> None:
    """A secret in a quoted message is masked."""
    app = App(tmp_path, pod_plan(), secrets={"Token": b"hunter2hunter2"})
    outcome = Outcome(kind="failed", code=1, message="said hunter2hunter2")
    (row,) = summarise(result_of(outcome, "failed"), app.recorder, 1).rows
    assert row.words == "said ***"


def test_every_note_has_a_sentence() -> None:
    """Each note has a sentence, and the table above has every kind of outcome."""
    assert set(NOTES) == set(Note)
    assert {row[1].kind for row in ROWS if row[1] is not None} == set(get_args(OutcomeKind))


def test_the_steps_of_a_plan() -> None:
    """Each has the place where it runs, and its needs."""
    assert step_infos(pod_plan()) == [StepInfo(step_id="build.make", where="pod in ci", needs=())]
    assert step_infos(pod_plan(on=None)) == [StepInfo(step_id="build.make", where="local", needs=())]
