"""`status.reason` of a pod: why somebody other than its containers ended it (docs/design/pod-states.md#pod-reasons)."""

from __future__ import annotations

from senro.domain.verdict.kinds import InfraKind
from senro.domain.verdict.signals.known_states import Where, infra_kinds

DEADLINE_EXCEEDED = "DeadlineExceeded"
"""activeDeadlineSeconds passed since startTime (docs/design/pod-states.md#row-72-deadlineexceeded)."""

REJECTED_PREFIX = "Pod was rejected:"
# A pod that arrives on a node under pressure is "Evicted" too, and never ran
# (docs/design/pod-states.md#row-67-evicted-on-arrival).

_OWN_LIMITS = (
    # Recording evicted-kubelet-killed.
    "Usage of EmptyDir volume",
    # The other two of the kubelet's own-limit texts (docs/design/pod-states.md#row-69-evicted-while-running).
    "exceeded its local ephemeral storage limit",
    "exceeds the total limit of containers",
)

_KINDS = infra_kinds(Where.POD)


def reason_kind(reason: str, message: str) -> InfraKind:
    """The kind of Infra behind a pod's reason; a reason that no row names is a refusal of the node.

    OutOfcpu, NodeAffinity, UnexpectedAdmissionError, NodeShutdown and so on
    (docs/design/pod-states.md#refusals-by-the-kubelet) are all refusals, and extended resources and plugins bring their
    own.
    """
    if reason == "Evicted":
        return InfraKind.REJECTED if message.startswith(REJECTED_PREFIX) else evicted_kind(message)
    return _KINDS.get(reason, InfraKind.REJECTED)


def evicted_kind(message: str) -> InfraKind:
    """The step outgrew its own limit, or the node was short of something: the eviction's message tells."""
    own = any(text in message for text in _OWN_LIMITS)
    return InfraKind.RESOURCE_LIMIT if own else InfraKind.EVICTED
