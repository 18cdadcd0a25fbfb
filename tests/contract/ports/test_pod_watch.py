from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import pytest

from senro.adapters.apiserver import watch_pod
from senro.devcluster import DevCluster
from senro.domain.errors import Unreachable
from senro.domain.kube.pod import Pod, pod_from
from tests.contract.ports.cluster_suite import Site
from tests.contract.ports.pod_watch_suite import Scene, WatcherSuite
from tests.contract.ports.test_cluster import REAL, site_of
from tests.lib.fakes.clock import FakeClock
from tests.lib.fakes.cluster import FakeCluster, refusal, running, waiting
from tests.lib.harness.app import STARTED, ScriptedWatch, SteadyWatch

pytestmark = pytest.mark.anyio

STEADY = ("sh", "-c", "trap '' TERM; while :; do sleep 1; done")
"""A command that ignores SIGTERM, so that its pod can be observed between the request of its deletion and its end."""


def scene_of(site: Site, pod: Pod, trouble: Callable[[], None]) -> Scene:
    """A scene with a running pod of a cluster."""

    async def end() -> None:
        assert not await site.cluster.delete_pod(site.namespace, pod.name, uid=pod.uid, grace_seconds=20)

    async def vanish() -> None:
        await site.cluster.delete_pod(site.namespace, pod.name, uid=pod.uid, grace_seconds=0)
        await site.until_gone(pod)

    async def usurp() -> None:
        await vanish()
        manifest = site.pod("sleep", "60")
        manifest["metadata"]["name"] = pod.name
        other = await site.cluster.create_pod(manifest)
        assert other.uid != pod.uid

    async def let_fail() -> None:
        trouble()

    return Scene(pod.uid, site.watch(pod), end, vanish, usurp, let_fail)


async def delete_pod(site: Site, name: str) -> None:
    """Delete the pod that has the name now, whatever its uid is."""
    there = await site.cluster.read_pod(site.namespace, name)
    if there is not None:
        await site.cluster.delete_pod(site.namespace, name, uid=there.uid, grace_seconds=0)
        await site.until_gone(there)


@pytest.mark.slow
class TestApiserver(WatcherSuite):
    """The poll through the adapter, against the embedded cluster and a cluster that the environment names."""

    @pytest.fixture(params=["devcluster", *(["cluster"] if all(name in os.environ for name in REAL) else [])])
    async def scene(self, request: pytest.FixtureRequest) -> AsyncIterator[Scene]:
        if request.param == "cluster":
            namespace, image = os.environ["SENRO_TEST_NAMESPACE"], os.environ["SENRO_TEST_IMAGE"]
            async with site_of(os.environ, namespace, image) as site, site.running(*STEADY) as pod:
                yield scene_of(site, pod, lambda: pytest.skip("a real cluster does not fail on request"))
                await delete_pod(site, pod.name)
            return
        async with DevCluster(time_scale=0.05) as dev, site_of(dev.environment(), "ci", dev.image) as site:

            def trouble() -> None:
                dev.faults.answer(503, "the server is currently unable to handle the request", path_contains="/pods/")
                dev.faults.drop_connection(times=2, path_contains="/pods/")

            async with site.running(*STEADY) as pod:
                yield scene_of(site, pod, trouble)
                assert dev.faults.pending() == 0
                await delete_pod(site, pod.name)


class TestFakeCluster(WatcherSuite):
    """The poll of the cluster in memory, in virtual time."""

    @pytest.fixture
    async def scene(self) -> AsyncIterator[Scene]:
        clock = FakeClock(auto=True)
        cluster = FakeCluster(clock, course=lambda _: [waiting(), running()])
        cluster.stubborn = True
        site = Site(
            cluster=cluster,
            namespace="ci",
            image="image",
            unique=lambda: "watched",
            watch=lambda pod: watch_pod(cluster, pod.namespace, pod.name, uid=pod.uid, clock=clock),
        )

        def trouble() -> None:
            for _ in range(3):
                cluster.fail("read_pod", refusal("read pod ci/watched", 503, "ServiceUnavailable"))
            cluster.fail("read_pod", Unreachable("read pod ci/watched", cause="refused", sent=False))

        async with site.running(*STEADY) as pod:
            yield scene_of(site, pod, trouble)
            assert not any(cluster._faults.values())
            await delete_pod(site, pod.name)


def running_pod(**metadata: Any) -> Pod:
    """A pod whose step runs."""
    status = {"phase": "Running", "containerStatuses": [{"name": "step", "state": STARTED}]}
    return pod_from(
        {"metadata": {"name": "make-1", "namespace": "ci", "uid": "uid-1", **metadata}, "status": status},
    )


ENDING: Mapping[str, Any] = {"deletionTimestamp": "2026-11-29T10:00:30Z", "deletionGracePeriodSeconds": 20}


def scripted(watch: ScriptedWatch | SteadyWatch, show: Callable[[Pod | None], None]) -> Scene:
    """A scene of a watch that returns scripted observations."""

    def showing(pod: Pod | None) -> Callable[[], Awaitable[None]]:
        async def do() -> None:
            show(pod)

        return do

    return Scene("uid-1", watch, showing(running_pod(**ENDING)), showing(None), showing(None), showing(running_pod()))


class TestScriptedWatch(WatcherSuite):
    """The fake that returns one scripted observation after the other, each once.

    It counts nudges, ignores names, and fails only where the script says so.
    """

    test_pod_is_gone = None  # type: ignore[assignment]  # its observations are used up; a script contains each None
    test_another_pod_of_that_name = None  # type: ignore[assignment]  # see the class
    test_nudge_polls_at_once = None  # type: ignore[assignment]  # see the class
    test_failed_polls_are_ignored = None  # type: ignore[assignment]  # see the class

    @pytest.fixture
    def scene(self) -> Scene:
        watch = ScriptedWatch(running_pod())
        return scripted(watch, watch.put)


class TestSteadyWatch(WatcherSuite):
    """The fake of a pod that changes only when the test says so; it knows no names and no failures."""

    test_another_pod_of_that_name = None  # type: ignore[assignment]  # see the class
    test_failed_polls_are_ignored = None  # type: ignore[assignment]  # see the class

    @pytest.fixture
    def scene(self) -> Scene:
        watch = SteadyWatch(None)
        watch.show(running_pod())
        return scripted(watch, watch.show)
