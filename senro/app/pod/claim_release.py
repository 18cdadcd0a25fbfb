"""Releases the lease of one claim by deleting it, or leaves it to expire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from senro.app.pod.deletion import DELETION_POLLS, UNACKNOWLEDGED_SECONDS
from senro.domain.errors import ClusterError, Conflict, Unauthorized
from senro.domain.requests.backoff import BackoffPolicy
from senro.domain.run.events import LeaseReleased
from senro.domain.verdict.creation import GiveUp, RetryCreate, classify_create_error

if TYPE_CHECKING:
    from senro.app.pod.claim_lease import ClaimLease

RELEASE_SECONDS = 15.0
"""How long the deletion of a lease is tried; it expires by itself."""

RELEASES = BackoffPolicy(first=0.2, longest=5.0)
"""The waits after deletions that fail."""


async def release_lease(claim: ClaimLease, *, gone: bool) -> None:
    """Delete the lease. Leaves it to expire if not `gone`: a process of the pod may be alive."""
    terms, expires = claim.terms, f"it expires {claim.terms.seconds} s after its last renewal"
    if not gone:
        message = f"a process of its pod may be alive, so the lease {terms.name} is not deleted: {expires}"
        await _record_released(claim, message)
        return
    result: Literal["deleted", "not held"] | None = None
    with claim.attempt.cleanup_scopes.scope(RELEASE_SECONDS):
        result = await _delete(claim)
    if result == "deleted":
        await _record_released(claim, "")
    elif result is None:
        reason = f" ({claim.last_error})" if claim.last_error else ""
        await _record_released(claim, f"the lease {terms.name} could not be deleted{reason}: {expires}")


async def _delete(claim: ClaimLease) -> Literal["deleted", "not held"] | None:
    """Delete the lease, reading it first if it is not known, despite errors; the caller bounds the time.

    Returns None if `claim.last_error` kept it from being deleted.
    """
    clock, terms, failures = claim.clock, claim.terms, 0
    lease = claim.holding.lease if claim.holding is not None else None
    unanswered = ""  # the uid of a lease whose deletion was not answered
    look_until = clock.monotonic() + (UNACKNOWLEDGED_SECONDS if lease is None else 0.0)
    while True:
        fraction = claim.random_fraction()
        try:
            if lease is None:
                lease = await claim.read()
            if lease is not None and lease.holder == terms.holder:
                uid, version = lease.state
                await claim.cluster.delete_lease(terms.namespace, terms.name, uid=uid, version=version)
                return "deleted"
            if unanswered and (lease is None or lease.metadata.uid != unanswered):
                return "deleted"
            if clock.monotonic() >= look_until:
                await claim.lose(lease.holder if lease is not None else "")
                return "not held"
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


async def _record_released(claim: ClaimLease, message: str) -> None:
    """Record the end of the lease. `message`: why it was not deleted, empty if it was."""
    if message:
        claim.attempt.report_note(message)
    await claim.attempt.recorder.record(
        LeaseReleased(**claim.event_fields, lease=claim.terms.name, freed=not message, message=message)
    )


def _classify_delete_error(error: ClusterError) -> RetryCreate | GiveUp:
    """As `classify_create_error`, but a 401 is retried: the token may be rotating, and the lease would stay."""
    return RetryCreate(0.0, may_exist=False) if isinstance(error, Unauthorized) else classify_create_error(error)
