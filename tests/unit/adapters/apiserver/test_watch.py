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

ASKED = "read pod ci/a"


def pod(version: int, uid: str = "u-1") -> Pod:
    return Pod(metadata=Metadata(namespace="ci", name="a", uid=uid, resource_version=str(version)))


class FakePods:
    """Gives one answer after the other, the last one for ever, and notes when it was asked."""

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


async def test_gentle() -> None:
    """The first look is at once, then after 50 ms; quiet polls back off to a second."""
    watched, pods = watch(FakeClock(auto=True), pod(1))
    for _ in range(12):
        assert await watched.next() == pod(1)
    assert pods.moments[0] == 0
    assert pauses(pods) == [0.05, 0.075, 0.112, 0.169, 0.253, 0.38, 0.57, 0.854, 1.0, 1.0, 1.0]


async def test_a_change_brings_changes() -> None:
    """After a change the polls are close together again."""
    watched, pods = watch(FakeClock(auto=True), *[pod(1)] * 6, pod(2))
    for _ in range(9):
        await watched.next()
    assert pauses(pods) == [0.05, 0.075, 0.112, 0.169, 0.253, 0.38, 0.05, 0.075]


async def test_nudge() -> None:
    """A nudge ends the pause at once, and the polls after it are close together."""
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


async def test_a_nudge_between_two_looks() -> None:
    """A nudge that comes while nobody waits makes the next look an immediate one."""
    clock = FakeClock()
    watched, pods = watch(clock, pod(1))
    await watched.next()
    watched.nudge()
    watched.nudge()
    await watched.next()
    assert pauses(pods) == [0]


@pytest.mark.parametrize("gone", [None, pod(1, uid="u-2")])
async def test_gone(gone: Pod | None) -> None:
    """No pod, or another one under its name: ours is gone."""
    watched, _ = watch(FakeClock(auto=True), pod(1), *[gone] * 10)
    assert await watched.next() == pod(1)
    assert await watched.next() is None


TROUBLES: list[ClusterError] = [
    Unreachable(ASKED, cause="refused", sent=False),
    Unavailable(ASKED, ErrorResponse(code=503)),
    Throttled(ASKED, ErrorResponse(code=429)),
    ProtocolError(ASKED, rule="a Pod", got="a proxy's page"),
]


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda error: type(error).__name__)
async def test_troubles_that_pass(trouble: ClusterError) -> None:
    """A failing poll is not a failing step: whatever may pass is waited for, with patience."""
    watched, _ = watch(FakeClock(auto=True), trouble, trouble, pod(1), trouble, pod(2))
    assert await watched.next() == pod(1)
    assert await watched.next() == pod(2)


async def test_the_end_of_patience() -> None:
    """After 15 minutes of unbroken failure the last error is told; one answer in between starts them anew."""
    clock = FakeClock(auto=True)
    last = TROUBLES[0]
    watched, pods = watch(clock, *[last] * 500, pod(1), last)
    assert await watched.next() == pod(1)
    since = len(pods.moments)
    with pytest.raises(Unreachable) as caught:
        await watched.next()
    assert caught.value is last
    assert FAILING_SECONDS <= pods.moments[-1] - pods.moments[since] < FAILING_SECONDS + 2


async def test_a_poll_waits_for_the_delay_that_the_apiserver_requests() -> None:
    """A Retry-After is kept also where it is longer than the adapter repeats a request; a nudge does not shorten it."""
    watched, pods = watch(FakeClock(auto=True), Unavailable(ASKED, ErrorResponse(code=503, retry_after=120.0)), pod(1))
    watched.nudge()
    assert await watched.next() == pod(1)
    assert pods.moments[-1] == pytest.approx(120.05)


REFUSALS: list[ApiError] = [
    Forbidden(ASKED, ErrorResponse(code=403)),
    Unauthorized(ASKED, ErrorResponse(code=401)),
    *(Rejected(ASKED, ErrorResponse(code=code)) for code in (400, 408, 410, 418, 422)),
    Conflict(ASKED, ErrorResponse(code=409)),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda error: str(error.response.code))
async def test_one_refusal_of_a_poll_ends_nothing(refusal: ApiError) -> None:
    """Whatever an apiserver or a balancer refuses once, the next poll shows the pod."""
    watched, _ = watch(FakeClock(auto=True), refusal, refusal, pod(1), refusal, pod(2))
    assert await watched.next() == pod(1)
    assert await watched.next() == pod(2)


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda error: str(error.response.code))
async def test_a_refusal_that_stays_for_a_minute_is_raised(refusal: ApiError) -> None:
    """A refusal of every poll for a minute is raised; an outage in between starts that minute anew."""
    watched, pods = watch(FakeClock(auto=True), *[refusal] * 20, TROUBLES[0], *[refusal] * 200)
    with pytest.raises(type(refusal)) as caught:
        await watched.next()
    assert caught.value is refusal
    assert REFUSED_SECONDS <= pods.moments[-1] - pods.moments[21] < REFUSED_SECONDS + 2


@pytest.mark.parametrize("count", [1, 2, 3])
async def test_a_404_right_after_the_create_is_not_believed(count: int) -> None:
    """The first polls may reach an apiserver that lags behind the one which stored the pod."""
    watched, _ = watch(FakeClock(auto=True), *[None] * count, pod(1))
    assert await watched.next() == pod(1)


async def test_a_single_404_while_the_pod_runs_is_not_believed() -> None:
    """One 404 between two polls that show the pod is no end of it."""
    watched, _ = watch(FakeClock(auto=True), pod(1), None, pod(1), None, pod(2))
    assert [await watched.next() for _ in range(3)] == [pod(1), pod(1), pod(2)]


@pytest.mark.parametrize(("known", "seconds"), [(True, CONFIRM_SECONDS), (False, CREATE_LAG_SECONDS)])
async def test_404s_are_believed_once_they_last(known: bool, seconds: float) -> None:
    """The pod is gone once the apiserver has said so for two seconds; for ten, if no poll has shown it yet."""
    watched, pods = watch(FakeClock(auto=True), *([pod(1)] if known else []), *[None] * 50)
    if known:
        await watched.next()
    assert await watched.next() is None
    assert seconds <= pods.moments[-1] - pods.moments[1 if known else 0] < seconds + 2


async def test_a_failed_poll_between_two_404s_proves_nothing_and_disproves_nothing() -> None:
    """A poll that fails says nothing about the pod: the 404s before and after it count."""
    watched, _ = watch(FakeClock(auto=True), pod(1), None, TROUBLES[1], *[None] * 10)
    assert await watched.next() == pod(1)
    assert await watched.next() is None
