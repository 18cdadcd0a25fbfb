"""The clock that a test moves, and what it moves in the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest

from senro.devcluster import DevCluster, DevClusterThread, SystemClock, VirtualClock
from senro.devcluster.clock import now_text
from tests.lib.harness.devcluster import Client, pod_manifest


@pytest.mark.anyio
async def test_what_is_due_on_the_way_happens_in_its_order() -> None:
    """Sleepers wake at their own moments, also those who lie down again on the way."""
    clock = VirtualClock(start=0, frozen=True)
    told: list[tuple[str, float]] = []

    async def every(name: str, seconds: float, times: int) -> None:
        for _ in range(times):
            await clock.sleep(seconds)
            told.append((name, clock.seconds()))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(every, "a", 2.0, 3)
        tasks.start_soon(every, "b", 3.0, 2)
        await anyio.wait_all_tasks_blocked()
        await clock.advance(5.0)
        assert told == [("a", 2.0), ("b", 3.0), ("a", 4.0)]
        await clock.advance(1.0)
    assert sorted(told[3:]) == [("a", 6.0), ("b", 6.0)]
    assert clock.nanoseconds() == 6_000_000_000
    assert now_text(clock, 4) == "1970-01-01T00:00:10Z"


@pytest.mark.anyio
async def test_a_frozen_clock_stands_still() -> None:
    """Nothing moves it but `advance`; no time at all still lets others run."""
    clock = VirtualClock(start=0, frozen=True)
    await clock.sleep(0)
    with anyio.move_on_after(0.01) as scope:
        await clock.sleep(0.001)
    assert scope.cancelled_caught
    assert clock.seconds() == 0
    await clock.advance(10)
    assert clock.seconds() == 10


@pytest.mark.anyio
async def test_a_clock_that_flows_goes_on_by_itself() -> None:
    """Between two moves it is the host's time."""
    clock = VirtualClock()
    before = clock.seconds()
    await clock.sleep(0.01)
    assert clock.seconds() >= before + 0.01


def test_a_system_clock_cannot_be_moved(client: Client) -> None:
    """It says what is missing."""
    with pytest.raises(TypeError, match="VirtualClock"):
        client.cluster.advance(1)
    assert SystemClock().seconds() <= SystemClock().seconds()


@pytest.fixture(scope="module")
def slow() -> Iterator[DevCluster]:
    """A cluster at a real one's pace, whose time is moved."""
    with DevClusterThread(clock=VirtualClock(), time_scale=1.0) as cluster:
        yield cluster


@pytest.fixture
def moved(slow: DevCluster) -> Iterator[Client]:
    client = Client(slow)
    yield client
    for pod in slow.pods("ci"):
        client.delete(pod["metadata"]["name"], gracePeriodSeconds=0)
    client.close()


def test_five_minutes_of_patience_are_skipped(moved: Client, name: str) -> None:
    """The default toleration of a silent node: 300 s after it is called not ready, the pod is taken away."""
    moved.create(pod_manifest(name, ["sleep", "6000"]))
    moved.cluster.advance(2)
    moved.running(name)
    moved.cluster.silence_node()
    moved.cluster.advance(24)
    moved.cluster.advance(290)
    pod = moved.pod(name)
    assert pod is not None
    assert "deletionTimestamp" not in pod["metadata"]
    moved.cluster.advance(15)
    pod = moved.pod(name)
    assert pod is not None
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 1
    assert pod["status"]["phase"] == "Running"
    moved.cluster.revive_node()
    moved.cluster.advance(5)
    moved.cluster.advance(5)
    moved.until(name, lambda found: found is None)


def test_a_day_is_over_at_once(moved: Client, name: str) -> None:
    """ActiveDeadlineSeconds of a day."""
    moved.create(pod_manifest(name, ["sleep", "600000"], activeDeadlineSeconds=86_400))
    moved.cluster.advance(2)
    moved.running(name)
    moved.cluster.advance(86_400)
    moved.cluster.advance(5)
    assert moved.finished(name)["status"]["reason"] == "DeadlineExceeded"


def test_an_exec_that_nothing_moves_in_ends_after_hours(moved: Client, name: str) -> None:
    """Four hours: the connection ends, without a close frame and without a status."""
    moved.create(pod_manifest(name, ["sleep", "600000"]))
    moved.cluster.advance(2)
    moved.running(name)
    with moved.exec(name, ["sleep", "600000"], stdin=True) as session:
        assert session.frame() == (2, b"\x01")
        moved.cluster.advance(4 * 3600 - 60)
        session.send(b"still here", opcode=9)
        assert session.frame() == (10, b"still here")
        session.stdin(b"x")
        session.send(b"taken", opcode=9)
        assert session.frame() == (10, b"taken")
        moved.cluster.advance(120)
        session.send(b"again", opcode=9)
        assert session.frame() == (10, b"again")
        moved.cluster.advance(4 * 3600)
        result = session.finish()
    assert (result.close_code, result.status) == (None, None)


def test_a_change_is_waited_for() -> None:
    """Until it happens, also where it did before the call; where nothing does, no longer than was said."""
    with DevClusterThread(clock=VirtualClock(frozen=True)) as cluster, ThreadPoolExecutor(1) as thread:
        version = cluster.version
        assert not cluster.changed_since(version, within=0.01)
        waiting = thread.submit(cluster.changed_since, version, within=20)
        cluster.create_claim("ci", "a")
        assert waiting.result()
        assert cluster.version > version
        assert cluster.changed_since(version, within=0)
