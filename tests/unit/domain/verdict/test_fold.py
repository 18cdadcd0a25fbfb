"""Each row of the table of docs/design/verdicts.md#the-table, on pods made by hand.

More than 500 lines: it follows that table from the first row to the last.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from senro.domain.kube.event import ClusterEvent, ObjectReference
from senro.domain.kube.pod import pod_from
from senro.domain.verdict import (
    Answer,
    DidRun,
    Ending,
    Exited,
    Infra,
    InfraKind,
    Memory,
    Note,
    Observation,
    Pending,
    PendingKind,
    Running,
    TimedOut,
)
from senro.domain.verdict.rules_ended import HOLD
from senro.domain.verdict.signals.container_state import hides_eviction
from tests.lib.verdict.observations import (
    NODE,
    UID,
    condition,
    fold,
    last,
    observation_of,
    pod_document,
    running,
    terminated,
    waiting_for,
)

RUNS = observation_of(pod_document(running()))
WAITS = observation_of(pod_document(waiting_for(), phase="Pending"))
GONE = observation_of(None, 1.0)
SILENT = pod_document(running(), ready="", conditions=(condition("ContainersReady", "True"),))
DELETED = {"deletionTimestamp": "2026-11-29T10:00:40Z", "deletionGracePeriodSeconds": 30}
DISRUPTED = condition("DisruptionTarget", "True", "EvictionByEvictionAPI", "2026-11-29T10:00:10Z", "evicting")
FAILED = observation_of(pod_document(terminated(3), ready="PodFailed"))
"""A finish that the phase has not followed yet: held."""


def kind_of(answer: Answer) -> InfraKind:
    assert isinstance(answer, Infra), answer
    return answer.kind


def ran(answer: Answer) -> DidRun:
    assert isinstance(answer, Infra), answer
    return answer.did_run


# Rows 0 to 2


def test_a_settled_answer_stays() -> None:
    """Row 0: no deletion, no 404 and no timeout changes a settled answer."""
    done = observation_of(pod_document(terminated(), phase="Succeeded"))
    assert last(done, GONE, replace(RUNS, timed_out=True)) == Exited(0)


@pytest.mark.parametrize("before", [WAITS, RUNS])
def test_timed_out(before: Observation) -> None:
    """Row 1: a step that the coordinator timed out is TimedOut, whatever the pod shows afterwards."""
    after = observation_of(pod_document(terminated(143), phase="Failed"), 1.0, deletion_asked=True, timed_out=True)
    assert last(before, after) == TimedOut()
    assert last(before, replace(GONE, timed_out=True)) == TimedOut()


def test_an_end_before_the_timeout() -> None:
    """Row 1: an end that was seen before the timeout counts, although it still waited for the final phase."""
    late = observation_of(pod_document(terminated(3), phase="Failed"), 1.0, timed_out=True)
    assert last(FAILED, late) == Exited(3)
    assert last(FAILED, replace(GONE, timed_out=True)) == Exited(3)


def test_a_pod_that_is_gone() -> None:
    """Row 2: a 404 or another uid is Infra of the disruption that was seen before, else `vanished`."""
    other = observation_of(pod_document(running(), metadata={"uid": "other"}), 1.0)
    for gone in (GONE, other):
        assert last(RUNS, gone) == Infra(
            InfraKind.VANISHED, DidRun.YES, message="the pod is gone, for an unknown reason", node=NODE
        )
        assert ran(last(WAITS, gone)) is DidRun.MAYBE
        evicted = last(observation_of(pod_document(running(), conditions=(DISRUPTED,))), gone)
        assert evicted == Infra(InfraKind.EVICTED, DidRun.YES, message="evicting", node=NODE)
    assert last(FAILED, GONE) == Exited(3)


def test_a_pod_that_is_gone_from_a_silent_node() -> None:
    """Row 2: its process may still be alive there."""
    answer = last(observation_of(SILENT), GONE)
    assert isinstance(answer, Infra)
    assert answer.may_be_alive


def test_a_pod_without_a_uid() -> None:
    """A pod without a uid changes nothing: the last answer stays."""
    nothing = Observation(pod=pod_from({"kind": "Status"}), at=5.0)
    assert last(nothing) == Pending(PendingKind.SCHEDULING)
    assert last(RUNS, nothing) == Running()


# Row 3


STARTS = "failed to create containerd task: failed to create shim task: runc create: unable to start container process"
"""Recording `command-not-found`, up to the cause."""


def init(state: dict[str, Any], name: str = "senro-stage") -> dict[str, Any]:
    return {"name": name, "state": state}


@pytest.mark.parametrize(
    ("end", "program"),
    [
        (
            terminated(128, reason="StartError", message=f'{STARTS}: exec: "sh": executable file not found in $PATH'),
            "sh",
        ),
        (terminated(127), "mkfifo"),
    ],
)
def test_an_image_without_a_program_is_named(end: dict[str, Any], program: str) -> None:
    """Row 3: the message names the missing program, the image, and the option that names another image."""
    document = pod_document(waiting_for("PodInitializing"), phase="Pending", inits=(init(end),))
    document["spec"]["initContainers"] = [{"name": "senro-stage", "image": "example/distroless"}]
    answer = last(observation_of(document))
    assert isinstance(answer, Infra)
    assert (answer.kind, answer.did_run) == (InfraKind.CONFIG, DidRun.NO)
    assert answer.message == (
        f"senro-stage could not run: the image example/distroless has no {program}; name an image that has sh, tar and "
        "mkfifo as helper= of k8s.Pod(...), to transfer its workspaces"
    )


@pytest.mark.parametrize(
    "end",
    [
        terminated(128, reason="StartError", message=f'{STARTS}: error mounting "/x" to rootfs'),
        terminated(128, reason="StartError", message=f'{STARTS}: exec: "bash": executable file not found in $PATH'),
    ],
)
def test_another_failed_start_of_the_stage(end: dict[str, Any]) -> None:
    """Row 3: any other failure of senro-stage stays `stage-failed`, with the runtime's message."""
    answer = last(observation_of(pod_document(waiting_for("PodInitializing"), phase="Pending", inits=(init(end),))))
    assert isinstance(answer, Infra)
    assert (answer.kind, end["terminated"]["message"] in answer.message) == (InfraKind.STAGE_FAILED, True)


