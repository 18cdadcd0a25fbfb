"""Compares the table of known states with its data file, and shows each row as a pod."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from senro.domain.kube.event import ClusterEvent, ObjectReference
from senro.domain.kube.pod import pod_from
from senro.domain.verdict import Answer, Exited, Infra, InfraKind, Observation, Pending, PendingKind, TimedOut
from senro.domain.verdict.explain.matching_states import rows_of
from senro.domain.verdict.signals.known_states import ROWS, Means, Row, Where
from tests.lib.verdict.observations import (
    STARTED,
    UID,
    condition,
    last,
    observation_of,
    pod_document,
    running,
    terminated,
    waiting_for,
)

FACTS = [
    fact
    for fact in json.loads((Path(__file__).parent / "facts" / "pod-states.json").read_text())
    if fact["where"] != "observation"  # about sequences of states, which no single field shows
]

RUNC = "failed to create shim task: runc create failed: unable to start container process: "
NO_FILE = RUNC + 'exec: "x": executable file not found in $PATH'
NO_MOUNT = RUNC + "error mounting /a to rootfs"
NEVER_SEEN: dict[str, Any] = {"startedAt": None, "finishedAt": None}
RUNS = observation_of(pod_document(running()))
DELETED = {"deletionTimestamp": "2026-11-29T10:00:40Z", "deletionGracePeriodSeconds": 30}


def test_the_table_equals_the_data_file() -> None:
    """The table has each state of the data file that one field shows, in order, and no other."""
    assert [(str(row.where), row.value) for row in ROWS] == [(fact["where"], fact["value"]) for fact in FACTS]
    assert [row.number for row in ROWS] == list(range(1, len(FACTS) + 1))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.number))
def test_every_row_has_a_reason(row: Row) -> None:
    """Each row has a reason of several words."""
    assert len(row.why.split()) >= 3
    assert not row.why.endswith(".")


def waiting(reason: str, message: str = "the words", **fields: Any) -> Observation:
    return observation_of(pod_document(waiting_for(reason, message), phase="Pending", **fields))


def ended(code: int, phase: str = "Failed", **fields: Any) -> Observation:
    return observation_of(pod_document(terminated(code, **fields), phase=phase))


def lost(state: Mapping[str, Any], before: str = "") -> tuple[Observation, ...]:
    """Returns the observations of a pod that ran and then shows this state for twenty seconds."""
    container = {"lastState": terminated(137, reason=before, **NEVER_SEEN)} if before else {}
    document = pod_document(state, container=container)
    return (RUNS, observation_of(document, 1.0), observation_of(document, 21.0))


def failed(reason: str, message: str = "", **spec: Any) -> Observation:
    status = {"reason": reason, "message": message}
    return observation_of(pod_document(waiting_for(), phase="Failed", status=status, spec=spec))


def unscheduled(reason: str, message: str = "0/1 nodes are available") -> Observation:
    scheduled = condition("PodScheduled", "False", reason, message=message)
    return observation_of(pod_document(phase="Pending", conditions=(scheduled,), spec={"nodeName": ""}))


def conditioned(*conditions: Mapping[str, Any], at: float = 0.0) -> Observation:
    return observation_of(pod_document(running(), conditions=conditions), at)


def target(reason: str, status: str = "True") -> Observation:
    return conditioned(condition("DisruptionTarget", status, reason))


def silent(at: float) -> Observation:
    return conditioned(condition("Ready", "False"), condition("ContainersReady", "True"), at=at)


CRASHED = {"lastState": terminated(3)}
RUNNING = ("running", RUNS)

WAITING: dict[int, list[tuple[str, Any]]] = {
    1: [("pending:creating", waiting("ContainerCreating", ""))],
    2: [("pending:creating", waiting("PodInitializing", ""))],
    3: [("pending:creating", waiting("", ""))],
    4: [("exited:3", waiting("CrashLoopBackOff", container=CRASHED, ready="ContainersNotReady"))],
    5: [
        ("pending:image-not-found", waiting("ErrImagePull", "manifest unknown")),
        ("pending:image-limited", waiting("ErrImagePull", "pull QPS exceeded")),
        ("pending:image-denied", waiting("ErrImagePull", "[failed to authorize: a, failed to authorize: b]")),
    ],
    6: [
        (
            "pending:image-platform",
            waiting(
                "ImagePullBackOff",
                'Back-off pulling image "x": ErrImagePull: no match for platform in manifest: not found',
            ),
        ),
        ("pending:image-unreachable", waiting("ImagePullBackOff", 'Back-off pulling image "x"')),
    ],
    7: [("pending:image-absent", waiting("ErrImageNeverPull"))],
    8: [("pending:runtime", waiting("ImageInspectError"))],
    9: [("pending:image-invalid", waiting("InvalidImageName"))],
    10: [("pending:image-unreachable", waiting("RegistryUnavailable"))],
    11: [("pending:image-denied", waiting("SignatureValidationFailed"))],
    12: [("pending:runtime", waiting("failed to look up credentials: no such file", ""))],
    13: [("pending:config", waiting("CreateContainerConfigError", 'secret "s" not found'))],
    14: [("pending:runtime", waiting("PreCreateHookError"))],
    15: [
        ("pending:config", waiting("CreateContainerError", "container create failed: " + NO_FILE)),
        ("pending:volume", waiting("CreateContainerError", NO_MOUNT)),
        ("pending:runtime", waiting("CreateContainerError", 'name "n" is reserved for "id"')),
    ],
    16: [("pending:runtime", waiting("PreStartHookError"))],
    17: [
        (
            "pending:config",
            waiting(
                "RunContainerError",
                NO_FILE,
                container={"lastState": terminated(128, reason="StartError", startedAt="1970-01-01T00:00:00Z")},
            ),
        ),
        ("pending:runtime", waiting("RunContainerError", RUNC + "cgroup: no such device")),
    ],
    18: [("pending:config", waiting("PostStartHookError"))],
    19: [("infra:node-lost", lost(waiting_for("RestartingAllContainers")))],
    **{number: [("pending:runtime", waiting(ROWS[number - 1].words[0]))] for number in range(20, 26)},
    26: [
        ("pending:volume", waiting("CreateContainerError", "ImageVolumeMountFailed: no such reference")),
        ("pending:volume", waiting("CreateContainerError", "RROUnsupported: this runtime has none")),
    ],
    27: [("pending:image-not-found", waiting("ErrImagePull", 'failed to pull volume image "v": not found'))],
}

TERMINATED: dict[int, list[tuple[str, Any]]] = {
    28: [
        ("exited:0", ended(0, "Succeeded")),
        ("infra:node-lost", ended(0, "Succeeded", **NEVER_SEEN)),
    ],
    29: [("exited:3", ended(3)), ("exited:255", ended(255)), ("infra:node-lost", ended(-1))],
    30: [
        ("exited:137:oom", ended(137, reason="OOMKilled")),
        ("exited:0:oom", ended(0, "Succeeded", reason="OOMKilled")),
    ],
    31: [
        ("exited:128:start-error", ended(128, reason="StartError", message=NO_FILE)),
        ("infra:volume", ended(128, reason="StartError", message=NO_MOUNT)),
    ],
    32: [("exited:127:start-error", ended(127, reason="ContainerCannotRun", message="no such file"))],
    33: [("infra:node-lost", ended(137, reason="ContainerStatusUnknown", **NEVER_SEEN))],
    34: [("infra:node-lost", lost(terminated(137, reason="RestartingAllContainers", **NEVER_SEEN)))],
    35: [("infra:node-lost", ended(255, reason="Unknown"))],
    36: [("exited:159", ended(159, reason="seccomp killed"))],
    37: [("exited:1", ended(1, reason="DeadlineExceeded"))],
    38: [("exited:1", ended(1, reason="Evicted"))],
    39: [("exited:139", ended(139, signal=11))],
    40: [("infra:node-lost", lost(waiting_for(), before="ContainerStatusUnknown"))],
    41: [("infra:node-lost", lost(waiting_for(), before="RestartingAllContainers"))],
}

POD: dict[int, list[tuple[str, Any]]] = {
    **{
        number: [("infra:rejected", failed(ROWS[number - 1].words[0], FACTS[number - 1]["message_format"]))]
        for number in range(42, 69)
        if number != 46
    },
    46: [("infra:rejected", failed("OutOfnvidia.com/gpu", "Pod was rejected: Node didn't have enough resource"))],
    69: [
        ("infra:evicted", failed("Evicted", "The node was low on resource: memory. ")),
        ("infra:resource-limit", failed("Evicted", 'Usage of EmptyDir volume "v" exceeds the limit "8Mi". ')),
        ("infra:resource-limit", failed("Evicted", "Container c exceeded its local ephemeral storage limit. ")),
    ],
    70: [("infra:preempted", failed("Preempting", "Preempted in order to admit critical pod"))],
    71: [("infra:evicted", failed("Terminated", "Pod was terminated in response to imminent node shutdown."))],
    72: [("infra:deadline", failed("DeadlineExceeded", activeDeadlineSeconds=60))],
    73: [("infra:node-lost", failed("NodeLost"))],
    74: [("running", conditioned(condition("PodResizePending", "True", "Infeasible")))],
    75: [("infra:rejected", failed("Preempted"))],
    76: [
        ("exited:3", ended(3)),
        ("infra:node-lost", observation_of(pod_document(running(), phase="Failed"))),
        ("infra:deleted", observation_of(pod_document(terminated(143), phase="Failed", metadata=DELETED))),
        ("infra:runtime", failed("")),
    ],
}

CONDITIONS: dict[int, list[tuple[str, Any]]] = {
    77: [("pending:scheduling", unscheduled("SomethingNew"))],
    78: [("pending:unschedulable", unscheduled("Unschedulable"))],
    79: [("pending:scheduling", unscheduled("SchedulerError"))],
    80: [("pending:gated", unscheduled("SchedulingGated"))],
    81: [("running", conditioned(condition("PodReadyToStartContainers", "False")))],
    82: [("running", conditioned(condition("Initialized", "False", "ContainersNotInitialized")))],
    83: [("running", conditioned(condition("ContainersReady", "False", "ContainersNotReady")))],
    84: [("infra:node-lost", (silent(0.0), silent(360.0))), ("running", (silent(0.0), silent(359.0)))],
    85: [("ending:evicted", target("SomethingNew")), ("running", target("SomethingNew", "False"))],
    86: [("ending:preempted", target("PreemptionByScheduler"))],
    87: [
        ("ending:evicted", target("DeletionByTaintManager")),
        (
            "ending:node-lost",
            conditioned(
                condition("DisruptionTarget", "True", "DeletionByTaintManager"),
                condition("Ready", "False"),
                condition("ContainersReady", "True"),
            ),
        ),
    ],
    88: [("ending:evicted", target("DeletionByDeviceTaintManager"))],
    89: [("ending:evicted", target("EvictionByEvictionAPI"))],
    90: [("ending:node-lost", target("DeletionByPodGC"))],
    91: [
        (
            "infra:evicted",
            observation_of(
                pod_document(
                    terminated(0),
                    phase="Failed",
                    conditions=(condition("DisruptionTarget", "True", "TerminationByKubelet", STARTED),),
                )
            ),
        )
    ],
    92: [("running", conditioned(condition("PodResizePending", "True", "Deferred")))],
    93: [("running", conditioned(condition("PodResizeInProgress", "True", "Error")))],
    94: [("running", conditioned(condition("AllContainersRestarting", "True", "RestartAllContainersStarted")))],
    95: [("running", conditioned(condition("Initialized", "False", "UnknownContainerStatuses")))],
}

SHOWN = {**WAITING, **TERMINATED, **POD, **CONDITIONS}
CASES = [(number, *case) for number, cases in SHOWN.items() for case in cases]


NOT_TOLD = {26, 27, 39}
"""Rows that another row shows: a token in a message, an image of a volume, a field."""


def in_words(answer: Answer) -> str:
    match answer:
        case Exited(code=code, notes=notes):
            return ":".join(["exited", str(code), *(str(note) for note in notes)])
        case _ if hasattr(answer, "kind"):
            return f"{type(answer).__name__.lower()}:{answer.kind}"
        case _:
            return type(answer).__name__.lower()


def test_every_container_pod_and_condition_row_has_an_example() -> None:
    """Each row of a container, a pod or a condition has a pod that shows it."""
    wanted = {row.number for row in ROWS if row.where not in {Where.SCHEDULER, Where.EVENT}}
    assert set(SHOWN) == wanted


@pytest.mark.parametrize(("number", "words", "seen"), CASES, ids=[f"{number}-{words}" for number, words, _ in CASES])
def test_an_example_matches_its_row(number: int, words: str, seen: Observation | tuple[Observation, ...]) -> None:
    """A pod that shows a row is found to match it, and gets the row's answer."""
    observations = seen if isinstance(seen, tuple) else (seen,)
    assert in_words(last(*observations)) == words
    pod, row = observations[-1].pod, ROWS[number - 1]
    assert pod is not None
    if number not in NOT_TOLD and words != "running":
        assert row in rows_of(pod, "step") or row.means is Means.ELSEWHERE


