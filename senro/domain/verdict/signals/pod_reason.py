"""`status.reason` of a pod: why the cluster ended it (docs/design/pod-states.md#pod-reasons)."""

from __future__ import annotations

from senro.domain.verdict.kinds import InfraKind
from senro.domain.verdict.signals.known_states import Where, infra_kinds

DEADLINE_EXCEEDED = "DeadlineExceeded"
"""activeDeadlineSeconds passed since startTime (docs/design/pod-states.md#row-72-deadlineexceeded)."""

REJECTED_PREFIX = "Pod was rejected:"
"""Begins the message of a pod that a node under pressure refused with reason Evicted
(docs/design/pod-states.md#row-67-evicted-on-arrival)."""

_OWN_LIMITS = (
    # Recording evicted-kubelet-killed.
    "Usage of EmptyDir volume",
    # docs/design/pod-states.md#row-69-evicted-while-running
    "exceeded its local ephemeral storage limit",
    "exceeds the total limit of containers",
)

_KINDS = infra_kinds(Where.POD)


def reason_kind(reason: str, message: str) -> InfraKind:
    """The kind for a pod's reason. An unknown one is a refusal (docs/design/pod-states.md#refusals-by-the-kubelet)."""
    if reason == "Evicted":
        return InfraKind.REJECTED if message.startswith(REJECTED_PREFIX) else evicted_kind(message)
    return _KINDS.get(reason, InfraKind.REJECTED)


def evicted_kind(message: str) -> InfraKind:
    """The kind of an eviction, by its message: the pod exceeded a limit of its own, or the node lacked a resource."""
    own = any(text in message for text in _OWN_LIMITS)
    return InfraKind.RESOURCE_LIMIT if own else InfraKind.EVICTED