def test_an_init_container_that_failed() -> None:
    """Row 3: senro-stage is `stage-failed`, another one is `init-failed` by name; the step did not run."""
    waits = waiting_for("PodInitializing")
    stage = last(observation_of(pod_document(waits, phase="Pending", inits=(init(terminated(9)),))))
    assert (kind_of(stage), ran(stage)) == (InfraKind.STAGE_FAILED, DidRun.NO)
    words = terminated(1, message="no route to the mesh")
    other = last(observation_of(pod_document(waits, phase="Pending", inits=(init(words, "mesh-init"),))))
    assert isinstance(other, Infra)
    assert (other.kind, other.message) == (
        InfraKind.INIT_FAILED,
        "init container mesh-init ended with code 1: no route to the mesh",
    )
    oom = last(observation_of(pod_document(waits, phase="Pending", inits=(init(terminated(0, reason="OOMKilled")),))))
    assert kind_of(oom) is InfraKind.STAGE_FAILED


def test_an_init_container_that_did_not_fail() -> None:
    """Row 3: an invented Completed and the end of a sidecar are no failures."""
    synthetic = init(terminated(0, startedAt=None, finishedAt=None))
    assert last(observation_of(pod_document(running(), inits=(synthetic,)))) == Running()
    sidecar = {"initContainers": [{"name": "proxy", "restartPolicy": "Always"}]}
    ended = observation_of(pod_document(running(), inits=(init(terminated(1), "proxy"),), spec=sidecar))
    assert last(ended) == Running()


def test_an_init_container_that_a_disruption_killed() -> None:
    """Row 3: the kind is the disruption's, and the step did not run."""
    killed = pod_document(waiting_for(), phase="Failed", inits=(init(terminated(143)),), conditions=(DISRUPTED,))
    assert last(observation_of(killed)) == Infra(InfraKind.EVICTED, DidRun.NO, message="evicting", node=NODE)
    unknown = init(terminated(137, reason="ContainerStatusUnknown", startedAt=None))
    lost = last(observation_of(pod_document(waiting_for(), phase="Failed", inits=(unknown,))))
    assert (kind_of(lost), ran(lost)) == (InfraKind.NODE_LOST, DidRun.NO)


# Row 4

UNKNOWN = terminated(137, reason="ContainerStatusUnknown", startedAt=None, finishedAt=None)


@pytest.mark.parametrize(
    "state",
    [
        UNKNOWN,
        terminated(0, startedAt=None),
        terminated(255, reason="Unknown"),
        terminated(-1),
        terminated(exitCode=None),
        {"terminated": {}},
    ],
)
def test_an_invented_end(state: dict[str, Any]) -> None:
    """Row 4: an end that a component invented is never the command's, nor is one without a code."""
    answer = last(RUNS, observation_of(pod_document(state, phase="Failed")))
    assert (kind_of(answer), ran(answer)) == (InfraKind.NODE_LOST, DidRun.YES)


def test_whether_a_step_with_an_invented_end_ran() -> None:
    """Row 4: seen running it ran, only seen waiting it did not, never seen it may have."""
    unknown = observation_of(pod_document(UNKNOWN, phase="Failed"))
    assert ran(last(RUNS, unknown)) is DidRun.YES
    assert ran(last(WAITS, unknown)) is DidRun.NO
    assert ran(last(unknown)) is DidRun.MAYBE
    before = {"lastState": {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}}
    assert ran(last(WAITS, observation_of(pod_document(UNKNOWN, phase="Failed", container=before)))) is DidRun.YES
    created = observation_of(
        pod_document(waiting_for(""), phase="Pending", container={"containerID": "containerd://1"})
    )
    assert ran(last(created, unknown)) is DidRun.MAYBE


def test_an_invented_end_in_an_evicted_pod() -> None:
    """Row 4: the pod's reason determines the kind."""
    status = {"reason": "Evicted", "message": "The node was low on resource: memory. "}
    answer = last(RUNS, observation_of(pod_document(UNKNOWN, phase="Failed", status=status)))
    assert kind_of(answer) is InfraKind.EVICTED


# Row 5

SHIM = "failed to create containerd task: failed to create shim task: "
RUNC = SHIM + "OCI runtime create failed: runc create failed: unable to start container process: "


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (RUNC + 'exec: "x": executable file not found in $PATH: unknown', None),
        (RUNC + 'exec: "/opt/cgroup/tool": permission denied', None),
        (RUNC + "error during container init: chdir to cwd (/cgroup) set in config.json failed", None),
        (RUNC + "error during container init: mkdir /cgroup: not a directory", None),
        (RUNC + 'error during container init: error mounting "/v" to rootfs at "/x"', InfraKind.VOLUME),
        (RUNC + "unable to apply cgroup configuration: failed to write 1", InfraKind.RUNTIME),
        (SHIM + "context deadline exceeded", InfraKind.RUNTIME),
        ("", None),
    ],
)
@pytest.mark.parametrize("reason", ["StartError", "ContainerCannotRun"])
def test_a_failed_start(words: str, kind: InfraKind | None, reason: str) -> None:
    """Row 5: the innermost cause decides; quoted names and paths do not."""
    state = terminated(128, reason=reason, message=words, startedAt="1970-01-01T00:00:00Z")
    answer = last(observation_of(pod_document(state, ready="PodFailed")))
    if kind is None:
        assert answer == Exited(128, (Note.START_ERROR,), words)
    else:
        assert answer == Infra(kind, DidRun.NO, message=words, node=NODE, code=128)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "Running"])
