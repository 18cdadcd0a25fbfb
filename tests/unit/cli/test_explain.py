"""`senro.classify` and `senro explain`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import senro
from senro.api.classify import NotAPodError, classify
from senro.cli.explain import to_json, to_text
from senro.cli.main import main
from senro.domain.kube.event import ClusterEvent, ObjectReference
from senro.domain.kube.pod import pod_from
from senro.domain.verdict import (
    Ending,
    Exited,
    Infra,
    InfraKind,
    Note,
    Observation,
    Pending,
    PendingKind,
    Running,
    TimedOut,
)
from tests.lib.verdict.observations import (
    UID,
    condition,
    expected_answers,
    pod_document,
    recorded_pod,
    running,
    terminated,
    waiting_for,
)

RUNS = {**pod_document(running()), "kind": "Pod"}
DONE = {**pod_document(terminated(0), phase="Succeeded"), "kind": "Pod"}
DELETED = {"deletionTimestamp": "2026-11-29T10:00:40Z", "deletionGracePeriodSeconds": 30}
TAKEN = {**pod_document(terminated(0), phase="Succeeded", metadata=DELETED), "kind": "Pod"}
LATE = "2026-11-29T10:01:05Z"
"""A time after a deadline of one minute."""

SMALL = {"volumes": [{"name": "d", "emptyDir": {"sizeLimit": "8Mi"}}]}
HIDES = {**pod_document(terminated(0), phase="Succeeded", spec=SMALL), "kind": "Pod"}
EVICTED = {
    "kind": "Event",
    "reason": "Evicted",
    "message": 'Usage of EmptyDir volume "d" exceeds the limit "8Mi". ',
    "involvedObject": {"uid": UID},
}


def explain(*arguments: str, given: str | None = None) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["explain", *arguments], input=given)
    return result.exit_code, result.output


def explain_json(*documents: object) -> list[dict[str, Any]]:
    """Returns the JSON that the command prints for these documents, one after another."""
    code, output = explain("-", "--json", given="\n".join(json.dumps(each) for each in documents))
    assert code == 0, output
    told: list[dict[str, Any]] = json.loads(output)
    return told


# The library


def test_a_pod_in_any_form() -> None:
    """A decoded pod, its text, its bytes and a `Pod` give the same answer."""
    told = senro.classify(DONE)
    assert told.answer == Exited(0)
    assert (told.word, told.rule, told.pod, told.namespace, told.uid, told.node) == (
        "exited",
        8,
        "p",
        "ci",
        UID,
        "node-a",
    )
    assert told == senro.classify(json.dumps(DONE)) == senro.classify(json.dumps(DONE).encode())
    assert told == senro.classify(pod_from(DONE))
    assert isinstance(told, senro.Classification)


def test_the_order_of_states_matters() -> None:
    """An exit seen before a deletion counts; one first seen together with it does not."""
    assert classify([RUNS, DONE, TAKEN]).answer == Exited(0)
    together = classify([RUNS, TAKEN])
    assert isinstance(together.answer, Infra)
    assert together.answer.kind is InfraKind.DELETED
    assert classify([RUNS, DONE, TAKEN]).evidence == classify([RUNS, DONE]).evidence


def test_a_pod_that_is_gone() -> None:
    """After a 404, or another pod of the same name, the evidence has what the pod showed before."""
    other = {**RUNS, "metadata": {**RUNS["metadata"], "uid": "another"}}
    for after in (None, other):
        told = classify([RUNS, after])
        assert isinstance(told.answer, Infra)
        assert told.answer.kind is InfraKind.VANISHED
        assert told.evidence[0].startswith("the pod is gone")
        assert told.evidence[-1].startswith("container step: running since")


def test_the_steps_container() -> None:
    """It is `step` if there is one, else the first container of the pod, or the one that is named."""
    both = pod_document(terminated(0), others=({"name": "app", "state": terminated(7)},), phase="Failed")
    assert classify(both).answer == Exited(0)
    assert classify(both, container="app").answer == Exited(7)
    foreign = pod_document(others=({"name": "app", "state": terminated(7)},), phase="Failed")
    foreign["spec"]["containers"] = [{"name": "app"}, {"name": "proxy"}]
    told = classify(foreign)
    assert (told.answer, told.container) == (Exited(7), "app")


def test_deadline_exceeded() -> None:
    """It is a timeout if the deadline is given as the run's, or if senro created the pod."""
    status = {"reason": "DeadlineExceeded"}
    spec = {"activeDeadlineSeconds": 60}
    late = pod_document(terminated(137, LATE), phase="Failed", status=status, spec=spec)
    assert isinstance(classify(late).answer, Infra)
    assert classify(late, own_deadline=60).answer == TimedOut()
    labelled = {**late, "metadata": {**late["metadata"], "labels": {"senro.dev/managed": "true"}}}
    assert classify(labelled).answer == TimedOut()
    assert isinstance(classify(labelled, own_deadline=61).answer, Infra)


