"""What Events add to a pod that waits: the cause that its status keeps to itself, and what an autoscaler is about.

Events are best effort and expire; they say more, and never decide whether a step runs. Of several the one said last
counts: a mount that failed is over once an image is pulled.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from senro.domain.verdict.answers import Answer, Exited, Pending
from senro.domain.verdict.kinds import Note, PendingKind
from senro.domain.verdict.signals.known_states import Where, pending_kinds

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from senro.domain.kube.event import ClusterEvent
    from senro.domain.kube.pod import Pod
    from senro.domain.verdict.memory import Memory

EVENTS_AFTER = 5.0
"""Seconds of the same waiting before Events are asked for: most starts are over by then."""

EVENTS_EVERY = 15.0
"""Seconds between two reads for one pod: a volume's attempts are two minutes apart (facts row 120)."""

_OF_A_START = pending_kinds(Where.EVENT)
"""FailedMount and its like (facts rows 120 to 126), and what tells that they are over (rows 115 and 117)."""

_PULL_SECRETS = frozenset({"FailedToRetrieveImagePullSecret"})
"""Facts row 127."""

_GROWS = frozenset({"TriggeredScaleUp", "Nominated"})
"""A node is on its way, says the cluster-autoscaler or Karpenter."""

_STAYS = "NotTriggerScaleUp"
"""The cluster-autoscaler says why no node of its groups would help."""

_ASKED_FOR = frozenset(
    {
        PendingKind.CREATING,
        PendingKind.UNSCHEDULABLE,
        PendingKind.IMAGE_DENIED,
        PendingKind.VOLUME,
        PendingKind.RUNTIME,
    }
)


def wants_events(answer: Answer, memory: Memory, at: float, pod: Pod | None = None) -> bool:
    """Whether the Events about the pod should be read before `answer` is acted on.

    `answer` and `memory` are what `observe` gave for an observation of `pod` without Events, `at` its time.
    Where this is true: read them, and give the same observation again, with them, to the memory before it. Who may not
    list Events need not ask any more. A 0 that may hide an eviction is asked for at once, a lasting wait from time to
    time.
    """
    if isinstance(answer, Exited):
        # Also a node under pressure evicts without a trace in the pod's first words, where no second container is
        # left to tell (facts rows 69 and 137): whoever may list Events looks at every such 0.
        alone = pod is not None and len(pod.spec.containers) == 1
        return Note.DISRUPTION_UNCHECKED in answer.notes or (answer.code == 0 and alone)
    if not isinstance(answer, Pending) or answer.kind not in _ASKED_FOR or at - memory.waiting_since < EVENTS_AFTER:
        return False
    return memory.events_at is None or at - memory.events_at >= EVENTS_EVERY


def with_events(pending: Pending, uid: str, events: Iterable[ClusterEvent]) -> Pending:
    """The same wait, told by what the Events about the pod `uid` add to it."""
    if pending.kind is PendingKind.CREATING:
        return _of_creating(pending, _last(events, uid, _OF_A_START))
    if pending.kind is PendingKind.UNSCHEDULABLE:
        event = _last(events, uid, _GROWS | {_STAYS})
        if event is not None:
            return replace(pending, message=_joined(pending, event), growing=event.reason in _GROWS)
    if pending.kind is PendingKind.IMAGE_DENIED:
        event = _last(events, uid, _PULL_SECRETS)
        if event is not None:
            return replace(pending, message=_joined(pending, event))
    return pending


def _of_creating(pending: Pending, event: ClusterEvent | None) -> Pending:
    if event is None:
        return pending
    kind = _OF_A_START[event.reason]
    if kind is not PendingKind.CREATING:
        return replace(pending, kind=kind, message=event.message or event.reason)
    # A registry that never answers shows nothing but this (recording image-pull-silent).
    of_it = event.involved_object.field_path.endswith(f"{{{pending.container}}}")
    return replace(pending, message=event.message) if of_it and not pending.message else pending


def _last(events: Iterable[ClusterEvent], uid: str, reasons: Container[str]) -> ClusterEvent | None:
    """The one of them that was said last; an undated one is as old as can be, and of equals the later in the list."""
    found: ClusterEvent | None = None
    newest = 0.0
    for event in events:
        if event.reason in reasons and event.involved_object.uid == uid:
            moment = event.latest
            said = moment.timestamp() if moment is not None else 0.0
            if found is None or said >= newest:
                found, newest = event, said
    return found


def _joined(pending: Pending, event: ClusterEvent) -> str:
    return "; ".join(words for words in (pending.message, event.message) if words)
