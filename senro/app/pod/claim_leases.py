"""The leases of the claims that an attempt mounts: acquired before its pod exists, deleted when the pod is gone.

Meanwhile they are renewed, also while the pod is deleted. The loss of a lease is reported. It ends an attempt without a
pod; a pod that mounts the claim continues, since it keeps the claim anyway (docs/design/leases.md#loss).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING

import anyio

from senro.app.pod.claim_acquisition import ClaimRefused, acquire_lease
from senro.app.pod.claim_lease import ClaimLease
from senro.app.pod.claim_release import release_lease
from senro.domain.claims.lease import Terms
from senro.domain.errors import ClusterError
from senro.domain.pipeline.durations import seconds
from senro.domain.pipeline.step_mounts import claim_mounts, pod_target
from senro.domain.verdict import DidRun, Infra, InfraKind

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from senro.app.attempt import Attempt
    from senro.app.runtime.services import ClusterServices


class Claims:
    """The leases of one attempt's claims. `acquire` once, inside `keep_renewed`; `release` once, on every path.

    Enter `as_mounted` once a pod mounts the claims: losing a lease no longer ends the attempt then.
    """

    def __init__(self, attempt: Attempt, services: ClusterServices) -> None:
        self._clock = attempt.services.clock
        target = pod_target(attempt.step)
        self._limit = seconds(target.max_lifetime)
        # Sorted, so that two steps which need the same two claims cannot deadlock.
        mounts = sorted(claim_mounts(attempt.step), key=lambda each: each[0].name)
        terms = [
            Terms(target.namespace or "", mount.name, claim, attempt.identity, services.lease_seconds)
            for mount, claim in mounts
        ]
        self._claims = [ClaimLease(attempt, services.cluster, each) for each in terms]
        self._group: TaskGroup | None = None

    @property
    def lost(self) -> bool:
        """Whether another step may have had one of the claims."""
        return any(claim.lost or claim.lapsed for claim in self._claims)

    @asynccontextmanager
    async def keep_renewed(self) -> AsyncIterator[None]:
        """Renew the leases that are held, also those acquired later, while the context is open."""
        if not self._claims:
            yield
            return
        async with anyio.create_task_group() as group:
            self._group = group
            try:
                for claim in self._claims:
                    self._start(claim)
                yield
            finally:
                self._group = None
            group.cancel_scope.cancel()

    @contextmanager
    def as_mounted(self) -> Iterator[None]:
        """While the context is open, messages about a lost lease say that the step continues: a pod has the claims."""
        self._set_mounted(mounted=True)
        try:
            yield
        finally:
            self._set_mounted(mounted=False)

    async def acquire(self) -> None:
        """Acquire the leases of all claims. Raises `ClaimRefused`; leases acquired by then are kept until `release`.

        The wait is bounded by the `max_lifetime` of the target, as the step itself is.
        """
        deadline = self._clock.monotonic() + self._limit
        for claim in self._claims:
            await acquire_lease(claim, deadline=deadline, limit=self._limit)
            self._start(claim)
        for claim in self._claims:
            # The renewing task may still be pausing after errors that are over.
            with suppress(ClusterError):
                await claim.renew_if_due()
        self.check()

    def check(self) -> None:
        """Raise `ClaimRefused` if another step may have a claim. Called just before the pod's create is sent."""
        now = self._clock.monotonic()
        for claim in self._claims:
            if claim.lost or claim.holding is None or not claim.holding.is_exclusive(now):
                reason = claim.loss_message or f"the lease of the claim {claim.terms.claim} was not renewed in time"
                raise ClaimRefused(Infra(InfraKind.CLAIM, DidRun.NO, message=f"no pod was created: {reason}"))

    async def release(self, *, gone: bool) -> None:
        """Delete the leases that are held. Leaves them to expire if not `gone`: a process of the pod may be alive."""
        for claim in self._claims:
            if claim.may_hold and not claim.lost:
                await release_lease(claim, gone=gone)

    def _start(self, claim: ClaimLease) -> None:
        if self._group is not None and claim.holding is not None and not claim.lost:
            self._group.start_soon(claim.keep_renewed)
            self._group.start_soon(claim.watch)

    def _set_mounted(self, *, mounted: bool) -> None:
        for claim in self._claims:
            claim.mounted = mounted