def test_events_of_a_pod() -> None:
    """Events are an EventList's text, its items, or values. Without Events a 0 may have a note."""
    assert classify(HIDES).answer == Exited(0, (Note.DISRUPTION_UNCHECKED,))
    assert classify(HIDES, events=()).answer == Exited(0)
    value = ClusterEvent(reason="Evicted", message=str(EVICTED["message"]), involved_object=ObjectReference(uid=UID))
    for events in (json.dumps({"items": [EVICTED]}).encode(), [EVICTED], [value]):
        told = classify(HIDES, events=events)
        assert isinstance(told.answer, Infra)
        assert told.answer.kind is InfraKind.RESOURCE_LIMIT
        assert 129 in {row.number for row in told.rows}
    with pytest.raises(NotAPodError, match="events: it is no JSON"):
        classify(HIDES, events=b"{")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "there is no pod in it"),
        ([None], "there is no pod in it"),
        ({}, "it is no pod: a pod of the API has a metadata.uid (kubectl get pod NAME -o json)"),
        ({"kind": "Deployment"}, "it is a Deployment, and no pod: a pod of the API has a metadata.uid (kubectl get"),
        ({"kind": "Pod"}, "it is no pod: a pod of the API"),
        ("{", "it is no JSON: "),
        (b"[1]", "it is no pod"),
    ],
)
def test_a_value_that_is_no_pod(given: Any, words: str) -> None:
    """The error says what the value is, and how to get a pod."""
    with pytest.raises(NotAPodError) as caught:
        classify(given)
    assert str(caught.value).startswith(words)


def test_observations_with_their_own_times() -> None:
    """Observations have their own times and the coordinator's actions."""
    held = pod_document(terminated(3), ready="PodFailed")
    soon, late = (Observation(pod=pod_from(held), at=at) for at in (0.0, 20.0))
    assert classify([soon]).answer == Running(finishing=True)
    assert classify([soon, late]).answer == Exited(3)
    assert classify([Observation(pod=pod_from(RUNS), at=0.0, timed_out=True)]).answer == TimedOut()
    asked = Observation(pod=pod_from(TAKEN), at=1.5, deletion_asked=True)
    assert classify([RUNS, asked]).answer == Exited(0)
    assert classify([asked]).evidence[1].endswith("by the run itself")


def test_the_word_of_an_answer() -> None:
    """Each answer has the word that `expected.json` uses."""
    evicting = pod_document(running(), conditions=(condition("DisruptionTarget", "True", "EvictionByEvictionAPI"),))
    assert classify(evicting).answer == Ending(InfraKind.EVICTED, "EvictionByEvictionAPI")
    assert [classify(each).word for each in (evicting, RUNS, DONE, pod_document(waiting_for()))] == [
        "ending",
        "running",
        "exited",
        "pending",
    ]


def test_the_commands() -> None:
    """The commands fit the answer: a failed step's log, Events of a pending pod, the node of a lost one."""
    failed = classify(pod_document(terminated(3), phase="Failed"))
    assert failed.commands == ("kubectl logs -n ci p -c step",)
    assert classify(DONE).commands == ()
    assert classify(HIDES).commands == ("kubectl events -n ci --for pod/p",)
    assert classify(pod_document(waiting_for())).commands == ("kubectl events -n ci --for pod/p",)
    lost = pod_document(running(), phase="Failed")
    assert classify(lost).commands == ("kubectl describe node node-a",)
    stage = ({"name": "senro-stage", "state": terminated(9)},)
    staged = pod_document(waiting_for("PodInitializing"), inits=stage)
    assert classify(staged).commands == ("kubectl logs -n ci p -c senro-stage",)
    odd = classify(pod_document(terminated(1), phase="Failed", metadata={"name": "a; rm -rf /", "namespace": ""}))
    assert odd.commands == ("kubectl logs -n default 'a; rm -rf /' -c step",)


