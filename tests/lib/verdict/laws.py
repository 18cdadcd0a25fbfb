"""Laws of the verdict. Each is a function of `choose`, which draws its input, and fails if the law does not hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

import msgspec

from senro.api.classify import classify
from senro.cli.explain import to_json, to_text
from senro.domain.kube.pod import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
)
from senro.domain.pipeline.retry import Retry
from senro.domain.run.outcome import outcome_of, repeats
from senro.domain.verdict import (
    INFRA_KINDS,
    DidRun,
    Exited,
    Infra,
    Memory,
    Patience,
    Pending,
    TimedOut,
    observe,
    wants_events,
)
from senro.domain.verdict.disruption import KUBELET_ENDS
from tests.lib.verdict.cluster_model import BY_CLIENTS, Cluster
from tests.lib.verdict.observations import UID, fold, observation_of
from tests.lib.verdict.pod_grammar import MAYBE, Choose, some_observations

T = TypeVar("T")

START = Memory.start(uid=UID, own_deadline=3)
RETRY = Retry(attempts=9, on="infra")
ENDS = (Exited, Infra, TimedOut)


def there_is_always_an_answer(choose: Choose) -> None:
    """No state of a pod, no Events and no frame raise, and neither does what uses the answer."""
    seen, memory, patience = some_observations(choose), START, Patience(began=0.0)
    for observation in seen:
        answer, memory = observe(memory, observation)
        wants_events(answer, memory, observation.at)
        patience = patience.after(answer, observation.at)
        patience.verdict(answer, observation.at)
        assert memory.answer == answer
        if isinstance(answer, ENDS):
            outcome_of(answer)
    told = classify(seen)
    assert to_text(told)
    assert msgspec.json.encode(to_json(told))


def settled_answers_never_change(choose: Choose) -> None:
    """After a settled answer, no observation changes it."""
    seen = tuple(some_observations(choose))
    answers = fold(START, seen)
    assert answers == fold(START, seen)
    for before, after in pairwise(answers):
        assert not before.settled or before == after


def order_of_lists_does_not_matter(choose: Choose) -> None:
    """Containers and conditions in any order give the same answers. The order of init containers is the pod's."""
    seen = some_observations(choose)
    turned = [replace(each, pod=_reordered(each.pod, choose)) for each in seen]
    assert fold(START, tuple(seen)) == fold(START, tuple(turned))


def _reordered(pod: Pod | None, choose: Choose) -> Pod | None:
    if pod is None:
        return None
    replaced = msgspec.structs.replace
    conditions, statuses, containers = (
        _permutation(pod.status.conditions, choose),
        _permutation(pod.status.container_statuses, choose),
        _permutation(pod.spec.containers, choose),
    )
    return replaced(
        pod,
        status=replaced(pod.status, conditions=conditions, container_statuses=statuses),
        spec=replaced(pod.spec, containers=containers),
    )


def _permutation(parts: tuple[T, ...], choose: Choose) -> tuple[T, ...]:
    left, moved = list(parts), []
    while left:
        part = choose(left)
        left.remove(part)
        moved.append(part)
    return tuple(moved)


STRANGERS = (
    ContainerState(running=ContainerStateRunning("2026-11-29T12:00:00Z")),
    ContainerState(terminated=ContainerStateTerminated(0, reason="Completed", started_at="2026-11-29T12:00:00Z")),
    ContainerState(terminated=ContainerStateTerminated(1, reason="Error", started_at="2026-11-29T12:00:00Z")),
    ContainerState(waiting=ContainerStateWaiting("ErrImagePull", "manifest unknown")),
    ContainerState(waiting=ContainerStateWaiting("CrashLoopBackOff")),
    ContainerState(),
)


def foreign_containers_change_no_answer(choose: Choose) -> None:
    """Containers that senro did not create change nothing, except through the reason that the kubelet gives Ready.

    They also change whether a 0 may hide an eviction, which a second container would show.
    """
    seen = some_observations(choose)
    if any(each.pod is not None and _ready(each.pod) in KUBELET_ENDS for each in seen):
        return
    added = [choose(STRANGERS) for _ in range(choose((1, 2, 3)))]
    changed = [
        replace(each, pod=_with_foreign_containers(each.pod, added) if each.pod is not None else None) for each in seen
    ]
    assert [_without_notes(each) for each in fold(START, tuple(seen))] == [
        _without_notes(each) for each in fold(START, tuple(changed))
    ]


def _ready(pod: Pod) -> str:
    ready = pod.condition("Ready")
    return ready.reason if ready is not None else ""


