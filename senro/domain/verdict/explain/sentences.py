"""Answers told to a person: what it is, what to do about it, and what the pod shows of it. English, one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from senro.domain.verdict.answers import Answer, Cancelled, Ending, Exited, Infra, Pending, Running, TimedOut
from senro.domain.verdict.kinds import DidRun, InfraKind, Note, PendingKind, kind_info
from senro.domain.verdict.patience import BECOMES, gives_up_after
from senro.domain.verdict.rules_ended import HOLD
from senro.domain.verdict.signals.start_error import cause

if TYPE_CHECKING:
    from senro.domain.verdict.memory import Memory

RULES = {
    1: "The run had cancelled it, or its timeout had passed, before its finish was seen.",
    2: "The pod is gone: a disruption that was seen before names the cause, else it vanished.",
    3: "An init container failed, so the step never starts.",
    4: "The container's end is made up or missing: nobody saw it end.",
    5: "The container could not be started; the runtime's words tell the command from the machine.",
    6: "The pod's activeDeadlineSeconds passed.",
    7: "The container ended and the pod shows a disruption: what was seen first counts; where both were first seen "
    "together, only a finish more than 5 s before is believed.",
    8: "The container ended, and nothing in the pod points to a disruption.",
    9: "The container ended in a pod about to be over: what ended it comes with the phase, at most 20 s later.",
    10: "The pod is Failed, and its step shows no end.",
    11: "The cluster is taking the pod away, and its process may still run.",
    12: "The node fell silent for longer than it may.",
    13: "The container runs, and nothing speaks against it.",
    14: "The step does not run yet: what it waits for is read from the container that is stuck, or from the scheduler.",
}
"""The rows of the table of verdicts, by their numbers there; row 0, an answer that stands, never gives one."""

NOTES = {
    Note.OOM: "Something in it was killed for memory.",
    Note.SIGKILL: "It was killed by SIGKILL, and the cluster does not say by whom.",
    Note.START_ERROR: "Its command could not be started.",
    Note.TIE: "Its end and the disruption were first seen together, too near for two machines' clocks to order.",
    Note.DISRUPTION_UNCHECKED: "An eviction for an own limit would have left no trace, and no Events were read.",
    Note.LEASE_LOST: "Another step may have had a claim of this one while it ran: its lease was not renewed in time.",
}
"""What each note says."""

_RAN = {DidRun.YES: "had run", DidRun.NO: "had not run", DidRun.MAYBE: "may have run"}

_EXIT_HINTS = {
    Note.OOM: "Raise the step's memory limit, or let it use less.",
    Note.SIGKILL: "Look for what killed it: a probe, an operator on the node, the command itself.",
    Note.START_ERROR: "Check the command's path, its permissions and the workdir against the image, and the image's "
    "platform against the node's.",
    Note.DISRUPTION_UNCHECKED: "Look for an Event Evicted about the pod, or let the identity list Events.",
}

_WAITS = {
    PendingKind.SCHEDULING: "the scheduler has not placed it yet",
    PendingKind.GATED: "a scheduling gate is closed, and a queue decides when it opens",
    PendingKind.UNSCHEDULABLE: "no node can take it now",
    PendingKind.CREATING: "the node prepares it, and does not complain",
    PendingKind.STAGING: "senro-stage is running and awaits the workspaces",
    PendingKind.INITIALIZING: "an init container that is not senro's is running",
    PendingKind.IMAGE_NOT_FOUND: "its image is not there",
    PendingKind.IMAGE_DENIED: "its image may not be pulled",
    PendingKind.IMAGE_INVALID: "its image reference cannot be parsed",
    PendingKind.IMAGE_ABSENT: "its image is not on the node and may not be pulled",
    PendingKind.IMAGE_PLATFORM: "its image is not built for the node's platform",
    PendingKind.IMAGE_LIMITED: "the registry limits pulls",
    PendingKind.IMAGE_UNREACHABLE: "the registry does not serve its image",
    PendingKind.CONFIG: "its configuration cannot be used as it is",
    PendingKind.VOLUME: "a volume cannot be mounted",
    PendingKind.RUNTIME: "the node cannot start it",
}

_FAILED = {
    InfraKind.IMAGE_NOT_FOUND: "its image is not there",
    InfraKind.IMAGE_DENIED: "its image may not be pulled",
    InfraKind.IMAGE_INVALID: "its image reference cannot be parsed",
    InfraKind.IMAGE_ABSENT: "its image is not on the node and may not be pulled",
    InfraKind.IMAGE_PLATFORM: "its image is not built for the node's platform",
    InfraKind.IMAGE_LIMITED: "the registry limits pulls",
    InfraKind.IMAGE_UNREACHABLE: "the registry does not serve its image",
    InfraKind.CONFIG: "its configuration could not be used",
    InfraKind.VOLUME: "a volume could not be mounted",
    InfraKind.UNSCHEDULABLE: "no node could take its pod",
    InfraKind.START_TIMEOUT: "it did not start in time",
    InfraKind.REJECTED: "the node refused its pod",
    InfraKind.EVICTED: "its pod was evicted",
    InfraKind.RESOURCE_LIMIT: "its pod was evicted for outgrowing its own limit",
    InfraKind.PREEMPTED: "its pod was preempted",
    InfraKind.DELETED: "its pod was deleted",
    InfraKind.VANISHED: "its pod vanished",
    InfraKind.NODE_LOST: "its node was lost, or lost the container",
    InfraKind.RUNTIME: "the node could not run it",
    InfraKind.STAGE_FAILED: "senro-stage failed before it",
    InfraKind.INIT_FAILED: "an init container that is not senro's failed before it",
    InfraKind.TRANSFER: "a workspace could not be carried",
    InfraKind.APISERVER: "the apiserver did not answer",
    InfraKind.ADMISSION: "the cluster's policy refused its pod",
    InfraKind.ADMISSION_TRANSIENT: "an admission webhook did not answer",
    InfraKind.QUOTA: "the namespace's quota is used up",
    InfraKind.UNAUTHORIZED: "the credential was not accepted",
    InfraKind.FORBIDDEN: "the identity may not do what it takes",
    InfraKind.DEADLINE: "somebody else's activeDeadlineSeconds ended its pod",
    InfraKind.CLAIM: "a claim that it mounts was held by another step all the time",
}


def sentence(answer: Answer, memory: Memory) -> str:
    """What `answer` says of the step; `memory` is the one that came with it."""
    match answer:
        case Pending(kind=kind, container=container, message=message):
            who = f", container {container}" if container else ""
            return f"It has not started: {_WAITS[kind]} ({kind}{who}).{_quoted(message)}"
        case Running(finishing=True):
            ended = (
                f"ended with code {memory.pending_exit.code}"
                if memory.pending_exit is not None
                else "was lost by its runtime"
            )
            return f"Its container {ended}; the cluster's last word on it is awaited, at most {HOLD:.0f} s."
        case Running():
            return "Its command is running."
        case Ending(kind=kind, message=message):
            return f"The cluster is taking its pod away ({kind}), and its process may still run.{_quoted(message)}"
        case Exited(code=code, notes=notes) if Note.START_ERROR in notes:
            return f"Its command could not be started, so it failed: exit code {code}.{_quoted(cause(answer.message))}"
        case Exited(code=code, notes=notes):
            verdict = "Its command succeeded: exit code 0." if code == 0 else f"Its command failed: exit code {code}."
            return " ".join([verdict, *(NOTES[note] for note in notes)])
        case Infra():
            return _of_infra(answer)
        case Cancelled():
            return "The run cancelled it."
        case TimedOut():
            return "It ran longer than it may, and was ended."
        case never:
            assert_never(never)


def hint(answer: Answer) -> str:
    """What a person can do about it, one or two sentences; empty where there is nothing to do."""
    match answer:
        case Pending(kind=kind):
            return " ".join(part for part in (_what_helps(answer), _how_long(answer)) if part) or str(kind)
        case Ending():
            return "Wait: a repetition is safe once the pod is gone."
        case Exited(code=code, notes=notes):
            noted = " ".join(_EXIT_HINTS[note] for note in notes if note in _EXIT_HINTS)
            return noted or ("" if code == 0 else "Read the step's log: the command itself says what is wrong.")
        case Infra():
            return f"{answer.hint} {_repeated(answer)}"
        case TimedOut():
            return "Raise the step's timeout, or make it faster."
        case _:
            return ""


def _of_infra(answer: Infra) -> str:
    parts = [
        f"The cluster failed it, not its command: {_FAILED[answer.kind]} ({answer.kind}).",
        f"Its command {_RAN[answer.did_run]}.",
    ]
    if answer.code is not None and answer.did_run is not DidRun.NO:
        parts.append(f"Its exit code {answer.code} proves nothing.")
    if answer.may_be_alive:
        parts.append(f"It may still be running on the node {answer.node or '(unknown)'}.")
    return " ".join([*parts, *(NOTES[note] for note in answer.notes)]) + _quoted(cause(answer.message))


def _repeated(answer: Infra) -> str:
    meaning = kind_info(answer.kind)
    if not meaning.repeatable:
        return "retry.on_infra does not repeat it: the next try would end alike."
    if answer.may_be_alive:
        return "retry.on_infra repeats it only with unsafe=True, since its first run may be alive."
    return f"retry.on_infra repeats it, after {meaning.least_wait:.0f} s at least."


def _what_helps(pending: Pending) -> str:
    if pending.growing:
        return "Wait: an autoscaler says that it adds a node."
    if pending.kind is PendingKind.GATED:
        return "Ask the queue that holds it, or the owner of its quota."
    if pending.kind is PendingKind.STAGING:
        return "Nothing to do while bytes move."
    return kind_info(BECOMES[pending.kind]).hint


def _how_long(pending: Pending) -> str:
    seconds = gives_up_after(pending)
    return "" if seconds is None else f"senro gives up after {seconds:.0f} s of it, where the target says nothing else."


def _quoted(message: str) -> str:
    return f" The cause: {message.strip()}" if message.strip() else ""
