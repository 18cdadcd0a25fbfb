"""Laws of the verdict over pods drawn from a grammar of the states that real clusters show."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import msgspec
from hypothesis import assume, given
from hypothesis import strategies as st

from senro.app.classify import classify
from senro.domain.outcome import outcome_of, repeats
from senro.domain.pod import Container, ContainerState, ContainerStatus, Pod, Running, Terminated, Waiting, pod_from
from senro.domain.retry import Retry
from senro.domain.verdict import (
    Cancelled,
    DidRun,
    Exited,
    Finish,
    Infra,
    Memory,
    Observation,
    Patience,
    Pending,
    TimedOut,
    about,
    observe,
    wants_events,
)
from senro.domain.verdict.signs import KUBELET_ENDS
from tests.support_pods import pods, sightings
from tests.support_verdict import UID, fold

START = Memory.start(uid=UID, own_deadline=3)
RETRY = Retry(attempts=9, on="infra")


@given(seen=sightings(), finish=st.none() | st.builds(Finish, st.integers(0, 3)))
def test_there_is_always_an_answer(seen: list[Observation], finish: Finish | None) -> None:
    """No state of a pod, no Events and no frame raise, and neither does anything that goes on from the answer."""
    memory, patience = START, Patience(began=0.0)
    for observation in [*seen, replace(seen[-1], finish=finish)]:
        answer, memory = observe(memory, observation)
        wants_events(answer, memory, observation.at)
        patience = patience.seen(answer, observation.at)
        patience.verdict(answer, observation.at)
        assert memory.answer == answer
        if isinstance(answer, Exited | Infra | Cancelled | TimedOut):
            outcome_of(answer)
    told = classify(seen)
    assert told.sentence
    assert told.evidence


@given(seen=sightings())
def test_settled_is_for_ever(seen: list[Observation]) -> None:
    """Once an answer is settled, nothing that is seen changes it."""
    for before, after in pairwise(fold(START, tuple(seen))):
        assert not before.settled or before == after


@given(seen=sightings(), data=st.data())
def test_order_means_nothing(seen: list[Observation], data: st.DataObject) -> None:
    """Containers and conditions in any order give the same answers; the order of init containers is the pod's own."""

    def shuffled(pod: Pod | None) -> Pod | None:
        if pod is None:
            return None
        status = msgspec.structs.replace(
            pod.status,
            conditions=tuple(data.draw(st.permutations(pod.status.conditions))),
            container_statuses=tuple(data.draw(st.permutations(pod.status.container_statuses))),
        )
        spec = msgspec.structs.replace(pod.spec, containers=tuple(data.draw(st.permutations(pod.spec.containers))))
        return msgspec.structs.replace(pod, status=status, spec=spec)

    assert fold(START, tuple(seen)) == fold(START, tuple(replace(each, pod=shuffled(each.pod)) for each in seen))


STRANGERS = st.lists(
    st.sampled_from(
        [
            ContainerState(running=Running("2026-11-29T12:00:00Z")),
            ContainerState(terminated=Terminated(0, reason="Completed", started_at="2026-11-29T12:00:00Z")),
            ContainerState(terminated=Terminated(1, reason="Error", started_at="2026-11-29T12:00:00Z")),
            ContainerState(waiting=Waiting("ErrImagePull", "manifest unknown")),
            ContainerState(waiting=Waiting("CrashLoopBackOff")),
            ContainerState(),
        ]
    ),
    min_size=1,
    max_size=3,
)


def beside(pod: Pod, strangers: list[ContainerState]) -> Pod:
    """The pod with containers that somebody else added, one of them a sidecar among the init containers."""
    added = tuple(ContainerStatus(name=f"stranger-{index}", state=state) for index, state in enumerate(strangers))
    spec = msgspec.structs.replace(
        pod.spec,
        containers=(*pod.spec.containers, *(Container(name=each.name) for each in added)),
        init_containers=(*pod.spec.init_containers, Container(name="stranger", restart_policy="Always")),
    )
    status = msgspec.structs.replace(
        pod.status,
        container_statuses=(*added, *pod.status.container_statuses),
        init_container_statuses=(
            *pod.status.init_container_statuses,
            ContainerStatus(name="stranger", state=strangers[0]),
        ),
    )
    return msgspec.structs.replace(pod, spec=spec, status=status)


@given(seen=sightings(), strangers=STRANGERS)
def test_strangers_change_no_answer(seen: list[Observation], strangers: list[ContainerState]) -> None:
    """Containers that are not senro's change nothing but what the kubelet makes of them in Ready's reason.

    And whether a 0 may hide an eviction: a second container would tell of it.
    """
    for each in seen:
        ready = each.pod.condition("Ready") if each.pod is not None else None
        assume(ready is None or ready.reason not in KUBELET_ENDS)
    changed = [replace(each, pod=beside(each.pod, strangers) if each.pod is not None else None) for each in seen]
    alone, accompanied = fold(START, tuple(seen)), fold(START, tuple(changed))
    assert [unnoted(each) for each in alone] == [unnoted(each) for each in accompanied]


def unnoted(answer: object) -> object:
    return replace(answer, notes=()) if isinstance(answer, Exited) else answer


@given(seen=sightings(), put_away=st.booleans())
def test_what_is_repeated_is_never_an_exit(seen: list[Observation], put_away: bool) -> None:
    """What retry.on_infra repeats is Infra of a repeatable kind, whose pod is gone; no exit, no cancellation."""
    for answer in fold(START, tuple(seen)):
        if not isinstance(answer, Exited | Infra | Cancelled | TimedOut):
            continue
        if repeats(outcome_of(answer), attempt=1, retry=RETRY, put_away=put_away):
            assert isinstance(answer, Infra)
            assert about(answer.kind).repeatable
            assert put_away


@given(seen=sightings())
def test_what_ran_is_never_said_not_to_have_run(seen: list[Observation]) -> None:
    """Where the step was seen running in its first pod, no Infra says that it did not run, but for a failed start."""
    memory, ran = START, False
    for observation in seen:
        answer, memory = observe(memory, observation)
        if isinstance(answer, Infra):
            assert not (ran and answer.did_run is DidRun.NO and memory.rule != 5)
            assert answer.did_run is DidRun.NO or about(answer.kind).may_have_run or memory.rule in {4, 7, 10, 11, 12}
        step = observation.pod.container("step") if observation.pod is not None else None
        ran = ran or (step is not None and step.state.running is not None)
        if answer.settled:
            break


@given(seen=sightings())
def test_events_make_no_success(seen: list[Observation]) -> None:
    """With Events read, nothing exits that would not have without them, and a wait stays a wait."""
    without = fold(START, tuple(replace(each, events=None) for each in seen))
    with_them = fold(START, tuple(seen))
    if isinstance(with_them[-1], Exited):
        assert unnoted(without[-1]) == unnoted(with_them[-1])
    for before, after in zip(without, with_them, strict=True):
        if isinstance(before, Pending) and not isinstance(after, Pending):
            assert any(event.reason == "Evicted" for each in seen for event in each.events or ())
            break


@given(document=pods(), cancelled=st.booleans())
def test_what_the_run_ended_is_its_own(document: dict[str, object], cancelled: bool) -> None:
    """What was cancelled or timed out before anything was seen is never the cluster's doing."""
    seen = Observation(pod=pod_from(document), at=1.0, cancelled=cancelled, timed_out=not cancelled)
    assert fold(START, (seen,)) == [Cancelled() if cancelled else TimedOut()]
