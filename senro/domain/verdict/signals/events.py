"""What Events add to a pod that waits: a cause that its status does not show, and what an autoscaler does.

Events are best effort and expire, so they explain a wait and never decide whether a step runs. The latest one counts: a
mount has succeeded once an image is pulled.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace

from senro.domain.kube.event import ClusterEvent
from senro.domain.verdict.answers import Pending
from senro.domain.verdict.kinds import PendingKind
from senro.domain.verdict.signals.known_states import Where, pending_kinds

_OF_A_START = pending_kinds(Where.EVENT)
"""Failures of a start (docs/design/pod-states.md#row-120-failedmount,
docs/design/pod-states.md#sandbox-and-network-events), and what shows that they are over
(docs/design/pod-states.md#row-115-pulling-and-pulled, docs/design/pod-states.md#row-117-created-and-started)."""

_PULL_SECRETS = frozenset({"FailedToRetrieveImagePullSecret"})
"""See docs/design/pod-states.md#row-127-failedtoretrieveimagepullsecret."""

_GROWS = frozenset({"TriggeredScaleUp", "Nominated"})
"""The cluster-autoscaler or Karpenter adds a node."""

_STAYS = "NotTriggerScaleUp"
"""The cluster-autoscaler says why no node of its groups would help."""


def with_events(pending: Pending, uid: str, events: Iterable[ClusterEvent]) -> Pending:
    """The same wait, with the kind and message that the Events about the pod `uid` give it."""
    if pending.kind is PendingKind.CREATING:
        return _of_creating(pending, _last(events, uid, _OF_A_START))
    if pending.kind is PendingKind.UNSCHEDULABLE:
        event = _last(events, uid, _GROWS | {_STAYS})
        if event is not None:
            return replace(pending, message=_merged_message(pending, event), growing=event.reason in _GROWS)
    if pending.kind is PendingKind.IMAGE_DENIED:
        event = _last(events, uid, _PULL_SECRETS)
        if event is not None:
            return replace(pending, message=_merged_message(pending, event))
    return pending


def _of_creating(pending: Pending, event: ClusterEvent | None) -> Pending:
    if event is None:
        return pending
    kind = _OF_A_START[event.reason]
    if kind is not PendingKind.CREATING:
        return replace(pending, kind=kind, message=event.message or event.reason)
    # A registry that never answers shows only an Event Pulling (recording image-pull-silent).
    of_it = event.involved_object.field_path.endswith(f"{{{pending.container}}}")
    return replace(pending, message=event.message) if of_it and not pending.message else pending


def _last(events: Iterable[ClusterEvent], uid: str, reasons: Container[str]) -> ClusterEvent | None:
    """The latest of the events; one without a time is the oldest, and of equal ones the last in the list counts."""
    found: ClusterEvent | None = None
    newest = 0.0
    for event in events:
        if event.reason in reasons and event.involved_object.uid == uid:
            moment = event.latest
            said = moment.timestamp() if moment is not None else 0.0
            if found is None or said >= newest:
                found, newest = event, said
    return found


def _merged_message(pending: Pending, event: ClusterEvent) -> str:
    return "; ".join(words for words in (pending.message, event.message) if words)
