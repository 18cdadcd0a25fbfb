"""The claims that an attempt mounts: their leases are taken before its pod exists and given back when it is gone.

Between the two they are renewed, while the attempt runs and while its pod is put away. A lease that is lost is reported
and left alone. Before there is a pod it ends the attempt; a pod that has the claim goes on, since nothing takes it away
(docs/claims.md).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import anyio

from senro.domain.attempt import claimed, pod_target
from senro.domain.creation import TROUBLE_SECONDS, Final, after_refusal, refused
from senro.domain.errors import AlreadyExists, ClusterError, Conflict, Forbidden, NotFound
from senro.domain.events import LeaseAcquired, LeaseAwaited, LeaseLost, LeaseReleased
from senro.domain.lease import Lease, Terms, told
from senro.domain.leasing import (
    Create,
    Holding,
    Lost,
    Renew,
    Sighting,
    TakeOver,
    Wait,
    after_conflict,
    next_move,
)
from senro.domain.verdict import DidRun, Infra, InfraKind

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from senro.app.attempt import Attempt
    from senro.app.services import ClusterServices

LOOK_SECONDS = 2.0
"""Seconds between two looks at a lease that somebody else holds, less a part of it by chance."""

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0
"""Seconds between repetitions through troubles of the control plane; each pause is twice the one before."""

RELEASE_SECONDS = 15.0
"""How long the giving back of a lease is tried; it expires by itself."""


class ClaimRefused(Exception):
    """A claim cannot be had; `answer` is what the step came to, which did not run."""

    def __init__(self, answer: Infra) -> None:
        super().__init__(answer)
        self.answer = answer


@dataclass(slots=True)
class _Claim:
    """One claim of the attempt.

    `asked`: a write was sent that may have made its lease ours. `lapsed`: it was not renewed in time, and nobody is
    known to have it. `lost`: somebody else has it, or had. `words`: what the cluster said last when it refused. `why`:
    how it was lost.
    """

    terms: Terms
    holding: Holding | None = None
    asked: bool = False
    lapsed: bool = False
    lost: bool = False
    words: str = ""
    why: str = ""
    renewed: anyio.Event = field(default_factory=anyio.Event)

    def hold(self, lease: Lease, asked: float) -> None:
        """It is ours, by a write that was sent at `asked`."""
        self.holding, self.why = Holding(lease, asked), ""
        self.renewed.set()
        self.renewed = anyio.Event()


class Claims:
    """The leases of one attempt's claims. `acquire` once, inside `renewed`; `release` once, on every path.

    Set `in_use` once there is a pod that mounts them: it is true until the end of that `renewed`, while its step goes
    on whatever becomes of the leases.
    """

    def __init__(self, attempt: Attempt, services: ClusterServices) -> None:
        self._attempt = attempt
        self._cluster = services.cluster
        self._clock = attempt.services.clock
        target = pod_target(attempt.step)
        self._limit = target.max_lifetime
        # In one order for everybody: two steps that want the same two never wait for each other.
        self._claims = [
            _Claim(Terms(target.namespace or "", mount.name, claim, attempt.identity, services.lease_seconds))
            for mount, claim in sorted(claimed(attempt.step), key=lambda one: one[0].name)
        ]
        self._group: TaskGroup | None = None
        self.in_use = False

    @property
    def lost(self) -> bool:
        """Whether another step may have a claim of this one."""
        return any(claim.lost or claim.lapsed for claim in self._claims)

    @asynccontextmanager
    async def renewed(self) -> AsyncIterator[None]:
        """Renew what is held, and what comes to be, while the context is open."""
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
                self._group, self.in_use = None, False
            group.cancel_scope.cancel()

    async def acquire(self) -> None:
        """Wait until all claims' leases are ours. Raises `ClaimRefused`; what was had by then is kept until `release`.

        It is like a place in a queue, so the wait is bounded by the target's `max_lifetime`, as a step is.
        """
        began = self._clock.monotonic()
        for claim in self._claims:
            await self._acquire(claim, began)
            self._start(claim)
        self.check()

    def check(self) -> None:
        """Raise `ClaimRefused` where another may have a claim by now; ask just before the pod's create is sent."""
        now = self._clock.monotonic()
        for claim in self._claims:
            if claim.lost or claim.holding is None or not claim.holding.certain(now):
                why = claim.why or f"the lease of the claim {claim.terms.claim} could not be renewed in time"
                raise ClaimRefused(Infra(InfraKind.CLAIM, DidRun.NO, message=f"no pod was made: {why}"))

    async def release(self, *, gone: bool) -> None:
        """Give back what is held; not `gone`: a process of the pod may be alive, so let it expire, and say so."""
        for claim in self._claims:
            if claim.asked and not claim.lost:
                await self._release(claim, gone=gone)

    def _start(self, claim: _Claim) -> None:
        if self._group is not None and claim.holding is not None and not claim.lost:
            self._group.start_soon(self._renew, claim)
            self._group.start_soon(self._watch, claim)

    # --- taking a lease ----------------------------------------------------------------------------------------

    async def _acquire(self, claim: _Claim, began: float) -> None:
        clock, terms = self._clock, claim.terms
        sighting, awaited, previous, pause = Sighting(), "", "", FIRST_PAUSE
        trouble_since: float | None = None
        while claim.holding is None:
            try:
                lease = await self._cluster.read_lease(terms.namespace, terms.name)
                move, sighting = next_move(sighting, lease, at=clock.monotonic(), holder=terms.holder)
                if isinstance(move, Wait):
                    trouble_since, pause = None, FIRST_PAUSE
                    awaited = await self._await(claim, move, awaited, began)
                else:
                    previous = await self._take(claim, move) or previous
            except (AlreadyExists, Conflict):
                await clock.sleep(FIRST_PAUSE * self._attempt.services.chance.fraction())
            except ClusterError as error:
                at = clock.monotonic()
                trouble_since = at if trouble_since is None else trouble_since
                await clock.sleep(max(pause, _least_wait(claim, error, at - trouble_since)))
                pause = min(pause * 2, LONGEST_PAUSE)
        await self._acquired(claim, clock.monotonic() - began, previous)

    async def _await(self, claim: _Claim, wait: Wait, awaited: str, began: float) -> str:
        """Tell whom it waits for, and let some time pass; the holder that was told."""
        terms, attempt = claim.terms, self._attempt
        holder = told(wait.holder)
        if self._clock.monotonic() - began >= self._limit:
            message = (
                f"the claim {terms.claim} in {terms.namespace} was not free in {self._limit:g} s (max_lifetime): "
                f"{holder} holds it now, by the lease {terms.name}"
            )
            raise ClaimRefused(Infra(InfraKind.CLAIM, DidRun.NO, message=message))
        if holder != awaited:
            attempt.phase(f"waiting for the claim {terms.claim}, held by {holder}")
            await attempt.recorder.record(
                LeaseAwaited(
                    at=attempt.recorder.now(),
                    step=attempt.step.id,
                    attempt=attempt.identity.attempt,
                    workspace=terms.workspace,
                    claim=terms.claim,
                    holder=holder,
                )
            )
        part = 0.75 + attempt.services.chance.fraction() / 4
        await self._clock.sleep(min(wait.seconds, part * min(LOOK_SECONDS, terms.seconds / 10)))
        return holder

    async def _take(self, claim: _Claim, move: Create | TakeOver | Renew) -> str:
        """Write the lease; the holder whose lease had expired, where there was one."""
        asked, now, terms = self._clock.monotonic(), self._attempt.services.clock.now(), claim.terms
        claim.asked = True
        if isinstance(move, Create):
            claim.hold(await self._cluster.create_lease(terms.created(now)), asked)
            return ""
        before = move.lease
        manifest = terms.taken(before, now) if isinstance(move, TakeOver) else terms.renewed(before, now)
        try:
            claim.hold(await self._cluster.replace_lease(manifest), asked)
        except NotFound:
            return ""  # it was given back between the look and the write
        return told(before.holder) if isinstance(move, TakeOver) and before.holder else ""

    async def _acquired(self, claim: _Claim, waited: float, previous: str) -> None:
        attempt, terms = self._attempt, claim.terms
        await attempt.recorder.record(
            LeaseAcquired(
                at=attempt.recorder.now(),
                step=attempt.step.id,
                attempt=attempt.identity.attempt,
                workspace=terms.workspace,
                claim=terms.claim,
                lease=terms.name,
                waited=round(waited, 3),
                previous=previous,
            )
        )

    # --- keeping it --------------------------------------------------------------------------------------------

    async def _renew(self, claim: _Claim) -> None:
        """Renew it whenever that is due, through every trouble, until it is lost."""
        pause = FIRST_PAUSE
        while claim.holding is not None and not claim.lost:
            await self._clock.sleep(max(0.0, claim.holding.due - self._clock.monotonic()))
            try:
                await self._renew_once(claim, claim.holding)
            except ClusterError as error:
                claim.words = str(error)
                await self._clock.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                pause = FIRST_PAUSE

    async def _renew_once(self, claim: _Claim, holding: Holding) -> None:
        asked, terms = self._clock.monotonic(), claim.terms
        try:
            lease = await self._cluster.replace_lease(terms.renewed(holding.lease, self._attempt.services.clock.now()))
        except (Conflict, NotFound):
            found = await self._cluster.read_lease(terms.namespace, terms.name)
            left = after_conflict(holding, found, holder=terms.holder)
            if isinstance(left, Lost):
                claim.lost = True
                await self._tell_lost(claim, told(left.holder) if left.holder else "")
            else:
                claim.holding = left
            return
        claim.hold(lease, asked)
        if claim.lapsed:
            claim.lapsed = False
            await self._acquired(claim, 0.0, told(terms.holder))

    async def _watch(self, claim: _Claim) -> None:
        """Say so once it is not certain any more, also while a request for its renewal hangs."""
        while claim.holding is not None and not claim.lost:
            left = claim.holding.certain_until - self._clock.monotonic()
            if left > 0:
                await self._clock.sleep(left)
                continue
            if not claim.lapsed:
                claim.lapsed = True
                await self._tell_lost(claim, "")
            await claim.renewed.wait()

    async def _tell_lost(self, claim: _Claim, holder: str) -> None:
        attempt, terms = self._attempt, claim.terms
        if holder:
            message = f"{holder} has taken the claim {terms.claim} over"
            message += " while this step has it too" if self.in_use else ""
        elif claim.lost:
            message = f"the lease of the claim {terms.claim} is gone, so that others may take it"
        else:
            said = f": {claim.words}" if claim.words else ""
            message = f"the lease of the claim {terms.claim} could not be renewed, so that others may take it{said}"
        claim.why = message
        message += "; the step goes on" if self.in_use else ""
        attempt.tell(message)
        await attempt.recorder.record(
            LeaseLost(
                at=attempt.recorder.now(),
                step=attempt.step.id,
                attempt=attempt.identity.attempt,
                workspace=terms.workspace,
                claim=terms.claim,
                message=message,
                holder=holder,
            )
        )

    # --- giving it back ----------------------------------------------------------------------------------------

    async def _release(self, claim: _Claim, *, gone: bool) -> None:
        terms, expires = claim.terms, f"it expires {claim.terms.seconds} s after its last renewal"
        if not gone:
            await self._released(
                claim, f"a process of its pod may be alive, so the lease {terms.name} is not deleted: {expires}"
            )
            return
        given = _Given()
        with self._attempt.clean_ups.scope(RELEASE_SECONDS):
            await self._give_back(claim, given)
        if given.back:
            await self._released(claim, "")
        elif not given.nothing:
            said = f" ({claim.words})" if claim.words else ""
            await self._released(claim, f"the lease {terms.name} could not be deleted{said}: {expires}")

    async def _give_back(self, claim: _Claim, given: _Given) -> None:
        """Delete it as it is known to be, else as it is found to be, through troubles; the caller bounds it."""
        terms, pause = claim.terms, FIRST_PAUSE
        lease = claim.holding.lease if claim.holding is not None else None
        while True:
            try:
                if lease is None:
                    lease = await self._cluster.read_lease(terms.namespace, terms.name)
                    if lease is None or lease.holder != terms.holder:
                        given.nothing = True
                        await self._tell_taken(claim, lease)
                        return
                uid, version = lease.state
                await self._cluster.delete_lease(terms.namespace, terms.name, uid=uid, version=version)
            except Conflict:
                lease = None
            except ClusterError as error:
                claim.words = str(error)
                if isinstance(after_refusal(error), Final):
                    return
                await self._clock.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                given.back = True
                return

    async def _tell_taken(self, claim: _Claim, lease: Lease | None) -> None:
        """It was ours, and is found to be somebody else's only now."""
        if claim.holding is not None:
            claim.lost = True
            await self._tell_lost(claim, told(lease.holder) if lease is not None and lease.holder else "")

    async def _released(self, claim: _Claim, message: str) -> None:
        attempt, terms = self._attempt, claim.terms
        if message:
            attempt.tell(message)
        await attempt.recorder.record(
            LeaseReleased(
                at=attempt.recorder.now(),
                step=attempt.step.id,
                attempt=attempt.identity.attempt,
                workspace=terms.workspace,
                claim=terms.claim,
                lease=terms.name,
                freed=not message,
                message=message,
            )
        )


@dataclass(slots=True)
class _Given:
    """What the giving back of a lease came to; one that is cut off by its bound leaves it as it was."""

    back: bool = False
    nothing: bool = False


def _least_wait(claim: _Claim, error: ClusterError, seconds: float) -> float:
    """Seconds to wait at least before asking again. Raises where that is useless, or has been for long enough."""
    move = after_refusal(error)
    if not isinstance(move, Final) and seconds < TROUBLE_SECONDS:
        return move.after
    answer, terms = refused(error), claim.terms
    if isinstance(error, Forbidden):
        message = (
            f"{answer.message}. For the claim {terms.claim} the identity needs get, create, update and delete on "
            f"leases of coordination.k8s.io in the namespace {terms.namespace}."
        )
        answer = replace(answer, message=message)
    raise ClaimRefused(answer)
