"""Who may have a lease, and when: the whole decision, over what was observed of it and one machine's own clock.

A lease's times are never compared with a clock: its holder's wall clock may be ten minutes off. What is compared is how
long it has been in one and the same state (uid, resourceVersion) on the clock of whoever waits, which begins to count
when that state is first seen.

What this guarantees: two coordinators whose clocks run alike, to five seconds in a hundred, never both find
`Holding.is_exclusive` true, whatever is delayed, lost or repeated between them and the apiserver. A waiter counts a
full duration from when it saw the last renewal, and takes the lease on that very resourceVersion; the holder stops
being exclusive after nine tenths of a duration from when it sent that renewal, which was before.

What it does not guarantee: that a holder which is not certain any more has stopped. Its pod may still write to the
claim, and nothing tells the storage to refuse it: the lease is unfenced (docs/design/leases.md#unfenced).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from senro.domain.claims.lease import Lease

RENEWALS: Final = 3
"""How often a lease is renewed in its duration: two may fail, and nobody else can take it."""

ANSWERED: Final = 6
"""A write is given up after its duration by this, so that three renewals fit in before a holder is not certain."""

EXCLUSIVE_FRACTION: Final = 0.9
"""The part of its duration for which a holder is certain. The rest is for clocks that do not run alike."""


@dataclass(frozen=True, slots=True)
class LeaseObservation:
    """What a waiter knows: the state in which it last saw the lease, and since when, on its own monotonic clock."""

    state: tuple[str, str] = ("", "")
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Create:
    """There is none: create it. 409 AlreadyExists says that another was faster; look again."""


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Replace `lease` on its resourceVersion: it was given back, or has expired. On 409 look again."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class Renew:
    """`lease` is ours already, by a write whose answer was lost: renew it, so that its time counts from now."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class Wait:
    """`holder` has it. Look again; after `seconds` without a renewal it has expired."""

    holder: str
    seconds: float


Move = Create | TakeOver | Renew | Wait
"""What a coordinator does that wants a lease."""


def next_move(
    observation: LeaseObservation, lease: Lease | None, *, at: float, holder: str
) -> tuple[Move, LeaseObservation]:
    """What `holder` does about a lease that it just read, None where there is none, and what to remember.

    `at` is the monotonic clock once the answer had come: counted from there, a full duration ends after the one that
    the holder counts, which began before its renewal was sent.
    """
    if lease is None:
        return Create(), LeaseObservation()
    if lease.holder == holder:
        return Renew(lease), LeaseObservation()
    if not lease.holder:
        return TakeOver(lease), LeaseObservation()
    seen = observation if observation.state == lease.state else LeaseObservation(lease.state, at)
    left = seen.since + lease.seconds - at
    return (Wait(lease.holder, left) if left > 0 else TakeOver(lease)), seen


@dataclass(frozen=True, slots=True)
class Holding:
    """A lease that is ours. `asked` is the monotonic clock just before the last write that made it so was sent."""

    lease: Lease
    asked: float

    @property
    def due(self) -> float:
        """When to renew it next."""
        return self.asked + self.lease.seconds / RENEWALS

    @property
    def exclusive_until(self) -> float:
        """Until when nobody else can have it."""
        return self.asked + EXCLUSIVE_FRACTION * self.lease.seconds

    def is_exclusive(self, at: float) -> bool:
        """Whether nobody else can have it."""
        return at < self.exclusive_until


@dataclass(frozen=True, slots=True)
class Lost:
    """It is not ours any more, and `holder`, empty where there is no lease left, has it. It is never written again."""

    holder: str


def after_conflict(holding: Holding, lease: Lease | None, *, holder: str) -> Holding | Lost:
    """What is left of a holding whose renewal was refused with 409, once the lease was read again.

    Ours in another state: a renewal of ours took effect whose answer was lost, or somebody else touched its metadata.
    It is to be renewed on the new state; what was certain before is not more certain by that.
    """
    if lease is None:
        return Lost("")
    same = lease.holder == holder and lease.metadata.uid == holding.lease.metadata.uid
    return replace(holding, lease=lease) if same else Lost(lease.holder)
