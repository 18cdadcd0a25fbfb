"""How long a step may wait to start, which depends on what it waits for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from senro.domain.verdict.answers import Answer, Infra, Pending
from senro.domain.verdict.kind_table import INFRA_KINDS, PENDING_KINDS
from senro.domain.verdict.kinds import DidRun, PendingKind

PERMANENT_GRACE = 20.0
"""Seconds for what waiting cannot mend: a registry may be a moment behind a push
(docs/design/verdicts.md#permanent)."""

MISSING_GRACE = 60.0
"""Seconds for a Secret or ConfigMap that is not found: somebody may be creating it."""

START_TIMEOUT = 300.0
"""Seconds that a target allows for a start where it says nothing."""

GROWING_LIMIT = 900.0
"""Seconds that an autoscaler has to bring the node it announced: the cluster-autoscaler's --max-node-provision-time.

It tries another group then, or says NotTriggerScaleUp."""


def give_up(
    pending: Pending, *, waited_for_this_kind: float, waited_in_all: float, start_timeout: float = START_TIMEOUT
) -> Infra | None:
    """The answer where waiting on is useless, None where it is not; all times in seconds.

    `waited_for_this_kind` counts since the step began to wait for what it waits for now (`Patience` keeps it),
    `waited_in_all` since the pod was created, or since it was released, without the transfer between.
    """
    becomes = PENDING_KINDS[pending.kind].becomes
    if becomes is None:
        return None
    if not _stops_the_clock(pending) and waited_in_all >= start_timeout:
        waited = waited_in_all
    elif waited_for_this_kind >= _grace(pending):
        waited = waited_for_this_kind
    else:
        return None
    who = f"container {pending.container}" if pending.container else "the pod"
    words = f": {pending.message}" if pending.message else ""
    message = f"{who} did not start in {waited:.0f} s ({pending.kind}){words}. {INFRA_KINDS[becomes].hint}"
    return Infra(becomes, DidRun.NO, message=message)


def gives_up_after(pending: Pending, start_timeout: float = START_TIMEOUT) -> float | None:
    """Seconds of the same waiting after which it is given up, None where no clock runs (staging)."""
    if PENDING_KINDS[pending.kind].becomes is None:
        return None
    return _grace(pending) if _stops_the_clock(pending) else min(_grace(pending), start_timeout)


def _stops_the_clock(pending: Pending) -> bool:
    """Whether this time belongs to no start: a queue decides, bytes move, or a node is on its way."""
    return pending.growing or not PENDING_KINDS[pending.kind].in_start


def _grace(pending: Pending) -> float:
    info = PENDING_KINDS[pending.kind]
    if pending.growing:
        return GROWING_LIMIT
    if pending.permanent:
        return PERMANENT_GRACE
    return MISSING_GRACE if info.missing is not None and info.missing.search(pending.message) else info.grace


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

    def after(self, answer: Answer, at: float) -> Patience:
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
