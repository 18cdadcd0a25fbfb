"""Laws of the verdict: it always answers, settled answers stay, and no disruption is a success."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from senro.domain.kube.pod import Pod, decode_pod, pod_from
from senro.domain.verdict import (
    Ending,
    Exited,
    Infra,
    Memory,
    Observation,
    Patience,
    TimedOut,
    observe,
)
from senro.domain.verdict.disruption import KUBELET_ENDS
from tests.lib.verdict.observations import (
    UID,
    condition,
    fold,
    last,
    observation_of,
    pod_document,
    recorded_pod,
    recorded_pods,
    running,
    terminated,
    waiting_for,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
DOCUMENTS = tuple(
    document
    for scenario, name in recorded_pods()
    for document in recorded_pod(scenario, name).documents
    if document is not None
)
WORDS = sorted(
    {"Evicted", "Unknown", "ContainerStatusUnknown", "StartError", "ImagePullBackOff", "PodFailed", "Failed", ""}
    | {"True", "False", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "1970-01-01T00:00:00Z", "step"}
)
START = datetime(2026, 11, 29, 10, tzinfo=UTC)
CODES = st.sampled_from([0, 1, 3, 128, 130, 137, 143, 255])


def places(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, part in inner for place in places(part, (*path, key)))]


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    """A recorded pod in which some places have another value, or none."""
    holder: dict[str, Any] = {"": copy.deepcopy(dict(draw(st.sampled_from(DOCUMENTS))))}
    for _ in range(draw(st.integers(0, 4))):
        *parents, key = draw(st.sampled_from(places(holder)[1:]))
        target: Any = holder
        for parent in parents:
            target = target[parent]
        if draw(st.booleans()):
            target[key] = draw(JSON | st.sampled_from(WORDS))
        elif isinstance(target, dict) and parents:
            del target[key]
    document = holder[""]
    if not isinstance(document, dict):
        return {"metadata": {"uid": UID}, "rest": document}
    metadata = document.get("metadata")
    document["metadata"] = {**(metadata if isinstance(metadata, dict) else {}), "uid": UID}
    return document


def observations(pods: st.SearchStrategy[Pod | None]) -> st.SearchStrategy[list[Observation]]:
    """Any sequence of observations with growing times."""
    one = st.builds(
        Observation,
        pod=pods,
        at=st.floats(0, 500),
        timed_out=st.just(False),
        deletion_asked=st.booleans(),
        events=st.none() | st.just(()),
    )
    return st.lists(one, min_size=1, max_size=6).map(lambda seen: sorted(seen, key=lambda each: each.at))


ANY = observations(st.none() | mutated().map(pod_from))


@given(value=JSON)
def test_any_json_decodes(value: object) -> None:
    """Any JSON is a pod, the same from bytes and from the decoded value, and `observe` answers."""
    pod = decode_pod(json.dumps(value).encode())
    assert pod == pod_from(json.loads(json.dumps(value)))
    observe(Memory.start(uid=UID), Observation(pod=pod, at=0.0))


@given(document=mutated())
def test_broken_pods_decode(document: dict[str, Any]) -> None:
    """A pod with any values decodes the same in one pass and through `pod_from`."""
    assert decode_pod(json.dumps(document).encode()) == pod_from(json.loads(json.dumps(document)))


@given(seen=ANY, own_deadline=st.none() | st.just(3))
def test_any_observations_have_answers(seen: list[Observation], own_deadline: int | None) -> None:
    """The answers are the same each time, and a settled one stays."""
    memory = Memory.start(uid=UID, own_deadline=own_deadline)
    answers = fold(memory, tuple(seen))
    assert answers == fold(memory, tuple(seen))
    for before, after in pairwise(answers):
        assert not before.settled or before == after
    patience = Patience(began=0.0)
    for observation, answer in zip(seen, answers, strict=True):
        patience = patience.after(answer, observation.at)
        patience.verdict(answer, observation.at)


@given(seen=ANY, begins=st.integers(0, 6))
def test_a_timeout_is_timed_out(seen: list[Observation], begins: int) -> None:
    """A step whose timeout passed before its end was seen is TimedOut and nothing else."""
    assume(begins < len(seen))
    ended = [replace(each, timed_out=True) if index >= begins else each for index, each in enumerate(seen)]
    memory = Memory.start(uid=UID)
    for observation in ended[:begins]:
        _, memory = observe(memory, observation)
    before = memory
    answer, memory = observe(memory, ended[begins])
    if before.answer.settled:
        assert answer == before.answer
    elif before.pending_exit is None:
        assert answer == TimedOut()


def stamp(moment: datetime) -> str:
    """A time as the apiserver writes it, in whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


@st.composite
def disruptions(draw: st.DrawFn) -> tuple[datetime, dict[str, Any]]:
    """When a disruption began, by the apiserver's clock, and what the pod shows of it."""
    began = START + timedelta(seconds=draw(st.floats(20, 30)))
    grace = draw(st.integers(0, 3_600))
    reason = draw(st.sampled_from(["EvictionByEvictionAPI", "PreemptionByScheduler", "DeletionByTaintManager", "New"]))
    shown: dict[str, Any] = {}
    deleted, targeted = draw(st.sampled_from([(True, False), (False, True), (True, True)]))
    if deleted:
        end = stamp(began.replace(microsecond=0) + timedelta(seconds=grace))
        shown["metadata"] = {"deletionTimestamp": end, "deletionGracePeriodSeconds": grace}
    if targeted:
        shown["conditions"] = (condition("DisruptionTarget", "True", reason, stamp(began)),)
    return began, shown


