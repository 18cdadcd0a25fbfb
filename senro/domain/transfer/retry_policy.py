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

TRIES = 3
"""How often a transfer is tried while the pod lives (docs/design/transfers.md#tries-of-a-transfer)."""

PATIENCE_SECONDS = 900.0
"""Unbroken refusals of the handshake that are put down to an upgrade of the control plane
(docs/design/transfers.md#refused-handshakes)."""

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0
"""Seconds between two openings; each pause is twice the one before."""

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
    """Counts the tries of one transfer and paces its openings, in the coordinator's monotonic seconds."""

    def __init__(self) -> None:
        self.tries = 0
        self._pause = FIRST_PAUSE
        self._waiting_since: float | None = None

    def pause(self, taken: RetryDecision, at: float) -> float | None:
        """Seconds to wait before the next opening, at `at`; None where there is none.

        Ask once for each opening that failed. A `retry` counts and ends an unbroken wait.
        """
        if taken.move == "end":
            return None
        if taken.move == "retry":
            self.tries += 1
            self._waiting_since = None
            if self.tries >= TRIES:
                return None
        elif self._waiting_since is None:
            self._waiting_since = at
        elif at - self._waiting_since >= PATIENCE_SECONDS:
            return None
        wait = max(self._pause, taken.after)
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
        return wait
