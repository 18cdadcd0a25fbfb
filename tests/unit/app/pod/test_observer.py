from __future__ import annotations

import anyio
import msgspec
import pytest

from senro.app.pod.observer import PodObserver
from senro.domain.errors import Unreachable
from senro.domain.kube.pod import Metadata, Pod
from senro.domain.verdict import (
    DidRun,
    Exited,
    Infra,
    InfraKind,
    Memory,
    Patience,
    Pending,
    PendingKind,
    Running,
    TimedOut,
)
from tests.lib.fakes.clock import FakeClock
from tests.lib.fakes.cluster import refusal
from tests.lib.harness.app import OVER, STARTED, WAITING, ScriptedWatch, pod_with, until

pytestmark = pytest.mark.anyio

CREATED = pod_with()
ENDED = pod_with(OVER, phase="Succeeded")


def observer_of(watch: ScriptedWatch, clock: FakeClock | None = None, created: Pod = CREATED) -> PodObserver:
    clock = clock or FakeClock()
    patience = Patience(began=clock.monotonic(), start_timeout=300.0)
    return PodObserver(watch, created, Memory.start(uid="uid-1"), patience, clock)


async def test_created_pod_is_the_first_observation() -> None:
    """Before the first poll there is an answer, and the pod as it was stored."""
    observer = observer_of(ScriptedWatch())
    assert isinstance(observer.answer, Pending)
    assert (observer.observations, observer.pod, observer.seen_running) == (1, CREATED, False)


async def test_pod_is_polled_until_the_answer_is_settled() -> None:
    """Each observation is folded in order; no poll follows a settled answer."""
    watch = ScriptedWatch(pod_with(WAITING), pod_with(STARTED, phase="Running"), ENDED, None)
    observer = observer_of(watch)
    await observer.run()
    assert isinstance(observer.answer, Exited)
    assert observer.answer.code == 0
    assert (observer.observations, observer.seen_running, observer.node, observer.pod) == (4, True, "node-a", ENDED)
    assert list(watch.seen) == [None]


async def test_until_returns_at_the_first_observation() -> None:
    """`until` returns with the observation that fulfils the condition, at once if it is fulfilled."""
    watch = ScriptedWatch()
    observer = observer_of(watch)
    with pytest.raises(TimeoutError):
        with anyio.fail_after(0):
            await observer.until(lambda seen: seen.seen_running)
    async with anyio.create_task_group() as group:
        group.start_soon(observer.run)
        watch.put(pod_with(WAITING), pod_with(STARTED, phase="Running"))
        await observer.until(lambda seen: seen.seen_running)
        assert isinstance(observer.answer, Running)
        await observer.until(lambda seen: seen.seen_running)
        group.cancel_scope.cancel()


async def test_settled_answer_ends_until() -> None:
    """`until` returns once the answer is settled."""
    watch = ScriptedWatch()
    observer = observer_of(watch)
    async with anyio.create_task_group() as group:
        group.start_soon(observer.run)
        group.start_soon(observer.until, lambda _: False)
        group.start_soon(observer.next_poll_from_now)
        watch.put(None)
    assert isinstance(observer.answer, Infra)
    await observer.next_poll_from_now()
    assert observer.pod is None


async def test_next_poll_from_now_skips_the_poll_under_way() -> None:
    """The poll under way may have been answered before, so the one after it counts."""
    watch = ScriptedWatch()
    observer = observer_of(watch)
    fresh = anyio.Event()

    async def look() -> None:
        await observer.next_poll_from_now()
        fresh.set()

    async with anyio.create_task_group() as group:
        group.start_soon(observer.run)
        await until(lambda: watch.polls == 1)
        group.start_soon(look)
        await until(lambda: watch.nudges == 1)
        watch.put(pod_with(WAITING))
        await until(lambda: watch.polls == 2)
        assert not fresh.is_set()
        watch.put(pod_with(STARTED, phase="Running"))
        await fresh.wait()
        assert observer.seen_running
        group.cancel_scope.cancel()


