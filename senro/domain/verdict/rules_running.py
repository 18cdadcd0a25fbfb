"""Rows 11 to 14 of the table: nothing ended yet, so far as anybody says. Each gives its row and the answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from senro.domain.verdict.answers import Ending, Running
from senro.domain.verdict.kinds import DidRun, InfraKind
from senro.domain.verdict.rules_ended import HOLD
from senro.domain.verdict.signals.events import with_events
from senro.domain.verdict.signals.pending import pending

if TYPE_CHECKING:
    from senro.domain.verdict.answers import Answer
    from senro.domain.verdict.facts import Seen

SILENT_PATIENCE = 360.0
"""Seconds that a silent node may take to come back: the cluster's own toleration is 300, then it deletes the pod."""

GRACE = 30
"""Kubernetes' terminationGracePeriodSeconds where the pod has none."""

_RUNNING = Running()


def alive(seen: Seen) -> tuple[int, Answer]:
    """The step's container runs, waits, or is not there yet, in a pod that is not over."""
    now, sign = seen.observation.at, seen.sign
    if seen.silent_since is not None and now - seen.silent_since >= SILENT_PATIENCE:
        lost = seen.infra(InfraKind.NODE_LOST, ran=_may_have_run(seen), alive=True)
        return 12, replace(lost, kind=InfraKind.NODE_LOST)
    if sign is not None:
        if now - seen.sign_at >= _grace(seen) + SILENT_PATIENCE:
            # The kubelet reports and does not end it: a process that cannot be killed, a finalizer.
            return 11, seen.infra(sign.kind, ran=_may_have_run(seen), alive=True)
        return 11, Ending(sign.kind, sign.message)
    if seen.status.state.running is not None:
        return 13, _RUNNING
    if seen.ran:
        return _lost(seen)
    before = seen.before
    waits = pending(seen.pod, step=before.step, stage=before.stage, before=before.answer)
    return 14, with_events(waits, seen.pod.uid, seen.events) if seen.events else waits


def _lost(seen: Seen) -> tuple[int, Answer]:
    """It ran and now waits: the runtime lost the container. The phase tells soon.

    See docs/design/pod-states.md#row-40-containerstatusunknown-in-laststate.
    """
    if seen.lost_since is None:
        seen.lost_since = seen.observation.at
    if seen.observation.at - seen.lost_since >= HOLD:
        return 4, seen.infra(InfraKind.NODE_LOST)
    return 4, Running(finishing=True)


def _may_have_run(seen: Seen) -> DidRun:
    return DidRun.YES if seen.ran else DidRun.MAYBE


def _grace(seen: Seen) -> int:
    """Seconds that the pod's processes are given; whichever is longer of what the deletion and the pod say."""
    asked = seen.pod.metadata.deletion_grace_period_seconds
    own = seen.pod.spec.termination_grace_period_seconds
    return max(asked or 0, own if own is not None else GRACE)
