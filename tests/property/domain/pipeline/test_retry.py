from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.domain.pipeline import retry
from senro.domain.pipeline.retry import Retry


@given(
    st.integers(2, 1000),
    st.floats(0, 1e9),
    st.floats(1, 1000),
    st.floats(0, 1e9),
    st.floats(0, 1, exclude_max=True),
)
def test_the_bounds_of_a_wait(attempt: int, delay: float, factor: float, longest: float, fraction: float) -> None:
    """Every wait of a valid policy is finite, between half of its limit and the limit."""
    wait = Retry(attempts=1000, on="any", delay=delay, factor=factor, max_delay=longest).delay_before(attempt, fraction)
    assert math.isfinite(wait)
    assert min(delay, longest) / 2 <= wait <= longest


def test_waits_double() -> None:
    """Without the random part they are half of 1, 2, 4, ... seconds, at most half of max_delay."""
    policy = retry.on_infra(attempts=9, max_delay=10)
    assert [policy.delay_before(attempt, 0) for attempt in range(2, 8)] == [0.5, 1, 2, 4, 5, 5]
    assert policy.delay_before(2, 0.5) == 0.75


@pytest.mark.parametrize(
    ("policy", "on"),
    [
        (retry.on_infra(attempts=3), "infra"),
        (retry.on_failure(attempts=3), "failure"),
        (retry.on_any(attempts=3, unsafe=True), "any"),
    ],
)
def test_a_policy_says_what_it_repeats(policy: Retry, on: str) -> None:
    """Each function makes the policy of its name."""
    assert policy.on == on
    assert policy.attempts == 3
    assert policy.unsafe == (on == "any")
