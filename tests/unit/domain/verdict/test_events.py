"""What Events add to a wait, when senro reads them, and how they change patience."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from senro.domain.kube.event import ClusterEvent, EventSeries, ObjectReference, decode_events
from senro.domain.verdict import (
    Answer,
    Exited,
    InfraKind,
    Memory,
    Note,
    Observation,
    Patience,
    Pending,
    PendingKind,
    Running,
    observe,
    wants_events,
)
from tests.lib.verdict.observations import (
    UID,
    condition,
    last,
    observation_of,
    pod_document,
    running,
    terminated,
    waiting_for,
)

CREATING = pod_document(waiting_for(), phase="Pending")
SECRET = 'MountVolume.SetUp failed for volume "v" : secret "s" not found'
SANDBOX = "Failed to create pod sandbox: no address left"
SCHEDULER = "0/1 nodes are available: 1 Insufficient cpu."
GROWS = "pod triggered scale-up: [{group 1->2 (max: 3)}]"
STAYS = "pod didn't trigger scale-up: 1 max node group size reached"
PULLING = 'Pulling image "registry/x"'


def event(reason: str, message: str = "", second: int = 0, uid: str = UID, path: str = "") -> ClusterEvent:
    return ClusterEvent(
        reason=reason,
        message=message,
        involved_object=ObjectReference(uid=uid, field_path=path),
        last_timestamp=f"2026-11-29T10:00:{second:02}Z",
    )


def unscheduled() -> dict[str, Any]:
    scheduled = condition("PodScheduled", "False", "Unschedulable", message=SCHEDULER)
    return pod_document(phase="Pending", conditions=(scheduled,), spec={"nodeName": ""})


@pytest.mark.parametrize(
    ("events", "answer"),
    [
        ((), Pending(PendingKind.CREATING, "step")),
        ((event("FailedMount", SECRET),), Pending(PendingKind.VOLUME, "step", SECRET)),
        ((event("FailedMount", SECRET, uid="another"),), Pending(PendingKind.CREATING, "step")),
        ((event("FailedAttachVolume", "busy"),), Pending(PendingKind.VOLUME, "step", "busy")),
        ((event("FailedCreatePodSandBox", SANDBOX),), Pending(PendingKind.RUNTIME, "step", SANDBOX)),
        ((event("FailedCreatePodSandBox"),), Pending(PendingKind.RUNTIME, "step", "FailedCreatePodSandBox")),
        ((event("FailedMount", SECRET, 1), event("Pulling", PULLING, 2)), Pending(PendingKind.CREATING, "step")),
        ((event("Pulling", PULLING, 2), event("FailedMount", SECRET, 1)), Pending(PendingKind.CREATING, "step")),
        ((event("Pulling", PULLING, 1), event("FailedMount", SECRET, 2)), Pending(PendingKind.VOLUME, "step", SECRET)),
        ((event("FailedMount", "a"), event("FailedMount", "b")), Pending(PendingKind.VOLUME, "step", "b")),
        (
            (event("Pulling", PULLING, path="spec.containers{step}"),),
            Pending(PendingKind.CREATING, "step", PULLING),
        ),
        ((event("Pulling", PULLING, path="spec.containers{other}"),), Pending(PendingKind.CREATING, "step")),
        ((event("Scheduled", "assigned"),), Pending(PendingKind.CREATING, "step")),
    ],
)
def test_the_latest_event_explains_creating(events: tuple[ClusterEvent, ...], answer: Pending) -> None:
    """The latest Event is the cause of a lasting ContainerCreating, unless it shows that the cause is over."""
    assert last(observation_of(CREATING, events=events)) == answer


@pytest.mark.parametrize(
    ("events", "answer"),
    [
        ((), Pending(PendingKind.UNSCHEDULABLE, message=SCHEDULER)),
        (
            (event("TriggeredScaleUp", GROWS),),
            Pending(PendingKind.UNSCHEDULABLE, message=f"{SCHEDULER}; {GROWS}", growing=True),
        ),
        (
            (event("Nominated", "Pod should schedule on: nodeclaim/x"),),
            Pending(
                PendingKind.UNSCHEDULABLE, message=f"{SCHEDULER}; Pod should schedule on: nodeclaim/x", growing=True
            ),
        ),
        (
            (event("TriggeredScaleUp", GROWS, 1), event("NotTriggerScaleUp", STAYS, 2)),
            Pending(PendingKind.UNSCHEDULABLE, message=f"{SCHEDULER}; {STAYS}"),
        ),
        ((event("FailedScheduling", SCHEDULER),), Pending(PendingKind.UNSCHEDULABLE, message=SCHEDULER)),
    ],
)
def test_events_of_an_autoscaler(events: tuple[ClusterEvent, ...], answer: Pending) -> None:
    """A triggered scale-up makes the wait a growing one, a refused one is quoted; the later of both counts."""
    assert last(observation_of(unscheduled(), events=events)) == answer


def test_the_pull_secret_behind_a_denied_image() -> None:
    """A missing imagePullSecret is added to the registry's refusal."""
    denied = pod_document(waiting_for("ErrImagePull", "pull access denied"), phase="Pending")
    missing = event("FailedToRetrieveImagePullSecret", "Unable to retrieve some image pull secrets (regcred)")
    assert last(observation_of(denied, events=(missing,))) == Pending(
        PendingKind.IMAGE_DENIED,
        "step",
        "pull access denied; Unable to retrieve some image pull secrets (regcred)",
        permanent=True,
    )
    assert last(observation_of(denied, events=(event("BackOff"),))) == last(observation_of(denied))
    wordless = event("FailedToRetrieveImagePullSecret")
    assert last(observation_of(denied, events=(wordless,))) == last(observation_of(denied))