@pytest.mark.parametrize("code", [0, 1, 137])
def test_an_end_without_a_time_is_invented(phase: str, code: int) -> None:
    """Row 4: no kubelet writes an end without finishedAt: a spot node was reclaimed, whatever the code is."""
    state = terminated(code, "", reason="Completed" if code == 0 else "Error")
    answer = last(observation_of(pod_document(running())), observation_of(pod_document(state, phase=phase), 5.0))
    assert isinstance(answer, Infra)
    assert (answer.kind, answer.did_run) == (InfraKind.NODE_LOST, DidRun.YES)


def test_a_stage_that_was_killed_for_memory() -> None:
    """Row 3: the message has OOMKilled and the option that gives it more memory."""
    killed = {"name": "senro-stage", "state": terminated(137, reason="OOMKilled")}
    answer = last(observation_of(pod_document(waiting_for("PodInitializing"), inits=(killed,))))
    assert isinstance(answer, Infra)
    assert "killed for memory (OOMKilled)" in answer.message
    assert "transfer_resources=" in answer.message


def test_a_failed_pod_without_any_message() -> None:
    """Row 10: the message says that the cluster gave none."""
    answer = last(observation_of(pod_document(phase="Failed")))
    assert isinstance(answer, Infra)
    assert answer.message == "the pod's phase is Failed, and nothing says why"


# Row 6

PAST = {"reason": "DeadlineExceeded", "message": "Pod was active on the node longer than the specified deadline"}


@pytest.mark.parametrize("state", [terminated(143, "2026-11-29T10:01:00Z"), terminated(0, ""), waiting_for()])
def test_the_deadline_of_a_pod(state: dict[str, Any]) -> None:
    """Row 6: DeadlineExceeded is TimedOut only with senro's own value and a start time."""
    document = pod_document(state, phase="Failed", spec={"activeDeadlineSeconds": 60}, status=PAST)
    assert last(observation_of(document), own_deadline=60) == TimedOut()
    assert kind_of(last(observation_of(document), own_deadline=61)) is InfraKind.DEADLINE
    assert kind_of(last(observation_of(document))) is InfraKind.DEADLINE
    unstarted = pod_document(
        state, phase="Failed", spec={"activeDeadlineSeconds": 60}, status={**PAST, "startTime": None}
    )
    assert kind_of(last(observation_of(unstarted), own_deadline=60)) is InfraKind.DEADLINE


def test_an_end_long_before_the_deadline() -> None:
    """Row 6: a step that ended well before its pod's deadline, in a pod with another container, has its code."""
    late = pod_document(terminated(4), phase="Failed", spec={"activeDeadlineSeconds": 60}, status=PAST)
    assert last(observation_of(late), own_deadline=60) == Exited(4)
    assert last(FAILED, observation_of(late, 1.0), own_deadline=60) == Exited(4)
    near = pod_document(terminated(4), phase="Failed", spec={"activeDeadlineSeconds": 15}, status=PAST)
    assert last(FAILED, observation_of(near, 1.0), own_deadline=15) == TimedOut()


def test_a_deadline_beyond_the_calendar() -> None:
    """Row 6: it has no moment and raises nothing."""
    document = pod_document(terminated(4), phase="Failed", spec={"activeDeadlineSeconds": 10**18}, status=PAST)
    assert kind_of(last(observation_of(document))) is InfraKind.DEADLINE


# Row 7


@pytest.mark.parametrize(
    "sign",
    [
        {"conditions": (DISRUPTED,)},
        {"metadata": DELETED},
        {"status": {"reason": "Preempting"}},
        {"ready": "PodFailed", "others": ({"name": "proxy", "state": running()},)},
    ],
)
@pytest.mark.parametrize("code", [0, 3, 143])
def test_a_disruption_before_the_end(sign: dict[str, Any], code: int) -> None:
    """Row 7: an end after a disruption is Infra, whatever the code, which is kept as evidence."""
    ending = last(observation_of(pod_document(running(), **sign)))
    assert isinstance(ending, Ending)
    done = pod_document(terminated(code, "2026-11-29T09:00:00Z"), phase="Succeeded", **sign)
    answer = last(observation_of(pod_document(running(), **sign)), observation_of(done, 1.0))
    assert isinstance(answer, Infra)
    assert (answer.kind, answer.did_run, answer.code, answer.notes) == (ending.kind, DidRun.YES, code, ())


@pytest.mark.parametrize(
    ("finish", "believed"),
    [("10:00:04", True), ("10:00:05", False), ("10:00:10", False), ("10:00:15", False), ("11:00:00", False)],
)
@pytest.mark.parametrize("code", [0, 3])
@pytest.mark.parametrize("sign", [{"conditions": (DISRUPTED,)}, {"metadata": DELETED}])
def test_an_end_and_a_disruption_in_one_poll(finish: str, believed: bool, code: int, sign: dict[str, Any]) -> None:
    """Row 7: only an end more than 5 s before the disruption is the command's; else the note is `tie`."""
    document = pod_document(terminated(code, f"2026-11-29T{finish}Z"), ready="PodFailed", phase="Failed", **sign)
    answer = last(RUNS, observation_of(document))
    if believed:
        assert answer == Exited(code)
    else:
        assert isinstance(answer, Infra)
        assert answer.notes == (Note.TIE,)


def test_an_end_and_a_disruption_without_times() -> None:
    """Row 7: without both times the end does not count."""
    undated = condition("DisruptionTarget", "True", "EvictionByEvictionAPI", "?")
    sign = pod_document(terminated(0, "2026-11-29T09:00:00Z"), phase="Succeeded", conditions=(undated,))
    assert kind_of(last(observation_of(sign))) is InfraKind.EVICTED
    finish = pod_document(terminated(0, "?"), phase="Succeeded", conditions=(DISRUPTED,))
    assert kind_of(last(observation_of(finish))) is InfraKind.EVICTED
    deleted = pod_document(terminated(0, "2026-11-29T09:00:00Z"), metadata={"deletionTimestamp": "soon"})
    assert kind_of(last(observation_of(deleted))) is InfraKind.DELETED