@pytest.mark.parametrize("number", SHOWN)
def test_the_answer_is_that_of_the_table(number: int) -> None:
    """The first pod that shows a row gets the answer of the row."""
    means, words = ROWS[number - 1].means, SHOWN[number][0][0]
    kind = words.partition(":")[2]
    if isinstance(means, PendingKind):
        assert words == f"pending:{means}"
    elif isinstance(means, InfraKind):
        assert words in {f"infra:{means}", f"ending:{means}"}
    elif means is Means.EXITED:
        assert words.startswith("exited:")
    elif means is Means.NOTHING:
        assert words == "running"
    else:
        assert means in {Means.WORDS, Means.ELSEWHERE}
        assert kind or words == "running"


SCHEDULER_WORDS = {
    96: "0/5 nodes are available: 5 something new.",
    97: "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
    105: "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules.",
    106: "0/1 nodes are available: 1 node(s) didn't match pod topology spread constraints.",
    107: "0/1 nodes are available: 1 node(s) had no available volume zone.",
    110: '0/1 nodes are available: persistentvolumeclaim "c" not found.',
}


@pytest.mark.parametrize("number", range(96, 112))
def test_a_scheduler_message(number: int) -> None:
    """The step waits for a node, the answer quotes the scheduler, and the reason in its message is found."""
    row = ROWS[number - 1]
    message = SCHEDULER_WORDS.get(number, f"0/1 nodes are available: 1 {row.value}.")
    seen = unscheduled("Unschedulable", message)
    assert last(seen) == Pending(PendingKind.UNSCHEDULABLE, message=message)
    assert row.means is PendingKind.UNSCHEDULABLE
    assert seen.pod is not None
    assert number == 96 or row in rows_of(seen.pod, "step")


