"""Laws of the conclusion of an attempt in a pod, for any evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.domain.errors import AlreadyExists, ErrorResponse, Unreachable
from senro.domain.kube.pod import Pod, pod_from
from senro.domain.run.conclusion import (
    DOWNLOAD_HINT,
    DownloadFailure,
    Evidence,
    conclude,
    creation_failed,
    is_over,
    keeps_workspaces,
)
from senro.domain.run.deletion import Deletion, claims_are_unused, may_still_start
from senro.domain.verdict import DidRun, Exited, Infra, InfraKind, Note, Running, TimedOut

DELETIONS: tuple[Deletion, ...] = ("deleted", "forced", "already_gone", "unconfirmed")


def pod(phase: str, stage: dict[str, Any] | None = None, *, staged: bool = True) -> Pod:
    """A pod with or without `senro-stage`, whose state is `stage`."""
    inits = [{"name": "senro-stage"}] if staged else []
    statuses = [] if stage is None else [{"name": "senro-stage", "state": stage}]
    return pod_from(
        {
            "metadata": {"name": "p", "namespace": "ci", "uid": "u"},
            "spec": {"initContainers": inits, "containers": [{"name": "step"}]},
            "status": {"phase": phase, "initContainerStatuses": statuses},
        }
    )


STAGE_STATES: tuple[dict[str, Any] | None, ...] = (
    None,
    {"waiting": {}},
    {"running": {}},
    {"terminated": {"exitCode": 0}},
    {"terminated": {"exitCode": 137}},
)
PODS = st.none() | st.builds(
    pod,
    st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"]),
    st.sampled_from(STAGE_STATES),
    staged=st.booleans(),
)
NOTES = st.lists(st.sampled_from(sorted(Note)), unique=True, max_size=2).map(tuple)
EXITS = st.builds(Exited, st.sampled_from([0, 1, 3, 128, 137, 255]), NOTES, st.sampled_from(["", "words"]))
INFRAS = st.builds(
    Infra,
    st.sampled_from(sorted(InfraKind)),
    st.sampled_from(sorted(DidRun)),
    may_be_alive=st.booleans(),
    message=st.sampled_from(["", "words", 'persistentvolumeclaim "c" not found']),
    node=st.sampled_from(["", "n1"]),
    code=st.none() | st.integers(0, 255),
)
ANSWERS = EXITS | INFRAS | st.just(TimedOut())
FAILURES = st.builds(
    DownloadFailure, st.sampled_from(["lost", "refused"]), refused=st.booleans(), repeatable=st.booleans()
)
EVIDENCE = st.builds(
    Evidence,
    answer=ANSWERS,
    node=st.sampled_from(["", "n2"]),
    claims=st.sampled_from([(), ("c",)]),
    released=st.booleans(),
    download=st.none() | FAILURES,
    log_reason=st.sampled_from(["", "it broke off"]),
    lease_lost=st.booleans(),
    deletion=st.none() | st.sampled_from(DELETIONS),
    pod=PODS,
)


@given(EVIDENCE)
def test_any_evidence_has_one_outcome(evidence: Evidence) -> None:
    """`conclude` returns the same outcome each time and never raises."""
    assert conclude(evidence) == conclude(evidence)


@given(EVIDENCE, st.integers(1, 255))
def test_a_command_that_failed_stays_failed(evidence: Evidence, code: int) -> None:
    """A command that exited non-zero has failed with its code, whatever happened to files, log, Leases or pod."""
    outcome = conclude(replace(evidence, answer=Exited(code)))
    assert (outcome.kind, outcome.code) == ("failed", code)


@given(EVIDENCE)
def test_a_timeout_is_the_outcome(evidence: Evidence) -> None:
    """A settled timeout is the outcome, whatever else happened."""
    assert conclude(replace(evidence, answer=TimedOut())).kind == "timed_out"


@given(EVIDENCE, st.booleans())
def test_a_success_whose_files_were_lost(evidence: Evidence, repeatable: bool) -> None:
    """After exit code 0 a failed download is Infra `transfer`, with the code and `did_run` yes."""
    lost = DownloadFailure("the files were lost", repeatable=repeatable)
    outcome = conclude(replace(evidence, answer=Exited(0), download=lost))
    assert (outcome.kind, outcome.infra_kind, outcome.code) == ("infra", "transfer", 0)
    assert (outcome.did_run, outcome.message, outcome.repeatable) == ("yes", lost.message, repeatable)


@given(EVIDENCE)
def test_files_that_are_refused_fail_the_step(evidence: Evidence) -> None:
    """After exit code 0, files that must not be unpacked fail the step, with a hint."""
    refused = DownloadFailure("a link leads out", refused=True)
    outcome = conclude(replace(evidence, answer=Exited(0), download=refused))
    assert (outcome.kind, outcome.code, outcome.hint) == ("failed", 0, DOWNLOAD_HINT)
    assert outcome.message == refused.message


@given(EVIDENCE)
def test_when_an_outcome_succeeds(evidence: Evidence) -> None:
    """It does exactly if the command exited with 0 and its files were downloaded, or need not be."""
    succeeded = evidence.answer == replace(evidence.answer, code=0) if isinstance(evidence.answer, Exited) else False
    assert (conclude(evidence).kind == "succeeded") == (succeeded and evidence.download is None)


@given(EVIDENCE)
def test_a_step_that_was_not_released_did_not_run(evidence: Evidence) -> None:
    """A failure before the upload was complete has `did_run` no, unless the pod may still start its step."""
    if isinstance(evidence.answer, Infra) and not evidence.released:
        outcome = conclude(evidence)
        late = evidence.deletion == "unconfirmed" and may_still_start(evidence.pod)
        assert outcome.did_run == ("maybe" if late else "no")


def test_a_pod_that_may_still_start_may_have_run() -> None:
    """A released pod that may exist may still run its step; one that waits for files cannot."""
    never = Infra(InfraKind.START_TIMEOUT, DidRun.NO)
    released = Evidence(answer=never, deletion="unconfirmed", pod=pod("Pending", {"terminated": {"exitCode": 0}}))
    assert conclude(released).did_run == "maybe"
    assert conclude(replace(released, pod=pod("Pending", {"running": {}}))).did_run == "no"


@given(EVIDENCE)
def test_a_lost_lease_and_an_incomplete_log(evidence: Evidence) -> None:
    """A lost Lease is a note, and an incomplete log has its reason."""
    outcome = conclude(evidence)
    assert not evidence.lease_lost or outcome.notes[-1] == "lease-lost"
    assert outcome.log_complete == (not evidence.log_reason)
    assert outcome.log_reason == evidence.log_reason


@given(EVIDENCE)
def test_no_repetition_while_the_attempt_may_run(evidence: Evidence) -> None:
    """An attempt with an unconfirmed deletion or a process that may be alive is not over."""
    outcome = conclude(evidence)
    if evidence.deletion == "unconfirmed" or outcome.may_be_alive:
        assert not is_over(outcome, evidence.deletion)


@given(EVIDENCE)
def test_a_confirmed_deletion(evidence: Evidence) -> None:
    """After it no process of the step is alive."""
    outcome = conclude(replace(evidence, deletion="deleted"))
    assert not outcome.may_be_alive
    assert is_over(outcome, "deleted")


@pytest.mark.parametrize(
    ("answer", "last", "kept"),
    [
        (Exited(0), False, True),
        (Exited(1), True, True),
        (Exited(1), False, False),
        (Exited(128, (Note.START_ERROR,)), True, False),
        (TimedOut(), True, False),
        (Infra(InfraKind.EVICTED, DidRun.YES), True, False),
    ],
)
def test_whose_changes_are_downloaded(answer: Exited | Infra | TimedOut, *, last: bool, kept: bool) -> None:
    """Changes are downloaded after a success, and after the last failed attempt of a command that ran."""
    assert keeps_workspaces(answer, last=last) is kept


def test_a_foreign_pod_of_the_same_name() -> None:
    """It is a refusal with the name; other errors follow the table of creates."""
    taken = AlreadyExists("create pod ci/p", ErrorResponse(409, reason="AlreadyExists", message="exists"))
    answer = creation_failed(taken)
    assert (answer.kind, answer.did_run) == (InfraKind.ADMISSION, DidRun.NO)
    assert "delete it" in answer.message
    assert creation_failed(Unreachable("create pod ci/p", cause="refused", sent=False)).kind is not InfraKind.ADMISSION


@given(PODS)
def test_a_pod_may_start_its_step_only_after_a_complete_upload(seen: Pod | None) -> None:
    """Only an unfinished pod whose `senro-stage` ended with 0, or that has none, may still start its step."""
    if may_still_start(seen):
        assert seen is not None
        assert seen.status.phase not in {"Succeeded", "Failed"}
        stage = seen.init_container("senro-stage")
        ended = stage.state.terminated if stage is not None else None
        assert not seen.spec.init_containers or (ended is not None and ended.exit_code == 0)


RUNNING, ENDED = pod("Running"), pod("Failed")


@pytest.mark.parametrize(
    ("deletion", "answer", "seen", "unused"),
    [
        ("unconfirmed", Exited(0), ENDED, False),
        ("deleted", Infra(InfraKind.NODE_LOST, DidRun.YES, may_be_alive=True), RUNNING, False),
        ("deleted", None, None, True),
        ("forced", Exited(0), ENDED, True),
        ("forced", Exited(0), RUNNING, False),
        ("already_gone", Exited(0), RUNNING, True),
        ("already_gone", Infra(InfraKind.EVICTED, DidRun.YES), RUNNING, True),
        ("already_gone", Infra(InfraKind.VANISHED, DidRun.MAYBE), RUNNING, False),
        ("already_gone", Running(), RUNNING, False),
        ("already_gone", None, None, False),
    ],
)
def test_when_claims_are_unused(
    deletion: Deletion, answer: Exited | Infra | Running | None, seen: Pod | None, *, unused: bool
) -> None:
    """After a confirmed deletion or the end of all containers, and never while a process may live."""
    assert claims_are_unused(deletion, answer, seen) is unused
