from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from senro.adapters.apiserver.watch import PATIENCE_SECONDS, watch_pod
from senro.domain.errors import (
    ClusterError,
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
    watched, _ = watch(FakeClock(auto=True), pod(1), gone)
    assert await watched.next() == pod(1)
    assert await watched.next() is None


TROUBLES: list[ClusterError] = [
    Unreachable(ASKED, cause="refused", sent=False),
    Unavailable(ASKED, ErrorResponse(code=503)),
    Throttled(ASKED, ErrorResponse(code=429)),
    Unauthorized(ASKED, ErrorResponse(code=401)),
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
    assert PATIENCE_SECONDS <= pods.moments[-1] - pods.moments[since] < PATIENCE_SECONDS + 2


@pytest.mark.parametrize(
    "refusal",
    [Forbidden(ASKED, ErrorResponse(code=403)), Rejected(ASKED, ErrorResponse(code=400))],
    ids=lambda e: type(e).__name__,
)
async def test_troubles_that_stay(refusal: ClusterError) -> None:
    """What the apiserver refuses on principle is told at once."""
    watched, _ = watch(FakeClock(auto=True), refusal)
    with pytest.raises(type(refusal)):
        await watched.next()
