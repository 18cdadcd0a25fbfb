"""What every `PodWatch` must do: a watch of some cluster's pod, or a fake that shows what a test puts in.

A subclass gives the fixture `scene`: a watch over a pod that runs, and the means to change it. What a fake cannot show
is set to None in its subclass, by name and with the reason.
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
"""Seconds within which anything is seen; a bound against a watch that hangs."""


@dataclass(frozen=True)
class Scene:
    """One pod that runs, and its watch, which nobody has asked yet.

    `end` asks for the pod's end, so that it is seen with a deletionTimestamp; `vanish` takes it away; `usurp` takes it
    away and gives its name to another one; `trouble` lets the next looks fail in a way that passes.
    """

    uid: str
    watch: PodWatch
    end: Callable[[], Awaitable[None]]
    vanish: Callable[[], Awaitable[None]]
    usurp: Callable[[], Awaitable[None]]
    trouble: Callable[[], Awaitable[None]]

    async def next(self) -> Pod | None:
        """The next observation, within the bound."""
        with anyio.fail_after(PATIENCE):
            return await self.watch.next()

    async def until(self, wanted: Callable[[Pod | None], bool]) -> Pod | None:
        """Look until something is seen."""
        with anyio.fail_after(PATIENCE):
            while not wanted(seen := await self.watch.next()):
                pass
            return seen


class WatcherSuite:
    """The conformance suite of `senro.ports.pod_watch.PodWatch`."""

    async def test_the_pod_as_it_is(self, scene: Scene) -> None:
        """The first observation is the pod of that uid, with what its container does."""
        seen = await scene.next()
        assert seen is not None
        assert seen.uid == scene.uid
        status = seen.container("step")
        assert status is not None
        assert status.state.running is not None

    async def test_a_change_is_seen(self, scene: Scene) -> None:
        """What happens to the pod is seen without anybody's nudge, and the pod is still that one."""
        await scene.next()
        await scene.end()
        seen = await scene.until(lambda pod: pod is None or pod.metadata.deletion_timestamp is not None)
        assert seen is not None
        assert seen.uid == scene.uid

    async def test_a_change_while_it_waits(self, scene: Scene) -> None:
        """Who waits in `next` while the pod changes sees the change, now or with a later call."""
        await scene.next()
        async with anyio.create_task_group() as group:

            async def wait() -> None:
                await scene.until(lambda pod: pod is not None and pod.metadata.deletion_timestamp is not None)

            group.start_soon(wait)
            await anyio.lowlevel.checkpoint()
            await scene.end()

    async def test_gone(self, scene: Scene) -> None:
        """A pod that is no more is None, and stays None: a name is not watched, a pod is."""
        await scene.next()
        await scene.vanish()
        assert await scene.until(lambda pod: pod is None) is None
        scene.watch.nudge()
        assert await scene.next() is None

    async def test_another_under_its_name(self, scene: Scene) -> None:
        """Another pod of the same name is not ours: None, as if there were none."""
        await scene.next()
        await scene.usurp()
        assert await scene.until(lambda pod: pod is None) is None

    async def test_a_nudge_brings_a_look(self, scene: Scene) -> None:
        """Whoever nudges, before or while somebody waits, once or often, the pod is seen and nothing is raised."""
        await scene.next()
        for times in (1, 2, 3):
            for _ in range(times):
                scene.watch.nudge()
            assert await scene.next() is not None
        async with anyio.create_task_group() as group:
            group.start_soon(scene.next)
            await anyio.lowlevel.checkpoint()
            scene.watch.nudge()

    async def test_a_nudge_before_the_first_look(self, scene: Scene) -> None:
        """A log may end before anybody has asked for the pod: the nudge does no harm."""
        scene.watch.nudge()
        assert await scene.next() is not None

    async def test_a_look_that_is_given_up(self, scene: Scene) -> None:
        """A `next` that is cancelled raises nothing but that, and the watch goes on as if nobody had asked."""
        with anyio.CancelScope() as scope:
            scope.cancel()
            await scene.watch.next()
        assert scope.cancelled_caught
        seen = await scene.next()
        assert seen is not None
        assert seen.uid == scene.uid

    async def test_trouble_that_passes(self, scene: Scene) -> None:
        """Looks that fail in a way that may pass are not told: the next thing that is seen is the pod."""
        await scene.next()
        await scene.trouble()
        scene.watch.nudge()
        seen = await scene.next()
        assert seen is not None
        assert seen.uid == scene.uid
