"""Every recorded pod gets the answer of `recordings/expected.json`, at any pace of polling."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.domain.kube.event import ClusterEvent, ObjectReference
from senro.domain.verdict import (
    Answer,
    Ending,
    Exited,
    Infra,
    Memory,
    Note,
    Pending,
    Running,
    TimedOut,
)
from tests.lib.verdict.observations import RecordedPod, expected_answers, fold, recorded_pod, recorded_pods

PODS = recorded_pods()
JUDGED = pytest.mark.parametrize(("scenario", "name"), PODS, ids=[f"{s}:{n}" for s, n in PODS])

NAMES: dict[type, str] = {
    Pending: "pending",
    Running: "running",
    Ending: "ending",
    Exited: "exited",
    Infra: "infra",
    TimedOut: "timed_out",
}


def assert_is(answer: Answer, wanted: dict[str, Any]) -> None:
    assert NAMES[type(answer)] == wanted["answer"], answer
    for attribute, value in wanted.items():
        if attribute == "notes":
            assert [str(note) for note in getattr(answer, attribute)] == value
        elif attribute not in {"answer", "if", "else", "with_events"}:
            assert getattr(answer, attribute) == value, answer


def assert_never(answers: list[Answer], never: list[str]) -> None:
    for answer in answers:
        assert NAMES[type(answer)] not in never, answer
        assert not ({str(note) for note in getattr(answer, "notes", ())} & set(never)), answer


def folded(pod: RecordedPod, memory: Memory) -> list[Answer]:
    """Returns the answers before the recorder deleted the pod; later answers to unsettled pods cannot be judged."""
    return fold(memory, pod.observations[: pod.ours])


@JUDGED
def test_recorded_pods_get_the_expected_answer(scenario: str, name: str) -> None:
    """The observations of a recorded pod give the expected answer."""
    pod, truth = recorded_pod(scenario, name), expected_answers()[scenario][name]
    assert_is(folded(pod, pod.memory())[-1], truth["final"].get("else", truth["final"]))


@JUDGED
def test_no_prefix_gives_a_forbidden_answer(scenario: str, name: str) -> None:
    """No prefix of the observations gives a forbidden answer, and a settled answer remains after a 404."""
    pod, truth = recorded_pod(scenario, name), expected_answers()[scenario][name]
    answers = fold(pod.memory(), pod.observations)
    if not answers[pod.ours - 1].settled:
        answers = answers[: pod.ours]
    assert_never(answers, truth["never"])
    settled = [answer for answer in answers if answer.settled]
    assert len(set(settled)) <= 1
    assert answers[len(answers) - len(settled) :] == settled


def test_deadline_exceeded_is_a_timeout_by_the_own_deadline() -> None:
    """It is a timeout if the deadline is senro's own, and never the command's exit code."""
    truth = expected_answers()["deadline-exceeded"]["r-deadline"]
    pod = recorded_pod("deadline-exceeded", "r-deadline")
    answers = folded(pod, pod.memory(own_deadline=3))
    assert_is(answers[-1], truth["final"])
    assert_never(answers, truth["never"])
    assert_is(folded(pod, pod.memory(own_deadline=4))[-1], truth["final"]["else"])


def test_an_eviction_that_only_an_event_shows() -> None:
    """It is Infra if Events are read, and a note if not."""
    truth = expected_answers()["evicted-kubelet-trap-zero"]["r-evict-kubelet"]["final"]
    pod = recorded_pod("evicted-kubelet-trap-zero", "r-evict-kubelet")
    event = ClusterEvent(
        reason="Evicted",
        message='Usage of EmptyDir volume "d" exceeds the limit "8Mi". ',
        involved_object=ObjectReference(uid=pod.uid),
        first_timestamp="2026-11-29T23:18:26Z",
    )
    seen = pod.observations[: pod.ours]

    def answer_with(*events: ClusterEvent) -> Answer:
        return fold(pod.memory(), (*seen[:5], *(replace(each, events=events) for each in seen[5:])))[-1]

    assert_is(answer_with(event), truth["with_events"])
    assert answer_with() == Exited(0)
    of_another = replace_uid(event, "another")
    assert answer_with(of_another) == Exited(0)
    assert fold(pod.memory(), seen)[-1] == Exited(0, (Note.DISRUPTION_UNCHECKED,))


def replace_uid(event: ClusterEvent, uid: str) -> ClusterEvent:
    return ClusterEvent(
        reason=event.reason,
        message=event.message,
        involved_object=ObjectReference(uid=uid),
        first_timestamp=event.first_timestamp,
    )


def needed(scenario: str, pod: RecordedPod) -> set[int]:
    """Returns the observations without which another answer is correct.

    `finished-then-deleted` is no Infra because the end was seen before the deletion. A poller that sees both at once,
    three seconds apart, cannot distinguish them.
    """
    if scenario != "finished-then-deleted":
        return set()
    deleted = next(
        index
        for index, observation in enumerate(pod.observations)
        if observation.pod is not None and observation.pod.metadata.deletion_timestamp
    )
    return {deleted - 1}


@JUDGED
@given(data=st.data())
def test_a_slower_poller_gives_no_forbidden_answer(scenario: str, name: str, data: st.DataObject) -> None:
    """A poller that misses any of the states in between gives no forbidden answer."""
    pod, truth = recorded_pod(scenario, name), expected_answers()[scenario][name]
    count = len(pod.observations)
    kept = data.draw(st.sets(st.integers(0, count - 1), min_size=1)) | needed(scenario, pod)
    assert_never(fold(pod.memory(), tuple(pod.observations[index] for index in sorted(kept))), truth["never"])


@JUDGED
def test_every_stride_gives_no_forbidden_answer(scenario: str, name: str) -> None:
    """The same holds for every n-th state from any first one."""
    pod, truth = recorded_pod(scenario, name), expected_answers()[scenario][name]
    count = len(pod.observations)
    for stride in range(1, count + 1):
        for start in range(min(stride, count)):
            kept = sorted(set(range(start, count, stride)) | needed(scenario, pod))
            assert_never(fold(pod.memory(), tuple(pod.observations[index] for index in kept)), truth["never"])
