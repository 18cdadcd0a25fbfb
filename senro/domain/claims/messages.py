"""Messages about a pod that mounts claims and does not start."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from senro.domain.verdict import Infra, InfraKind, Pending, PendingKind
from senro.domain.verdict.event_reads import EVENTS_AFTER

_ELSEWHERE: Final = re.compile(r"Multi-Attach error|ReadWriteOncePod access mode already in-use")
"""The message of an Event FailedAttachVolume, and the scheduler's
(docs/design/pod-states.md#row-108-readwriteoncepod-in-use)."""

_MISSING: Final = re.compile(r'persistentvolumeclaim "([^"]*)" (?:not found|is being deleted)')
"""The scheduler's message (docs/design/pod-states.md#row-110-missing-claim)."""

_UNBOUND: Final = re.compile(
    r"pod has unbound immediate PersistentVolumeClaims|didn't find available persistent volumes to bind"
)
"""The scheduler's messages (docs/design/pod-states.md#row-107-volumes-that-fit-no-node and
docs/design/pod-states.md#row-109-unbound-claim)."""


def add_claim_advice(message: str, claims: Sequence[str]) -> str:
    """The cluster's `message` about a pod that mounts `claims`, with a sentence about the claim if it is about one."""
    missing = _MISSING.search(message)
    if missing is not None and missing[1] in claims:
        return _and(message, f"Create the claim {missing[1]} in the pod's namespace: senro creates none.")
    if claims and _ELSEWHERE.search(message):
        return _and(
            message,
            f"{_named(claims)} {'is' if len(claims) == 1 else 'are'} in use elsewhere: a ReadWriteOnce claim is on one "
            "node at a time, so the pods that mount it run one after the other.",
        )
    if claims and _UNBOUND.search(message):
        return _and(message, f"{_named(claims)} must be bound to a volume: senro binds none.")
    return message


def pending_message(pending: Pending, claims: Sequence[str], *, waited: float) -> str:
    """The message about a pod that mounts `claims` and has waited `waited` seconds.

    Only an Event shows that a volume cannot be attached. An identity that may not list Events gets a hint after a
    while.
    """
    silent = pending.kind is PendingKind.CREATING and not pending.message
    if claims and silent and waited >= EVENTS_AFTER:
        return _silent(claims)
    return add_claim_advice(pending.message, claims)


def failure_message(infra: Infra, claims: Sequence[str]) -> str:
    """The message of a step that failed in a pod that mounts `claims`."""
    message = add_claim_advice(infra.message, claims)
    if claims and message == infra.message and infra.kind is InfraKind.START_TIMEOUT:
        hint = _silent(claims)
        return _and(message, f"{hint[0].upper()}{hint[1:]}.")
    return message


def _silent(claims: Sequence[str]) -> str:
    return (
        f"it mounts {_named(claims, 'the')}; a ReadWriteOnce claim that is in use on another node keeps a pod waiting "
        "here, and only its Events say so"
    )


def _and(message: str, more: str) -> str:
    return f"{message.rstrip('. ')}. {more}"


def _named(claims: Sequence[str], the: str = "The") -> str:
    return f"{the} claim{'' if len(claims) == 1 else 's'} {' and '.join(claims)}"
