"""When the coordinator should read the Events about a pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

from senro.domain.verdict.answers import Answer, Exited, Pending
from senro.domain.verdict.kind_table import PENDING_KINDS
from senro.domain.verdict.kinds import Note

if TYPE_CHECKING:
    from senro.domain.kube.pod import Pod
    from senro.domain.verdict.memory import Memory

EVENTS_AFTER = 5.0
"""Seconds of the same waiting before Events are asked for: most starts are over by then."""

EVENTS_EVERY = 15.0
"""Seconds between two reads for one pod: a volume's attempts are two minutes apart
(docs/design/pod-states.md#row-120-failedmount)."""


def wants_events(answer: Answer, memory: Memory, at: float, pod: Pod | None = None) -> bool:
    """Whether the Events about the pod should be read before `answer` is acted on.

    `answer` and `memory` are what `observe` gave for an observation of `pod` without Events, `at` its time.
    Where this is true: read them, and give the same observation again, with them, to the memory before it. Who may not
    list Events need not ask any more. A 0 that may hide an eviction is asked for at once, a lasting wait from time to
    time.
    """
    if isinstance(answer, Exited):
        # Also a node under pressure evicts without a trace in the pod's first words, where no second container is left
        # to tell (docs/design/pod-states.md#row-69-evicted-while-running and
        # docs/design/pod-states.md#row-137-the-phase-comes-after-the-containers): whoever may list Events looks at
        # every such 0.
        alone = pod is not None and len(pod.spec.containers) == 1
        return Note.DISRUPTION_UNCHECKED in answer.notes or (answer.code == 0 and alone)
    if not isinstance(answer, Pending) or not PENDING_KINDS[answer.kind].read_events:
        return False
    if at - memory.waiting_since < EVENTS_AFTER:
        return False
    return memory.events_at is None or at - memory.events_at >= EVENTS_EVERY
