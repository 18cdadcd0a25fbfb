"""The evidence of a verdict as lines of text, in Kubernetes' terms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from senro.domain.kube.event import ClusterEvent
from senro.domain.kube.pod import Condition, ContainerStatus, Pod
from senro.domain.verdict.disruption import deletion_asked_at

_EVIDENCE = {("DisruptionTarget", "True"), ("PodScheduled", "False"), ("Ready", "False")}
"""The conditions, with their status, that count as evidence."""


def evidence_lines(pod: Pod, step: str, *, ours: bool = False, events: Iterable[ClusterEvent] = ()) -> tuple[str, ...]:
    """The fields that a verdict depends on, the most important ones first.

    `ours`: whether the run itself requested the deletion of the pod.
    """
    status = pod.status
    return (
        *_of_phase(pod),
        *(
            _of_condition(condition)
            for condition in status.conditions
            if (condition.type, condition.status) in _EVIDENCE
        ),
        *_of_deletion(pod, ours=ours),
        *(f"init container {each.name}: {_of_state(each)}" for each in status.init_container_statuses),
        *(
            f"container {each.name}{'' if each.name == step else ' (not the step)'}: {_of_state(each)}"
            for each in sorted(status.container_statuses, key=lambda each: (each.name != step, each.name))
        ),
        *(f"Event {event.reason}: {event.message}" for event in events if event.involved_object.uid == pod.uid),
    )


def _of_phase(pod: Pod) -> Iterator[str]:
    status = pod.status
    words = "".join(f", {each}" for each in (status.reason, status.message.strip()) if each)
    yield f"phase {status.phase or '(none)'}{words}"
    if not pod.spec.node_name:
        yield "no node yet"


def _of_condition(condition: Condition) -> str:
    reason = f" ({condition.reason})" if condition.reason else " without a reason"
    since = f" since {condition.last_transition_time}" if condition.last_transition_time else ""
    words = f": {condition.message}" if condition.message else ""
    return f"condition {condition.type} {condition.status}{reason}{since}{words}"


def _of_deletion(pod: Pod, *, ours: bool) -> Iterator[str]:
    ends, asked = pod.metadata.deletion_timestamp, deletion_asked_at(pod)
    if not ends:
        return
    when = f"at {asked:%Y-%m-%dT%H:%M:%SZ}, " if asked is not None else ""
    whom = "by the run itself" if ours else "the pod does not show by whom"
    yield f"its deletion was requested {when}deletionTimestamp {ends}; {whom}"


def _of_state(status: ContainerStatus) -> str:
    state, before = status.state, status.last_state.terminated
    if state.terminated is not None:
        end = state.terminated
        words = f", {end.message.strip()}" if end.message.strip() else ""
        times = f"started {end.started_at or '(unknown)'}, finished {end.finished_at or '(unknown)'}"
        line = f"terminated, code {end.exit_code}, reason {end.reason or '(none)'}, {times}{words}"
    elif state.running is not None:
        line = f"running since {state.running.started_at or '(unknown)'}"
    elif state.waiting is not None:
        words = f", {state.waiting.message}" if state.waiting.message else ""
        line = f"waiting, reason {state.waiting.reason or '(none)'}{words}"
    else:
        line = "no state"
    if before is not None:
        line += f"; before that terminated, code {before.exit_code}, reason {before.reason or '(none)'}"
    return line
