"""Every disruption at every point of a step's life, and every fault of every request.

`make soak` runs both matrices, `make test` a tenth of them, chosen by a seed. Each prints its size and counts.
"""

from __future__ import annotations

import itertools
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

import senro
from senro import retry, secret
from senro.devcluster import FAULT_POINTS
from senro.devcluster.apiserver.access import RUNNER_RULES, Rule
from senro.domain.run.events import AttemptEnded, PodCreated, PodDeleted
from senro.domain.run.outcome import Outcome
from senro.testing import Bench

pytestmark = [pytest.mark.slow, pytest.mark.bubblewrap]

SOAK = os.environ.get("SENRO_TEST_PROFILE") == "soak"
SEED = 20261130
AT_ONCE = 10
"""Number of steps of a run, each with its own disruption."""

REASONS = ("Evicted", "Preempted", "Tainted", "Deleted", "ForceDeleted", "NodePressure", "NodeShutdown", "")
"""The reasons. With the empty one the pod disappears."""

FINISHED = frozenset({"after-exit", "read-back", "delete"})
"""The points after the end of the command."""

BLAMED = {"evicted", "preempted", "deleted", "vanished", "node-lost", "stage-failed"}
"""The valid kinds of Infra for a disruption."""


class Case(NamedTuple):
    """A disruption of one step."""

    reason: str
    point: str
    workspace: bool