def test_the_hint_of_a_known_state() -> None:
    """If a kind covers many reasons, the hint begins with what the table says of the reason."""
    refused = {"reason": "SysctlForbidden", "message": "Pod was rejected: forbidden sysctl"}
    told = classify(pod_document(phase="Failed", status=refused))
    assert told.hint.startswith("This node does not allow the sysctl. See the reason of the pod")
    scheduled = condition("PodScheduled", "False", "Unschedulable", message='0/1: persistentvolumeclaim "c" not found.')
    claim = classify(pod_document(phase="Pending", conditions=(scheduled,), spec={"nodeName": ""}))
    assert claim.answer == Pending(PendingKind.UNSCHEDULABLE, message='0/1: persistentvolumeclaim "c" not found.')
    assert claim.hint.startswith(
        "The claim does not exist, is being deleted, or lost its volume: check its name. Request"
    )


# The command


def test_the_text() -> None:
    """The text has the answer, what to do, the evidence, the rule and the rows."""
    code, output = explain("-", given=json.dumps(pod_document(terminated(3), phase="Failed")))
    assert code == 0
    assert output == (
        "pod ci/p, node node-a, container step, seen once\n"
        "\n"
        "  FAILED, BY ITS OWN EXIT CODE\n"
        "  Its command failed: exit code 3.\n"
        "\n"
        "  What to do\n"
        "    Read the step's log: the command itself says what is wrong.\n"
        "    $ kubectl logs -n ci p -c step\n"
        "\n"
        "  Evidence\n"
        "    phase Failed\n"
        "    container step: terminated, code 3, reason Error, started 2026-11-29T10:00:00Z, finished\n"
        "      2026-11-29T10:00:10Z\n"
        "\n"
        "  Rule 8 of the table of verdicts\n"
        "    The container ended, and the pod shows no disruption.\n"
        "\n"
        "  Known states in it\n"
        "    76 pod.status.reason <empty> with phase Failed -> elsewhere\n"
        "         containers, deletionTimestamp and conditions decide\n"
        "    29 container.terminated.reason Error -> exited\n"
        "         the command's own exit code, unless a disruption came before\n"
    )


@pytest.mark.parametrize(
    ("document", "title"),
    [
        (DONE, "SUCCEEDED"),
        (RUNS, "RUNNING"),
        (pod_document(terminated(128, reason="StartError", message="x")), "FAILED: ITS COMMAND COULD NOT BE STARTED"),
        (pod_document(running(), phase="Failed"), "FAILED BY THE CLUSTER: NODE-LOST"),
        (pod_document(waiting_for()), "WAITING: CREATING"),
        (pod_document(running(), metadata=DELETED), "ENDING: DELETED"),
    ],
)
def test_the_title(document: dict[str, Any], title: str) -> None:
    """The first line after the pod's name is the answer in a few words."""
    code, output = explain("-", given=json.dumps(document))
    assert code == 0
    assert output.splitlines()[2] == f"  {title}"


def test_control_sequences_are_escaped() -> None:
    """No text of a pod reaches the terminal as a control sequence."""
    document = pod_document(waiting_for("\x1b[2J", "\x1b]0;x\x07"), metadata={"name": "p\x1b[1m", "namespace": "\x9b"})
    _, output = explain("-", given=json.dumps(document))
    assert "\x1b" not in output
    assert "\x07" not in output
    assert "\x9b" not in output
    assert r"\x1b[2J" in output


def test_a_list_of_pods_and_events() -> None:
    """Each pod of a list is explained once, in order, with its Events."""
    second = {**RUNS, "metadata": {**RUNS["metadata"], "uid": "2", "name": "q"}}
    told = explain_json({"kind": "List", "items": [HIDES, second, EVICTED]})
    assert [(each["pod"], each["answer"]) for each in told] == [("p", "infra"), ("q", "running")]
    assert told[0]["kind"] == "resource-limit"
    bare = explain_json({"kind": "PodList", "items": [pod_document(running())]})
    assert [each["answer"] for each in bare] == ["running"]


