"""Who may hold a Lease, and when (docs/design/leases.md).

The times in a Lease are never compared with a clock, since its holder's wall clock may be wrong. A waiter measures, by
its own monotonic clock, how long the Lease has been in one state (uid and resourceVersion) since it first saw that
state.

Two coordinators whose clocks differ in speed by at most 5 % never both find `Holding.is_exclusive` true, whatever is
delayed, lost or repeated between them and the apiserver. The waiter counts a full duration from when it saw the last
renewal, and takes the Lease over at that resourceVersion; the holder counts nine tenths of a duration from when it sent
that renewal, which was earlier. A holder that is no longer exclusive may still write to the claim: the Lease is
unfenced (docs/design/leases.md#unfenced).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from senro.domain.claims.lease import Lease

RENEWALS: Final = 3
"""How often a Lease is renewed during its duration: two renewals may fail before anybody else can take it over."""

ANSWERED: Final = 6
"""A write is given up after the duration divided by this, so that three renewals fit into the exclusive time."""

EXCLUSIVE_FRACTION: Final = 0.9
"""The part of the duration for which a holder is exclusive. The rest is for clocks of different speed."""


@dataclass(frozen=True, slots=True)
class LeaseObservation:
    """The state in which a waiter last saw the Lease, and since when, by its monotonic clock."""

    state: tuple[str, str] = ("", "")
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Create:
    """Create the Lease. On 409 AlreadyExists, read it."""


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Replace `lease`, which nobody holds or which has expired, at its resourceVersion. On 409, read it."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class Renew:
    """Renew `lease`, which a write whose answer was lost made this attempt's, so that its time counts from now."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class Wait:
    """`holder` has the Lease, which expires after `seconds` without a renewal. Read it again."""

    holder: str
    seconds: float


Move = Create | TakeOver | Renew | Wait
"""What a coordinator that wants a Lease does next."""


def next_move(
    observation: LeaseObservation, lease: Lease | None, *, at: float, holder: str
) -> tuple[Move, LeaseObservation]:
    """What `holder` does about a Lease that it has just read, None if it does not exist, and what to remember.

    `at` is the monotonic time at which the response arrived. The holder's time began before its renewal was sent, so a
    full duration from `at` ends later.
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
    """A Lease that this attempt holds. `asked` is the monotonic time just before the latest write was sent."""

    lease: Lease
    asked: float

    @property
    def due(self) -> float:
        """When to renew it."""
        return self.asked + self.lease.seconds / RENEWALS

    @property
    def exclusive_until(self) -> float:
        """Until when nobody else can hold it."""
        return self.asked + EXCLUSIVE_FRACTION * self.lease.seconds

    def is_exclusive(self, at: float) -> bool:
        """Whether nobody else can hold it."""
        return at < self.exclusive_until


@dataclass(frozen=True, slots=True)
class Lost:
    """The attempt no longer holds the Lease and never writes it again. `holder` has it, empty if it is gone."""

    holder: str


def after_conflict(holding: Holding, lease: Lease | None, *, holder: str) -> Holding | Lost:
    """What a holding is after its renewal got a 409 and the Lease was read again.

    If this attempt still holds it, an earlier renewal took effect or another client changed the metadata: it is to be
    renewed in its new state, and stays exclusive as long as before.
    """
    if lease is None:
        return Lost("")
    same = lease.holder == holder and lease.metadata.uid == holding.lease.metadata.uid
    return replace(holding, lease=lease) if same else Lost(lease.holder)
