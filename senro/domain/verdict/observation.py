"""What the coordinator saw of a pod at one moment, and what it had done by then."""

from __future__ import annotations

from dataclasses import dataclass

from senro.domain.kube.event import ClusterEvent
from senro.domain.kube.pod import Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The answer to one poll of the pod, and what the coordinator had done before it asked.

    `pod`: the pod, None if the apiserver answered 404.
    `at`: the coordinator's monotonic clock, in seconds.
    `timed_out`: the step's timeout had passed.
    `deletion_asked`: the coordinator had requested the pod's deletion, so a deletionTimestamp is its own.
    `events`: the Events about the pod, None if they were not or could not be read (`wants_events` says when to).
    """

    pod: Pod | None
    at: float
    timed_out: bool = False
    deletion_asked: bool = False
    events: tuple[ClusterEvent, ...] | None = None