def test_an_end_that_was_seen_first() -> None:
    """Row 7: an end that was seen before the disruption counts, unless that one appears late."""
    disrupted = observation_of(pod_document(terminated(3), ready="PodFailed", metadata=DELETED), 1.0)
    assert last(FAILED, disrupted) == Exited(3)
    withheld = condition("DisruptionTarget", "True", "TerminationByKubelet", "2026-11-29T10:00:12Z")
    evicted = {"reason": "Evicted", "message": "The node was low on resource: memory. "}
    both = pod_document(terminated(3), phase="Failed", ready="PodFailed", conditions=(withheld,), status=evicted)
    assert kind_of(last(FAILED, observation_of(both, 1.0))) is InfraKind.EVICTED
    own = {"reason": "Evicted", "message": 'Container step exceeded its local ephemeral storage limit "1Gi". '}
    outgrown = observation_of(pod_document(terminated(3), phase="Failed", ready="PodFailed", status=own), 1.0)
    assert kind_of(last(FAILED, outgrown)) is InfraKind.RESOURCE_LIMIT


OWN_LIMIT = {"reason": "Evicted", "message": 'Usage of EmptyDir volume "d" exceeds the limit "8Mi". '}


def test_two_disruptions_at_once() -> None:
    """Row 7: a later deletion neither dates an undated eviction nor proves that the end came first."""
    late = {"deletionTimestamp": "2026-11-29T11:00:00Z", "deletionGracePeriodSeconds": 0}
    both = observation_of(pod_document(terminated(143), phase="Failed", metadata=late, status=OWN_LIMIT), 1.0)
    assert kind_of(last(RUNS, both)) is InfraKind.RESOURCE_LIMIT
    assert kind_of(last(FAILED, both)) is InfraKind.RESOURCE_LIMIT


def test_the_kubelets_condition_dates_its_reason() -> None:
    """Row 7: the reason of an eviction under pressure has the moment of the condition that comes with it."""
    pressure = {"reason": "Evicted", "message": "The node was low on resource: memory. "}
    by_kubelet = condition("DisruptionTarget", "True", "TerminationByKubelet", "2026-11-29T10:00:16Z")
    evicted = pod_document(terminated(3), phase="Failed", conditions=(by_kubelet,), status=pressure)
    assert last(RUNS, observation_of(evicted)) == Exited(3)


def test_a_deletion_by_senro() -> None:
    """Row 7: a deletionTimestamp after senro's own request is no disruption."""
    document = pod_document(terminated(3), phase="Failed", metadata=DELETED)
    assert last(RUNS, observation_of(document, 1.0, deletion_asked=True)) == Exited(3)


def test_a_withdrawn_disruption() -> None:
    """Row 7: a DisruptionTarget that went back to False, as after two minutes, is forgotten."""
    disrupted = observation_of(pod_document(running(), conditions=(DISRUPTED,)))
    off = condition("DisruptionTarget", "False")
    assert last(disrupted, observation_of(pod_document(running(), conditions=(off,)), 120.0)) == Running()
    done = observation_of(pod_document(terminated(0), phase="Succeeded", conditions=(off,)), 130.0)
    assert last(disrupted, done) == Exited(0)
    missing = observation_of(pod_document(terminated(0), phase="Succeeded"), 130.0)
    assert kind_of(last(disrupted, missing)) is InfraKind.EVICTED


def test_a_greater_source_changes_the_kind() -> None:
    """Row 7: a more specific source that is seen later determines the kind of a disruption."""
    deleted = observation_of(pod_document(running(), metadata=DELETED))
    preempted = condition("DisruptionTarget", "True", "PreemptionByScheduler", message="preempting")
    named = observation_of(pod_document(running(), metadata=DELETED, conditions=(preempted,)), 1.0)
    assert last(deleted, named) == Ending(InfraKind.PREEMPTED, "preempting")
    assert last(deleted, named, deleted) == Ending(InfraKind.PREEMPTED, "preempting")


def test_an_event_of_an_eviction() -> None:
    """Row 7: an Event Evicted names and dates an eviction that the pod does not show; other Events do not."""
    event = ClusterEvent(
        reason="Evicted",
        message="The node was low on resource: memory. ",
        involved_object=ObjectReference(uid=UID),
        first_timestamp="2026-11-29T10:00:09Z",
    )
    started = ClusterEvent(reason="Started", involved_object=ObjectReference(uid=UID))
    assert last(observation_of(pod_document(running()), events=(started, event))) == Ending(
        InfraKind.EVICTED, event.message
    )
    done = pod_document(terminated(0), phase="Succeeded")
    assert kind_of(last(RUNS, observation_of(done, events=(event,)))) is InfraKind.EVICTED
    early = pod_document(terminated(0, "2026-11-29T10:00:01Z"), phase="Succeeded")
    assert last(RUNS, observation_of(early, events=(event,))) == Exited(0)


def killing(message: str = "Stopping container step", container: str = "step") -> ClusterEvent:
    """The Event that a kubelet writes when it stops a container."""
    about = ObjectReference(uid=UID, field_path=f"spec.containers{{{container}}}")
    return ClusterEvent("Killing", message, about, first_timestamp="2026-11-29T10:00:09Z")


