"""Disruptions: what shows that something other than the step's command is ending the pod."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import IntEnum

from senro.domain.kube.event import ClusterEvent
from senro.domain.kube.pod import Condition, Pod, parse_time
from senro.domain.verdict.kinds import InfraKind
from senro.domain.verdict.observation import Observation
from senro.domain.verdict.signals.known_states import Where, infra_kinds
from senro.domain.verdict.signals.pod_reason import DEADLINE_EXCEEDED, evicted_kind, reason_kind

KUBELET_ENDS = frozenset({"PodFailed", "PodCompleted"})
"""The reasons of Ready that announce the final phase (docs/design/pod-states.md#row-83-containersready)."""

_STOPPING = "Stopping container"
"""The beginning of the message of an Event `Killing` whose cause is neither a probe nor a failed hook
(docs/design/pod-states.md#row-118-killing)."""

_TERMINATION_BY_KUBELET = "TerminationByKubelet"

_CONDITION_KINDS = infra_kinds(Where.CONDITION_REASON)
"""The kind for each reason of DisruptionTarget (docs/design/pod-states.md#reasons-of-disruptiontarget)."""

_DISRUPTED = infra_kinds(Where.CONDITION)["DisruptionTarget"]
"""The kind for any other reason."""


class Source(IntEnum):
    """What shows a disruption. Of two sources the greater determines the kind."""

    READY = 1
    """Ready.reason says that the pod ends while a container runs: the kubelet ends it and does not say why."""
    STOPPED = 2
    """An Event `Killing`: the kubelet stops the step's container and does not say why
    (docs/design/pod-states.md#row-118-killing)."""
    DELETION = 3
    """`deletionTimestamp`, and senro did not request the deletion."""
    EVENT = 4
    """An Event `Evicted`, which precedes the containers' end (docs/design/pod-states.md#row-129-evicted-event)."""
    CONDITION = 5
    """The condition DisruptionTarget is True."""
    REASON = 6
    """The reason of the pod; an ordinary failure has none (docs/design/pod-states.md#row-76-no-reason)."""


@dataclass(frozen=True, slots=True)
class Disruption:
    """One disruption.

    `kind`: the kind of `Infra` that it means.
    `source`: what shows it.
    `moment`: when it began, by the clock of the machine that says so; None if none does.
    `message`: what the cluster says.
    `withheld`: whether it may appear long after it began, so that seeing an end first proves nothing: the kubelet
    writes it only with the final phase (docs/design/pod-states.md#row-137-the-phase-comes-after-the-containers).
    `deadline`: whether the pod's reason is DeadlineExceeded, which is row 6.
    """

    kind: InfraKind
    source: Source
    moment: datetime | None = None
    message: str = ""
    withheld: bool = False
    deadline: bool = False

    @property
    def event_only(self) -> bool:
        """Whether only an Event shows it, and not the pod."""
        return self.source in {Source.STOPPED, Source.EVENT}


def disruption_of(
    observation: Observation, pod: Pod, *, step: str, ready: Condition, target: Condition, silent: bool
) -> Disruption | None:
    """The disruption that this observation shows, None if it shows none.

    `step` is the name of the step's container. `ready` and `target` are the conditions Ready and DisruptionTarget,
    empty ones if the pod has none. Several sources make one disruption, with the kind of the greatest source and the
    earliest moment. If a source has no moment, neither has the disruption, except that the kubelet's condition dates
    the reason that comes with it (docs/design/pod-states.md#row-91-terminationbykubelet).
    """
    disruptions = _disruptions(observation, pod, step=step, ready=ready, target=target, silent=silent)
    if len(disruptions) <= 1:
        return disruptions[0] if disruptions else None
    by_kubelet = any(disruption.withheld and disruption.source is Source.CONDITION for disruption in disruptions)
    moments = [
        disruption.moment
        for disruption in disruptions
        if disruption.moment is not None or not (by_kubelet and disruption.source is Source.REASON)
    ]
    dated = [moment for moment in moments if moment is not None]
    strongest = max(disruptions, key=lambda disruption: disruption.source)
    return Disruption(
        strongest.kind,
        strongest.source,
        min(dated) if len(dated) == len(moments) else None,
        strongest.message,
        withheld=any(disruption.withheld for disruption in disruptions),
        deadline=strongest.deadline,
    )


def merge(old: Disruption | None, new: Disruption | None, target: Condition) -> Disruption | None:
    """The disruption that is known once `new` was seen after `old`: a greater source changes its kind.

    A DisruptionTarget that went back to False without a deletion is withdrawn
    (docs/design/pod-states.md#row-85-disruptiontarget).
    """
    if old is None:
        return new
    if new is None:
        return None if old.source is Source.CONDITION and target.status == "False" else old
    if new.source <= old.source or old.kind is InfraKind.NODE_LOST:
        return old
    return replace(old, kind=new.kind, source=new.source, message=new.message, deadline=new.deadline)


def _disruptions(
    observation: Observation, pod: Pod, *, step: str, ready: Condition, target: Condition, silent: bool
) -> list[Disruption]:
    disruptions = []
    if target.status == "True":
        disruptions.append(_from_condition(target, silent=silent))
    if pod.metadata.deletion_timestamp and not observation.deletion_asked:
        words = "the pod was deleted, and not by this run"
        disruptions.append(Disruption(InfraKind.DELETED, Source.DELETION, deletion_asked_at(pod), words))
    if pod.status.reason:
        kind = reason_kind(pod.status.reason, pod.status.message)
        words = f"{pod.status.reason}: {pod.status.message}" if pod.status.message else pod.status.reason
        deadline = pod.status.reason == DEADLINE_EXCEEDED
        moment = _deadline_of(pod) if deadline else None
        disruptions.append(Disruption(kind, Source.REASON, moment, words, withheld=True, deadline=deadline))
    disruptions += [
        disruption
        for event in observation.events or ()
        if (disruption := _from_event(event, observation, pod, step)) is not None
    ]
    if ready.reason in KUBELET_ENDS and any(each.state.running for each in pod.status.container_statuses):
        # 31 s before the phase in recording deadline-exceeded. lastTransitionTime dates a change of the status and not
        # of the reason (recording finished-then-deleted), so it only shows whether the deadline can be the cause.
        ends, changed = _deadline_of(pod), parse_time(ready.last_transition_time)
        passed = ends is not None and changed is not None and changed >= ends
        kind = InfraKind.DEADLINE if passed else InfraKind.EVICTED
        disruptions.append(Disruption(kind, Source.READY, None, f"the kubelet is ending the pod ({ready.reason})"))
    return disruptions


def _from_event(event: ClusterEvent, observation: Observation, pod: Pod, step: str) -> Disruption | None:
    """The disruption that an Event shows. senro reads Events late, so what it saw first proves nothing."""
    if event.involved_object.uid != pod.uid:
        return None
    if event.reason == "Evicted":
        return Disruption(evicted_kind(event.message), Source.EVENT, event.moment, event.message, withheld=True)
    # The kubelet kills no container that has ended by itself. If a node shuts down, or the Event Evicted was lost, this
    # Event is all that shows the disruption of a step that ended with 0.
    stopped = event.reason == "Killing" and event.message.startswith(_STOPPING)
    if stopped and event.involved_object.field_path.endswith(f"{{{step}}}") and not observation.deletion_asked:
        words = f"the kubelet ended it: {event.message}"
        return Disruption(InfraKind.EVICTED, Source.STOPPED, event.moment, words, withheld=True)
    return None


def _from_condition(condition: Condition, *, silent: bool) -> Disruption:
    # The taint manager deletes the pods of a silent node (recording node-lost).
    kind = _CONDITION_KINDS.get(condition.reason, _DISRUPTED)
    return Disruption(
        InfraKind.NODE_LOST if silent else kind,
        Source.CONDITION,
        parse_time(condition.last_transition_time),
        condition.message or condition.reason,
        withheld=condition.reason == _TERMINATION_BY_KUBELET,
    )


def deletion_asked_at(pod: Pod) -> datetime | None:
    """When the deletion was requested: its grace before the deletionTimestamp.

    See docs/design/pod-states.md#row-159-deletiontimestamp.
    """
    return _moved(pod.metadata.deletion_timestamp, -(pod.metadata.deletion_grace_period_seconds or 0))


def _deadline_of(pod: Pod) -> datetime | None:
    """When activeDeadlineSeconds passes, which counts from startTime by the kubelet's clock.

    See docs/design/pod-states.md#row-72-deadlineexceeded.
    """
    seconds = pod.spec.active_deadline_seconds
    return None if seconds is None else _moved(pod.status.start_time, seconds)


def _moved(time: str | None, seconds: int) -> datetime | None:
    moment = parse_time(time)
    try:
        return None if moment is None else moment + timedelta(seconds=seconds)
    except OverflowError:
        return None
