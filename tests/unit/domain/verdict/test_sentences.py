"""The sentences for answers, hints, and evidence."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest

from senro.domain.kube.event import ClusterEvent, ObjectReference
from senro.domain.kube.pod import pod_from
from senro.domain.verdict import (
    INFRA_KINDS,
    NOTES,
    Answer,
    DidRun,
    Ending,
    Exited,
    Infra,
    InfraKind,
    Memory,
    Note,
    Pending,
    PendingKind,
    Running,
    TimedOut,
    kind_table,
)
from senro.domain.verdict.explain.evidence_lines import evidence_lines
from senro.domain.verdict.explain.sentences import RULES, hint, sentence
from senro.domain.verdict.kind_table import PENDING_KINDS
from senro.domain.verdict.patience import give_up, gives_up_after
from tests.lib.verdict.observations import UID, condition, pod_document, running, terminated, waiting_for

NOTHING = Memory.start(uid=UID)
HELD = NOTHING._replace(pending_exit=Exited(3))
RUNC = "failed to create shim task: unable to start container process: "

SENTENCES: list[tuple[Answer, Memory, str, str]] = [
    (
        Pending(PendingKind.IMAGE_NOT_FOUND, "senro-stage", "x: not found", permanent=True),
        NOTHING,
        (
            "It has not started: its image does not exist (image-not-found, container senro-stage). The cause: x: not "
            "found"
        ),
        ("Check the image's name and digest in its registry. By default senro gives up after 20 s."),
    ),
    (
        Pending(PendingKind.SCHEDULING),
        NOTHING,
        "It has not started: the scheduler has not placed it yet (scheduling).",
        ("Look at the pod's Events, or raise the target's start timeout. By default senro gives up after 300 s."),
    ),
    (
        Pending(PendingKind.GATED, message="gates"),
        NOTHING,
        "It has not started: a scheduling gate is closed, and a queue decides when it opens (gated). The cause: gates",
        ("Ask the queue that holds it, or the owner of its quota. By default senro gives up after 86400 s."),
    ),
    (
        Pending(PendingKind.STAGING, "senro-stage"),
        NOTHING,
        "It has not started: its workspaces are being uploaded (staging, container senro-stage).",
        "Wait: the upload goes on.",
    ),
    (
        Pending(PendingKind.UNSCHEDULABLE, growing=True),
        NOTHING,
        "It has not started: no node fits it now (unschedulable).",
        ("Wait: an autoscaler says that it adds a node. By default senro gives up after 900 s."),
    ),
    (Running(), NOTHING, "Its command is running.", ""),
    (
        Running(finishing=True),
        HELD,
        "Its container ended with code 3; senro waits for the final phase of its pod, at most 20 s.",
        "",
    ),
    (
        Running(finishing=True),
        NOTHING,
        "Its container was lost by its runtime; senro waits for the final phase of its pod, at most 20 s.",
        "",
    ),
    (
        Ending(InfraKind.EVICTED, "evicting"),
        NOTHING,
        "The cluster is ending its pod (evicted), and its process may still run. The cause: evicting",
        "Wait: a repetition is safe once the pod is gone.",
    ),
    (Exited(0), NOTHING, "Its command succeeded: exit code 0.", ""),
    (
        Exited(3),
        NOTHING,
        "Its command failed: exit code 3.",
        "Read the step's log: the command itself says what is wrong.",
    ),
    (
        Exited(0, (Note.OOM,)),
        NOTHING,
        "Its command succeeded: exit code 0. The kernel killed a process of it for memory.",
        "Raise the step's memory limit, or let it use less.",
    ),
    (
        Exited(137, (Note.SIGKILL,)),
        NOTHING,
        "Its command failed: exit code 137. It was killed by SIGKILL, and the cluster does not say who sent it.",
        "Look for what killed it: a probe, an operator on the node, the command itself.",
    ),
    (
        Exited(0, (Note.DISRUPTION_UNCHECKED,)),
        NOTHING,
        (
            "Its command succeeded: exit code 0. An eviction for exceeding a limit would have left no trace, and no "
            "Events were read."
        ),
        "Look for an Event Evicted about the pod, or let the identity list Events.",
    ),
    (
        Exited(128, (Note.START_ERROR,), RUNC + 'exec: "x": permission denied'),
        NOTHING,
        'Its command could not be started, so it failed: exit code 128. The cause: exec: "x": permission denied',
        (
            "Check the command's path, its permissions and the workdir against the image, and the image's platform "
            "against the node's."
        ),
    ),
    (
        Infra(InfraKind.DELETED, DidRun.YES, message="deleted", notes=(Note.TIE,), code=0),
        NOTHING,
        (
            "The cluster failed it, not its command: its pod was deleted (deleted). Its command had run. Its exit "
            "code 0 proves nothing. Its end and the disruption were first seen together, too close for the clocks "
            "of two machines to order. The cause: deleted"
        ),
        "Look in the audit log for who deleted the pod. retry.on_infra repeats it after at least 1 s.",
    ),
    (
        Infra(InfraKind.NODE_LOST, DidRun.MAYBE, may_be_alive=True, node="n1"),
        NOTHING,
        (
            "The cluster failed it, not its command: its node does not report, or lost the container (node-lost). Its "
            "command may have run. It may still be running on the node n1."
        ),
        (
            "Look at the node: it stopped reporting, or lost the container. retry.on_infra repeats it only with "
            "unsafe=True, since its first process may still run."
        ),
    ),
    (
        Infra(InfraKind.VOLUME, DidRun.NO, message=RUNC + "error mounting /a", code=128),
        NOTHING,
        (
            "The cluster failed it, not its command: a volume could not be mounted (volume). Its command had not run. "
            "The cause: error mounting /a"
        ),
        (
            "Check the mounts: source, path in the image, claim and its node. retry.on_infra does not repeat it: "
            "another try would end the same way."
        ),
    ),
    (
        TimedOut(),
        NOTHING,
        "It ran longer than its timeout and was ended.",
        "Raise the step's timeout, or make it faster.",
    ),
]


@pytest.mark.parametrize(("answer", "memory", "words", "advice"), SENTENCES)
def test_a_sentence_for_an_answer(answer: Answer, memory: Memory, words: str, advice: str) -> None:
    """Each answer has its sentence and its hint."""
    assert sentence(answer, memory) == words
    assert hint(answer) == advice


def test_every_type_of_answer_has_a_sentence() -> None:
    """The table of sentences has every type of answer."""
    assert {type(answer) for answer, *_ in SENTENCES} == set(get_args(Answer))


HINTS = {
    InfraKind.IMAGE_NOT_FOUND: (False, 0, "Check the image's name and digest in its registry."),
    InfraKind.IMAGE_DENIED: (False, 0, "Give the pod an imagePullSecret that may pull this image."),
    InfraKind.IMAGE_INVALID: (False, 0, "Correct the image reference: registry/name@sha256:digest."),
    InfraKind.IMAGE_ABSENT: (False, 0, "Load the image onto the node, or allow its pull."),
    InfraKind.IMAGE_PLATFORM: (False, 0, "Use an image that is built for the node's platform."),
    InfraKind.IMAGE_LIMITED: (True, 60, "Pull with credentials, or from a mirror."),
    InfraKind.IMAGE_UNREACHABLE: (True, 30, "Check that the nodes reach the image's registry."),
    InfraKind.CONFIG: (False, 0, "Create or correct what the container's configuration refers to."),
    InfraKind.VOLUME: (False, 0, "Check the mounts: source, path in the image, claim and its node."),
    InfraKind.UNSCHEDULABLE: (True, 30, "Request less, or add a node that fits."),
    InfraKind.START_TIMEOUT: (True, 10, "Look at the pod's Events, or raise the target's start timeout."),
    InfraKind.REJECTED: (True, 5, "See the reason of the pod; another node may accept it."),
    InfraKind.EVICTED: (True, 1, "The node was drained or lacked a resource; try again."),
    InfraKind.RESOURCE_LIMIT: (False, 0, "Raise the limit, or let the step use less."),
    InfraKind.PREEMPTED: (True, 5, "A pod of higher priority needed the node; raise the priority."),
    InfraKind.DELETED: (True, 1, "Look in the audit log for who deleted the pod."),
    InfraKind.VANISHED: (True, 5, "The pod was deleted without a grace period; look in the audit log for who did it."),
    InfraKind.NODE_LOST: (True, 10, "Look at the node: it stopped reporting, or lost the container."),
    InfraKind.RUNTIME: (True, 10, "The node's container runtime failed: see its message, or try another node."),
    InfraKind.STAGE_FAILED: (True, 5, "Read the log of the container senro-stage."),
    InfraKind.INIT_FAILED: (True, 5, "Read the log of the init container."),
    InfraKind.TRANSFER: (True, 5, "Check the network, and the space in the volume."),
    InfraKind.APISERVER: (True, 15, "Check the control plane: the apiserver did not answer for a long time."),
    InfraKind.ADMISSION: (False, 0, "Change what the message names: a policy of the cluster refuses the pod."),
    InfraKind.ADMISSION_TRANSIENT: (True, 5, "An admission webhook did not answer; try again."),
    InfraKind.QUOTA: (True, 30, "Delete what the namespace does not need, or raise its quota."),
    InfraKind.UNAUTHORIZED: (False, 0, "The credential is not accepted: renew SENRO_K8S_TOKEN_FILE."),
    InfraKind.FORBIDDEN: (
        False,
        0,
        "Grant the identity the verb that the message names, or correct the namespace if it is misspelt.",
    ),
    InfraKind.POD_SECURITY: (False, 0, "Change what the message names, or the namespace's Pod Security level."),
    InfraKind.LIMIT_RANGE: (
        False,
        0,
        "Give the pod resources= (and transfer_resources=) within the namespace's LimitRange.",
    ),
    InfraKind.DEADLINE: (False, 0, "Find out who set activeDeadlineSeconds on the pod."),
    InfraKind.CLAIM: (
        True,
        1,
        "See who holds the claim (kubectl get leases), or wait longer: max_lifetime= on k8s.Pod.",
    ),
}


@pytest.mark.parametrize("kind", list(InfraKind))
def test_a_kind_of_infra(kind: InfraKind) -> None:
    """Each kind has a hint, is repeatable or not, and has a least wait if it is."""
    repeatable, least_wait, words = HINTS[kind]
    meaning = INFRA_KINDS[kind]
    assert (meaning.repeatable, meaning.least_wait, meaning.hint) == (repeatable, least_wait, words)
    assert repeatable is (least_wait > 0)


def test_each_kind_and_each_note_has_one_row() -> None:
    """Each kind of Infra, each kind of Pending and each note has exactly one row, with a sentence and a hint."""
    source = Path(kind_table.__file__).read_text()
    for table, members in ((INFRA_KINDS, InfraKind), (PENDING_KINDS, PendingKind), (NOTES, Note)):
        assert list(table) == list(members)
        for member in members:
            assert len(re.findall(rf"^    {members.__name__}\.{member.name}: ", source, re.MULTILINE)) == 1
    assert all(info.sentence and info.hint.endswith(".") for info in INFRA_KINDS.values())
    assert all(info.sentence and (info.becomes or info.hint.endswith(".")) for info in PENDING_KINDS.values())
    assert all(note.sentence.endswith(".") for note in NOTES.values())


@pytest.mark.parametrize("kind", list(InfraKind))
def test_a_sentence_for_each_kind_of_infra(kind: InfraKind) -> None:
    """The sentence has the kind."""
    assert f"({kind})" in sentence(Infra(kind, DidRun.NO), NOTHING)


GIVEN_UP = {
    PendingKind.SCHEDULING: "the pod did not start in 300 s (scheduling). Look at the pod's Events, or raise the "
    "target's start timeout.",
    PendingKind.GATED: "the pod did not start in 90000 s (gated). Look at the pod's Events, or raise the target's "
    "start timeout.",
    PendingKind.UNSCHEDULABLE: "the pod did not start in 300 s (unschedulable). Request less, or add a node that fits.",
    PendingKind.IMAGE_LIMITED: (
        "the pod did not start in 300 s (image-limited). Pull with credentials, or from a mirror."
    ),
}


@pytest.mark.parametrize("kind", list(PendingKind))
def test_a_sentence_for_each_kind_of_wait(kind: PendingKind) -> None:
    """The sentence has the kind, there is a hint, and the message when senro gives up is complete."""
    pending = Pending(kind)
    assert f"({kind})" in sentence(pending, NOTHING)
    assert hint(pending).endswith(".")
    waited = 90_000.0 if kind is PendingKind.GATED else 300.0
    given_up = give_up(pending, waited_for_this_kind=waited, waited_in_all=waited)
    if kind is PendingKind.STAGING:
        assert given_up is None
        assert gives_up_after(pending) is None
    else:
        assert given_up is not None
        assert given_up.message == GIVEN_UP.get(kind, given_up.message)
        assert gives_up_after(pending) == (86_400.0 if kind is PendingKind.GATED else 300.0)


def test_every_rule_has_a_sentence() -> None:
    """Each row of the table of verdicts that gives an answer has a sentence."""
    assert sorted(RULES) == list(range(1, 15))
    assert all(words.endswith(".") for words in RULES.values())


DELETED = {"deletionTimestamp": "2026-11-29T10:00:40Z", "deletionGracePeriodSeconds": 30}


@pytest.mark.parametrize(
    ("document", "lines"),
    [
        ({}, ("phase (none)", "no node yet")),
        (pod_document(running()), ("phase Running", "container step: running since 2026-11-29T10:00:00Z")),
        (pod_document({"running": {}}), ("phase Running", "container step: running since (unknown)")),
        (pod_document({}), ("phase Running", "container step: no state")),
        (
            pod_document(waiting_for("", "x")),
            ("phase Running", "container step: waiting, reason (none), x"),
        ),
        (
            pod_document(
                terminated(3, message="boom"),
                phase="Failed",
                status={"reason": "Evicted", "message": "low. "},
                conditions=(
                    condition("DisruptionTarget", "True", "A", message="b"),
                    condition("Ready", "False", at=""),
                ),
                metadata=DELETED,
                others=({"name": "a", "state": {}, "lastState": {"terminated": {"exitCode": 1}}},),
                inits=({"name": "i", "state": running()},),
            ),
            (
                "phase Failed, Evicted, low.",
                "condition DisruptionTarget True (A) since 2026-11-29T10:00:00Z: b",
                "condition Ready False without a reason",
                (
                    "its deletion was requested at 2026-11-29T10:00:10Z, deletionTimestamp 2026-11-29T10:00:40Z; the "
                    "pod does not show by whom"
                ),
                "init container i: running since 2026-11-29T10:00:00Z",
                (
                    "container step: terminated, code 3, reason Error, started 2026-11-29T10:00:00Z, finished "
                    "2026-11-29T10:00:10Z, boom"
                ),
                "container a (not the step): no state; before that terminated, code 1, reason (none)",
            ),
        ),
        (
            pod_document(
                metadata={"deletionTimestamp": "x"}, conditions=(condition("DisruptionTarget", "False", "A"),)
            ),
            ("phase Running", "its deletion was requested deletionTimestamp x; the pod does not show by whom"),
        ),
        (
            pod_document({"terminated": {"reason": ""}}),
            (
                "phase Running",
                "container step: terminated, code None, reason (none), started (unknown), finished (unknown)",
            ),
        ),
    ],
)
def test_the_evidence_of_a_pod(document: dict[str, Any], lines: tuple[str, ...]) -> None:
    """Each field that a verdict depends on is a line, in Kubernetes' terms."""
    assert evidence_lines(pod_from(document), "step") == lines


def test_the_evidence_of_a_deletion() -> None:
    """A deletion by the run is named as such, and Events about the pod are quoted."""
    pod = pod_from(pod_document(running(), metadata=DELETED))
    ours = ClusterEvent(reason="Killing", message="Stopping", involved_object=ObjectReference(uid=UID))
    lines = evidence_lines(pod, "step", ours=True, events=(ours, ClusterEvent(reason="Other")))
    assert lines[1].endswith("; by the run itself")
    assert lines[-1] == "Event Killing: Stopping"
