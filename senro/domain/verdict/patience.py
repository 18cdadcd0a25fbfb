"""How long a step may wait to start, which depends on what it waits for."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from senro.domain.verdict.answers import Answer, Infra, Pending
from senro.domain.verdict.kinds import DidRun, InfraKind, PendingKind, kind_info

PERMANENT_GRACE = 20.0
"""Seconds for what waiting cannot mend: a registry may be a moment behind a push
(docs/design/verdicts.md#permanent)."""

MISSING_GRACE = 60.0
"""Seconds for a Secret or ConfigMap that is not found: somebody may be creating it."""

START_TIMEOUT = 300.0
"""Seconds that a target allows for a start where it says nothing."""

GATED_LIMIT = 86_400.0
"""Seconds that a scheduling gate may stay closed; a pod may live as long where its step has no timeout."""

GROWING_LIMIT = 900.0
"""Seconds that an autoscaler has to bring the node it announced: the cluster-autoscaler's --max-node-provision-time.

It tries another group then, or says NotTriggerScaleUp."""

_NO_START = frozenset({PendingKind.GATED, PendingKind.STAGING})
"""A queue decides (docs/design/pod-states.md#row-80-schedulinggated), or bytes move
(docs/design/verdicts.md#waits-that-belong-to-no-start)."""

_MISSING_SOURCE = re.compile(r'(secret|configmap) "[^"]*" not found$')
"""docs/design/pod-states.md#row-120-failedmount: `MountVolume.SetUp failed for volume "v" : secret "s" not found`."""

BECOMES = {
    PendingKind.SCHEDULING: InfraKind.START_TIMEOUT,
    PendingKind.GATED: InfraKind.START_TIMEOUT,
    PendingKind.CREATING: InfraKind.START_TIMEOUT,
    PendingKind.INITIALIZING: InfraKind.START_TIMEOUT,
    PendingKind.UNSCHEDULABLE: InfraKind.UNSCHEDULABLE,
    PendingKind.IMAGE_NOT_FOUND: InfraKind.IMAGE_NOT_FOUND,
    PendingKind.IMAGE_DENIED: InfraKind.IMAGE_DENIED,
    PendingKind.IMAGE_INVALID: InfraKind.IMAGE_INVALID,
    PendingKind.IMAGE_ABSENT: InfraKind.IMAGE_ABSENT,
    PendingKind.IMAGE_PLATFORM: InfraKind.IMAGE_PLATFORM,
    PendingKind.IMAGE_LIMITED: InfraKind.IMAGE_LIMITED,
    PendingKind.IMAGE_UNREACHABLE: InfraKind.IMAGE_UNREACHABLE,
    PendingKind.CONFIG: InfraKind.CONFIG,
    PendingKind.VOLUME: InfraKind.VOLUME,
    PendingKind.RUNTIME: InfraKind.RUNTIME,
}
"""What each kind is called once it is given up; staging never is here, its transfer has a bound of its own."""


def give_up(
    pending: Pending, *, waited_for_this_kind: float, waited_in_all: float, start_timeout: float = START_TIMEOUT
) -> Infra | None:
    """The answer where waiting on is useless, None where it is not; all times in seconds.

    `waited_for_this_kind` counts since the step began to wait for what it waits for now (`Patience` keeps it),
    `waited_in_all` since the pod was created, or since it was released, without the transfer between.
    """
    if pending.kind is PendingKind.STAGING:
        return None
    if not _stops_the_clock(pending) and waited_in_all >= start_timeout:
        waited = waited_in_all
    elif waited_for_this_kind >= _grace(pending):
        waited = waited_for_this_kind
    else:
        return None
    return Infra(BECOMES[pending.kind], DidRun.NO, message=_sentence(pending, waited))


def gives_up_after(pending: Pending, start_timeout: float = START_TIMEOUT) -> float | None:
    """Seconds of the same waiting after which it is given up, None where no clock runs (staging)."""
    if pending.kind is PendingKind.STAGING:
        return None
    return _grace(pending) if _stops_the_clock(pending) else min(_grace(pending), start_timeout)


def _stops_the_clock(pending: Pending) -> bool:
    """Whether this time belongs to no start: a queue decides, bytes move, or a node is on its way."""
    return pending.growing or pending.kind in _NO_START


def _grace(pending: Pending) -> float:
    if pending.kind is PendingKind.GATED:
        return GATED_LIMIT
    if pending.growing:
        return GROWING_LIMIT
    if pending.permanent:
        return PERMANENT_GRACE
    return MISSING_GRACE if _is_missing(pending) else float("inf")


def _is_missing(pending: Pending) -> bool:
    """Whether a Secret or ConfigMap is not found; "failed to sync secret cache" mends itself.

    See docs/design/pod-states.md#row-13-createcontainerconfigerror.

    Recording create-container-config-error; of a volume only an Event tells (recording missing-secret-volume).
    """
    if pending.kind is PendingKind.CONFIG:
        return pending.message.endswith(" not found")
    return pending.kind is PendingKind.VOLUME and _MISSING_SOURCE.search(pending.message) is not None


def _sentence(pending: Pending, waited: float) -> str:
    who = f"container {pending.container}" if pending.container else "the pod"
    words = f": {pending.message}" if pending.message else ""
    return f"{who} did not start in {waited:.0f} s ({pending.kind}){words}. {kind_info(BECOMES[pending.kind]).hint}"


@dataclass(frozen=True, slots=True)
class Patience:
    """The clocks of one start, in the coordinator's monotonic seconds. Make one when the pod is created.

    Give it every answer; `verdict` is None while it is worth waiting. A kind and a container make one wait, so that
    ErrImagePull and ImagePullBackOff, which alternate, are one. Time spent staging or gated, or while an autoscaler
    brings a node, belongs to no start.
    """

    began: float
    waiting_for: tuple[PendingKind, str, bool] | None = None
    since: float = 0.0
    paused_since: float | None = None
    start_timeout: float = START_TIMEOUT

    def seen(self, answer: Answer, at: float) -> Patience:
        """The clocks after `answer`, which was given at `at`."""
        if not isinstance(answer, Pending):
            return self
        moved = self
        if _stops_the_clock(answer):
            moved = replace(self, paused_since=at if self.paused_since is None else self.paused_since)
        elif self.paused_since is not None:
            moved = replace(self, began=self.began + (at - self.paused_since), paused_since=None)
        waiting_for = (answer.kind, answer.container, answer.growing)
        return moved if waiting_for == moved.waiting_for else replace(moved, waiting_for=waiting_for, since=at)

    def verdict(self, answer: Answer, at: float) -> Infra | None:
        """Infra where `answer` is a wait that has lasted too long at `at`, else None."""
        if not isinstance(answer, Pending):
            return None
        return give_up(
            answer,
            waited_for_this_kind=at - self.since,
            waited_in_all=at - self.began,
            start_timeout=self.start_timeout,
        )
