"""What the coordinator saw of a pod at one moment, and what it had done by then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from senro.domain.kube.event import ClusterEvent
    from senro.domain.kube.pod import Pod


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
