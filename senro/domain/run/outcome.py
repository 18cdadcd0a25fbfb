"""The outcome of an attempt, and whether it is repeated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from senro.domain.pipeline.retry import Retry
from senro.domain.verdict import INFRA_KINDS, NOTES, Exited, Infra, Note, TimedOut

OutcomeKind = Literal["succeeded", "failed", "timed_out", "cancelled", "infra"]
"""`succeeded` and `failed` are of the command; with `infra` the cluster failed the attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How an attempt ended.

    `kind`: succeeded, failed and so on.
    `code`: the exit code; of an `infra` outcome it is evidence only.
    `notes`: values of `verdict.Note`.
    `infra_kind`: a value of `verdict.InfraKind`, empty unless the outcome is `infra`, like the next four.
    `did_run`: whether the command ran.
    `may_be_alive`: whether its process may still run on `node`.
    `repeatable`: whether `retry.on_infra` repeats the step.
    `least_wait`: the seconds that a repetition waits at least.
    `message`: what the cluster or the runtime says.
    `hint`: what a person can do.
    `node`: the node of the pod, empty if it had none.
    `log_complete`: False if lines of the log may be missing.
    `log_reason`: why they may be missing.
    """

    kind: OutcomeKind
    code: int | None = None
    notes: tuple[str, ...] = ()
    infra_kind: str = ""
    did_run: Literal["yes", "no", "maybe"] = "yes"
    may_be_alive: bool = False
    repeatable: bool = False
    least_wait: float = 0.0
    message: str = ""
    hint: str = ""
    node: str = ""
    log_complete: bool = True
    log_reason: str = ""


def outcome_of(answer: Exited | Infra | TimedOut, *, node: str = "") -> Outcome:
    """The outcome for a settled answer. `node` is the node of the pod, if it is known."""
    match answer:
        case Exited(code=code, notes=notes, message=message):
            return Outcome(
                kind="succeeded" if code == 0 else "failed",
                code=code,
                notes=tuple(str(note) for note in notes),
                message=message,
                hint=_exit_hint(notes),
                node=node,
            )
        case Infra():
            return Outcome(
                kind="infra",
                code=answer.code,
                notes=tuple(str(note) for note in answer.notes),
                infra_kind=str(answer.kind),
                did_run=answer.did_run.value,
                may_be_alive=answer.may_be_alive,
                repeatable=INFRA_KINDS[answer.kind].repeatable,
                least_wait=INFRA_KINDS[answer.kind].least_wait,
                message=answer.message,
                hint=answer.hint,
                node=answer.node or node,
            )
    return Outcome(kind="timed_out", node=node, hint="Raise the step's timeout, or make it faster.")


def _exit_hint(notes: tuple[Note, ...]) -> str:
    hints = (NOTES[note].hint for note in notes if note is not Note.DISRUPTION_UNCHECKED)
    return " ".join(hint for hint in hints if hint)


def repeats(outcome: Outcome, *, attempt: int, retry: Retry, deleted: bool) -> bool:
    """Whether the attempt number `attempt`, counted from 1, is repeated. A cancellation never is.

    `deleted`: whether the pod was seen gone. No repetition begins before, unless the policy is `unsafe`.
    """
    if attempt >= retry.attempts or not (deleted or retry.unsafe):
        return False
    if outcome.kind == "infra":
        return retry.on in ("infra", "any") and outcome.repeatable
    return outcome.kind in ("failed", "timed_out") and retry.on in ("failure", "any")
