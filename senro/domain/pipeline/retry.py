"""When a step is repeated, and after how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from senro.domain.pipeline.durations import Duration, seconds
from senro.domain.requests.backoff import BackoffPolicy

RetryOn = Literal["infra", "failure", "any"]
"""What is repeated: failures of the cluster, failures of the command, or both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """A retry policy. Make one with `on_infra`, `on_failure` or `on_any`, which accept timedeltas too.

    Before attempt n+1 senro waits `delay * factor ** (n - 1)` seconds, at most `max_delay`; half of it is random.

    `attempts`: how often the step runs at most.
    `on`: what is repeated.
    `delay`, `factor`, `max_delay`: the wait, in seconds.
    `unsafe`: whether a step is repeated although its process may still run on a node that does not report.
    """

    attempts: int
    on: RetryOn
    delay: float = 1.0
    factor: float = 2.0
    max_delay: float = 60.0
    unsafe: bool = False

    def delay_before(self, attempt: int, fraction: float) -> float:
        """Seconds to wait before `attempt` (2 for the first repetition); `fraction` is a random number in [0, 1).

        The random half keeps steps that one event failed from starting again together.
        """
        policy = BackoffPolicy(first=self.delay, longest=self.max_delay, factor=self.factor)
        return policy.wait(attempt - 2, fraction=fraction)


def on_infra(
    *, attempts: int, delay: Duration = 1.0, factor: float = 2.0, max_delay: Duration = 60.0, unsafe: bool = False
) -> Retry:
    """Repeats a step that the cluster failed: an eviction, a lost node, an image that could not be pulled.

    An exit code of the command is no such failure. With `unsafe`, a step is repeated although the process of its first
    pod may still run on a node that does not report.
    """
    return Retry(
        attempts=attempts, on="infra", delay=seconds(delay), factor=factor, max_delay=seconds(max_delay), unsafe=unsafe
    )


def on_failure(*, attempts: int, delay: Duration = 1.0, factor: float = 2.0, max_delay: Duration = 60.0) -> Retry:
    """Repeats a step whose command exited with another code than 0, or exceeded its timeout."""
    return Retry(attempts=attempts, on="failure", delay=seconds(delay), factor=factor, max_delay=seconds(max_delay))


def on_any(
    *, attempts: int, delay: Duration = 1.0, factor: float = 2.0, max_delay: Duration = 60.0, unsafe: bool = False
) -> Retry:
    """Repeats a step after any failure. A cancellation is none."""
    return Retry(
        attempts=attempts, on="any", delay=seconds(delay), factor=factor, max_delay=seconds(max_delay), unsafe=unsafe
    )
