"""Acquires the lease of one claim, waiting while another step holds it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from senro.app.pod.creation import TROUBLES
from senro.domain.claims.lease import describe_holder
from senro.domain.claims.lease_protocol import Create, LeaseObservation, Renew, TakeOver, Wait, next_move
from senro.domain.errors import AlreadyExists, ClusterError, Conflict, Forbidden
from senro.domain.requests.backoff import Backoff
from senro.domain.requests.idempotency import requested_delay
from senro.domain.run.events import LeaseAwaited
from senro.domain.verdict import DidRun, Infra, InfraKind
from senro.domain.verdict.creation import TROUBLE_SECONDS, RetryCreate, classify_create_error, infra_from_error

if TYPE_CHECKING:
    from senro.app.pod.claim_lease import ClaimLease

POLL_SECONDS = 2.0
"""Seconds between two polls of a lease that another step holds; a random part of a quarter is subtracted."""


class ClaimRefused(Exception):
    """A claim cannot be acquired. `answer` is the answer of the attempt, whose step did not run."""

    def __init__(self, answer: Infra) -> None:
        super().__init__(answer)
        self.answer = answer


async def acquire_lease(claim: ClaimLease, *, deadline: float, limit: float) -> None:
    """Acquire the lease by `deadline` on the monotonic clock. Raises `ClaimRefused`.

    `limit`: the seconds that all claims of the attempt may be awaited for, for the message.
    """
    clock, terms, began = claim.clock, claim.terms, claim.clock.monotonic()
    observation, awaited, previous, troubles = LeaseObservation(), "", "", Backoff(TROUBLES)
    phase = _Phase(claim)
    while True:
        try:
            move, observation = next_move(observation, await claim.read(), at=clock.monotonic(), holder=terms.holder)
            if not isinstance(move, Wait):
                if not isinstance(move, Renew):  # a renewal keeps the holder of the unanswered write before it
                    previous = _expired_holder(move)
                await claim.write(move)
                break
            troubles.reset()
            wait, holder = _poll_delay(claim, move), describe_holder(move.holder)
            phase.report(f", held by {holder}")
            if holder != awaited:
                awaited = holder
                await claim.attempt.recorder.record(LeaseAwaited(**claim.event_fields, holder=holder))
            reason = f"{holder} holds the lease {terms.name}"
        except ClusterError as error:
            wait, reason = _retry_wait(claim, error, troubles), str(error)
            if wait >= POLL_SECONDS:
                phase.report(f": {reason}")
        left = deadline - clock.monotonic()
        if left <= 0:
            message = (
                f"the claim {terms.claim} in {terms.namespace} was not free in {clock.monotonic() - began:.0f} s, and "
                f"a step waits for its claims at most {limit:g} s (max_lifetime): {reason}"
            )
            raise ClaimRefused(Infra(InfraKind.CLAIM, DidRun.NO, message=message))
        await clock.sleep(min(wait, left))
    await claim.record_acquired(clock.monotonic() - began, previous)


class _Phase:
    """Reports that the attempt waits for a claim, once for each reason."""

    def __init__(self, claim: ClaimLease) -> None:
        self._claim = claim
        self._reported = ""

    def report(self, detail: str) -> None:
        if detail != self._reported:
            self._claim.attempt.report_phase(f"waiting for the claim {self._claim.terms.claim}{detail}")
        self._reported = detail


def _expired_holder(move: Create | TakeOver) -> str:
    """The holder whose expired lease is taken over, "" if there is none."""
    return describe_holder(move.lease.holder) if isinstance(move, TakeOver) and move.lease.holder else ""


def _poll_delay(claim: ClaimLease, wait: Wait) -> float:
    part = 0.75 + claim.random_fraction() / 4
    return min(wait.seconds, part * min(POLL_SECONDS, claim.terms.seconds / 10))


def _retry_wait(claim: ClaimLease, error: ClusterError, troubles: Backoff) -> float:
    """Seconds before the next try after `error`. Raises `ClaimRefused` if a retry is useless or the bound is over.

    A longer delay that the apiserver requests is cut to the bound.
    """
    now, move = claim.clock.monotonic(), classify_create_error(error)
    late, failing = isinstance(error, AlreadyExists | Conflict), troubles.elapsed(now)
    if late or isinstance(move, RetryCreate):
        requested = min(requested_delay(error), TROUBLE_SECONDS - failing)
        wait = troubles.next_wait(now, fraction=claim.random_fraction(), requested=requested)
        if wait is not None:
            return wait
    raise _refusal(claim, error, failing if late else None)


def _refusal(claim: ClaimLease, error: ClusterError, failing: float | None) -> ClaimRefused:
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
