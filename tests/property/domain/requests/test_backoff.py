from __future__ import annotations

import itertools
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.domain.requests.backoff import Backoff, BackoffPolicy

START = 5000.0

fractions = st.floats(0, 1, exclude_max=True)
requests = st.floats(0, 1000)
failures = st.integers(0, 10_000)


@st.composite
def policies(draw: st.DrawFn, *, with_jitter: bool = True, bounded: bool = False) -> BackoffPolicy:
    first = draw(st.floats(0.001, 100))
    return BackoffPolicy(
        first=first,
        longest=draw(st.floats(first, 1000)),
        factor=draw(st.floats(1, 1000)),
        jitter=draw(st.floats(0, 1)) if with_jitter else 0.0,
        bound=draw(st.floats(0, 1000)) if bounded else float("inf"),
        tries=draw(st.integers(1, 20)) if bounded else float("inf"),
    )


@given(policies(), failures, fractions, requests)
def test_a_wait_is_never_negative_and_never_shorter_than_requested(
    policy: BackoffPolicy, count: int, fraction: float, requested: float
) -> None:
    """Whatever the jitter is, the next try does not come before the server wants it."""
    assert policy.wait(count, fraction=fraction) >= 0
    assert policy.wait(count, fraction=fraction, requested=requested) >= requested


@given(policies(), failures, fractions, requests)
def test_the_jitter_stays_within_its_part_of_the_wait(
    policy: BackoffPolicy, count: int, fraction: float, requested: float
) -> None:
    """The random part is at most `jitter` of the wait that the policy has without it."""
    full = BackoffPolicy(first=policy.first, longest=policy.longest, factor=policy.factor, jitter=0).wait(count)
    assert full * (1 - policy.jitter) <= policy.wait(count, fraction=fraction) <= full * (1 + 1e-9)
    added = policy.wait(count, fraction=fraction, requested=requested) - policy.wait(count, requested=requested)
    assert -1e-9 <= added <= full * policy.jitter + 1e-9


@given(policies(with_jitter=False), failures, failures)
def test_waits_without_jitter_grow_to_the_longest(policy: BackoffPolicy, some: int, others: int) -> None:
    """They begin with the first, are never shorter than an earlier one, and never longer than the longest."""
    earlier, later = policy.wait(min(some, others)), policy.wait(max(some, others))
    assert policy.wait(0) == policy.first <= earlier <= later <= policy.longest


@given(policies(bounded=True), st.lists(st.tuples(fractions, st.one_of(st.just(0.0), requests), st.floats(0, 50))))
def test_no_try_begins_after_the_bound(policy: BackoffPolicy, course: list[tuple[float, float, float]]) -> None:
    """Tries that take any time, and answers that request any delay: the waits stay inside the bound and the tries."""
    backoff, at = Backoff(policy, START), START
    for number, (fraction, requested, seconds) in enumerate(course, start=1):
        at += seconds
        wait = backoff.next_wait(at, fraction=fraction, requested=requested)
        left = START + policy.bound - at
        assert (wait is None) == (number >= policy.tries or left <= 0 or requested > left)
        if wait is None:
            return
        assert requested <= wait <= left
        at += wait
        assert at <= START + policy.bound + 1e-6


@given(policies(bounded=True), st.lists(fractions, min_size=50, max_size=50))
def test_requests_that_always_fail_come_to_an_end(policy: BackoffPolicy, course: list[float]) -> None:
    """The number of tries and the bound end them, and the last try within the bound is made at the bound."""
    moments = [START]
    backoff = Backoff(policy)
    for fraction in course:
        wait = backoff.next_wait(moments[-1], fraction=fraction)
        if wait is None:
            break
        moments.append(moments[-1] + wait)
    assert len(moments) <= policy.tries
    assert moments[-1] - START <= policy.bound + 1e-6
    assert all(earlier <= later for earlier, later in pairwise(moments))


def test_the_last_try_is_made_at_the_bound() -> None:
    """The wait that would pass the bound is cut to it; the failure after it is the last."""
    backoff = Backoff(BackoffPolicy(first=4, longest=8, jitter=0, bound=10), START)
    assert backoff.next_wait(START) == 4
    assert backoff.next_wait(START + 4) == 6
    assert backoff.next_wait(START + 10) is None


@pytest.mark.parametrize(("requested", "wait"), [(10.0, 10.0), (10.1, None)])
def test_a_requested_delay_is_kept_as_far_as_the_bound_goes(requested: float, wait: float | None) -> None:
    """A server that asks for more time than is left is not asked again."""
    assert Backoff(BackoffPolicy(first=4, longest=8, bound=10), START).next_wait(START, requested=requested) == wait


@given(policies(), st.integers(0, 100))
def test_a_success_begins_anew(policy: BackoffPolicy, count: int) -> None:
    """After a reset the waits begin with the first, and the bound begins with the next failure."""
    bounded = BackoffPolicy(first=policy.first, longest=policy.longest, factor=policy.factor, jitter=0, bound=5000)
    backoff = Backoff(bounded)
    for _ in range(count):
        backoff.next_wait(START)
    assert backoff.failures == count
    backoff.reset()
    assert backoff.next_wait(2 * START) == policy.first


@given(policies(), fractions)
def test_the_endless_waits_are_those_of_the_policy(policy: BackoffPolicy, fraction: float) -> None:
    """The waits of a poll are the waits after no failure, one failure, and so on."""
    waits = list(itertools.islice(policy.waits(lambda: fraction), 5))
    assert waits == [policy.wait(count, fraction=fraction) for count in range(5)]


@given(policies(bounded=True), st.floats(0, 100))
def test_the_time_that_passed_counts_from_the_beginning(policy: BackoffPolicy, later: float) -> None:
    """A bound that begins with its first failure has no time behind it before."""
    assert Backoff(policy, START).elapsed(START + later) == pytest.approx(later)
    fresh = Backoff(policy)
    assert fresh.elapsed(START) == 0
    fresh.next_wait(START, fraction=0)
    assert fresh.elapsed(START + later) == pytest.approx(later)
