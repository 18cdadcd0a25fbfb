"""Events: listed if the verdict depends on them, and only about this pod."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from senro.app.pod.observer import PodObserver
from senro.domain.errors import Unreachable
from senro.domain.kube.event import ClusterEvent, ObjectReference
from senro.domain.kube.pod import Pod
from senro.domain.verdict import Answer, DidRun, Exited, Infra, InfraKind, Memory, Note, Patience
from tests.lib.fakes.clock import FakeClock
from tests.lib.harness.app import ScriptedWatch
from tests.lib.verdict.observations import recorded_pod

pytestmark = pytest.mark.anyio

SCENARIO = recorded_pod("evicted-kubelet-trap-zero", "r-evict-kubelet")
PODS: list[Pod] = [seen.pod for seen in SCENARIO.observations if seen.pod is not None]
UID = PODS[0].uid
EVICTED = ClusterEvent(
    reason="Evicted",
    message='Usage of EmptyDir volume "small" exceeds the limit "1Mi". ',
    involved_object=ObjectReference(uid=UID),
    first_timestamp="2026-11-29T23:00:00Z",
)


class Listing:
    """Counts the requests, and returns the answers in turn, the last one for ever."""

    def __init__(self, *answers: Sequence[ClusterEvent] | Unreachable | None) -> None:
        self._answers = list(answers)
        self.requests = 0

    async def __call__(self) -> tuple[ClusterEvent, ...] | None:
        self.requests += 1
        answer = self._answers[min(self.requests, len(self._answers)) - 1]
        if isinstance(answer, Unreachable):
            raise answer
        return None if answer is None else tuple(answer)


async def answer_with(listing: Listing) -> Answer:
    """The answer for the recorded pod with the Events of `listing`."""
    clock = FakeClock()
    observer = PodObserver(
        ScriptedWatch(*PODS[1:]),
        PODS[0],
        Memory.start(uid=UID),
        Patience(began=clock.monotonic(), start_timeout=300.0),
        clock,
        list_events=listing,
    )
    await observer.run()
    return observer.answer


async def test_eviction_is_found_in_the_events() -> None:
    """An exit code 0 of an evicted pod is Infra if an Event says so (recording evicted-kubelet-trap-zero)."""
    answer = await answer_with(Listing([EVICTED]))
    assert isinstance(answer, Infra)
    assert (answer.kind, answer.did_run) == (InfraKind.RESOURCE_LIMIT, DidRun.YES)


async def test_zero_without_an_event_is_a_success() -> None:
    """Without such an Event the exit code 0 is a success, without a note."""
    assert await answer_with(Listing([])) == Exited(0)


@pytest.mark.parametrize("listing", [Listing(None), Listing(Unreachable("list", cause="reset", sent=True))])
async def test_unchecked_zero_has_a_note(listing: Listing) -> None:
    """If Events cannot be listed, the result has a note."""
    assert await answer_with(listing) == Exited(0, (Note.DISRUPTION_UNCHECKED,))


async def test_forbidden_list_is_requested_once() -> None:
    """After a 403 no other list is requested for this pod."""
    listing = Listing(None)
    await answer_with(listing)
    assert listing.requests == 1


async def test_events_are_listed_without_a_limit_too() -> None:
    """The Events are listed also for a pod without a limit of its own."""
    alone = recorded_pod("exit-zero", "r-exit-zero")
    pods = [seen.pod for seen in alone.observations if seen.pod is not None][: alone.ours]
    listing = Listing([replace(EVICTED, message="The node was low on resource: memory. ", uid=pods[0].uid)])
    clock = FakeClock()
    observer = PodObserver(
        ScriptedWatch(*pods[1:]),
        pods[0],
        Memory.start(uid=pods[0].uid),
        Patience(began=clock.monotonic(), start_timeout=300.0),
        clock,
        list_events=listing,
    )
    await observer.run()
    assert isinstance(observer.answer, Infra)
    assert (observer.answer.kind, listing.requests) == (InfraKind.EVICTED, 1)


def replace(event: ClusterEvent, *, message: str, uid: str) -> ClusterEvent:
    """The same Event about another pod."""
    reference = ObjectReference(uid=uid)
    return ClusterEvent(event.reason, message, reference, first_timestamp="2026-11-29T23:13:09Z")
