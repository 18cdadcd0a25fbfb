"""How long a step may wait to start (docs/design/verdicts.md#patience)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from senro.domain.verdict.answers import Answer, Infra, Pending
from senro.domain.verdict.kind_table import INFRA_KINDS, PENDING_KINDS
from senro.domain.verdict.kinds import DidRun, PendingKind

PERMANENT_GRACE = 20.0
"""Seconds for a permanent failure: a registry may lag behind a push (docs/design/verdicts.md#permanent)."""

MISSING_GRACE = 60.0
"""Seconds for a Secret or ConfigMap that does not exist: somebody may be creating it."""

START_TIMEOUT = 300.0
"""The start timeout of a target that sets none, in seconds."""

GROWING_LIMIT = 900.0
"""Seconds that an autoscaler has to add the node that it announced: the cluster-autoscaler's --max-node-provision-time,
after which it tries another group, or reports NotTriggerScaleUp."""


def give_up(
    pending: Pending, *, waited_for_this_kind: float, waited_in_all: float, start_timeout: float = START_TIMEOUT
) -> Infra | None:
    """The answer for a step that has waited too long, None if it has not; all times in seconds.

    `waited_for_this_kind` counts since the step began to wait for what it waits for now, `waited_in_all` since its pod
    was created, or released, less the time of waits that do not count (docs/design/attempt.md#start-timeout).
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
    """Seconds of the same wait after which senro gives up; None if it never does (staging)."""
    if PENDING_KINDS[pending.kind].becomes is None:
        return None
    return _grace(pending) if _stops_the_clock(pending) else min(_grace(pending), start_timeout)


def _stops_the_clock(pending: Pending) -> bool:
    """Whether the wait does not count towards the start timeout.

    See docs/design/verdicts.md#waits-that-belong-to-no-start.
    """
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
    """The clocks of one start, in the coordinator's monotonic seconds. Pass every answer to `seen`.

    `began`: when the pod was created, later by the time of waits that do not count.
    `waiting_for`: kind and container of the wait, and whether a node is being added. ErrImagePull and ImagePullBackOff,
    which alternate, are of one kind.
    `since`: when this wait began.
    `paused_since`: when a wait that does not count began, None if none goes on.
    `start_timeout`: the start timeout of the target.
    """

    began: float
    waiting_for: tuple[PendingKind, str, bool] | None = None
    since: float = 0.0
    paused_since: float | None = None
    start_timeout: float = START_TIMEOUT

    def after(self, answer: Answer, at: float) -> Patience:
        """The clocks after the answer at the time `at`."""
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
        """`Infra` if `answer` is a wait that has lasted too long at the time `at`, else None."""
        if not isinstance(answer, Pending):
            return None
        return give_up(
            answer,
            waited_for_this_kind=at - self.since,
            waited_in_all=at - self.began,
            start_timeout=self.start_timeout,
        )
