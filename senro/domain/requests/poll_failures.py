"""When answers to the polls of an existing pod end its step.

One odd answer proves nothing: a balancer, an RBAC cache that is not filled yet or an aggregation layer may give any
code once. Only a failure that lasts ends the step (docs/design/verdicts.md#failing-polls).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from senro.domain.errors import ClusterError, Conflict, Forbidden, NotFound, Rejected, Unauthorized

REFUSED_SECONDS = 60.0
"""How long every poll must have been refused: a 403 or another 4xx, or a 401 although the token was read again."""

FAILING_SECONDS = 900.0
"""Unbroken failure of any kind that is put down to an upgrade of the control plane."""

REFUSALS = (Unauthorized, Forbidden, NotFound, Conflict, Rejected)


@dataclass(frozen=True, slots=True)
class PollFailures:
    """The unbroken failures of the polls of one pod, all times in the coordinator's monotonic seconds.

    since: when the first failed, None if the latest poll succeeded.
    refused_since: when the first of the latest unbroken refusals was answered.
    """

    since: float | None = None
    refused_since: float | None = None

    def after(self, error: ClusterError, at: float) -> PollFailures:
        """The state after a poll that failed at `at`."""
        refused = (at if self.refused_since is None else self.refused_since) if isinstance(error, REFUSALS) else None
        return replace(self, since=at if self.since is None else self.since, refused_since=refused)

    def ends_the_step(self, at: float) -> bool:
        """Whether the failures until `at` have lasted too long to go on."""
        refused = self.refused_since is not None and at - self.refused_since >= REFUSED_SECONDS
        return refused or (self.since is not None and at - self.since >= FAILING_SECONDS)
