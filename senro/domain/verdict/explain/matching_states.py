"""Which known states a pod shows, to explain its answer to a person."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from senro.domain.kube.event import ClusterEvent
from senro.domain.kube.pod import ContainerStatus, Pod
from senro.domain.verdict.disruption import KUBELET_ENDS
from senro.domain.verdict.signals.container_state import own_inits
from senro.domain.verdict.signals.known_states import ROWS, Row, Where
from senro.domain.verdict.signals.pod_reason import REJECTED_PREFIX

_BY_WORD = {(row.where, word): row for row in ROWS for word in row.words}

_FREE_TEXT, _OUT_OF, _REJECTED_WHILE_UNDER_PRESSURE, _NO_REASON = ROWS[11], ROWS[45], ROWS[66], ROWS[75]

_SCHEDULER_WORDS = tuple(
    (ROWS[number - 1], re.compile(pattern))
    for number, pattern in (
        (97, "Insufficient "),
        (98, "Too many pods"),
        (99, r"untolerated taint"),
        (100, r"didn't match Pod's node affinity/selector"),
        (101, r"didn't match the requested node name"),
        (102, r"were unschedulable"),
        (103, r"had unknown conditions"),
        (104, r"didn't have free ports"),
        (105, r"didn't match pod (anti-)?affinity rules|anti-affinity rules"),
        (106, r"topology spread constraints"),
        (107, r"PersistentVolume's node affinity|available volume zone|max volume count|enough free storage|to bind"),
        (108, r"ReadWriteOncePod"),
        (109, r"unbound immediate PersistentVolumeClaims"),
        (110, r'persistentvolumeclaim "[^"]*" (not found|is being deleted|bound to non-existent)'),
        (111, r"no nodes available"),
    )
)
"""What the scheduler's message contains for each row (docs/design/pod-states.md#all-scheduler-messages)."""


def rows_of(pod: Pod, step: str, events: Iterable[ClusterEvent] = ()) -> tuple[Row, ...]:
    """The rows that the pod shows: its reason, conditions, init containers, step, and the Events about it."""
    rows = [
        *_of_pod(pod),
        *_of_conditions(pod),
        *(row for status in _judged(pod, step) for row in _of_container(status)),
        *(_BY_WORD.get((Where.EVENT, event.reason)) for event in events if event.involved_object.uid == pod.uid),
    ]
    return tuple(dict.fromkeys(row for row in rows if row is not None))


def _judged(pod: Pod, step: str) -> Iterator[ContainerStatus]:
    yield from own_inits(pod)
    status = pod.container(step)
    if status is not None:
        yield status


def _of_pod(pod: Pod) -> Iterator[Row | None]:
    reason = pod.status.reason
    if reason == "Evicted" and pod.status.message.startswith(REJECTED_PREFIX):
        yield _REJECTED_WHILE_UNDER_PRESSURE
    elif reason:
        yield _BY_WORD.get((Where.POD, reason)) or (_OUT_OF if reason.startswith("OutOf") else None)
    elif pod.status.phase == "Failed":
        yield _NO_REASON


def _of_conditions(pod: Pod) -> Iterator[Row | None]:
    target, scheduled = pod.condition("DisruptionTarget"), pod.condition("PodScheduled")
    if target is not None and target.status == "True":
        yield _BY_WORD.get((Where.CONDITION_REASON, target.reason)) or _BY_WORD[Where.CONDITION, "DisruptionTarget"]
    ready, containers = pod.condition("Ready"), pod.condition("ContainersReady")
    if ready is not None and ready.status == "False":
        if ready.reason in KUBELET_ENDS:
            yield _BY_WORD[Where.CONDITION, "ContainersReady"]
        elif not ready.reason and containers is not None and containers.status == "True":
            yield _BY_WORD[Where.CONDITION, "Ready"]
    if scheduled is not None and scheduled.status == "False":
        yield _BY_WORD.get((Where.CONDITION_REASON, scheduled.reason)) or _BY_WORD[Where.CONDITION, "PodScheduled"]
        yield from (row for row, words in _SCHEDULER_WORDS if words.search(scheduled.message))


def _of_container(status: ContainerStatus) -> Iterator[Row | None]:
    waiting, terminated, before = status.state.waiting, status.state.terminated, status.last_state.terminated
    if waiting is not None:
        yield _BY_WORD.get((Where.WAITING, waiting.reason), _FREE_TEXT)
    if terminated is not None:
        yield _BY_WORD.get((Where.TERMINATED, terminated.reason))
    if before is not None:
        yield _BY_WORD.get((Where.LAST_STATE, before.reason))
