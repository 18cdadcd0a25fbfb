"""When the coordinator should read the Events about a pod."""

from __future__ import annotations

from senro.domain.kube.pod import Pod
from senro.domain.verdict.answers import Answer, Exited, Pending
from senro.domain.verdict.kind_table import PENDING_KINDS
from senro.domain.verdict.kinds import Note
from senro.domain.verdict.memory import Memory

EVENTS_AFTER = 5.0
"""Seconds of the same wait before senro reads Events: most starts take less."""

EVENTS_EVERY = 15.0
"""Seconds between two reads for one pod: the kubelet reports a volume every two minutes
(docs/design/pod-states.md#row-120-failedmount)."""


def wants_events(answer: Answer, memory: Memory, at: float, pod: Pod | None = None) -> bool:
    """Whether to read the Events about the pod before acting on `answer`.

    `answer` and `memory` are what `observe` returned for an observation of `pod` without Events, `at` is its time. If
    True, read them, and fold the same observation, with them, into the memory before it. An exit code 0 that may hide
    an eviction needs them at once, a lasting wait every `EVENTS_EVERY` seconds.
    """
    if isinstance(answer, Exited):
        # A node under pressure too evicts a pod without a second container and leaves no trace in its status for some
        # seconds (docs/design/pod-states.md#row-140-exit-code-0-under-a-disruption).
        alone = pod is not None and len(pod.spec.containers) == 1
        return Note.DISRUPTION_UNCHECKED in answer.notes or (answer.code == 0 and alone)
    if not isinstance(answer, Pending) or not PENDING_KINDS[answer.kind].read_events:
        return False
    if at - memory.waiting_since < EVENTS_AFTER:
        return False
    return memory.events_at is None or at - memory.events_at >= EVENTS_EVERY
