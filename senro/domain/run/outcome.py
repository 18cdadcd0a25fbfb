"""What one attempt of a step came to, and whether it is repeated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from senro.domain.pipeline.retry import Retry
from senro.domain.verdict import INFRA_KINDS, NOTES, Exited, Infra, Note, TimedOut

OutcomeKind = Literal["succeeded", "failed", "timed_out", "cancelled", "infra"]
"""`succeeded` and `failed` are the command's own; `infra` is what the cluster did to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How an attempt ended.

    `code` is the exit code, of an `infra` outcome only evidence. `notes` are words of `verdict.Note`. For `infra`,
    `infra_kind` is a word of `verdict.InfraKind`, `did_run` says whether the command may have run, `may_be_alive` that
    it may still be running on `node`, `repeatable` whether `retry.on_infra` repeats it, and `least_wait` how many
    seconds a repetition waits at least. `message` is what was said, in the words of who said it; `hint` one sentence of
    what to do. `log_complete` False: something of the log may be missing, and `log_reason` says why.
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
    """The outcome that a settled answer means. `node` is where the pod ran, where that is known."""
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
    """Whether attempt `attempt + 1` follows; `attempt` counts from 1. A cancellation is never repeated.

    `deleted`: the attempt's pod was seen gone. No repetition begins before that, unless the policy is `unsafe`.
    """
    if attempt >= retry.attempts or not (deleted or retry.unsafe):
        return False
    if outcome.kind == "infra":
        return retry.on in ("infra", "any") and outcome.repeatable
    return outcome.kind in ("failed", "timed_out") and retry.on in ("failure", "any")
