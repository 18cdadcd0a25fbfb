"""What to do when a transfer breaks: wait and open it again, count a try, or give it up.

Only what fails after the remote command has written something or has ended, or after bytes have crossed, counts as a
try. Before that nothing was moved: the handshake was refused, or a kubelet that restarts answered 101 and then an
internal error. Counted as tries, such failures would throw away a finished step in a second
(docs/design/transfers.md#refused-handshakes).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from senro.domain.errors import (
    Conflict,
    ErrorResponse,
    Forbidden,
    NotFound,
    ProtocolError,
    Rejected,
    StreamBroken,
    Throttled,
    TreeError,
    Unauthorized,
    Unavailable,
    Unreachable,
)
from senro.domain.requests.backoff import Backoff, BackoffPolicy

TRIES = 3
"""How often a transfer is tried while the pod lives (docs/design/transfers.md#tries-of-a-transfer)."""

PATIENCE_SECONDS = 900.0
"""Unbroken refusals of the handshake that are put down to an upgrade of the control plane
(docs/design/transfers.md#refused-handshakes)."""

BROKEN_TRIES = BackoffPolicy(first=0.2, longest=10.0, tries=TRIES)
"""The waits after a try that broke."""

REFUSED_OPENINGS = BackoffPolicy(first=0.2, longest=10.0, bound=PATIENCE_SECONDS)
"""The waits after an exec that was not opened."""

BROKEN_RULES = frozenset({"checksum", "end", "format", "pax", "torn", "truncated"})
"""The rules of a `TreeError` that say that an archive broke on its way."""

LOCAL_RULES = frozenset({"case", "changed", "destination", "io", "leftover", "unreadable"})
"""The rules that say that this machine's own folders failed. All other rules refuse the content that came."""


@dataclass(frozen=True, slots=True)
class RetryDecision:
    """`wait`: not a try, open it again after at least `after` seconds. `retry`: a try. `end`: no other try helps."""

    move: Literal["wait", "retry", "end"]
    after: float = 0.0


def decide_retry(error: Exception, *, begun: bool = True) -> RetryDecision:
    """The move after `error`, which ended one opening or one try of a transfer.

    `begun`: the remote command had written something, or had ended.
    """
    match error:
        case Throttled(response=response):
            return RetryDecision("wait", 1.0 if response.retry_after is None else response.retry_after)
        case Unavailable(response=response):
            return RetryDecision("wait", response.retry_after or 0.0)
        case Unreachable():
            return RetryDecision("wait")
        case NotFound() | Rejected(response=ErrorResponse(code=400)) if not begun:
            # A kubelet that catches up does not know the pod or the container yet; the caller looks at the pod.
            return RetryDecision("wait")
        case StreamBroken(sent=sent, received=received) if sent or received:
            return RetryDecision("retry")
        case NotFound() | Forbidden() | Unauthorized() | Rejected() | Conflict() | ProtocolError():
            return RetryDecision("end")
        case TreeError(rule=rule):
            return RetryDecision("retry" if rule in BROKEN_RULES else "end")
        case _:
            return RetryDecision("retry" if begun else "wait")


class TransferBackoff:
    """Counts the tries of one transfer, and computes the wait before each opening of its exec."""

    def __init__(self) -> None:
        self._broken_tries = Backoff(BROKEN_TRIES)
        self._refused_openings = Backoff(REFUSED_OPENINGS)

    @property
    def tries(self) -> int:
        """How many tries broke."""
        return self._broken_tries.failures

    def next_wait(self, decision: RetryDecision, at: float, fraction: float) -> float | None:
        """Seconds to wait before the next opening; None if there is none. Call it once for each failed opening.

        `at` is the coordinator's monotonic clock, `fraction` a random number from 0 up to but not including 1. A
        `retry` shows that the exec was opened, so it ends an unbroken refusal.
        """
        if decision.move == "end":
            return None
        if decision.move == "retry":
            self._refused_openings.reset()
            return self._broken_tries.next_wait(at, fraction=fraction, requested=decision.after)
        return self._refused_openings.next_wait(at, fraction=fraction, requested=decision.after)
