"""The leases of the claims that an attempt mounts: acquired before its pod exists, deleted when the pod is gone.

Meanwhile they are renewed, also while the pod is deleted. The loss of a lease is reported. It ends an attempt without a
pod; a pod that mounts the claim continues, since it keeps the claim anyway (docs/design/leases.md#loss).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypedDict, TypeVar

import anyio

from senro.app.pod.creation import TROUBLES
from senro.app.pod.deletion import DELETION_POLLS, UNACKNOWLEDGED_SECONDS
from senro.app.pod.request_timeout import request_within
from senro.domain.claims.lease import Lease, Terms, describe_holder
from senro.domain.claims.lease_protocol import (
    ANSWERED,
    Create,
    Holding,
    LeaseObservation,
    Lost,
    Renew,
    TakeOver,
    Wait,
    after_conflict,
    next_move,
)
from senro.domain.errors import AlreadyExists, ClusterError, Conflict, Forbidden, NotFound, Unauthorized
from senro.domain.pipeline.durations import seconds
from senro.domain.pipeline.step_mounts import claim_mounts, pod_target
from senro.domain.requests.backoff import Backoff, BackoffPolicy
from senro.domain.requests.idempotency import requested_delay
from senro.domain.run.events import LeaseAcquired, LeaseAwaited, LeaseLost, LeaseReleased
from senro.domain.verdict import DidRun, Infra, InfraKind
from senro.domain.verdict.creation import TROUBLE_SECONDS, GiveUp, RetryCreate, classify_create_error, infra_from_error

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from senro.app.attempt import Attempt
    from senro.app.runtime.services import ClusterServices
    from senro.ports.cluster import Manifest

T = TypeVar("T")

POLL_SECONDS = 2.0
"""Seconds between two polls of a lease that another step holds; a random part of a quarter is subtracted."""

RENEWALS = BackoffPolicy(first=0.2, longest=5.0, jitter=0.0)
"""The waits after renewals that fail. No part is random: they are counted on to fit into the exclusive period."""

RELEASE_SECONDS = 15.0
"""How long the deletion of a lease is tried; it expires by itself."""

RELEASES = BackoffPolicy(first=0.2, longest=5.0)
"""The waits after deletions that fail."""


class ClaimRefused(Exception):
    """A claim cannot be acquired. `answer` is the answer of the attempt, whose step did not run."""

    def __init__(self, answer: Infra) -> None:
        super().__init__(answer)
        self.answer = answer


class _ClaimFields(TypedDict):
    """The fields that every event about a claim has."""

    workspace: str
    claim: str


@dataclass(slots=True)
class _Claim:
    """One claim of the attempt.

    `holding`: the lease as this attempt wrote it last; None before.
    `may_hold`: a write was sent that may have made this attempt the holder.
    `lapsed`: the lease was not renewed in time, and no other holder is known.
    `lost`: another holder has, or had, the lease.
    `last_error`: the last error of the cluster, for messages.
    `loss_message`: how the lease was lost; empty while it is held.
    `renewed`: set, and replaced, by each successful write.
    `renewing`: held by a renewal, so that there is one at a time.
    """

    terms: Terms
    holding: Holding | None = None
    may_hold: bool = False
    lapsed: bool = False
    lost: bool = False
    last_error: str = ""
    loss_message: str = ""
    renewed: anyio.Event = field(default_factory=anyio.Event)
    renewing: anyio.Lock = field(default_factory=anyio.Lock)

    @property
    def event_fields(self) -> _ClaimFields:
        """The fields of an event about this claim."""
        return {"workspace": self.terms.workspace, "claim": self.terms.claim}

    def hold(self, lease: Lease, sent_at: float) -> None:
        """Note a successful write of the lease, which was sent at `sent_at`."""
        self.holding, self.loss_message = Holding(lease, sent_at), ""
        self.renewed.set()
        self.renewed = anyio.Event()


class Claims:
    """The leases of one attempt's claims. `acquire` once, inside `keep_renewed`; `release` once, on every path.

    Enter `as_mounted` once a pod mounts the claims: losing a lease no longer ends the attempt then.
    """

    def __init__(self, attempt: Attempt, services: ClusterServices) -> None:
        self._attempt = attempt
        self._cluster = services.cluster
        self._clock = attempt.services.clock
        target = pod_target(attempt.step)
        self._limit = seconds(target.max_lifetime)
        # Sorted, so that two steps which need the same two claims cannot deadlock.
        self._claims = [
            _Claim(Terms(target.namespace or "", mount.name, claim, attempt.identity, services.lease_seconds))
            for mount, claim in sorted(claim_mounts(attempt.step), key=lambda one: one[0].name)
        ]
        self._group: TaskGroup | None = None
        self._mounted = False

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
        self._mounted = True
        try:
            yield
        finally:
            self._mounted = False

    async def acquire(self) -> None:
        """Acquire the leases of all claims. Raises `ClaimRefused`; leases acquired by then are kept until `release`.

        The wait is bounded by the `max_lifetime` of the target, as the step itself is.
        """
        deadline = self._clock.monotonic() + self._limit
        for claim in self._claims:
            await self._acquire(claim, deadline)
            self._start(claim)
        for claim in self._claims:
            # The renewing task may still be pausing after errors that are over.
            with suppress(ClusterError):
                await self._renew_due(claim)
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
                await self._release(claim, gone=gone)

    def _start(self, claim: _Claim) -> None:
        if self._group is not None and claim.holding is not None and not claim.lost:
            self._group.start_soon(self._renew, claim)
            self._group.start_soon(self._watch, claim)

    # --- acquiring a lease -------------------------------------------------------------------------------------

    async def _acquire(self, claim: _Claim, deadline: float) -> None:
        clock, terms, began = self._clock, claim.terms, self._clock.monotonic()
        observation, awaited, shown, previous, troubles = LeaseObservation(), "", "", "", Backoff(TROUBLES)
        while True:
            try:
                lease = await self._cluster.read_lease(terms.namespace, terms.name)
                move, observation = next_move(observation, lease, at=clock.monotonic(), holder=terms.holder)
                if not isinstance(move, Wait):
                    if not isinstance(move, Renew):  # a renewal keeps the holder of the unanswered write before it
                        previous = _expired_holder(move)
                    await self._write(claim, move)
                    break
                troubles.reset()
                wait, holder = self._poll_delay(claim, move), describe_holder(move.holder)
                shown = self._report_wait(claim, f", held by {holder}", shown)
                if holder != awaited:
                    awaited = holder
                    await self._record_awaited(claim, holder)
                reason = f"{holder} holds the lease {terms.name}"
            except ClusterError as error:
                wait, reason = self._retry_wait(claim, error, troubles), str(error)
                if wait >= POLL_SECONDS:
                    shown = self._report_wait(claim, f": {reason}", shown)
            left = deadline - clock.monotonic()
            if left <= 0:
                raise ClaimRefused(self._not_free_in_time(claim, clock.monotonic() - began, reason))
            await clock.sleep(min(wait, left))
        await self._record_acquired(claim, clock.monotonic() - began, previous)

    def _poll_delay(self, claim: _Claim, wait: Wait) -> float:
        part = 0.75 + self._attempt.services.randomness.fraction() / 4
        return min(wait.seconds, part * min(POLL_SECONDS, claim.terms.seconds / 10))

    def _retry_wait(self, claim: _Claim, error: ClusterError, troubles: Backoff) -> float:
        """Seconds before the next try after `error`. Raises `ClaimRefused` if a retry is useless or the bound is over.

        A longer delay that the apiserver requests is cut to the bound.
        """
        now, move = self._clock.monotonic(), classify_create_error(error)
        late, failing = isinstance(error, AlreadyExists | Conflict), troubles.elapsed(now)
        if late or isinstance(move, RetryCreate):
            requested = min(requested_delay(error), TROUBLE_SECONDS - failing)
            fraction = self._attempt.services.randomness.fraction()
            wait = troubles.next_wait(now, fraction=fraction, requested=requested)
            if wait is not None:
                return wait
        raise _refusal(claim, error, failing if late else None)

    def _report_wait(self, claim: _Claim, detail: str, shown: str) -> str:
        """Report that the attempt waits for the claim, unless `shown` says the same. Returns what is shown now."""
        phase = f"waiting for the claim {claim.terms.claim}{detail}"
        if phase != shown:
            self._attempt.report_phase(phase)
        return phase

    def _not_free_in_time(self, claim: _Claim, waited: float, reason: str) -> Infra:
        message = (
            f"the claim {claim.terms.claim} in {claim.terms.namespace} was not free in {waited:.0f} s, and a step "
            f"waits for its claims at most {self._limit:g} s (max_lifetime): {reason}"
        )
        return Infra(InfraKind.CLAIM, DidRun.NO, message=message)

    async def _write(self, claim: _Claim, move: Create | TakeOver | Renew) -> None:
        """Write the lease as `move` says. Raises `AlreadyExists` or `Conflict` if it has changed meanwhile."""
        sent_at, now, terms = self._clock.monotonic(), self._attempt.services.clock.now(), claim.terms
        before, claim.may_hold = claim.may_hold, True

        async def write() -> Lease:
            if isinstance(move, Create):
                return await self._cluster.create_lease(terms.manifest_to_create(now))
            manifest = terms.manifest_to_take_over if isinstance(move, TakeOver) else terms.manifest_to_renew
            return await self._replace(manifest(move.lease, now))

        try:
            lease = await self._in_time(claim, "create" if isinstance(move, Create) else "update", write)
        except (AlreadyExists, Conflict):
            claim.may_hold = before  # this write was refused; an earlier one may still take effect
            raise
        claim.hold(lease, sent_at)

    async def _in_time(self, claim: _Claim, verb: str, request: Callable[[], Awaitable[T]]) -> T:
        """Send a request, giving up early enough that the lease can still be renewed."""
        terms = claim.terms
        operation = f"{verb} lease {terms.namespace}/{terms.name}"
        return await request_within(self._clock, terms.seconds / ANSWERED, operation, request)

    async def _replace(self, manifest: Manifest) -> Lease:
        try:
            return await self._cluster.replace_lease(manifest)
        except NotFound as error:  # deleted meanwhile; the 404 of a create is about the namespace
            raise Conflict(error.operation, error.response) from error

    async def _record_awaited(self, claim: _Claim, holder: str) -> None:
        attempt = self._attempt
        await attempt.recorder.record(LeaseAwaited(**attempt.event_fields, **claim.event_fields, holder=holder))

    async def _record_acquired(self, claim: _Claim, waited: float, previous: str) -> None:
        attempt, lease = self._attempt, claim.terms.name
        await attempt.recorder.record(
            LeaseAcquired(
                **attempt.event_fields,
                **claim.event_fields,
                lease=lease,
                waited_seconds=round(waited, 3),
                previous_holder=previous,
            )
        )

    # --- renewing it -------------------------------------------------------------------------------------------

    async def _renew(self, claim: _Claim) -> None:
        """Renew the lease whenever that is due, despite errors, until it is lost."""
        failures = 0
        while claim.holding is not None and not claim.lost:
            await self._clock.sleep(max(0.0, claim.holding.due - self._clock.monotonic()))
            try:
                await self._renew_due(claim)
            except ClusterError as error:
                claim.last_error = str(error)
                await self._clock.sleep(RENEWALS.wait(failures, requested=self._patience(claim, error)))
                failures += 1
            else:
                failures = 0

    def _patience(self, claim: _Claim, error: ClusterError) -> float:
        """The delay in seconds that the apiserver requested, as far as the lease allows.

        At most half of the time for which the lease is still exclusive, so that there is another try; afterwards at
        most the duration of the lease.
        """
        delay, terms, holding = requested_delay(error), claim.terms, claim.holding
        left = holding.exclusive_until - self._clock.monotonic() if holding is not None else 0.0
        return min(delay, left / 2 if left > 0 else terms.seconds)

    async def _renew_due(self, claim: _Claim) -> None:
        """Renew the lease once if that is due."""
        async with claim.renewing:
            holding = claim.holding
            if holding is not None and not claim.lost and self._clock.monotonic() >= holding.due:
                await self._renew_once(claim, holding)

    async def _renew_once(self, claim: _Claim, holding: Holding) -> None:
        sent_at, terms = self._clock.monotonic(), claim.terms
        try:
            manifest = terms.manifest_to_renew(holding.lease, self._attempt.services.clock.now())
            lease = await self._in_time(claim, "update", lambda: self._replace(manifest))
        except Conflict:
            found = await self._in_time(claim, "read", lambda: self._cluster.read_lease(terms.namespace, terms.name))
            left = after_conflict(holding, found, holder=terms.holder)
            if isinstance(left, Lost):
                claim.lost = True
                await self._record_lost(claim, describe_holder(left.holder) if left.holder else "")
            else:
                claim.holding = left
            return
        claim.hold(lease, sent_at)
        if claim.lapsed:
            claim.lapsed = False
            await self._record_acquired(claim, 0.0, describe_holder(terms.holder))

    async def _watch(self, claim: _Claim) -> None:
        """Record when the lease stops being exclusive, also while a request to renew it hangs."""
        while claim.holding is not None and not claim.lost:
            left = claim.holding.exclusive_until - self._clock.monotonic()
            if left > 0:
                await self._clock.sleep(left)
                continue
            renewed = claim.renewed  # read first: a renewal may succeed while the loss is recorded
            if not claim.lapsed:
                claim.lapsed = True
                await self._record_lost(claim, "")
            await renewed.wait()

    async def _record_lost(self, claim: _Claim, holder: str) -> None:
        attempt, terms = self._attempt, claim.terms
        if holder:
            message = f"{holder} has taken over the claim {terms.claim}"
            message += ", which this step still uses" if self._mounted else ""
        elif claim.lost:
            message = f"the lease of the claim {terms.claim} does not exist any more, so other steps may use the claim"
        else:
            reason = f": {claim.last_error}" if claim.last_error else ""
            message = f"the lease of the claim {terms.claim} was not renewed in time, so other steps may use it{reason}"
        claim.loss_message = message
        message += "; the step continues" if self._mounted else ""
        attempt.report_note(message)
        await attempt.recorder.record(
            LeaseLost(**attempt.event_fields, **claim.event_fields, message=message, holder=holder)
        )

    # --- deleting it -------------------------------------------------------------------------------------------

    async def _release(self, claim: _Claim, *, gone: bool) -> None:
        terms, expires = claim.terms, f"it expires {claim.terms.seconds} s after its last renewal"
        if not gone:
            await self._record_released(
                claim, f"a process of its pod may be alive, so the lease {terms.name} is not deleted: {expires}"
            )
            return
        given: Literal["back", "nothing"] | None = None
        with self._attempt.cleanup_scopes.scope(RELEASE_SECONDS):
            given = await self._delete(claim)
        if given == "back":
            await self._record_released(claim, "")
        elif given is None:
            reason = f" ({claim.last_error})" if claim.last_error else ""
            await self._record_released(claim, f"the lease {terms.name} could not be deleted{reason}: {expires}")

    async def _delete(self, claim: _Claim) -> Literal["back", "nothing"] | None:
        """Delete the lease, reading it first if it is not known, despite errors; the caller bounds the time.

        Returns `back` if it is deleted, `nothing` if another step holds it, None if `last_error` kept it from deletion.
        """
        clock, terms, failures = self._clock, claim.terms, 0
        lease = claim.holding.lease if claim.holding is not None else None
        unanswered = ""  # the uid of a lease whose deletion was not answered
        look_until = clock.monotonic() + (UNACKNOWLEDGED_SECONDS if lease is None else 0.0)
        while True:
            fraction = self._attempt.services.randomness.fraction()
            try:
                if lease is None:
                    lease = await self._cluster.read_lease(terms.namespace, terms.name)
                if lease is not None and lease.holder == terms.holder:
                    uid, version = lease.state
                    await self._cluster.delete_lease(terms.namespace, terms.name, uid=uid, version=version)
                    return "back"
                if unanswered and (lease is None or lease.metadata.uid != unanswered):
                    return "back"
                if clock.monotonic() >= look_until:
                    await self._record_loss_if_held(claim, lease)
                    return "nothing"
                lease, wait = None, DELETION_POLLS.first  # a write that was not answered may still take effect
            except Conflict:
                lease, wait = None, RELEASES.wait(failures, fraction=fraction)
            except ClusterError as error:
                claim.last_error, move = str(error), _classify_delete_error(error)
                if isinstance(move, GiveUp):
                    return None
                if lease is not None and move.may_exist:
                    unanswered = lease.metadata.uid
                wait = RELEASES.wait(failures, fraction=fraction, requested=move.delay)
                failures += 1
            await clock.sleep(wait)

    async def _record_loss_if_held(self, claim: _Claim, lease: Lease | None) -> None:
        """Record the loss of a lease that was held and turns out to be another's."""
        if claim.holding is not None:
            claim.lost = True
            await self._record_lost(claim, describe_holder(lease.holder) if lease is not None and lease.holder else "")

    async def _record_released(self, claim: _Claim, message: str) -> None:
        attempt, lease = self._attempt, claim.terms.name
        if message:
            attempt.report_note(message)
        await attempt.recorder.record(
            LeaseReleased(**attempt.event_fields, **claim.event_fields, lease=lease, freed=not message, message=message)
        )


