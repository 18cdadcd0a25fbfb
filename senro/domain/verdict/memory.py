"""What a verdict keeps of earlier observations."""

from __future__ import annotations

from typing import NamedTuple

from senro.domain.kube.event import ClusterEvent
from senro.domain.verdict.answers import Answer, Exited, Pending
from senro.domain.verdict.disruption import Disruption
from senro.domain.verdict.kinds import PendingKind


class Memory(NamedTuple):
    """What earlier observations of a pod showed. `start` makes the first, `observe` the others; times are their `at`.

    `uid`: the uid of the pod.
    `step`, `stage`: the names of the containers of the step and of the upload.
    `own_deadline`: the activeDeadlineSeconds that senro gave the pod.
    `answer`: the latest answer.
    `rule`: the row of the table that gave it.
    `ran`: whether a poll showed that the step's process had started.
    `waited`: whether a poll showed the step's container waiting.
    `contained`: whether the step's container had a containerID.
    `disruption`: the disruption, first seen at `disruption_at`.
    `pending_exit`: an end of the step that is believed once the phase is final, first seen at `pending_exit_since`.
    `lost_since`: when a step that had run was first seen with neither a running nor an ended container.
    `silent_since`: since when the node does not report, None while it does.
    `node`: the name of the node.
    `waiting_since`: when the step was first seen waiting for what `answer` says.
    `events`: the Events that were read last, at `events_at`.
    """

    # A tuple, since each observation makes one: a frozen dataclass of so many fields takes six times as long.

    uid: str
    step: str
    stage: str
    own_deadline: int | None
    answer: Answer
    rule: int = 14
    ran: bool = False
    waited: bool = False
    contained: bool = False
    disruption: Disruption | None = None
    disruption_at: float = 0.0
    pending_exit: Exited | None = None
    pending_exit_since: float = 0.0
    lost_since: float | None = None
    silent_since: float | None = None
    node: str = ""
    waiting_since: float = 0.0
    events: tuple[ClusterEvent, ...] = ()
    events_at: float | None = None

    @classmethod
    def start(
        cls, *, uid: str, step: str = "step", stage: str = "senro-stage", own_deadline: int | None = None
    ) -> Memory:
        """Nothing is known yet of the pod with this uid. The response to its create is the first observation."""
        nothing = Pending(PendingKind.SCHEDULING)
        return cls(uid=uid, step=step, stage=stage, own_deadline=own_deadline, answer=nothing)
