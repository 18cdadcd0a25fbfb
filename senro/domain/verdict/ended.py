"""Rows 3 to 10 of the table: something ended. What it was, and whose doing."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from senro.domain.pod import parse_time
from senro.domain.verdict.answers import Exited, Running, TimedOut
from senro.domain.verdict.evidence import exit_notes, is_invented
from senro.domain.verdict.kinds import DidRun, InfraKind, Note
from senro.domain.verdict.starts import START_REASONS, start_failure

if TYPE_CHECKING:
    from senro.domain.pod import Terminated
    from senro.domain.verdict.answers import Answer, Infra
    from senro.domain.verdict.memory import Memory
    from senro.domain.verdict.seen import Seen
    from senro.domain.verdict.signs import Sign

TIE = timedelta(seconds=5)
"""How far the clocks of node and apiserver may differ: a finish not further than this before a sign proves nothing."""

HOLD = 20.0
"""Seconds that a finish in a pod about to be Failed waits for the phase, which brings the reason (row 9).

Typically 1 to 3, longer with a slow unmount (facts/pod-states.json row 137)."""

_SETTLED_BY_READY = frozenset({"ContainersNotReady", "PodCompleted"})


def failed_start(seen: Seen, name: str, terminated: Terminated) -> Infra:
    """Row 3: an init container failed, the step never starts. A disruption that killed it names the cause."""
    if is_invented(terminated):
        kind = InfraKind.NODE_LOST
    else:
        kind = InfraKind.STAGE_FAILED if name == seen.memory.stage else InfraKind.INIT_FAILED
    answer = seen.infra(kind, ran=DidRun.YES if seen.memory.ran else DidRun.NO)
    if seen.memory.sign is not None:
        return answer
    words = f": {terminated.message}" if terminated.message else ""
    return replace(answer, message=f"init container {name} ended with code {terminated.exit_code}{words}")


def finished(seen: Seen, terminated: Terminated) -> tuple[Answer, Memory]:
    """Rows 4 to 9: the step's container has ended."""
    memory = seen.memory
    if is_invented(terminated):  # row 4
        return seen.infra(InfraKind.NODE_LOST), memory
    code = terminated.exit_code or 0
    if terminated.reason in START_REASONS:  # row 5
        kind = start_failure(terminated.message)
        if kind is None:
            return Exited(code, (Note.START_ERROR,), terminated.message), memory
        return replace(seen.infra(kind, ran=DidRun.NO), kind=kind, message=terminated.message), memory
    notes = exit_notes(seen.pod, terminated, events_read=seen.observation.events is not None)
    verdict = Exited(code, notes)
    sign = memory.sign
    if sign is not None:  # rows 6 and 7
        return _against(seen, sign, terminated, verdict), memory
    ready = seen.pod.condition("Ready")
    if seen.final or (ready is not None and ready.reason in _SETTLED_BY_READY):  # row 8
        return verdict, memory
    since = memory.held_since if memory.held is not None else seen.observation.at  # row 9
    if seen.observation.at - since >= HOLD:
        return verdict, memory
    return Running(finishing=True), replace(memory, held=verdict, held_since=since)


def _against(seen: Seen, sign: Sign, terminated: Terminated, verdict: Exited) -> Answer:
    """Rows 6 and 7: a finish and a disruption. What was seen first is believed; seen together, the clocks are asked."""
    if seen.memory.held is not None and not sign.withheld:
        return verdict
    if not seen.disrupted_before:
        finish = parse_time(terminated.finished_at)
        if finish is not None and sign.moment is not None and sign.moment - finish > TIE:
            return verdict
    if sign.deadline:
        return past_deadline(seen)
    return seen.infra(sign.kind, notes=() if seen.disrupted_before else (Note.TIE,))


def past_deadline(seen: Seen) -> Answer:
    """Row 6: activeDeadlineSeconds ended the pod. Ours only where the pod still has the value that we gave it."""
    memory, pod = seen.memory, seen.pod
    ours = memory.own_deadline is not None and pod.spec.active_deadline_seconds == memory.own_deadline
    if ours and parse_time(pod.status.start_time) is not None:
        return TimedOut()
    return seen.infra(InfraKind.DEADLINE)


def without_end(seen: Seen) -> Infra:
    """Row 10: the pod is over and the step's container shows no end: it was refused, evicted, or collected."""
    if seen.status.state.running is not None:
        # Only phase and condition are written by the collector of pods (facts rows 90 and 158).
        return seen.infra(InfraKind.NODE_LOST, alive=seen.memory.silent_since is not None)
    return seen.infra(InfraKind.RUNTIME)
