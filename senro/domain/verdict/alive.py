"""Rows 11 to 14 of the table: nothing ended yet, so far as anybody says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from senro.domain.verdict.answers import Ending, Running
from senro.domain.verdict.ended import HOLD
from senro.domain.verdict.kinds import DidRun, InfraKind
from senro.domain.verdict.waiting import pending

if TYPE_CHECKING:
    from senro.domain.verdict.answers import Answer
    from senro.domain.verdict.memory import Memory
    from senro.domain.verdict.seen import Seen

SILENT_PATIENCE = 360.0
"""Seconds that a silent node may take to come back: the cluster's own toleration is 300, then it deletes the pod."""

GRACE = 30
"""Kubernetes' terminationGracePeriodSeconds where the pod has none."""


def alive(seen: Seen) -> tuple[Answer, Memory]:
    """The step's container runs, waits, or is not there yet, in a pod that is not over."""
    memory, now = seen.memory, seen.observation.at
    ran = DidRun.YES if memory.ran else DidRun.MAYBE
    if memory.silent_since is not None and now - memory.silent_since >= SILENT_PATIENCE:  # row 12
        return replace(seen.infra(InfraKind.NODE_LOST, ran=ran, alive=True), kind=InfraKind.NODE_LOST), memory
    if memory.sign is not None:  # row 11
        if now - memory.sign_at >= _grace(seen) + SILENT_PATIENCE:
            # The kubelet reports and does not end it: a process that cannot be killed, a finalizer.
            return seen.infra(memory.sign.kind, ran=ran, alive=True), memory
        return Ending(memory.sign.kind, memory.sign.message), memory
    if seen.status.state.running is not None:  # row 13
        return Running(), memory
    if memory.ran:
        return _lost(seen)
    return pending(memory, seen.pod), memory  # row 14


def _lost(seen: Seen) -> tuple[Answer, Memory]:
    """It ran and now waits: the runtime lost the container (facts/pod-states.json row 40). The phase tells soon."""
    memory, now = seen.memory, seen.observation.at
    since = memory.lost_since if memory.lost_since is not None else now
    if now - since >= HOLD:
        return seen.infra(InfraKind.NODE_LOST), memory
    return Running(finishing=True), replace(memory, lost_since=since)


def _grace(seen: Seen) -> int:
    """Seconds that the pod's processes are given; whichever is longer of what the deletion and the pod say."""
    asked = seen.pod.metadata.deletion_grace_period_seconds
    own = seen.pod.spec.termination_grace_period_seconds
    return max(asked or 0, own if own is not None else GRACE)
