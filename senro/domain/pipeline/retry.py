"""When a step is tried again, and after how long. Standard library only: pipeline files make these values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from senro.domain.pipeline.durations import Duration, seconds
from senro.domain.requests.backoff import BackoffPolicy

RetryOn = Literal["infra", "failure", "any"]
"""What is repeated: what the cluster did to the step, what the step's own command did, or both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """A retry policy. Make one with `on_infra`, `on_failure` or `on_any`, which take timedeltas too; `build` refuses.

    `attempts` counts the first try too. `delay`, `max_delay` are seconds: before attempt n+1 the wait is
    `delay * factor ** (n - 1)`, at most `max_delay`, of which the upper half is jitter. `unsafe` repeats a step
    whose pod may still be alive on a node that has gone silent.
    """

    attempts: int
    on: RetryOn
    delay: float = 1.0
    factor: float = 2.0
    max_delay: float = 60.0
    unsafe: bool = False

    def delay_before(self, attempt: int, fraction: float) -> float:
        """Seconds to wait before `attempt` (2 for the first repetition); `fraction` in [0, 1) is the jitter.

        Half of the wait is fixed and half is drawn, so that steps that one event killed do not come back at once.
        """
        policy = BackoffPolicy(first=self.delay, longest=self.max_delay, factor=self.factor)
        return policy.wait(attempt - 2, fraction=fraction)


def on_infra(
    *, attempts: int, delay: Duration = 1.0, factor: float = 2.0, max_delay: Duration = 60.0, unsafe: bool = False
) -> Retry:
    """Repeat a step that the cluster failed: an eviction, a lost node, an image that could not be pulled.

    The command's own exit code is never a reason. With `unsafe`, a step on a node that went silent is repeated
    although its first pod may still be running.
    """
    return Retry(
        attempts=attempts, on="infra", delay=seconds(delay), factor=factor, max_delay=seconds(max_delay), unsafe=unsafe
    )


def on_failure(*, attempts: int, delay: Duration = 1.0, factor: float = 2.0, max_delay: Duration = 60.0) -> Retry:
    """Repeat a step whose command exited non-zero or ran into its timeout."""
    return Retry(attempts=attempts, on="failure", delay=seconds(delay), factor=factor, max_delay=seconds(max_delay))


def on_any(
    *, attempts: int, delay: Duration = 1.0, factor: float = 2.0, max_delay: Duration = 60.0, unsafe: bool = False
) -> Retry:
    """Repeat a step whatever failed it, except a cancellation."""
    return Retry(
        attempts=attempts, on="any", delay=seconds(delay), factor=factor, max_delay=seconds(max_delay), unsafe=unsafe
    )
