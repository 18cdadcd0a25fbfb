"""What is seen at one moment, and what is kept of the moments before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from senro.domain.verdict.answers import Answer, Exited, Pending
from senro.domain.verdict.kinds import PendingKind

if TYPE_CHECKING:
    from senro.domain.kube.event import ClusterEvent
    from senro.domain.kube.pod import Pod
    from senro.domain.verdict.disruption import Sign


@dataclass(frozen=True, slots=True)
class Finish:
    """A result frame: the function of a step, or the command of a session, has ended, and its process may live on.

    `code` is 0 for a result and the frame's own code else. `finished_at` is when, RFC 3339 by the node's clock (the
    time of the log's line that carried it), None where nothing says.
    """

    code: int
    finished_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The pod at one moment, and what the coordinator itself had done before it asked.

    `pod` is None where the apiserver answered 404. `at` is the coordinator's monotonic clock, in seconds.
    `cancelled` and `timed_out`: the run had cancelled the step, or its timeout had passed. `deletion_asked`: the
    coordinator had asked for the pod's deletion, so that a deletionTimestamp is its own. `node_silent`: the Node
    object says that its kubelet does not report; a run does not ask, since its identity needs no right to nodes and the
    node controller writes the same into every pod that was ready there (recording node-lost). `events` are the Events
    about the pod, None where they were not or could not be read (`wants_events` says when to). `finish` is the result
    frame that had arrived, of a step that has such; the pod must have been asked for after it.
    """

    pod: Pod | None
    at: float
    cancelled: bool = False
    timed_out: bool = False
    deletion_asked: bool = False
    node_silent: bool = False
    events: tuple[ClusterEvent, ...] | None = None
    finish: Finish | None = None


class Memory(NamedTuple):
    """What earlier observations left. Make the first with `start`; `observe` makes the others.

    `uid` is the pod's, `step` and `stage` name its containers, `own_deadline` is the activeDeadlineSeconds that
    senro asked for. `answer` is the last one, given by row `rule` of design.md's table. `ran`, `waited`, `contained`:
    the step was seen running (or its state tells of it), was seen waiting, had a containerID. `sign` is the disruption
    seen, first at `sign_at`. `held` is the verdict of a finish whose last word is awaited, first seen at `held_since`.
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
    sign: Sign | None = None
    sign_at: float = 0.0
    held: Exited | None = None
    held_since: float = 0.0
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
