from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from senro.adapters.apiserver.watch import watch_pod
from senro.domain.errors import (
    ApiError,
    ClusterError,
    Conflict,
    ErrorResponse,
    Forbidden,
    ProtocolError,
    Rejected,
    Throttled,
    Unauthorized,
    Unavailable,
    Unreachable,
)
from senro.domain.kube.pod import Metadata, Pod
from senro.domain.requests.absence import CONFIRM_SECONDS, CREATE_LAG_SECONDS
from senro.domain.requests.poll_failures import FAILING_SECONDS, REFUSED_SECONDS
from senro.ports.pod_watch import PodWatch
from tests.lib.fakes.clock import FakeClock

pytestmark = pytest.mark.anyio

OPERATION = "read pod ci/a"


def pod(version: int, uid: str = "u-1") -> Pod:
    return Pod(metadata=Metadata(namespace="ci", name="a", uid=uid, resource_version=str(version)))


class FakePods:
    """Returns one answer after the other, the last one for ever, and records the time of each read."""

    def __init__(self, clock: FakeClock, *answers: Pod | ClusterError | None) -> None:
        self._clock = clock
        self._answers = list(answers)
        self.moments: list[float] = []

    async def read_pod(self, namespace: str, name: str) -> Pod | None:
        assert (namespace, name) == ("ci", "a")
        self.moments.append(self._clock.monotonic() - FakeClock().monotonic())
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, ClusterError):
            raise answer
        return answer

    async def create_pod(self, manifest: Mapping[str, Any]) -> Pod:
        raise NotImplementedError

    async def delete_pod(self, namespace: str, name: str, *, uid: str, grace_seconds: int | None = None) -> bool:
        raise NotImplementedError


def watch(clock: FakeClock, *answers: Pod | ClusterError | None) -> tuple[PodWatch, FakePods]:
    pods = FakePods(clock, *answers)
    return watch_pod(pods, "ci", "a", uid="u-1", clock=clock), pods


def pauses(pods: FakePods) -> list[float]:
    return [round(later - earlier, 3) for earlier, later in zip(pods.moments, pods.moments[1:], strict=False)]


async def test_poll_schedule() -> None:
    """The first poll comes at once, the next after 50 ms, and quiet polls slow down to one a second."""
    watched, pods = watch(FakeClock(auto=True), pod(1))
    for _ in range(12):
        assert await watched.next() == pod(1)
    assert pods.moments[0] == 0
    assert pauses(pods) == [0.05, 0.075, 0.112, 0.169, 0.253, 0.38, 0.57, 0.854, 1.0, 1.0, 1.0]


async def test_change_restarts_the_schedule() -> None:
    """After a change the polls are frequent again."""
    watched, pods = watch(FakeClock(auto=True), *[pod(1)] * 6, pod(2))
    for _ in range(9):
        await watched.next()
    assert pauses(pods) == [0.05, 0.075, 0.112, 0.169, 0.253, 0.38, 0.05, 0.075]


async def test_nudge_polls_at_once() -> None:
    """A nudge ends the pause, and the polls after it are frequent."""
    clock = FakeClock()
    watched, pods = watch(clock, pod(1))
    for _ in range(9):
        async with anyio.create_task_group() as group:
            group.start_soon(watched.next)
            await clock.advance(1)
    before = len(pods.moments)
    async with anyio.create_task_group() as group:
        group.start_soon(watched.next)
        await clock.advance(0.2)
        assert len(pods.moments) == before
        watched.nudge()
    assert len(pods.moments) == before + 1
    async with anyio.create_task_group() as group:
        group.start_soon(watched.next)
        await clock.advance(0.05)
    assert len(pods.moments) == before + 2
    assert clock.sleepers == 0


async def test_nudge_between_two_polls() -> None:
    """A nudge while nothing waits makes the next poll immediate."""
    clock = FakeClock()
    watched, pods = watch(clock, pod(1))
    await watched.next()
    watched.nudge()
    watched.nudge()
    await watched.next()
    assert pauses(pods) == [0]


@pytest.mark.parametrize("gone", [None, pod(1, uid="u-2")])
async def test_pod_is_gone(gone: Pod | None) -> None:
    """The pod is gone if there is none for some time, or if its name has another uid."""
    watched, _ = watch(FakeClock(auto=True), pod(1), *[gone] * 10)
    assert await watched.next() == pod(1)
    assert await watched.next() is None