def test_an_event_of_a_stopped_container() -> None:
    """Row 7: a container that the kubelet stopped is no success, although the pod shows nothing else."""
    done = pod_document(terminated(0), phase="Succeeded")
    answer = last(RUNS, observation_of(done, events=(killing(),)))
    assert isinstance(answer, Infra)
    assert (answer.kind, answer.code, answer.notes) == (InfraKind.EVICTED, 0, (Note.TIE,))
    assert answer.message == "the kubelet ended it: Stopping container step"
    evicted = ClusterEvent("Evicted", "The node was low on resource: memory. ", ObjectReference(uid=UID))
    for events in ((killing(), evicted), (evicted, killing())):
        named = last(RUNS, observation_of(done, events=events))
        assert isinstance(named, Infra)
        assert named.message == evicted.message
    preempted = condition("DisruptionTarget", "True", "PreemptionByScheduler", "2026-11-29T10:00:09Z")
    with_it = pod_document(terminated(0), phase="Succeeded", conditions=(preempted,))
    assert kind_of(last(RUNS, observation_of(with_it, events=(killing(),)))) is InfraKind.PREEMPTED


def test_an_event_after_the_end_settles_nothing() -> None:
    """Row 9: the final phase is awaited all the same, since it may show an earlier disruption."""
    event = ClusterEvent("Evicted", "short", ObjectReference(uid=UID), first_timestamp="2026-11-29T10:00:19Z")
    ended = observation_of(pod_document(terminated(0), ready="PodCompleted"), 1.0, events=(event,))
    assert last(RUNS, ended) == Running(finishing=True)
    over = observation_of(pod_document(terminated(0), ready="PodCompleted", phase="Succeeded"), 3.0)
    assert last(RUNS, ended, over) == Exited(0)
    assert last(RUNS, ended, GONE) == Exited(0)
    assert last(RUNS, ended, replace(ended, at=1.0 + HOLD)) == Exited(0)
    told = {"reason": "Terminated", "message": "Pod was terminated in response to imminent node shutdown."}
    shut = observation_of(pod_document(terminated(0), ready="PodCompleted", phase="Succeeded", status=told), 3.0)
    assert kind_of(last(RUNS, ended, shut)) is InfraKind.EVICTED


@pytest.mark.parametrize(
    ("event", "finished", "ours"),
    [
        (killing("Stopping container senro-io", "senro-io"), "2026-11-29T10:00:10Z", False),
        (killing("Container step failed liveness probe"), "2026-11-29T10:00:10Z", False),
        (killing(), "2026-11-29T10:00:01Z", False),
        (killing(), "2026-11-29T10:00:10Z", True),
    ],
    ids=["another container", "a probe", "long after its end", "our own deletion"],
)
def test_an_event_that_does_not_stop_the_step(event: ClusterEvent, finished: str, ours: bool) -> None:
    """Row 7: an Event about another container, after the end, or after senro's own deletion is no disruption."""
    done = pod_document(terminated(0, finished), phase="Succeeded")
    assert last(RUNS, observation_of(done, events=(event,), deletion_asked=ours)) == Exited(0)


# Rows 8 and 9


@pytest.mark.parametrize("code", [0, 7])
def test_an_end_that_is_settled_at_once(code: int) -> None:
    """Row 8: if other containers run on, or the phase is final, the exit code is the answer at once."""
    assert last(RUNS, observation_of(pod_document(terminated(code), ready="ContainersNotReady"))) == Exited(code)
    phase = "Failed" if code else "Succeeded"
    assert last(RUNS, observation_of(pod_document(terminated(code), ready="PodCompleted", phase=phase))) == Exited(code)


def test_exit_code_0_waits_too() -> None:
    """Row 9: only the final phase shows the shutdown of a node if the command ended with 0 on SIGTERM."""
    ended = pod_document(terminated(0), ready="PodCompleted")
    shut = condition("DisruptionTarget", "True", "TerminationByKubelet", "2026-11-29T10:00:11Z", "node shutdown")
    over = pod_document(terminated(0), ready="PodCompleted", phase="Succeeded", conditions=(shut,))
    assert last(RUNS, observation_of(ended, 1.0)) == Running(finishing=True)
    answer = last(RUNS, observation_of(ended, 1.0), observation_of(over, 2.0))
    assert isinstance(answer, Infra)
    assert (answer.kind, answer.code, answer.notes) == (InfraKind.EVICTED, 0, (Note.TIE,))
    done = pod_document(terminated(0), ready="PodCompleted", phase="Succeeded")
    assert last(RUNS, observation_of(ended, 1.0), observation_of(done, 2.0)) == Exited(0)


@pytest.mark.parametrize("ready", ["PodFailed", "PodCompleted", "", None])
def test_an_end_waits_for_the_final_phase(ready: str | None) -> None:
    """Row 9: an end in a pod that is about to end waits for the final phase, at most 20 s."""
    document = pod_document(terminated(3), ready=ready)
    assert last(RUNS, observation_of(document, 1.0), observation_of(document, 20.9)) == Running(finishing=True)
    assert last(RUNS, observation_of(document, 1.0), observation_of(document, 21.0)) == Exited(3)
    final = {**document, "status": {**document["status"], "phase": "Failed"}}
    assert last(RUNS, observation_of(document, 1.0), observation_of(final, 2.0)) == Exited(3)


@pytest.mark.parametrize(
    ("code", "reason", "notes"),
    [
        (0, "Completed", ()),
        (0, "OOMKilled", (Note.OOM,)),
        (137, "OOMKilled", (Note.OOM,)),
        (137, "Error", (Note.SIGKILL,)),
        (143, "Error", ()),
    ],
)
def test_notes(code: int, reason: str, notes: tuple[Note, ...]) -> None:
    """The code is the command's; a kill for memory, and an unexplained SIGKILL, are notes."""
    assert last(observation_of(pod_document(terminated(code, reason=reason), phase="Failed"))) == Exited(code, notes)


