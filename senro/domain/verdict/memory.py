"""What the verdict keeps of the observations before the current one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from senro.domain.verdict.answers import Answer, Exited, Pending
from senro.domain.verdict.kinds import PendingKind

if TYPE_CHECKING:
    from senro.domain.kube.event import ClusterEvent
    from senro.domain.verdict.disruption import Disruption


class Memory(NamedTuple):
    """What earlier observations left. Make the first with `start`; `observe` makes the others.

    `uid` is the pod's, `step` and `stage` name its containers, `own_deadline` is the activeDeadlineSeconds that
    senro asked for. `answer` is the last one, given by row `rule` of
    docs/design/verdicts.md#the-table. `ran`, `waited`, `contained`:
    the step was seen running (or its state tells of it), was seen waiting, had a containerID. `disruption` is the
    disruption seen, first at `disruption_at`. `pending_exit` is the verdict of a finish that waits for the final phase,
    first seen at `pending_exit_since`.
    `lost_since`: when a step that had run was first seen without a running or ended container. `silent_since`: when
    the node was first found silent, None while it reports. `node` is its name. `waiting_since`: when the step was
    first seen waiting for what `answer` says. `events` are the last that were read, at `events_at`. All times are the
    observations' `at`. A tuple, since one is made for each observation, and a frozen dataclass of so many fields takes
    six times as long to make.
    """

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
        """Nothing seen yet of the pod with this uid; the answer to its creation is the first observation."""
        nothing = Pending(PendingKind.SCHEDULING)
        return cls(uid=uid, step=step, stage=stage, own_deadline=own_deadline, answer=nothing)