TROUBLES: list[ClusterError] = [
    Unreachable(OPERATION, cause="refused", sent=False),
    Unavailable(OPERATION, ErrorResponse(code=503)),
    Throttled(OPERATION, ErrorResponse(code=429)),
    ProtocolError(OPERATION, rule="a Pod", got="a proxy's page"),
]


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda error: type(error).__name__)
async def test_failed_polls_are_ignored(trouble: ClusterError) -> None:
    """A failed poll does not end the watch."""
    watched, _ = watch(FakeClock(auto=True), trouble, trouble, pod(1), trouble, pod(2))
    assert await watched.next() == pod(1)
    assert await watched.next() == pod(2)


async def test_failures_end_the_watch_after_15_minutes() -> None:
    """The last error is raised; a success in between restarts the 15 minutes."""
    clock = FakeClock(auto=True)
    last = TROUBLES[0]
    watched, pods = watch(clock, *[last] * 500, pod(1), last)
    assert await watched.next() == pod(1)
    since = len(pods.moments)
    with pytest.raises(Unreachable) as caught:
        await watched.next()
    assert caught.value is last
    assert FAILING_SECONDS <= pods.moments[-1] - pods.moments[since] < FAILING_SECONDS + 2


async def test_requested_delay_is_kept() -> None:
    """A Retry-After is kept although it is beyond the adapter's retries; a nudge does not shorten it."""
    watched, pods = watch(
        FakeClock(auto=True), Unavailable(OPERATION, ErrorResponse(code=503, retry_after=120.0)), pod(1)
    )
    watched.nudge()
    assert await watched.next() == pod(1)
    assert pods.moments[-1] == pytest.approx(120.05)


REFUSALS: list[ApiError] = [
    Forbidden(OPERATION, ErrorResponse(code=403)),
    Unauthorized(OPERATION, ErrorResponse(code=401)),
    *(Rejected(OPERATION, ErrorResponse(code=code)) for code in (400, 408, 410, 418, 422)),
    Conflict(OPERATION, ErrorResponse(code=409)),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda error: str(error.response.code))
async def test_refused_polls_are_ignored(refusal: ApiError) -> None:
    """A single refusal by an apiserver or a load balancer does not end the watch."""
    watched, _ = watch(FakeClock(auto=True), refusal, refusal, pod(1), refusal, pod(2))
    assert await watched.next() == pod(1)
    assert await watched.next() == pod(2)


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda error: str(error.response.code))
async def test_refusals_end_the_watch_after_a_minute(refusal: ApiError) -> None:
    """The last refusal is raised; another failure in between restarts the minute."""
    watched, pods = watch(FakeClock(auto=True), *[refusal] * 20, TROUBLES[0], *[refusal] * 200)
    with pytest.raises(type(refusal)) as caught:
        await watched.next()
    assert caught.value is refusal
    assert REFUSED_SECONDS <= pods.moments[-1] - pods.moments[21] < REFUSED_SECONDS + 2


@pytest.mark.parametrize("count", [1, 2, 3])
async def test_404_after_the_create_is_ignored(count: int) -> None:
    """The first polls may reach an apiserver that lags behind the one that stored the pod."""
    watched, _ = watch(FakeClock(auto=True), *[None] * count, pod(1))
    assert await watched.next() == pod(1)


async def test_single_404_is_ignored() -> None:
    """One 404 between two polls that return the pod does not end the watch."""
    watched, _ = watch(FakeClock(auto=True), pod(1), None, pod(1), None, pod(2))
    assert [await watched.next() for _ in range(3)] == [pod(1), pod(1), pod(2)]


@pytest.mark.parametrize(("known", "seconds"), [(True, CONFIRM_SECONDS), (False, CREATE_LAG_SECONDS)])
async def test_404s_prove_that_the_pod_is_gone(known: bool, seconds: float) -> None:
    """The pod is gone after 404s for two seconds, for ten if no poll has returned it."""
    watched, pods = watch(FakeClock(auto=True), *([pod(1)] if known else []), *[None] * 50)
    if known:
        await watched.next()
    assert await watched.next() is None
    assert seconds <= pods.moments[-1] - pods.moments[1 if known else 0] < seconds + 2


async def test_failed_poll_between_404s_does_not_matter() -> None:
    """The 404s before and after a failed poll count together."""
    watched, _ = watch(FakeClock(auto=True), pod(1), None, TROUBLES[1], *[None] * 10)
    assert await watched.next() == pod(1)
    assert await watched.next() is None