@pytest.mark.parametrize(
    ("spec", "hides"),
    [
        ({}, False),
        ({"volumes": [{"name": "d", "emptyDir": {}}]}, False),
        ({"volumes": [{"name": "d", "emptyDir": {"sizeLimit": "8Mi"}}]}, True),
        ({"volumes": [{"name": "d", "configMap": {"name": "c"}}]}, False),
        ({"containers": [{"name": "step", "resources": {"limits": {"ephemeral-storage": "1Gi"}}}]}, True),
        ({"containers": [{"name": "step", "resources": {"limits": {"memory": "1Gi"}}}]}, False),
        (
            {
                "containers": [{"name": "step"}, {"name": "senro-io"}],
                "volumes": [{"name": "d", "emptyDir": {"sizeLimit": "8Mi"}}],
            },
            False,
        ),
    ],
)
def test_an_eviction_that_may_be_hidden(spec: dict[str, Any], hides: bool) -> None:
    """An exit code 0 has the note `disruption-unchecked` if an eviction for a limit would leave no trace."""
    document = pod_document(terminated(0), phase="Succeeded", spec=spec)
    assert hides_eviction(pod_from(document)) is hides
    assert last(observation_of(document)) == Exited(0, (Note.DISRUPTION_UNCHECKED,) if hides else ())
    assert last(observation_of(document, events=())) == Exited(0)


# Row 10


@pytest.mark.parametrize(
    ("reason", "message", "kind"),
    [
        ("OutOfcpu", "Pod was rejected: Node didn't have enough resource: cpu", InfraKind.REJECTED),
        ("OutOfnvidia.com/gpu", "Pod was rejected: Node didn't have enough resource", InfraKind.REJECTED),
        ("NodeAffinity", "Pod was rejected: Predicate NodeAffinity failed", InfraKind.REJECTED),
        ("UnexpectedAdmissionError", "Pod was rejected: Allocate failed", InfraKind.REJECTED),
        ("NodeShutdown", "Pod was rejected as the node is shutting down.", InfraKind.REJECTED),
        ("Evicted", "Pod was rejected: The node had condition: [DiskPressure]. ", InfraKind.REJECTED),
        ("Evicted", "The node was low on resource: ephemeral-storage. ", InfraKind.EVICTED),
        ("Evicted", 'Usage of EmptyDir volume "d" exceeds the limit "8Mi". ', InfraKind.RESOURCE_LIMIT),
        (
            "Evicted",
            "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ",
            InfraKind.RESOURCE_LIMIT,
        ),
        ("Preempting", "Preempted in order to admit critical pod", InfraKind.PREEMPTED),
        ("Terminated", "Pod was terminated in response to imminent node shutdown.", InfraKind.EVICTED),
        ("NodeLost", "Node n which was running pod p is unresponsive", InfraKind.NODE_LOST),
        ("SomethingNew", "", InfraKind.REJECTED),
        ("", "", InfraKind.RUNTIME),
    ],
)
@pytest.mark.parametrize("step", [None, waiting_for()])
def test_a_failed_pod_without_an_end(reason: str, message: str, kind: InfraKind, step: dict[str, Any] | None) -> None:
    """Row 10: it is Infra by the pod's reason; the step did not run unless something shows that it did."""
    failed = observation_of(pod_document(step, phase="Failed", status={"reason": reason, "message": message}))
    # What a lost node was about to start, it may have started; so it is where no kubelet gave a reason.
    unseen = DidRun.MAYBE if kind is InfraKind.NODE_LOST or not reason else DidRun.NO
    assert (kind_of(last(failed)), ran(last(failed))) == (kind, unseen)
    assert ran(last(RUNS, failed)) is DidRun.YES
    created = observation_of(pod_document(waiting_for(), container={"containerID": "containerd://1"}))
    assert ran(last(created, failed)) is DidRun.MAYBE


def test_a_pod_that_was_collected_while_it_ran() -> None:
    """Row 10: a Failed pod whose step still shows running was garbage-collected with its node."""
    collected = condition("DisruptionTarget", "True", "DeletionByPodGC", message="PodGC: node no longer exists")
    waited = pod_document(waiting_for(), phase="Failed", conditions=(collected,))
    assert (kind_of(last(observation_of(waited))), ran(last(observation_of(waited)))) == (
        InfraKind.NODE_LOST,
        DidRun.MAYBE,
    )
    assert ran(last(RUNS, observation_of(waited))) is DidRun.YES
    unplaced = pod_document(phase="Failed", conditions=(collected,), spec={"nodeName": ""})
    assert ran(last(observation_of(unplaced))) is DidRun.NO
    by_condition = last(RUNS, observation_of(pod_document(running(), phase="Failed", conditions=(collected,))))
    assert (kind_of(by_condition), ran(by_condition)) == (InfraKind.NODE_LOST, DidRun.YES)
    answer = last(observation_of({**SILENT, "status": {**SILENT["status"], "phase": "Failed"}}))
    assert isinstance(answer, Infra)
    assert (answer.kind, answer.may_be_alive) == (InfraKind.NODE_LOST, True)


# Rows 11 to 13


def test_a_pod_that_neither_ends_nor_goes() -> None:
    """Row 11: after its grace period and six minutes it is Infra, and its process may be alive."""
    stuck = pod_document(running(), metadata={**DELETED, "deletionGracePeriodSeconds": 100})
    assert isinstance(last(observation_of(stuck), observation_of(stuck, 459.0)), Ending)
    answer = last(observation_of(stuck), observation_of(stuck, 460.0))
    assert isinstance(answer, Infra)
    assert (answer.kind, answer.may_be_alive, answer.node) == (InfraKind.DELETED, True, NODE)
    graceful = pod_document(running(), conditions=(DISRUPTED,), spec={"terminationGracePeriodSeconds": 200})
    assert isinstance(last(observation_of(graceful), observation_of(graceful, 559.0)), Ending)