@given(
    disruption=disruptions(), after=st.floats(0, 60), skew=st.floats(-5, 5), code=CODES, kept=st.sets(st.integers(0, 4))
)
def test_an_end_after_a_disruption(
    disruption: tuple[datetime, dict[str, Any]], after: float, skew: float, code: int, kept: set[int]
) -> None:
    """It is Infra, whatever the code, for any polls and any clock skew up to 5 s."""
    began, shown = disruption
    finish = stamp(began + timedelta(seconds=after + skew))
    phase = "Succeeded" if code == 0 else "Failed"
    ready = "PodCompleted" if code == 0 else "PodFailed"
    states = [
        pod_document(waiting_for(), phase="Pending"),
        pod_document(running()),
        pod_document(running(), **shown),
        pod_document(terminated(code, finish), ready=ready, **shown),
        pod_document(terminated(code, finish), ready=ready, phase=phase, **shown),
    ]
    seen = [observation_of(state, float(index)) for index, state in enumerate(states) if index in kept]
    answers = fold(Memory.start(uid=UID), (*seen, observation_of(None, 9.0)))
    assert not any(isinstance(answer, Exited) for answer in answers)
    assert isinstance(answers[-1], Infra)


@given(disruption=disruptions(), before=st.floats(11.1, 19), skew=st.floats(-5, 5), code=CODES)
def test_an_end_well_before_a_disruption(
    disruption: tuple[datetime, dict[str, Any]], before: float, skew: float, code: int
) -> None:
    """An end that no skew up to 5 s brings near the disruption counts, also if both are seen together."""
    began, shown = disruption
    finish = stamp(began - timedelta(seconds=before) + timedelta(seconds=skew))
    answer = last(observation_of(pod_document(terminated(code, finish), phase="Failed", **shown)))
    assert isinstance(answer, Exited)
    assert answer.code == code


@given(disruption=disruptions(), code=CODES, ready=st.sampled_from(["PodFailed", "PodCompleted", "ContainersNotReady"]))
def test_an_end_that_is_seen_first(disruption: tuple[datetime, dict[str, Any]], code: int, ready: str) -> None:
    """An end that was seen before the disruption keeps its code."""
    _, shown = disruption
    state = terminated(code, stamp(START + timedelta(seconds=60)))
    seen = observation_of(pod_document(state, ready=ready))
    disrupted = observation_of(pod_document(state, ready=ready, **shown), 1.0)
    answers = fold(Memory.start(uid=UID), (seen, disrupted, observation_of(None, 2.0)))
    assert isinstance(answers[-1], Exited)
    assert answers[-1] == answers[1]
    assert answers[-1].code == code


@given(seen=ANY, data=st.data())
def test_order_in_lists_means_nothing(seen: list[Observation], data: st.DataObject) -> None:
    """Containers and conditions in any order give the same answers."""
    shuffled = [replace(each, pod=reordered(each.pod, data)) for each in seen]
    memory = Memory.start(uid=UID)
    assert fold(memory, tuple(seen)) == fold(memory, tuple(shuffled))


def reordered(pod: Pod | None, data: st.DataObject) -> Pod | None:
    if pod is None or not unambiguous(pod):
        return pod
    conditions = data.draw(st.permutations(pod.status.conditions))
    statuses = data.draw(st.permutations(pod.status.container_statuses))
    status = type(pod.status)(
        phase=pod.status.phase,
        reason=pod.status.reason,
        message=pod.status.message,
        start_time=pod.status.start_time,
        conditions=tuple(conditions),
        init_container_statuses=pod.status.init_container_statuses,
        container_statuses=tuple(statuses),
    )
    return type(pod)(metadata=pod.metadata, spec=pod.spec, status=status)


def unambiguous(pod: Pod) -> bool:
    """A pod without two containers of one name, which no apiserver accepts; of such two the first counts."""
    kinds = [each.type for each in pod.status.conditions]
    names = [each.name for each in pod.status.container_statuses]
    return len(set(kinds)) == len(kinds) and len(set(names)) == len(names)


STRANGER = st.sampled_from(
    [
        running(),
        terminated(0),
        terminated(1),
        waiting_for("ErrImagePull", "manifest unknown"),
        waiting_for("CrashLoopBackOff"),
        {},
    ]
)


@given(document=st.sampled_from(DOCUMENTS), strangers=st.lists(STRANGER, max_size=3))
def test_other_containers_change_no_answer(document: Mapping[str, Any], strangers: list[dict[str, Any]]) -> None:
    """They only matter by what the kubelet writes into Ready's reason."""
    pod = pod_from(document)
    ready = pod.condition("Ready")
    assume(ready is None or ready.reason not in KUBELET_ENDS)
    changed: dict[str, Any] = copy.deepcopy(dict(document))
    added = [{"name": f"stranger-{index}", "state": state} for index, state in enumerate(strangers)]
    changed["status"]["containerStatuses"] = [*added, *(changed["status"].get("containerStatuses") or [])]
    changed["spec"]["containers"] += [{"name": each["name"]} for each in added]
    memory = Memory.start(uid=pod.uid)
    assert fold(memory, (observation_of(changed),)) == fold(memory, (observation_of(document),))


@given(data=st.data())
def test_no_exit_after_a_disruption(data: st.DataObject) -> None:
    """After the cluster was seen to end a pod, no order of its states gives an exit."""
    pod = recorded_pod(*data.draw(st.sampled_from(recorded_pods())))
    states = st.none() | st.sampled_from([each for each in pod.documents if each is not None]).map(pod_from)
    answers = fold(pod.memory(), tuple(data.draw(observations(states))))
    ending = [index for index, answer in enumerate(answers) if isinstance(answer, Ending)]
    later = answers[ending[0] :] if ending else []
    assert not any(isinstance(answer, Exited) for answer in later)
