"""Rows 3 to 10 of the table: a container or the pod has ended. Each function returns the row and its answer."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from senro.domain.kube.pod import ContainerStateTerminated, parse_time
from senro.domain.transfer.replies import missing_program_message
from senro.domain.verdict.answers import Answer, Exited, Infra, Running, TimedOut
from senro.domain.verdict.disruption import Disruption
from senro.domain.verdict.facts import Facts
from senro.domain.verdict.kinds import DidRun, InfraKind, Note
from senro.domain.verdict.signals.container_state import OOM_KILLED, exit_notes, is_invented
from senro.domain.verdict.signals.start_error import START_REASONS, missing_for_staging, start_failure

TIE = timedelta(seconds=5)
"""How far the clocks of node and apiserver may differ. An end that is closer before a disruption proves nothing."""

HOLD = 20.0
"""Seconds that senro waits, after the end of a step, for the final phase with its reason and condition (row 9). It
typically takes 1 to 3 (docs/design/pod-states.md#row-137-the-phase-comes-after-the-containers)."""

_OTHERS_LIVE = "ContainersNotReady"
"""Ready.reason while other containers of the pod run. A kubelet that ends the pod writes PodFailed instead."""


def failed_start(facts: Facts, name: str, terminated: ContainerStateTerminated) -> tuple[int, Answer]:
    """Row 3: the init container `name` failed, so the step never starts. A disruption that killed it is the cause."""
    if is_invented(terminated):
        kind = InfraKind.NODE_LOST
    else:
        kind = InfraKind.STAGE_FAILED if name == facts.before.stage else InfraKind.INIT_FAILED
    answer = facts.infra(kind, ran=DidRun.YES if facts.now.ran else DidRun.NO)
    if facts.now.disruption is not None:
        return 3, answer
    program = missing_for_staging(terminated) if kind is InfraKind.STAGE_FAILED else None
    if program is not None:
        image = next((one.image for one in facts.pod.spec.init_containers if one.name == name), "") or "of the pod"
        words = f"{name} could not run: {missing_program_message(image, program)}"
        return 3, replace(answer, kind=InfraKind.CONFIG, message=words)
    if terminated.reason == OOM_KILLED:
        more = "transfer_resources=" if name == facts.before.stage else "its memory limit"
        words = f"init container {name} was killed for memory (OOMKilled); raise {more}"
        return 3, replace(answer, message=words)
    words = f": {terminated.message}" if terminated.message else ""
    return 3, replace(answer, message=f"init container {name} ended with code {terminated.exit_code}{words}")


def finished(facts: Facts, terminated: ContainerStateTerminated) -> tuple[int, Answer]:
    """Rows 4 to 9: the step's container has ended."""
    if is_invented(terminated):
        if facts.now.disruption is not None and facts.now.disruption.deadline:
            return 6, past_deadline(facts)
        return 4, facts.infra(InfraKind.NODE_LOST)
    code = terminated.exit_code or 0
    if terminated.reason in START_REASONS:
        kind = start_failure(terminated.message)
        if kind is None:
            return 5, Exited(code, (Note.START_ERROR,), terminated.message)
        return 5, replace(facts.infra(kind, ran=DidRun.NO), kind=kind, message=terminated.message)
    verdict = Exited(code, exit_notes(facts.pod, terminated, events_read=facts.observation.events is not None))
    if facts.now.disruption is not None:
        answer = _against(facts, facts.now.disruption, terminated.finished_at, verdict)
        if not (isinstance(answer, Exited) and facts.now.disruption.event_only and not facts.final):
            return 6 if facts.now.disruption.deadline else 7, answer
        # Only an Event after the end is known. The status may still show a disruption before it.
    if facts.final or facts.ready.reason == _OTHERS_LIVE:
        return 8, verdict
    at = facts.observation.at
    if facts.now.pending_exit is None:
        facts.now = facts.now._replace(pending_exit=verdict, pending_exit_since=at)
    if at - facts.now.pending_exit_since >= HOLD:
        return 9, verdict
    return 9, Running(finishing=True)


def _against(facts: Facts, disruption: Disruption, finished_at: str | None, verdict: Exited) -> Answer:
    """Rows 6 and 7: an end and a disruption. The one that was seen first counts; if both were, their times decide."""
    if facts.before.pending_exit is not None and not disruption.withheld:
        return verdict
    if not facts.disrupted_before or (disruption.event_only and facts.before.pending_exit is not None):
        finish = parse_time(finished_at)
        if finish is not None and disruption.moment is not None and disruption.moment - finish > TIE:
            return verdict
    if disruption.deadline:
        return past_deadline(facts)
    return facts.infra(disruption.kind, notes=() if facts.disrupted_before else (Note.TIE,))


def past_deadline(facts: Facts) -> Answer:
    """Row 6: activeDeadlineSeconds ended the pod. It is senro's if the pod still has the value that senro gave it."""
    own, pod = facts.before.own_deadline, facts.pod
    ours = own is not None and pod.spec.active_deadline_seconds == own
    if ours and parse_time(pod.status.start_time) is not None:
        return TimedOut()
    return facts.infra(InfraKind.DEADLINE)


def without_end(facts: Facts) -> Infra:
    """Row 10: the phase is final and the step's container shows no end: refused, evicted, or garbage-collected."""
    if facts.status.state.running is not None:
        # The pod garbage collector writes phase and condition alone
        # (docs/design/pod-states.md#row-158-pod-garbage-collection).
        return facts.infra(InfraKind.NODE_LOST, alive=facts.now.silent_since is not None)
    if facts.now.node and (
        not facts.pod.status.reason
        or (facts.now.disruption is not None and facts.now.disruption.kind is InfraKind.NODE_LOST)
    ):
        # A kubelet that refuses or ends a pod writes a reason and leaves nothing waiting. Without a reason, a container
        # that waited when the node last reported may have started since.
        return _with_message(facts, facts.infra(InfraKind.RUNTIME, ran=DidRun.YES if facts.now.ran else DidRun.MAYBE))
    return _with_message(facts, facts.infra(InfraKind.RUNTIME))


def _with_message(facts: Facts, answer: Infra) -> Infra:
    """The answer, with the phase as its message if the cluster left no other word."""
    words = f"the pod's phase is {facts.pod.status.phase}, and nothing says why"
    return answer if answer.message else replace(answer, message=words)