def test_a_pod_that_ends_by_its_deadline() -> None:
    """Row 11: the kubelet announces the end before the phase; after the deadline the kind is `deadline`."""
    ready = condition("Ready", "False", "PodFailed", "2026-11-29T10:01:00Z")
    past = pod_document(running(), conditions=(ready,), spec={"activeDeadlineSeconds": 60})
    assert last(observation_of(past)) == Ending(InfraKind.DEADLINE, "the kubelet is ending the pod (PodFailed)")
    before = pod_document(running(), conditions=(ready,), spec={"activeDeadlineSeconds": 61})
    assert last(observation_of(before)) == Ending(InfraKind.EVICTED, "the kubelet is ending the pod (PodFailed)")


def test_a_silent_node() -> None:
    """Row 12: after six minutes without interruption the step may be alive on the named node."""
    assert last(observation_of(SILENT), observation_of(SILENT, 359.0)) == Running()
    answer = last(observation_of(SILENT), observation_of(SILENT, 360.0))
    assert isinstance(answer, Infra)
    assert (answer.kind, answer.did_run, answer.may_be_alive, answer.node) == (
        InfraKind.NODE_LOST,
        DidRun.YES,
        True,
        NODE,
    )
    back = observation_of(pod_document(running()), 300.0)
    assert last(observation_of(SILENT), back, observation_of(SILENT, 301.0), observation_of(SILENT, 660.0)) == Running()


def test_a_silent_node_with_a_waiting_step() -> None:
    """Row 12: a step that waited when its node became silent may have run since."""
    waits = pod_document(waiting_for(), ready="", conditions=(condition("ContainersReady", "True"),))
    assert ran(last(observation_of(waits), observation_of(waits, 360.0))) is DidRun.MAYBE


def test_a_pod_that_is_deleted_from_a_silent_node() -> None:
    """Row 12: what the taint manager deletes there is `node-lost`, also after the node returns."""
    taken = condition("DisruptionTarget", "True", "DeletionByTaintManager", message="NoExecute")
    ready = condition("ContainersReady", "True")
    document = pod_document(running(), ready="", conditions=(ready, taken), metadata=DELETED)
    assert last(observation_of(document)) == Ending(InfraKind.NODE_LOST, "NoExecute")
    back = pod_document(terminated(137), phase="Failed", conditions=(taken,), metadata=DELETED)
    assert kind_of(last(observation_of(document), observation_of(back, 60.0))) is InfraKind.NODE_LOST


def test_a_pod_that_is_not_ready() -> None:
    """Row 13: Ready False with a reason, or without ContainersReady True, means no silent node."""
    assert (
        last(
            observation_of(pod_document(running(), ready=""), 0), observation_of(pod_document(running(), ready=""), 1e6)
        )
        == Running()
    )
    gates = pod_document(running(), ready="ReadinessGatesNotReady", conditions=(condition("ContainersReady", "True"),))
    assert last(observation_of(gates), observation_of(gates, 1e6)) == Running()


def test_a_container_that_the_runtime_lost() -> None:
    """Row 4: a step that ran and then waits was lost; the final phase has 20 s to come."""
    lost = pod_document(waiting_for())
    assert last(RUNS, observation_of(lost, 1.0), observation_of(lost, 20.0)) == Running(finishing=True)
    answer = last(RUNS, observation_of(lost, 1.0), observation_of(lost, 21.0))
    assert (kind_of(answer), ran(answer)) == (InfraKind.NODE_LOST, DidRun.YES)


# Row 14


@pytest.mark.parametrize(
    ("state", "answer"),
    [
        (waiting_for(), Pending(PendingKind.CREATING, "step")),
        (waiting_for(""), Pending(PendingKind.CREATING, "step")),
        ({}, Pending(PendingKind.CREATING, "step")),
        (
            waiting_for("ErrImagePull", 'rpc error: code = NotFound desc = "x": not found'),
            Pending(
                PendingKind.IMAGE_NOT_FOUND, "step", 'rpc error: code = NotFound desc = "x": not found', permanent=True
            ),
        ),
        (
            waiting_for("CreateContainerConfigError", "failed to sync secret cache: timed out"),
            Pending(PendingKind.CONFIG, "step", "failed to sync secret cache: timed out"),
        ),
        (
            waiting_for("CreateContainerError", "container create failed: " + RUNC + 'exec: "x": not found'),
            Pending(
                PendingKind.CONFIG, "step", "container create failed: " + RUNC + 'exec: "x": not found', permanent=True
            ),
        ),
        (
            waiting_for("RunContainerError", RUNC + 'error mounting "/v" to rootfs'),
            Pending(PendingKind.VOLUME, "step", RUNC + 'error mounting "/v" to rootfs'),
        ),
        (
            waiting_for("CreateContainerError", "ImageVolumeMountFailed: x"),
            Pending(PendingKind.VOLUME, "step", "ImageVolumeMountFailed: x"),
        ),
        (
            waiting_for("CreateContainerError", "name is reserved for 1"),
            Pending(PendingKind.RUNTIME, "step", "name is reserved for 1"),
        ),
        (
            waiting_for("RegistryUnavailable", "image pull failed for x"),
            Pending(PendingKind.IMAGE_UNREACHABLE, "step", "image pull failed for x"),
        ),
        (
            waiting_for("SignatureValidationFailed", "image pull failed for x"),
            Pending(PendingKind.IMAGE_DENIED, "step", "image pull failed for x", permanent=True),
        ),
        (waiting_for("PreCreateHookError", "x"), Pending(PendingKind.RUNTIME, "step", "x")),
        (waiting_for("a whole sentence"), Pending(PendingKind.RUNTIME, "step", "a whole sentence")),
    ],
)
def test_each_waiting_reason(state: dict[str, Any], answer: Pending) -> None:
    """Row 14: each reason has its kind and is quoted; an unknown one is a failure of the node."""
    assert last(observation_of(pod_document(state, phase="Pending"))) == answer


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("no image found in manifest list for architecture arm64", PendingKind.IMAGE_PLATFORM),
        ("toomanyrequests: You have reached your pull rate limit", PendingKind.IMAGE_LIMITED),
        ("pull QPS exceeded", PendingKind.IMAGE_LIMITED),
        ("failed to write layer: no space left on device", PendingKind.RUNTIME),
        ("failed to authorize: failed to fetch anonymous token: i/o timeout", PendingKind.IMAGE_UNREACHABLE),
        ("tls: failed to verify certificate: x509: unknown authority", PendingKind.IMAGE_UNREACHABLE),
        ("unexpected status from GET request to https://r/v2/503/x: 401 Unauthorized", PendingKind.IMAGE_DENIED),
        ("denied: requested access to the resource is denied", PendingKind.IMAGE_DENIED),
        ("reading manifest: name unknown: repository", PendingKind.IMAGE_NOT_FOUND),
        ('"denied/503 x": manifest unknown', PendingKind.IMAGE_NOT_FOUND),
        ("r/denied@sha256:00: not found", PendingKind.IMAGE_NOT_FOUND),
        ("invalid reference format", PendingKind.IMAGE_INVALID),
        ("something new", PendingKind.IMAGE_UNREACHABLE),
        ("", PendingKind.IMAGE_UNREACHABLE),
    ],
)
@pytest.mark.parametrize("before", ["", 'Back-off pulling image "denied/x": ErrImagePull: '])
def test_why_a_pull_failed(words: str, kind: PendingKind, before: str) -> None:
    """Row 14: the runtime's message shows the cause, and names in it do not."""
    reason = "ImagePullBackOff" if before else "ErrImagePull"
    answer = last(observation_of(pod_document(waiting_for(reason, before + words), phase="Pending")))
    assert isinstance(answer, Pending)
    assert answer.kind is kind