def _with_foreign_containers(pod: Pod, strangers: list[ContainerState]) -> Pod:
    """Returns the pod with containers that somebody else added, one of them a sidecar among the init containers."""
    added = tuple(ContainerStatus(name=f"stranger-{index}", state=state) for index, state in enumerate(strangers))
    sidecar = ContainerStatus(name="stranger", state=strangers[0])
    replaced = msgspec.structs.replace
    return replaced(
        pod,
        spec=replaced(
            pod.spec,
            containers=(*pod.spec.containers, *(Container(name=each.name) for each in added)),
            init_containers=(*pod.spec.init_containers, Container(name="stranger", restart_policy="Always")),
        ),
        status=replaced(
            pod.status,
            container_statuses=(*added, *pod.status.container_statuses),
            init_container_statuses=(*pod.status.init_container_statuses, sidecar),
        ),
    )


def _without_notes(answer: object) -> object:
    return replace(answer, notes=()) if isinstance(answer, Exited) else answer


def only_repeatable_infra_is_repeated(choose: Choose) -> None:
    """What retry.on_infra repeats is Infra of a repeatable kind whose pod is gone, never an exit or a timeout."""
    deleted = choose(MAYBE)
    for answer in fold(START, tuple(some_observations(choose))):
        if not isinstance(answer, ENDS):
            continue
        if repeats(outcome_of(answer), attempt=1, retry=RETRY, deleted=deleted):
            assert isinstance(answer, Infra)
            assert INFRA_KINDS[answer.kind].repeatable
            assert deleted


def a_step_that_ran_is_reported_as_run(choose: Choose) -> None:
    """After the step was seen running, no Infra says that it did not run, except for a later start that failed."""
    memory, ran = START, False
    for observation in some_observations(choose):
        answer, memory = observe(memory, observation)
        if isinstance(answer, Infra):
            assert not (ran and answer.did_run is DidRun.NO and memory.rule != 5)
        step = observation.pod.container("step") if observation.pod is not None else None
        ran = ran or (step is not None and step.state.running is not None)
        if answer.settled:
            break


def events_cause_no_success(choose: Choose) -> None:
    """Events never turn another answer into an exit, and a wait remains a wait unless the pod was evicted."""
    seen = some_observations(choose)
    without = fold(START, tuple(replace(each, events=None) for each in seen))
    with_them = fold(START, tuple(seen))
    if isinstance(with_them[-1], Exited):
        assert _without_notes(without[-1]) == _without_notes(with_them[-1])
    for before, after in zip(without, with_them, strict=True):
        if isinstance(before, Pending) and not isinstance(after, Pending):
            assert any(event.reason in {"Evicted", "Killing"} for each in seen for event in each.events or ())
            break


def a_timeout_is_never_infra(choose: Choose) -> None:
    """A step that was timed out before its end was seen is neither Infra nor an exit."""
    memory = START
    for observation in some_observations(choose):
        settled, held = memory.answer.settled, memory.pending_exit
        ended = replace(observation, timed_out=True)
        answer, memory = observe(memory, ended)
        if not settled and held is None:
            assert answer == TimedOut()


TENTHS = tuple(tenth / 10 for tenth in range(-50, 51))


def a_disruption_is_never_a_success(choose: Choose) -> None:
    """A disruption before the end is Infra, whatever the code, at any pace, with any clock skew up to 5 s."""
    cluster = Cluster(choose(TENTHS), guarded=False)
    cluster.place()
    states = [cluster.document()]
    cluster.start()
    cluster.report()
    states.append(cluster.document())
    cluster.now = 20 + choose(TENTHS)
    by_kubelet = choose((False, False, True))
    if by_kubelet:
        cluster.kill(choose(("pressure", "shutdown", "critical")))
    else:
        cluster.mark(choose(tuple(BY_CLIENTS)))
    cluster.report()
    states.append(cluster.document())
    cluster.now += choose(tuple(range(61)))
    cluster.end(choose((0, 0, 1, 3, 137, 143)))
    cluster.now += choose((0, 1, 3))
    cluster.report()
    states.append(cluster.document())
    cluster.now += choose((1, 3))
    cluster.finalise()
    states += [cluster.document(), None]
    seen = [
        observation_of(state, float(at)) for at, state in enumerate(states) if at == len(states) - 2 or choose(MAYBE)
    ]
    answers = fold(Memory.start(uid=UID), tuple(seen))
    assert not any(isinstance(answer, Exited) for answer in answers)
    assert isinstance(answers[-1], Infra)


LAWS: tuple[Callable[[Choose], None], ...] = (
    there_is_always_an_answer,
    settled_answers_never_change,
    order_of_lists_does_not_matter,
    foreign_containers_change_no_answer,
    only_repeatable_infra_is_repeated,
    a_step_that_ran_is_reported_as_run,
    events_cause_no_success,
    a_timeout_is_never_infra,
    a_disruption_is_never_a_success,
)
