from __future__ import annotations

from typing import Any, get_args

import pytest

from senro.domain.pipeline.retry import Retry, RetryOn
from senro.domain.run.outcome import (
    Outcome,
    OutcomeKind,
    outcome_of,
    repeats,
)
from senro.domain.run.state import final_state
from senro.domain.verdict import INFRA_KINDS, NOTES, DidRun, Exited, Infra, InfraKind, Note, TimedOut

SLOW_HINT = "Raise the step's timeout, or make it faster."

TABLE: list[tuple[Any, Outcome, str]] = [
    (Exited(0), Outcome(kind="succeeded", code=0, node="n1"), "succeeded"),
    (
        Exited(0, (Note.OOM,)),
        Outcome(kind="succeeded", code=0, notes=("oom",), hint=NOTES[Note.OOM].hint, node="n1"),
        "succeeded",
    ),
    (Exited(3), Outcome(kind="failed", code=3, node="n1"), "failed"),
    (
        Exited(137, (Note.OOM, Note.SIGKILL, Note.DISRUPTION_UNCHECKED)),
        Outcome(
            kind="failed",
            code=137,
            notes=("oom", "sigkill", "disruption-unchecked"),
            hint=f"{NOTES[Note.OOM].hint} {NOTES[Note.SIGKILL].hint}",
            node="n1",
        ),
        "failed",
    ),
    (
        Exited(128, (Note.START_ERROR,), 'exec: "nope": not found'),
        Outcome(
            kind="failed",
            code=128,
            notes=("start-error",),
            message='exec: "nope": not found',
            hint=NOTES[Note.START_ERROR].hint,
            node="n1",
        ),
        "failed",
    ),
    (
        Infra(InfraKind.EVICTED, DidRun.YES, message="low on memory", notes=(Note.TIE,), code=0),
        Outcome(
            kind="infra",
            code=0,
            notes=("tie",),
            infra_kind="evicted",
            did_run="yes",
            repeatable=True,
            least_wait=INFRA_KINDS[InfraKind.EVICTED].least_wait,
            message="low on memory",
            hint=INFRA_KINDS[InfraKind.EVICTED].hint,
            node="n1",
        ),
        "failed",
    ),
    (
        Infra(InfraKind.NODE_LOST, DidRun.MAYBE, may_be_alive=True, node="n2"),
        Outcome(
            kind="infra",
            infra_kind="node-lost",
            did_run="maybe",
            may_be_alive=True,
            repeatable=True,
            least_wait=INFRA_KINDS[InfraKind.NODE_LOST].least_wait,
            hint=INFRA_KINDS[InfraKind.NODE_LOST].hint,
            node="n2",
        ),
        "failed",
    ),
    (TimedOut(), Outcome(kind="timed_out", hint=SLOW_HINT, node="n1"), "timed_out"),
]


@pytest.mark.parametrize(("answer", "outcome", "state"), TABLE, ids=lambda value: getattr(value, "kind", None))
def test_the_outcome_and_state_of_an_answer(answer: Any, outcome: Outcome, state: str) -> None:
    """Each settled answer has its outcome and state; the node of the answer has precedence."""
    assert outcome_of(answer, node="n1") == outcome
    assert final_state(outcome_of(answer, node="n1"), 1) == state


@pytest.mark.parametrize("kind", list(InfraKind))
def test_every_kind_of_infra_is_an_infra_outcome(kind: InfraKind) -> None:
    """It is repeatable if the table of kinds says so."""
    outcome = outcome_of(Infra(kind, DidRun.NO, code=0))
    assert (outcome.kind, outcome.infra_kind, outcome.did_run) == ("infra", kind.value, "no")
    assert outcome.repeatable == INFRA_KINDS[kind].repeatable


# By outcome and policy: whether it is repeated while attempts are left and the pod is gone.
REPEATED: dict[OutcomeKind, dict[RetryOn, bool]] = {
    "succeeded": {"infra": False, "failure": False, "any": False},
    "failed": {"infra": False, "failure": True, "any": True},
    "timed_out": {"infra": False, "failure": True, "any": True},
    "cancelled": {"infra": False, "failure": False, "any": False},
    "infra": {"infra": True, "failure": False, "any": True},
}


@pytest.mark.parametrize("kind", get_args(OutcomeKind))
@pytest.mark.parametrize("on", get_args(RetryOn))
def test_which_outcomes_are_repeated(kind: OutcomeKind, on: RetryOn) -> None:
    """By policy; a success and a cancellation are never repeated."""
    outcome = Outcome(kind=kind, repeatable=True)
    policy = Retry(attempts=3, on=on)
    assert repeats(outcome, attempt=1, retry=policy, deleted=True) == REPEATED[kind][on]
    assert repeats(outcome, attempt=2, retry=policy, deleted=True) == REPEATED[kind][on]
    assert not repeats(outcome, attempt=3, retry=policy, deleted=True)


@pytest.mark.parametrize("kind", get_args(OutcomeKind))
@pytest.mark.parametrize("on", get_args(RetryOn))
def test_nothing_is_repeated_while_the_pod_may_live(kind: OutcomeKind, on: RetryOn) -> None:
    """Without a confirmed deletion only an unsafe policy repeats the step."""
    outcome = Outcome(kind=kind, repeatable=True, may_be_alive=True)
    assert not repeats(outcome, attempt=1, retry=Retry(attempts=3, on=on), deleted=False)
    unsafe = Retry(attempts=3, on=on, unsafe=True)
    assert repeats(outcome, attempt=1, retry=unsafe, deleted=False) == REPEATED[kind][on]


@pytest.mark.parametrize("on", get_args(RetryOn))
def test_an_infra_that_is_not_repeatable_is_not_repeated(on: RetryOn) -> None:
    """A missing image, for example, ends the step."""
    assert not repeats(Outcome(kind="infra"), attempt=1, retry=Retry(attempts=9, on=on), deleted=True)
