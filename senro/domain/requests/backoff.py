"""How long to wait between the tries of a request, and when to stop trying.

Every repetition in senro uses this policy. Times and random numbers are arguments; nothing here sleeps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_LARGEST_EXPONENT = 64
"""A larger one would overflow a float, long after every `longest` was reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackoffPolicy:
    """The waits between the tries of one request. All times are seconds.

    first: the wait after the first failure.
    longest: the limit of the growth. A delay that the server requests may be longer.
    factor: each wait is this many times the one before.
    jitter: the random part of a wait, from 0 to 1. It keeps clients that one event has stopped from returning together.
    bound: how long tries go on. The last one begins at the bound at the latest.
    tries: how many tries there are at most.
    """

    first: float
    longest: float
    factor: float = 2.0
    jitter: float = 0.5
    bound: float = math.inf
    tries: float = math.inf

    def wait(self, failures: int, *, fraction: float = 0.0, requested: float = 0.0) -> float:
        """The wait after a failure that `failures` others precede.

        `fraction`: a random number from 0 up to but not including 1.
        `requested`: the least wait that the server asks for, as in Retry-After. The random part is added to it.
        """
        full = min(self.longest, self.first * self.factor ** min(failures, _LARGEST_EXPONENT))
        return max(full * (1 - self.jitter), requested) + full * self.jitter * fraction

    def waits(self, fraction: Callable[[], float] = lambda: 0.0) -> Iterator[float]:
        """Yields the wait after each failure, or each poll, without an end. `fraction` is called for each of them."""
        failures = 0
        while True:
            yield self.wait(failures, fraction=fraction())
            failures += 1


class Backoff:
    """The failures of one request so far, and the wait before its next try.

    `failures`: how many there were since the beginning or the last `reset`.
    """

    def __init__(self, policy: BackoffPolicy, began: float | None = None) -> None:
        """`began`: the start of the policy's bound, on the clock of `next_wait`; None for the first failure."""
        self._policy = policy
        self._began = began
        self.failures = 0

    def next_wait(self, at: float, *, fraction: float = 0.0, requested: float = 0.0) -> float | None:
        """Count a failure at `at` on a monotonic clock, and return the seconds to wait before the next try.

        None if there is none: the tries or the bound are used up, or `requested` reaches beyond the bound. The wait is
        cut to the bound. See `BackoffPolicy.wait` for the other arguments.
        """
        self._began = at if self._began is None else self._began
        left = self._began + self._policy.bound - at
        wait = self._policy.wait(self.failures, fraction=fraction, requested=requested)
        self.failures += 1
        if self.failures >= self._policy.tries or left <= 0 or requested > left:
            return None
        return min(wait, left)

    def elapsed(self, at: float) -> float:
        """Seconds since the beginning; 0 before the first failure of a bound that begins with it."""
        return 0.0 if self._began is None else at - self._began

    def reset(self) -> None:
        """Begin again after a success: with the first wait, and with the whole bound from the next failure on."""
        self.failures, self._began = 0, None