def test_a_pod_over_time() -> None:
    """Consecutive documents, an array and watch events are states of one pod; DELETED and null are its end."""
    assert explain_json(RUNS, DONE, TAKEN)[0]["answer"] == "exited"
    assert explain_json([RUNS, TAKEN])[0]["answer"] == "infra"
    events = [{"type": "ADDED", "object": RUNS}, {"type": "DELETED", "object": RUNS}]
    assert explain_json(*events)[0]["kind"] == "vanished"
    assert explain_json([None, RUNS, None])[0]["kind"] == "vanished"


def test_json() -> None:
    """The JSON has the answer, its fields, the rule, the rows and the evidence."""
    (told,) = explain_json(pod_document(terminated(0), phase="Succeeded", metadata=DELETED))
    assert {key: told[key] for key in ("answer", "kind", "did_run", "may_be_alive", "code", "notes", "rule")} == {
        "answer": "infra",
        "kind": "deleted",
        "did_run": "yes",
        "may_be_alive": False,
        "code": 0,
        "notes": ["tie"],
        "rule": 7,
    }
    assert told["settled"] is True
    assert told["node"] == "node-a"
    assert told["rows"][0] == {
        "number": 28,
        "where": "container.terminated.reason",
        "value": "Completed",
        "means": "exited",
        "why": "the command ended with 0; without startedAt the kubelet invented the end, which proves nothing",
    }


def test_options() -> None:
    """`--container` and `--deadline`."""
    both = json.dumps(pod_document(terminated(0), others=({"name": "app", "state": terminated(7)},), phase="Failed"))
    assert "exit code 7" in explain("-", "--container", "app", given=both)[1]
    spec = {"activeDeadlineSeconds": 60}
    late = pod_document(terminated(137, LATE), phase="Failed", status={"reason": "DeadlineExceeded"}, spec=spec)
    assert "TIMED OUT" in explain("-", "--deadline", "60", given=json.dumps(late))[1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "there is no pod in it"),
        ("null", "there is no pod in it"),
        ("5", "5 is no object of the API"),
        ('{"kind": "Node", "metadata": {}}', "kind Node is no pod"),
        ('{"metadata": {}}', "an object without a kind is no pod"),
        ('{"kind": "Pod", "spec": {}}', "a pod without metadata.uid was never on a cluster"),
        ('{"kind":\n "Pod"', "line 2: it is no JSON"),
        ("[" * 100_000, "no object of Kubernetes is nested so deep"),
        ("1" * 5_000, "no object of Kubernetes is nested so deep or has such numbers"),
    ],
)
def test_an_input_without_a_pod(text: str, words: str) -> None:
    """It is refused with exit code 2 and a message that says what it is, and what to give."""
    code, output = explain("-", given=text)
    assert code == 2
    assert output.startswith(f"senro: -: {words}")
    assert output.endswith("; it takes what kubectl get pod NAME -o json prints\n")


def test_files(tmp_path: Path) -> None:
    """A file is read by its path; one that cannot be read is named."""
    file = tmp_path / "pod.json"
    file.write_text("\ufeff" + json.dumps(DONE), encoding="utf-8")
    assert explain(str(file))[0] == 0
    code, output = explain(str(tmp_path))
    assert code == 2
    assert output == f"senro: {tmp_path}: cannot be read: Is a directory\n"


# Recordings


@pytest.mark.parametrize("scenario", sorted(expected_answers()))
def test_every_recorded_pod_is_explained(scenario: str) -> None:
    """The answer is the expected one; there is a hint unless the step succeeded; the text fits into 100 columns."""
    for name, truth in expected_answers()[scenario].items():
        # The recorder labelled its pods as senro does, so that their deadline counts as the step's timeout.
        result = classify(recorded_pod(scenario, name).observations)
        document = json.loads(json.dumps(to_json(result)))
        keys = truth["final"].keys() & {"answer", "code", "kind", "did_run", "notes"}
        assert {key: document[key] for key in keys} == {key: truth["final"][key] for key in keys}
        assert len(result.sentence.split()) >= 4
        assert result.evidence
        succeeded = document["answer"] == "exited" and document["code"] == 0 and not document["notes"]
        assert bool(result.hint) is not succeeded
        assert result.rows or document["kind"] == "vanished"
        assert all(len(line) <= 100 or " " not in line.strip() for line in to_text(result).splitlines())


def test_the_classifier_is_imported_on_first_use() -> None:
    """`import senro` does not import it; the first use of its name does."""
    program = "import sys, senro; before = 'senro.domain.verdict' in sys.modules; senro.classify; print(before)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"