def test_a_back_off_without_a_cause() -> None:
    """Row 14: it has the cause of the error before it, of the same container."""
    pull = observation_of(pod_document(waiting_for("ErrImagePull", "manifest unknown"), phase="Pending"))
    back_off = observation_of(
        pod_document(waiting_for("ImagePullBackOff", 'Back-off pulling image "x"'), phase="Pending")
    )
    assert last(pull, back_off, back_off) == Pending(
        PendingKind.IMAGE_NOT_FOUND, "step", "manifest unknown", permanent=True
    )
    assert last(back_off) == Pending(PendingKind.IMAGE_UNREACHABLE, "step", 'Back-off pulling image "x"')
    assert last(WAITS, back_off) == Pending(PendingKind.IMAGE_UNREACHABLE, "step", 'Back-off pulling image "x"')


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("Unschedulable", PendingKind.UNSCHEDULABLE),
        ("SchedulingGated", PendingKind.GATED),
        ("SchedulerError", PendingKind.SCHEDULING),
    ],
)
def test_an_unscheduled_pod(reason: str, kind: PendingKind) -> None:
    """Row 14: it waits for the scheduler, whose reason and message count."""
    scheduled = condition("PodScheduled", "False", reason, message="0/1 nodes are available")
    document = pod_document(phase="Pending", conditions=(scheduled,), spec={"nodeName": ""})
    assert last(observation_of(document)) == Pending(kind, message="0/1 nodes are available")


def test_a_waiting_init_container() -> None:
    """Row 14: the init container that waits is named; only senro's own can be permanent."""
    pull = waiting_for("ErrImagePull", "manifest unknown")
    waits = waiting_for("PodInitializing")
    ours = last(observation_of(pod_document(waits, phase="Pending", inits=(init(pull),))))
    assert ours == Pending(PendingKind.IMAGE_NOT_FOUND, "senro-stage", "manifest unknown", permanent=True)
    inits = (init(pull, "mesh-init"), init(waits))
    theirs = last(observation_of(pod_document(waits, phase="Pending", inits=inits)))
    assert theirs == Pending(PendingKind.IMAGE_NOT_FOUND, "mesh-init", "manifest unknown")
    staging = last(observation_of(pod_document(waits, phase="Pending", inits=(init(running()),))))
    assert staging == Pending(PendingKind.STAGING, "senro-stage")
    initializing = last(observation_of(pod_document(waits, phase="Pending", inits=(init(running(), "mesh-init"),))))
    assert initializing == Pending(PendingKind.INITIALIZING, "mesh-init")
    passed = last(observation_of(pod_document(waits, phase="Pending", inits=(init(terminated(0)),))))
    assert passed == Pending(PendingKind.CREATING, "step")


def test_names_of_the_containers() -> None:
    """The containers of step and stage have the names that `Memory.start` was given."""
    document = pod_document(running(), others=({"name": "work", "state": terminated(5)},), phase="Failed")
    assert fold(Memory.start(uid=UID, step="work"), (observation_of(document),)) == [Exited(5)]


# Restarts that somebody else asked for


def test_a_foreign_restart_rule() -> None:
    """The first end of a restarted container counts; a container of a pod that restarts whole runs on."""
    looping = {"lastState": terminated(3)}
    crashed = pod_document(waiting_for("CrashLoopBackOff"), ready="ContainersNotReady", container=looping)
    assert last(RUNS, observation_of(crashed, 1.0)) == Exited(3)
    invented = {"lastState": terminated(137, reason="ContainerStatusUnknown", startedAt=None)}
    unknown = pod_document(waiting_for("CrashLoopBackOff"), container=invented)
    assert last(RUNS, observation_of(unknown, 1.0)) == Running(finishing=True)
    gone = pod_document(terminated(137, reason="RestartingAllContainers", startedAt=None))
    assert last(
        observation_of(gone), observation_of(pod_document(running()), 5.0), observation_of(gone, 22.0)
    ) == Running(finishing=True)
    assert kind_of(last(observation_of(gone), observation_of(gone, 20.0))) is InfraKind.NODE_LOST