def event_with_reason(reason: str) -> ClusterEvent:
    return ClusterEvent(
        reason=reason, message="said so", involved_object=ObjectReference(uid=UID), first_timestamp=STARTED
    )


EVENT_WORDS = [(row, word) for row in ROWS if row.where is Where.EVENT for word in row.words]


@pytest.mark.parametrize(("row", "word"), EVENT_WORDS, ids=[f"{row.number}-{word}" for row, word in EVENT_WORDS])
def test_an_event(row: Row, word: str) -> None:
    """An Event gives the cause of a wait or an eviction if its row says so, and changes no other answer."""
    creating = pod_document(waiting_for(), phase="Pending")
    with_it = last(observation_of(creating, events=(event_with_reason(word),)))
    if isinstance(row.means, PendingKind):
        assert isinstance(with_it, Pending)
        assert with_it.kind is row.means
    elif isinstance(row.means, InfraKind):
        done = pod_document(terminated(0), phase="Succeeded")
        answer = last(observation_of(done, events=(event_with_reason(word),)))
        assert isinstance(answer, Infra)
        assert answer.kind is row.means
    else:
        for document in (creating, pod_document(running()), pod_document(terminated(0), phase="Succeeded")):
            assert last(observation_of(document, events=(event_with_reason(word),))) == last(
                observation_of(document, events=())
            )
    assert row in rows_of(pod_from(creating), "step", (event_with_reason(word),))


def test_the_requested_deadline_is_a_timeout() -> None:
    """Row 72 is a timeout if the pod has the deadline that senro requested."""
    assert last(failed("DeadlineExceeded", activeDeadlineSeconds=60), own_deadline=60) == TimedOut()