def test_events_are_remembered() -> None:
    """Between two reads of Events the latest ones count; an empty list replaces them."""
    mounting = observation_of(CREATING, 0.0, events=(event("FailedMount", SECRET),))
    assert last(mounting, observation_of(CREATING, 1.0)) == Pending(PendingKind.VOLUME, "step", SECRET)
    assert last(mounting, observation_of(CREATING, 1.0), observation_of(CREATING, 2.0, events=())) == Pending(
        PendingKind.CREATING, "step"
    )
    assert last(mounting, observation_of(pod_document(running()), 1.0)) == Running()


def wants_events_after(*observations: Observation) -> list[bool]:
    """Returns whether Events are wanted after each observation."""
    memory, wanted = Memory.start(uid=UID), []
    for observation in observations:
        answer, memory = observe(memory, observation)
        wanted.append(wants_events(answer, memory, observation.at))
    return wanted


def test_when_a_wait_needs_events() -> None:
    """Events are read once a wait has lasted five seconds and then every fifteen, and never for a running step."""
    at = [observation_of(CREATING, 100.0 + second) for second in (0.0, 4.9, 5.0)]
    assert wants_events_after(*at) == [False, False, True]
    read = replace(at[2], events=())
    assert wants_events_after(*at[:2], read, observation_of(CREATING, 119.9), observation_of(CREATING, 120.0)) == [
        False,
        False,
        False,
        False,
        True,
    ]
    assert wants_events_after(observation_of(unscheduled(), 0.0), observation_of(unscheduled(), 5.0)) == [False, True]
    staging = pod_document(waiting_for(), inits=({"name": "senro-stage", "state": running()},))
    assert wants_events_after(observation_of(staging, 0.0), observation_of(staging, 60.0)) == [False, False]
    assert wants_events_after(
        observation_of(pod_document(running()), 0.0), observation_of(pod_document(running()), 60.0)
    ) == [
        False,
        False,
    ]


def test_when_an_exit_needs_events() -> None:
    """An exit code 0 that may hide an eviction needs Events at once, and is judged with them by the memory before."""
    spec = {"volumes": [{"name": "d", "emptyDir": {"sizeLimit": "8Mi"}}]}
    done = observation_of(pod_document(terminated(0), phase="Succeeded", spec=spec))
    memory = Memory.start(uid=UID)
    answer, after = observe(memory, done)
    assert answer == Exited(0, (Note.DISRUPTION_UNCHECKED,))
    assert wants_events(answer, after, done.at)
    answer, after = observe(memory, replace(done, events=()))
    assert answer == Exited(0)
    assert not wants_events(answer, after, done.at)
    assert wants_events_after(observation_of(pod_document(terminated(1), phase="Failed", spec=spec))) == [False]


def patient(*answers: tuple[float, Answer]) -> Patience:
    patience = Patience(began=0.0)
    for at, answer in answers:
        patience = patience.after(answer, at)
    return patience


def test_patience_with_a_growing_cluster() -> None:
    """An announced node has fifteen minutes, which do not count towards the start timeout."""
    stuck = Pending(PendingKind.UNSCHEDULABLE, message=SCHEDULER)
    growing = replace(stuck, growing=True)
    creating = Pending(PendingKind.CREATING, "step")
    patience = patient((0.0, stuck), (10.0, growing), (909.0, growing))
    assert patience.verdict(growing, 909.0) is None
    given_up = patience.verdict(growing, 910.0)
    assert given_up is not None
    assert given_up.kind is InfraKind.UNSCHEDULABLE
    placed = patient((0.0, stuck), (10.0, growing), (800.0, creating))
    assert placed.verdict(creating, 1_089.0) is None
    assert placed.verdict(creating, 1_090.0) is not None
    refused = patient((0.0, stuck), (10.0, growing), (800.0, stuck))
    assert refused.verdict(stuck, 1_089.0) is None
    assert refused.verdict(stuck, 1_090.0) is not None


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        (SECRET, 60.0),
        ('MountVolume.SetUp failed for volume "v" : configmap "c" not found', 60.0),
        ('persistentvolumeclaim "c" not found', 300.0),
        ("timed out waiting for the condition", 300.0),
    ],
)
def test_patience_with_a_missing_volume(words: str, seconds: float) -> None:
    """A missing Secret or ConfigMap of a volume has a minute, and another volume the start timeout."""
    stuck = Pending(PendingKind.VOLUME, "step", words)
    patience = patient((0.0, stuck))
    assert patience.verdict(stuck, seconds - 0.1) is None
    given_up = patience.verdict(stuck, seconds)
    assert given_up is not None
    assert given_up.kind is InfraKind.VOLUME
    assert words in given_up.message


def test_the_latest_time_of_an_event() -> None:
    """The series' time comes before the last timestamp, and that before the first."""
    (repeated, old, bare) = decode_events(
        b'{"items": [{"reason": "A", "eventTime": "2026-01-01T00:00:00.000000Z", "series": {"count": 3,'
        b'"lastObservedTime": "2026-01-01T00:00:09.000000Z"}}, {"reason": "B", "firstTimestamp":'
        b'"2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:05Z"}, {"reason": "C"}]}'
    )
    assert repeated.series == EventSeries(last_observed_time="2026-01-01T00:00:09.000000Z")
    assert [each.latest.second if each.latest else None for each in (repeated, old, bare)] == [9, 5, None]
    assert [each.moment.second if each.moment else None for each in (repeated, old, bare)] == [0, 0, None]