def _expired_holder(move: Create | TakeOver) -> str:
    """The holder whose expired lease is taken over, "" if there is none."""
    return describe_holder(move.lease.holder) if isinstance(move, TakeOver) and move.lease.holder else ""


def _classify_delete_error(error: ClusterError) -> RetryCreate | GiveUp:
    """As `classify_create_error`, but a 401 is retried: the token may be rotating, and the lease would stay."""
    return RetryCreate(0.0, may_exist=False) if isinstance(error, Unauthorized) else classify_create_error(error)


def _refusal(claim: _Claim, error: ClusterError, failing: float | None) -> ClaimRefused:
    """The exception for a claim whose lease could not be acquired because of `error`.

    `failing`: for how many seconds other coordinators were faster; None if that is not the reason.
    """
    terms = claim.terms
    if failing is not None:
        message = (
            f"the lease {terms.name} of the claim {terms.claim} was free, but could not be acquired in "
            f"{failing:.0f} s: {error}"
        )
        return ClaimRefused(Infra(InfraKind.CLAIM, DidRun.NO, message=message))
    answer = infra_from_error(error)
    if isinstance(error, Forbidden):
        message = (
            f"{answer.message}. For the claim {terms.claim} the identity needs get, create, update and delete on "
            f"leases of coordination.k8s.io in the namespace {terms.namespace}."
        )
        answer = replace(answer, message=message)
    return ClaimRefused(answer)
