"""The lease of one claim that an attempt mounts: how it is written, renewed and lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import anyio

from senro.app.attempt import EventFields
from senro.app.pod.request_timeout import request_within
from senro.domain.claims.lease import Lease, Terms, describe_holder
from senro.domain.claims.lease_protocol import (
    ANSWERED,
    Create,
    Holding,
    Lost,
    Renew,
    TakeOver,
    after_conflict,
)
from senro.domain.errors import AlreadyExists, ClusterError, Conflict, NotFound
from senro.domain.requests.backoff import BackoffPolicy
from senro.domain.requests.idempotency import requested_delay
from senro.domain.run.events import LeaseAcquired, LeaseLost

if TYPE_CHECKING:
    from senro.app.attempt import Attempt
    from senro.ports.cluster import Cluster, Manifest

T = TypeVar("T")

RENEWALS = BackoffPolicy(first=0.2, longest=5.0, jitter=0.0)
"""The waits after renewals that fail. No part is random: they are counted on to fit into the exclusive period."""


class ClaimEventFields(EventFields):
    """The fields that every event about a claim has."""

    workspace: str
    claim: str


class ClaimLease:
    """The lease of one claim.

    `holding`: the lease as this attempt wrote it last; None before.
    `may_hold`: a write was sent that may have made this attempt the holder.
    `lapsed`: the lease was not renewed in time, and no other holder is known.
    `lost`: another holder has, or had, the lease.
    `mounted`: a pod mounts the claim, so that the step continues if the lease is lost.
    `last_error`: the last error of the cluster, for messages.
    `loss_message`: how the lease was lost; empty while it is held.
    """

    def __init__(self, attempt: Attempt, cluster: Cluster, terms: Terms) -> None:
        self.attempt = attempt
        self.cluster = cluster
        self.terms = terms
        self.clock = attempt.services.clock
        self.holding: Holding | None = None
        self.may_hold = self.lapsed = self.lost = self.mounted = False
        self.last_error = self.loss_message = ""
        self._written = anyio.Event()
        self._renewing = anyio.Lock()

    @property
    def event_fields(self) -> ClaimEventFields:
        """The fields of an event about this claim that happens now."""
        return {**self.attempt.event_fields, "workspace": self.terms.workspace, "claim": self.terms.claim}

    def random_fraction(self) -> float:
        """A random number from 0 up to but not including 1, for the wait before the next request."""
        return self.attempt.services.randomness.fraction()

    async def read(self) -> Lease | None:
        """The lease as the apiserver has it; None if it does not exist."""
        return await self.cluster.read_lease(self.terms.namespace, self.terms.name)

    async def write(self, move: Create | TakeOver | Renew) -> None:
        """Write the lease as `move` says. Raises `AlreadyExists` or `Conflict` if it has changed meanwhile."""
        sent_at, now, terms = self.clock.monotonic(), self.clock.now(), self.terms
        before, self.may_hold = self.may_hold, True

        async def request() -> Lease:
            if isinstance(move, Create):
                return await self.cluster.create_lease(terms.manifest_to_create(now))
            manifest = terms.manifest_to_take_over if isinstance(move, TakeOver) else terms.manifest_to_renew
            return await self._replace(manifest(move.lease, now))

        try:
            lease = await self._in_time("create" if isinstance(move, Create) else "update", request)
        except (AlreadyExists, Conflict):
            self.may_hold = before  # this write was refused; an earlier one may still take effect
            raise
        self._hold(lease, sent_at)

    async def keep_renewed(self) -> None:
        """Renew the lease whenever that is due, despite errors, until it is lost."""
        failures = 0
        while self.holding is not None and not self.lost:
            await self.clock.sleep(max(0.0, self.holding.due - self.clock.monotonic()))
            try:
                await self.renew_if_due()
            except ClusterError as error:
                self.last_error = str(error)
                await self.clock.sleep(RENEWALS.wait(failures, requested=self._allowed_delay(error)))
                failures += 1
            else:
                failures = 0

    async def renew_if_due(self) -> None:
        """Renew the lease once if that is due. One task at a time does."""
        async with self._renewing:
            holding = self.holding
            if holding is not None and not self.lost and self.clock.monotonic() >= holding.due:
                await self._renew(holding)

    async def watch(self) -> None:
        """Record when the lease stops being exclusive, also while a request to renew it hangs."""
        while self.holding is not None and not self.lost:
            left = self.holding.exclusive_until - self.clock.monotonic()
            if left > 0:
                await self.clock.sleep(left)
                continue
            written = self._written  # read first: a renewal may succeed while the loss is recorded
            if not self.lapsed:
                self.lapsed = True
                await self._record_lost("")
            await written.wait()

    async def lose(self, holder: str) -> None:
        """Record that another step has the lease, unless it was never held.

        `holder`: the present holderIdentity, empty if the lease does not exist.
        """
        if self.holding is not None:
            self.lost = True
            await self._record_lost(describe_holder(holder) if holder else "")

    async def record_acquired(self, waited: float, previous: str) -> None:
        """Record that the lease is held. `waited`: seconds; `previous`: the holder whose lease had expired, or ""."""
        await self.attempt.recorder.record(
            LeaseAcquired(
                **self.event_fields,
                lease=self.terms.name,
                waited_seconds=round(waited, 3),
                previous_holder=previous,
            )
        )

    def _hold(self, lease: Lease, sent_at: float) -> None:
        self.holding, self.loss_message = Holding(lease, sent_at), ""
        self._written.set()
        self._written = anyio.Event()

    async def _renew(self, holding: Holding) -> None:
        sent_at, terms = self.clock.monotonic(), self.terms
        try:
            manifest = terms.manifest_to_renew(holding.lease, self.clock.now())
            lease = await self._in_time("update", lambda: self._replace(manifest))
        except Conflict:
            left = after_conflict(holding, await self._in_time("read", self.read), holder=terms.holder)
            if isinstance(left, Lost):
                await self.lose(left.holder)
            else:
                self.holding = left
            return
        self._hold(lease, sent_at)
        if self.lapsed:
            self.lapsed = False
            await self.record_acquired(0.0, describe_holder(terms.holder))

    def _allowed_delay(self, error: ClusterError) -> float:
        """The delay in seconds that the apiserver requested, as far as the lease allows.

        At most half of the time for which the lease is still exclusive, so that there is another try; afterwards at
        most the duration of the lease.
        """
        left = self.holding.exclusive_until - self.clock.monotonic() if self.holding is not None else 0.0
        return min(requested_delay(error), left / 2 if left > 0 else self.terms.seconds)

    async def _in_time(self, verb: str, request: Callable[[], Awaitable[T]]) -> T:
        """Send a request, giving up early enough that the lease can still be renewed."""
        operation = f"{verb} lease {self.terms.namespace}/{self.terms.name}"
        return await request_within(self.clock, self.terms.seconds / ANSWERED, operation, request)

    async def _replace(self, manifest: Manifest) -> Lease:
        try:
            return await self.cluster.replace_lease(manifest)
        except NotFound as error:  # deleted meanwhile; the 404 of a create is about the namespace
            raise Conflict(error.operation, error.response) from error

    async def _record_lost(self, holder: str) -> None:
        claim = self.terms.claim
        if holder:
            message = f"{holder} has taken over the claim {claim}"
            message += ", which this step still uses" if self.mounted else ""
        elif self.lost:
            message = f"the lease of the claim {claim} does not exist any more, so other steps may use the claim"
        else:
            reason = f": {self.last_error}" if self.last_error else ""
            message = f"the lease of the claim {claim} was not renewed in time, so other steps may use it{reason}"
        self.loss_message = message
        message += "; the step continues" if self.mounted else ""
        self.attempt.report_note(message)
        await self.attempt.recorder.record(LeaseLost(**self.event_fields, message=message, holder=holder))