def sample(cases: list[Any]) -> list[Any]:
    """Returns all cases in `make soak`, else a tenth, always the same."""
    return cases if SOAK else random.Random(SEED).sample(cases, max(1, len(cases) // 10))


DISRUPTIONS = sample([Case(*case) for case in itertools.product(REASONS, FAULT_POINTS, (False, True))])
BATCHES = [DISRUPTIONS[at : at + AT_ONCE] for at in range(0, len(DISRUPTIONS), AT_ONCE)]


def step_script(path: str) -> str:
    """Returns a script that works for half a second and exits with 0, also on SIGTERM."""
    return f"trap 'exit 0' TERM; echo $SENRO_ATTEMPT {path}; i=0; while [ $i -lt 10 ]; do sleep 0.05; i=$((i+1)); done"


@pytest.mark.parametrize(
    "batch", BATCHES, ids=lambda batch: "-".join(sorted({case.reason or "none" for case in batch}))
)
def test_disruptions(bench: Bench, batch: list[Case], record_property: Callable[[str, object], None]) -> None:
    """No disrupted step is a success or a failure of its command, no finished one is Infra, no two pods overlap."""
    with may_list_events(bench):
        result = run(bench, batch)
    counted: Counter[str] = Counter()
    for number, case in enumerate(batch):
        outcomes = [event.outcome for event in bench.of(AttemptEnded) if event.step == f"w.s{number}"]
        counted[judge(case, outcomes[0])] += 1
        assert outcomes[-1].kind == "succeeded", (case, outcomes)
        check_order(bench, f"w.s{number}")
        if case.workspace:
            assert bench.tree(f"ws{number}") == {f"f{number}": f"{len(outcomes)}\n".encode()}, case
    assert result.ok
    assert (bench.faults.pending(), result.leftovers) == (0, ())
    assert not set(bench.pods()) & {later for _, later in bench.devcluster.doubled}
    record_property("counts", {f"{len(DISRUPTIONS)} disruptions": dict(counted)})


@contextmanager
def may_list_events(bench: Bench) -> Iterator[None]:
    """Lets senro list Events, since only an Event shows an eviction of a single container that ends with 0."""
    access = bench.devcluster.access
    access.set_runner_rules([*RUNNER_RULES, Rule("", ("events",), ("list",))])
    try:
        yield
    finally:
        access.set_runner_rules(RUNNER_RULES)


def run(bench: Bench, batch: list[Case]) -> senro.Result:
    """Runs a pipeline with a step for each case."""
    pipeline = senro.Pipeline("matrix")
    workflow = pipeline.workflow("w", on=bench.pod(grace=2))
    for number, case in enumerate(batch):
        workspace = senro.Workspace(f"ws{number}")
        workflow.step(
            f"s{number}",
            ["sh", "-c", step_script(f"> /w/f{number}" if case.workspace else "")],
            mounts=[workspace.at("/w")] if case.workspace else [],
            retry=retry.on_infra(attempts=3, delay=0.01),
        )
        point = (
            case.point
            if case.workspace
            else {"stage": "image", "release": "start", "read-back": "after-exit"}.get(case.point, case.point)
        )
        if case.reason:
            bench.faults.fail_pod(step=f"w.s{number}", reason=case.reason, at=point, grace_seconds=1)
        else:
            bench.faults.vanish_pod(step=f"w.s{number}", at=point)
    return bench.run(pipeline)


def judge(case: Case, first: Outcome) -> str:
    """Returns the result of the first attempt in a word. Fails if it is wrong."""
    if case.point not in FINISHED:
        assert first.kind == "infra", (case, first)
        # The end of an evicted pod's step may be seen before a sign of the eviction. Then only its files are lost.
        assert first.infra_kind in BLAMED | ({"transfer"} if case.workspace else set()), (case, first)
        return "infra"
    if first.kind == "succeeded":
        return "finished"
    assert first.kind == "infra", (case, first)
    if first.infra_kind == "transfer":
        assert case.workspace, (case, first)
        assert (first.code, first.did_run) == (0, "yes")
        return "finished, files lost"
    if "tie" in first.notes:
        return "tie"
    # It ended and disappeared between two polls, or its end was removed from the status: senro cannot know.
    assert (first.code, first.infra_kind in BLAMED) == (None, True), (case, first)
    return "end never seen"


def check_order(bench: Bench, step: str) -> None:
    """Checks that each pod of a step was created after the previous one was seen gone."""
    alive = 0
    for event in bench.events():
        if isinstance(event, PodCreated) and event.step == step:
            assert alive == 0
            alive += 1
        elif isinstance(event, PodDeleted) and event.step == step and event.confirmed:
            alive -= 1


TRANSIENT_FAULTS: dict[str, Callable[[Any, str, str], None]] = {
    "dropped before": lambda faults, method, path: faults.drop_connection(times=2, method=method, path_contains=path),
    # An exec is answered before its command runs, so its status is the answer that is lost.
    "answer lost": lambda faults, method, path: (
        faults.drop_status() if path == "/exec" else faults.lose_answer(times=1, method=method, path_contains=path)
    ),
    "429": lambda faults, method, path: faults.throttle(times=2, method=method, path_contains=path, retry_after=1),
    "502": lambda faults, method, path: faults.answer(502, "bad gateway", times=2, method=method, path_contains=path),
    "503": lambda faults, method, path: faults.answer(503, "down", times=2, method=method, path_contains=path),
    "504": lambda faults, method, path: faults.answer(504, "late", times=1, method=method, path_contains=path),
}
"""The faults of a request, before and after it takes effect."""

REQUESTS = (
    ("GET", "/version"),
    ("POST", "/secrets"),
    ("POST", "/pods"),
    ("PATCH", "/secrets/"),
    ("GET", "/pods/"),
    ("GET", "/log"),
    ("GET", "/exec"),
    ("DELETE", "/pods/"),
    ("DELETE", "/secrets/"),
)
"""The requests of an attempt."""

FAULTY_REQUESTS = sample(list(itertools.product(TRANSIENT_FAULTS, REQUESTS)))


@pytest.mark.parametrize(("fault", "request_of"), FAULTY_REQUESTS, ids=str)
def test_transient_faults(
    bench: Bench, fault: str, request_of: tuple[str, str], record_property: Callable[[str, object], None]
) -> None:
    """A transient fault of a request does not fail the step: it runs once, and its files are complete."""
    TRANSIENT_FAULTS[fault](bench.faults, *request_of)
    # The patch of the Secret's owner runs concurrently with the step, and ends with it.
    lasting = 3 if request_of[0] == "PATCH" else 0.2
    source = senro.Workspace("src")
    pipeline = senro.Pipeline("faults")
    pipeline.workflow("w", on=bench.pod()).step(
        "s",
        ["sh", "-c", f'echo ran; wc -c < "$TOKEN" > /w/size; sleep {lasting}'],
        mounts=[source.at("/w")],
        secrets={"TOKEN": "token"},
    )
    result = bench.run(pipeline, secrets={"token": secret.value("0123456789")})
    assert (result.state, result.steps["w.s"].attempts) == ("succeeded", 1), bench.events()
    assert bench.log("w.s") == b"ran\n"
    assert bench.tree("src")["size"].strip() == b"10"
    assert bench.starts() == 1
    assert (bench.faults.pending(), result.leftovers) == (0, ())
    record_property("counts", {f"{len(FAULTY_REQUESTS)} requests with a transient fault": {"repeated": 1}})
