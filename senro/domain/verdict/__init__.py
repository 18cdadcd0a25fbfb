"""What became of a step: its command's own exit, or what the cluster did to its pod.

Fold `observe` over the polls of the pod; `Patience` says when to stop waiting for its start. "Row 7" is a row of
docs/design/verdicts.md#the-table; recordings are those of tests/contract/recordings.
"""

from __future__ import annotations

from senro.domain.verdict.answers import Answer, Ending, Exited, Infra, Pending, Running, TimedOut
from senro.domain.verdict.event_reads import wants_events
from senro.domain.verdict.fold import observe
from senro.domain.verdict.kind_table import INFRA_KINDS, NOTES
from senro.domain.verdict.kinds import DidRun, InfraKind, Note, PendingKind
from senro.domain.verdict.memory import Memory
from senro.domain.verdict.observation import Observation
from senro.domain.verdict.patience import Patience

__all__ = [
    "INFRA_KINDS",
    "NOTES",
    "Answer",
    "DidRun",
    "Ending",
    "Exited",
    "Infra",
    "InfraKind",
    "Memory",
    "Note",
    "Observation",
    "Patience",
    "Pending",
    "PendingKind",
    "Running",
    "TimedOut",
    "observe",
    "wants_events",
]
