"""When 404 answers prove that a pod is gone (docs/design/verdicts.md#a-pod-that-is-gone).

A load balancer may reach an apiserver that lags behind the one that stored the pod, and that answers 404 for a moment.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

CONFIRM_SECONDS = 2.0
"""How long the apiserver must have answered 404, without any other answer in between."""

CREATE_LAG_SECONDS = 10.0
"""The same after a create, until some answer has returned the pod."""


@dataclass(frozen=True, slots=True)
class Absence:
    """The latest 404s about one pod, without another answer in between. Times are the coordinator's monotonic seconds.

    since: when the first of them was answered; None if the latest answer was the pod.
    was_read: whether any read has returned the pod.
    """

    since: float | None = None
    was_read: bool = False

    def after_pod(self) -> Absence:
        """Returns the state after an answer that is the pod."""
        return Absence(was_read=True)

    def after_404(self, at: float) -> Absence:
        """Returns the state after a 404 that was answered at `at`."""
        return self if self.since is not None else replace(self, since=at)

    def is_proof(self, at: float) -> bool:
        """Returns whether the 404s up to `at` prove that the pod is gone."""
        needed = CONFIRM_SECONDS if self.was_read else CREATE_LAG_SECONDS
        return self.since is not None and at - self.since >= needed