async def test_flags_apply_from_the_next_poll() -> None:
    """A flag that is set during a poll does not apply to its answer, which may be older."""
    watch = ScriptedWatch()
    observer = observer_of(watch)
    async with anyio.create_task_group() as group:
        group.start_soon(observer.run)
        await until(lambda: watch.polls == 1)
        await observer.delete(anyio.lowlevel.checkpoint, timed_out=True)
        watch.put(pod_with(STARTED, phase="Running"))
        await until(lambda: watch.polls == 2)
        assert isinstance(observer.answer, Running)
        watch.put(pod_with(STARTED, phase="Running"), pod_with(STARTED, phase="Running"), None)
    assert isinstance(observer.answer, TimedOut)


async def test_flags_apply_to_a_404() -> None:
    """A 404 is explained by a deletion that was requested during the poll."""
    watch = ScriptedWatch()
    observer = observer_of(watch, created=pod_with(STARTED, phase="Running"))
    async with anyio.create_task_group() as group:
        group.start_soon(observer.run)
        await until(lambda: watch.polls == 1)
        await observer.delete(anyio.lowlevel.checkpoint, timed_out=True)
        watch.put(None)
    assert isinstance(observer.answer, TimedOut)


async def test_end_seen_by_an_earlier_poll_stands() -> None:
    """A poll that was under way when the timeout passed shows the end: the command's own result."""
    watch = ScriptedWatch()
    observer = observer_of(watch)
    async with anyio.create_task_group() as group:
        group.start_soon(observer.run)
        await until(lambda: watch.polls == 1)
        await observer.delete(anyio.lowlevel.checkpoint, timed_out=True)
        watch.put(ENDED)
    assert isinstance(observer.answer, Exited)


async def test_own_deletion_is_no_disruption() -> None:
    """With `deletion_asked`, a deletionTimestamp is not attributed to the cluster."""
    watch = ScriptedWatch()
    observer = observer_of(watch)
    await observer.delete(anyio.lowlevel.checkpoint, timed_out=False)
    leaving = msgspec.structs.replace(
        pod_with(STARTED, phase="Running"),
        metadata=Metadata(uid="uid-1", deletion_timestamp="2026-11-29T10:00:30Z"),
    )
    watch.put(leaving)
    async with anyio.create_task_group() as group:
        group.start_soon(observer.run)
        await until(lambda: observer.observations == 2)
        assert isinstance(observer.answer, Running)
        group.cancel_scope.cancel()


async def test_start_timeout_settles_the_answer() -> None:
    """A start that takes too long is Infra, with what the pod waited for."""
    clock, watch = FakeClock(), ScriptedWatch()
    observer = observer_of(watch, clock)
    stuck = {"waiting": {"reason": "InvalidImageName", "message": "couldn't parse image name"}}
    async with anyio.create_task_group() as group:
        group.start_soon(observer.run)
        watch.put(pod_with(stuck))
        await until(lambda: observer.observations == 2)
        assert observer.answer == Pending(
            PendingKind.IMAGE_INVALID, "step", "couldn't parse image name", permanent=True
        )
        clock.move(21)
        watch.put(pod_with(stuck), None)
    assert isinstance(observer.answer, Infra)
    assert (observer.answer.kind, observer.answer.did_run) == (InfraKind.IMAGE_INVALID, DidRun.NO)


@pytest.mark.parametrize(
    ("seen", "ran"), [([], DidRun.MAYBE), ([pod_with(STARTED, phase="Running")], DidRun.YES)], ids=["unseen", "running"]
)
async def test_failed_watch_settles_the_answer(seen: list[Pod], ran: DidRun) -> None:
    """If the watch gives up, the step may be alive, and `did_run` is what was seen."""
    error = Unreachable("read pod ci/make-1", cause="refused", sent=False)
    observer = observer_of(ScriptedWatch(*seen, error))
    await observer.run()
    assert isinstance(observer.answer, Infra)
    assert (observer.answer.kind, observer.answer.did_run) == (InfraKind.APISERVER, ran)
    assert observer.answer.may_be_alive
    assert observer.answer.message == str(error)


async def test_forbidden_watch_settles_the_answer() -> None:
    """A 403 settles the answer and names the missing right."""
    observer = observer_of(ScriptedWatch(refusal("read pod ci/make-1", 403, "Forbidden", "cannot get")))
    await observer.run()
    assert isinstance(observer.answer, Infra)
    assert observer.answer.kind is InfraKind.FORBIDDEN
