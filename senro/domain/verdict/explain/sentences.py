"""Answers as sentences for people: what happened, and what to do."""

from __future__ import annotations

from typing import assert_never

from senro.domain.verdict.answers import Answer, Ending, Exited, Infra, Pending, Running, TimedOut
from senro.domain.verdict.kind_table import INFRA_KINDS, NOTES, PENDING_KINDS
from senro.domain.verdict.kinds import DidRun, Note
from senro.domain.verdict.memory import Memory
from senro.domain.verdict.patience import gives_up_after
from senro.domain.verdict.rules_ended import HOLD
from senro.domain.verdict.signals.start_error import cause

RULES = {
    1: "Its timeout had passed before its finish was seen.",
    2: "The pod is gone: because of a disruption that was seen before, else for an unknown reason.",
    3: "An init container failed, so the step never starts.",
    4: "The container's end is invented or missing: the kubelet did not see it end.",
    5: "The container could not be started; the runtime's message shows whether the command or the node is the cause.",
    6: "The pod's activeDeadlineSeconds passed.",
    7: "The container ended and the pod shows a disruption: what was seen first counts. If both were first seen "
    "together, only an end more than 5 s before the disruption counts.",
    8: "The container ended, and the pod shows no disruption.",
    9: "The container ended in a pod that is about to end: the final phase shows why, at most 20 s later.",
    10: "The pod is Failed, and its step shows no end.",
    11: "The cluster is ending the pod, and its process may still run.",
    12: "The node has not reported for more than six minutes.",
    13: "The container runs, and the pod shows no disruption.",
    14: "The step does not run yet: the container that waits, or the scheduler, shows what it waits for.",
}
"""A sentence for each row of docs/design/verdicts.md#the-table that gives an answer."""

_RAN = {DidRun.YES: "had run", DidRun.NO: "had not run", DidRun.MAYBE: "may have run"}


def sentence(answer: Answer, memory: Memory) -> str:
    """What `answer` means; `memory` is what `observe` returned with it."""
    match answer:
        case Pending(kind=kind, container=container, message=message):
            who = f", container {container}" if container else ""
            return f"It has not started: {PENDING_KINDS[kind].sentence} ({kind}{who}).{_quoted(message)}"
        case Running(finishing=True):
            ended = (
                f"ended with code {memory.pending_exit.code}"
                if memory.pending_exit is not None
                else "was lost by its runtime"
            )
            return f"Its container {ended}; senro waits for the final phase of its pod, at most {HOLD:.0f} s."
        case Running():
            return "Its command is running."
        case Ending(kind=kind, message=message):
            return f"The cluster is ending its pod ({kind}), and its process may still run.{_quoted(message)}"
        case Exited(code=code, notes=notes) if Note.START_ERROR in notes:
            return f"Its command could not be started, so it failed: exit code {code}.{_quoted(cause(answer.message))}"
        case Exited(code=code, notes=notes):
            verdict = "Its command succeeded: exit code 0." if code == 0 else f"Its command failed: exit code {code}."
            return " ".join([verdict, *(NOTES[note].sentence for note in notes)])
        case Infra():
            return _of_infra(answer)
        case TimedOut():
            return "It ran longer than its timeout and was ended."
        case never:
            assert_never(never)


def hint(answer: Answer) -> str:
    """What a person can do, one or two sentences; empty if there is nothing to do."""
    match answer:
        case Pending():
            seconds = gives_up_after(answer)
            limit = "" if seconds is None else f" By default senro gives up after {seconds:.0f} s."
            return _what_helps(answer) + limit
        case Ending():
            return "Wait: a repetition is safe once the pod is gone."
        case Exited(code=code, notes=notes):
            noted = " ".join(NOTES[note].hint for note in notes if NOTES[note].hint)
            return noted or ("" if code == 0 else "Read the step's log: the command itself says what is wrong.")
        case Infra():
            return f"{answer.hint} {_repeated(answer)}"
        case TimedOut():
            return "Raise the step's timeout, or make it faster."
        case _:
            return ""


def _of_infra(answer: Infra) -> str:
    parts = [
        f"The cluster failed it, not its command: {INFRA_KINDS[answer.kind].sentence} ({answer.kind}).",
        f"Its command {_RAN[answer.did_run]}.",
    ]
    if answer.code is not None and answer.did_run is not DidRun.NO:
        parts.append(f"Its exit code {answer.code} proves nothing.")
    if answer.may_be_alive:
        parts.append(f"It may still be running on the node {answer.node or '(unknown)'}.")
    return " ".join([*parts, *(NOTES[note].sentence for note in answer.notes)]) + _quoted(cause(answer.message))


def _repeated(answer: Infra) -> str:
    meaning = INFRA_KINDS[answer.kind]
    if not meaning.repeatable:
        return "retry.on_infra does not repeat it: another try would end the same way."
    if answer.may_be_alive:
        return "retry.on_infra repeats it only with unsafe=True, since its first process may still run."
    return f"retry.on_infra repeats it after at least {meaning.least_wait:.0f} s."


def _what_helps(pending: Pending) -> str:
    if pending.growing:
        return "Wait: an autoscaler says that it adds a node."
    info = PENDING_KINDS[pending.kind]
    return info.hint if info.becomes is None else info.hint or INFRA_KINDS[info.becomes].hint


def _quoted(message: str) -> str:
    return f" The cause: {message.strip()}" if message.strip() else ""
