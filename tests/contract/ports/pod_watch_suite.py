"""The conformance suite of `senro.ports.pod_watch`, for a watch of a cluster's pod, and for fakes.

A subclass has the fixture `scene`: a watch of a running pod, and functions that change the pod. The subclass of a fake
sets the tests to None that it cannot pass, with the reason.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio
import pytest

from senro.domain.kube.pod import Pod
from senro.ports.pod_watch import PodWatch

pytestmark = pytest.mark.anyio

PATIENCE = 60.0
"""The bound in seconds of each wait, so that a watch that hangs fails the test."""


@dataclass(frozen=True)
class Scene:
    """A running pod and its watch, before the first poll.

    `end` requests the deletion of the pod, which then has a deletionTimestamp; `vanish` removes it; `usurp` removes it
    and creates another pod of that name; `trouble` lets the next polls fail for a while.
    """

    uid: str
    watch: PodWatch
    end: Callable[[], Awaitable[None]]
    vanish: Callable[[], Awaitable[None]]
    usurp: Callable[[], Awaitable[None]]
    trouble: Callable[[], Awaitable[None]]

    async def next(self) -> Pod | None:
        """Returns the next observation, within the bound."""
        with anyio.fail_after(PATIENCE):
            return await self.watch.next()

    async def until(self, wanted: Callable[[Pod | None], bool]) -> Pod | None:
        """Call `next` until `wanted` holds."""
        with anyio.fail_after(PATIENCE):
            while not wanted(seen := await self.watch.next()):
                pass
            return seen


class WatcherSuite:
    """The conformance suite of `senro.ports.pod_watch.PodWatch`."""

    async def test_first_observation(self, scene: Scene) -> None:
        """The first observation is the pod with that uid and the state of its container."""
        seen = await scene.next()
        assert seen is not None
        assert seen.uid == scene.uid
        status = seen.container("step")
        assert status is not None
        assert status.state.running is not None

    async def test_change_is_observed(self, scene: Scene) -> None:
        """A change of the pod is observed without a nudge."""
        await scene.next()
        await scene.end()
        seen = await scene.until(lambda pod: pod is None or pod.metadata.deletion_timestamp is not None)
        assert seen is not None
        assert seen.uid == scene.uid

    async def test_change_during_the_wait(self, scene: Scene) -> None:
        """A change during `next` is observed by this call or a later one."""
        await scene.next()
        async with anyio.create_task_group() as group:

            async def wait() -> None:
                await scene.until(lambda pod: pod is not None and pod.metadata.deletion_timestamp is not None)

            group.start_soon(wait)
            await anyio.lowlevel.checkpoint()
            await scene.end()

    async def test_pod_is_gone(self, scene: Scene) -> None:
        """A pod that does not exist any more is None in every call."""
        await scene.next()
        await scene.vanish()
        assert await scene.until(lambda pod: pod is None) is None
        scene.watch.nudge()
        assert await scene.next() is None

    async def test_another_pod_of_that_name(self, scene: Scene) -> None:
        """Another pod of the same name is observed as None."""
        await scene.next()
        await scene.usurp()
        assert await scene.until(lambda pod: pod is None) is None

    async def test_nudge_polls_at_once(self, scene: Scene) -> None:
        """After nudges before or during `next` the pod is observed, and nothing is raised."""
        await scene.next()
        for times in (1, 2, 3):
            for _ in range(times):
                scene.watch.nudge()
            assert await scene.next() is not None
        async with anyio.create_task_group() as group:
            group.start_soon(scene.next)
            await anyio.lowlevel.checkpoint()
            scene.watch.nudge()

    async def test_nudge_before_the_first_poll(self, scene: Scene) -> None:
        """A nudge before the first call has no bad effect: a log may end early."""
        scene.watch.nudge()
        assert await scene.next() is not None

    async def test_cancelled_next(self, scene: Scene) -> None:
        """A cancelled `next` raises only the cancellation, and the watch goes on."""
        with anyio.CancelScope() as scope:
            scope.cancel()
            await scene.watch.next()
        assert scope.cancelled_caught
        seen = await scene.next()
        assert seen is not None
        assert seen.uid == scene.uid

    async def test_failed_polls_are_ignored(self, scene: Scene) -> None:
        """Polls that fail for a while are not reported; the next observation is the pod."""
        await scene.next()
        await scene.trouble()
        scene.watch.nudge()
        seen = await scene.next()
        assert seen is not None
        assert seen.uid == scene.uid
