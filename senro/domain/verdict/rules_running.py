"""Rows 11 to 14 of the table: the step has not ended. Each function returns the row and its answer."""

from __future__ import annotations

from dataclasses import replace

from senro.domain.verdict.answers import Answer, Ending, Running
from senro.domain.verdict.facts import Facts
from senro.domain.verdict.kinds import DidRun, InfraKind
from senro.domain.verdict.rules_ended import HOLD
from senro.domain.verdict.signals.events import with_events
from senro.domain.verdict.signals.pending import pending

SILENT_PATIENCE = 360.0
"""Seconds that a node may be silent. The cluster deletes the pods of such a node after 300."""

GRACE = 30
"""The terminationGracePeriodSeconds of a pod that has none."""

_RUNNING = Running()


def alive(facts: Facts) -> tuple[int, Answer]:
    """Rows 11 to 14: the step's container runs, waits, or does not exist yet, in a pod without a final phase."""
    at, disruption = facts.observation.at, facts.now.disruption
    if facts.now.silent_since is not None and at - facts.now.silent_since >= SILENT_PATIENCE:
        lost = facts.infra(InfraKind.NODE_LOST, ran=_may_have_run(facts), alive=True)
        return 12, replace(lost, kind=InfraKind.NODE_LOST)
    if disruption is not None:
        if at - facts.now.disruption_at >= _grace(facts) + SILENT_PATIENCE:
            # The kubelet reports, but the pod stays: a process that cannot be killed, a finalizer.
            return 11, facts.infra(disruption.kind, ran=_may_have_run(facts), alive=True)
        return 11, Ending(disruption.kind, disruption.message)
    if facts.status.state.running is not None:
        return 13, _RUNNING
    if facts.now.ran:
        return _lost(facts)
    before = facts.before
    waits = pending(facts.pod, step=before.step, stage=before.stage, before=before.answer)
    return 14, with_events(waits, facts.pod.uid, facts.now.events) if facts.now.events else waits


def _lost(facts: Facts) -> tuple[int, Answer]:
    """Row 4: the container ran and waits now, so the runtime lost it. The final phase comes soon.

    See docs/design/pod-states.md#row-40-containerstatusunknown-in-laststate.
    """
    at = facts.observation.at
    since = at if facts.now.lost_since is None else facts.now.lost_since
    facts.now = facts.now._replace(lost_since=since)
    if at - since >= HOLD:
        return 4, facts.infra(InfraKind.NODE_LOST)
    return 4, Running(finishing=True)


def _may_have_run(facts: Facts) -> DidRun:
    return DidRun.YES if facts.now.ran else DidRun.MAYBE


def _grace(facts: Facts) -> int:
    """The grace period in seconds: the longer one of the deletion's and the pod's."""
    asked = facts.pod.metadata.deletion_grace_period_seconds
    own = facts.pod.spec.termination_grace_period_seconds
    return max(asked or 0, own if own is not None else GRACE)
