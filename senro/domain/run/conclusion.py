"""The outcome of an attempt in a pod, concluded once from all that was observed of it.

`conclude` is the only place that turns evidence into an `Outcome`. The rules, in the order in which they apply:

1. The settled answer stands: an exit code stays the command's own, a timeout stays a timeout.
2. A step whose container was never released by its upload did not run.
3. A failed download changes a success: to `failed` if the step left what cannot be kept, to the cluster's failure
   `transfer` (code kept, did run) if the files were lost. To a command that failed it adds a message.
4. A lost lease adds the note `lease-lost`; an incomplete log is recorded as such.
5. A pod that may still start its step may have run it; a process that may be alive is reported after the deletion.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from senro.domain.claims.messages import failure_message
from senro.domain.errors import AlreadyExists, ClusterError
from senro.domain.kube.pod import Pod
from senro.domain.run.deletion import Deletion, may_still_start
from senro.domain.run.outcome import Outcome, outcome_of
from senro.domain.verdict import DidRun, Exited, Infra, InfraKind, Note, TimedOut
from senro.domain.verdict.creation import infra_from_error

SettledAnswer = Exited | Infra | TimedOut
"""The answers that end an attempt."""

DOWNLOAD_HINT = "Look at what the step left in its workspace; the coordinator's copy is as it was before."


@dataclass(frozen=True, slots=True)
class DownloadFailure:
    """Why the changes of the workspaces were not downloaded; the coordinator's copy is unchanged.

    `message`: a sentence for people.
    `refused`: the files arrived, but must not be unpacked: the step is at fault.
    `repeatable`: False if another attempt would fail the same way, as with a full disk of this machine.
    """

    message: str
    refused: bool = False
    repeatable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that an attempt in a pod has shown.

    `answer`: the settled answer: of the pod, of a create that failed, or of an upload that failed.
    `node`: the node of the pod, empty if it had none.
    `claims`: the PersistentVolumeClaims that the pod mounts.
    `released`: whether the step's container can have been released: nothing was to be uploaded, or all of it was sent.
    `download`: why the workspaces were not downloaded; None if they were, or did not have to be.
    `log_reason`: why the log may be incomplete, empty if it is complete.
    `lease_lost`: whether another step may have had a claim of this one meanwhile.
    `deletion`: how the deletion of the pod ended; None while it goes on in the background.
    `pod`: the pod as it was last polled; None if it did not exist.
    """

    answer: SettledAnswer
    node: str = ""
    claims: tuple[str, ...] = ()
    released: bool = True
    download: DownloadFailure | None = None
    log_reason: str = ""
    lease_lost: bool = False
    deletion: Deletion | None = None
    pod: Pod | None = None


def conclude(evidence: Evidence) -> Outcome:
    """Returns the outcome of the attempt. Total and deterministic."""
    outcome = outcome_of(_refined(evidence), node=evidence.node)
    if evidence.download is not None and isinstance(evidence.answer, Exited):
        outcome = _without_download(outcome, evidence.download)
    notes = (*outcome.notes, str(Note.LEASE_LOST)) if evidence.lease_lost else outcome.notes
    outcome = replace(outcome, notes=notes, log_complete=not evidence.log_reason, log_reason=evidence.log_reason)
    return outcome if evidence.deletion is None else _after_deletion(outcome, evidence.deletion, evidence.pod)


def is_over(outcome: Outcome, deletion: Deletion | None) -> bool:
    """Whether nothing of the attempt runs or will run, so that a repetition is safe.

    `deletion` None: the deletion of the pod goes on in the background, which only happens after a success.
    """
    return deletion != "unconfirmed" and not outcome.may_be_alive


def keeps_workspaces(answer: SettledAnswer, *, last: bool) -> bool:
    """Whether the changes of the step's workspaces are to be downloaded.

    They are after a success, and after a failure if it is the `last` attempt. A command that the runtime could not
    start has changed nothing.
    """
    return isinstance(answer, Exited) and (answer.code == 0 or last) and Note.START_ERROR not in answer.notes


def creation_failed(error: ClusterError, *, may_exist: bool = False) -> Infra:
    """The answer for an attempt whose pod or Secret could not be created because of `error`.

    `may_exist`: whether some request may have stored the pod, so that its command may have run.
    """
    if isinstance(error, AlreadyExists):
        # The name contains a hash of the nonce: the other pod was created on purpose, or is a copy of ours.
        return Infra(InfraKind.ADMISSION, DidRun.NO, message=f"{error}; it is not this attempt's, delete it")
    return infra_from_error(error, did_run=DidRun.MAYBE if may_exist else DidRun.NO)


def _refined(evidence: Evidence) -> SettledAnswer:
    """The answer, with what the pod alone cannot tell: whether the step was released, and which claims it mounts."""
    answer = evidence.answer
    if not isinstance(answer, Infra):
        return answer
    return replace(
        answer,
        message=failure_message(answer, evidence.claims),
        did_run=answer.did_run if evidence.released else DidRun.NO,
    )


def _without_download(outcome: Outcome, failure: DownloadFailure) -> Outcome:
    """The outcome of a command that ended, whose workspaces were not downloaded."""
    if outcome.kind == "succeeded" and not failure.refused:
        lost = Infra(InfraKind.TRANSFER, DidRun.YES, message=failure.message, node=outcome.node, code=outcome.code)
        return replace(outcome_of(lost), repeatable=failure.repeatable)
    return Outcome(
        kind="failed",
        code=outcome.code,
        notes=outcome.notes,
        message=f"{outcome.message}. {failure.message}" if outcome.message else failure.message,
        hint=outcome.hint or DOWNLOAD_HINT,
        node=outcome.node,
    )


def _after_deletion(outcome: Outcome, deletion: Deletion, pod: Pod | None) -> Outcome:
    """The outcome, once the deletion of the pod has ended: whether the step may run yet, or still."""
    unconfirmed = deletion == "unconfirmed"
    if unconfirmed and outcome.did_run == "no" and may_still_start(pod):
        outcome = replace(outcome, did_run="maybe")
    ended = outcome.kind in ("succeeded", "failed") or outcome.did_run == "no"
    by_others = deletion in ("already_gone", "forced") and outcome.may_be_alive
    return replace(outcome, may_be_alive=not ended and (unconfirmed or by_others))
