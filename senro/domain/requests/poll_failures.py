"""When failing polls of an existing pod end its step.

One failure proves nothing: a load balancer, an RBAC cache that is not filled yet or an aggregation layer may send any
code once. Only a failure that lasts ends the step (docs/design/verdicts.md#failing-polls).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from senro.domain.errors import ClusterError, Conflict, Forbidden, NotFound, Rejected, Unauthorized

REFUSED_SECONDS = 60.0
"""How long the apiserver must have refused every poll, with 401, 403 or another 4xx."""

FAILING_SECONDS = 900.0
"""How long every poll must have failed, in any way. An upgrade of a control plane takes less."""

REFUSALS = (Unauthorized, Forbidden, NotFound, Conflict, Rejected)


@dataclass(frozen=True, slots=True)
class PollFailures:
    """The latest failed polls of one pod, without a success in between. Times are the coordinator's monotonic seconds.

    since: when the first of them failed; None if the latest poll succeeded.
    refused_since: when the first of the latest refusals came; None if the latest poll was not refused.
    """

    since: float | None = None
    refused_since: float | None = None

    def after(self, error: ClusterError, at: float) -> PollFailures:
        """Returns the state after a poll that failed at `at`."""
        refused = (at if self.refused_since is None else self.refused_since) if isinstance(error, REFUSALS) else None
        return replace(self, since=at if self.since is None else self.since, refused_since=refused)

    def ends_the_step(self, at: float) -> bool:
        """Returns whether the failures up to `at` have lasted too long."""
        refused = self.refused_since is not None and at - self.refused_since >= REFUSED_SECONDS
        return refused or (self.since is not None and at - self.since >= FAILING_SECONDS)
