"""Recorded pods as observations, and pods built by hand, for the tests of decoding and verdicts."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from senro.domain.kube.pod import pod_from
from senro.domain.verdict import Answer, Memory, Observation, observe

RECORDINGS = Path(__file__).parents[2] / "contract" / "recordings"


@dataclass(frozen=True)
class RecordedPod:
    """The states of a recorded pod.

    `documents`, `observations`: its states in order, as JSON and as observations; None or no pod for a 404.
    `ours`: the index of the first observation after the recorder's own request to delete the pod. Requests of an
    administrator do not count.
    """

    scenario: str
    name: str
    uid: str
    documents: tuple[Mapping[str, Any] | None, ...]
    observations: tuple[Observation, ...]
    ours: int

    def memory(self, own_deadline: int | None = None) -> Memory:
        return Memory.start(uid=self.uid, own_deadline=own_deadline)


@cache
def expected_answers() -> dict[str, dict[str, dict[str, Any]]]:
    data: dict[str, dict[str, dict[str, Any]]] = json.loads((RECORDINGS / "expected.json").read_text())
    return data


@cache
def exchanges(scenario: str) -> list[dict[str, Any]]:
    data: list[dict[str, Any]] = json.loads((RECORDINGS / f"{scenario}.json").read_text())["exchanges"]
    return data


@cache
def recorded_pod(scenario: str, name: str) -> RecordedPod:
    """Returns all states of the pod in order, from answers to POST, GET and DELETE, 404s and watch events."""
    documents: list[Mapping[str, Any] | None] = []
    observations: list[Observation] = []
    ours: int | None = None
    for at, method, document in _observed_states(scenario, name):
        if method == "DELETE" and ours is None:
            ours = len(documents)
        pod = None if document is None else pod_from(document)
        documents.append(document)
        observations.append(Observation(pod=pod, at=at, deletion_asked=ours is not None))
    first = documents[0]
    assert first is not None, (scenario, name)
    return RecordedPod(
        scenario=scenario,
        name=name,
        uid=first["metadata"]["uid"],
        documents=tuple(documents),
        observations=tuple(observations),
        ours=len(documents) if ours is None else ours,
    )


def recorded_pods() -> list[tuple[str, str]]:
    """Returns each scenario and pod that `expected.json` has."""
    return [(scenario, name) for scenario, pods in expected_answers().items() for name in pods]


def _observed_states(scenario: str, name: str) -> Iterator[tuple[float, str, Mapping[str, Any] | None]]:
    for exchange in exchanges(scenario):
        request, response = exchange["request"], exchange.get("response", {})
        document = response.get("json")
        path = request["path"]
        if not isinstance(document, dict):
            yield from _watched(name, response.get("chunks", ()), path)
        elif document.get("kind") == "Pod" and document["metadata"]["name"] == name:
            yield response["at"], request["method"], document
        elif response.get("status") == 404 and path.endswith(f"/pods/{name}"):
            yield response["at"], request["method"], None


def _watched(
    name: str, chunks: list[dict[str, Any]], path: str
) -> Iterator[tuple[float, str, Mapping[str, Any] | None]]:
    """Yields the pods of a watch, each with the time at which its line was complete."""
    if not path.endswith("/pods"):
        return
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + base64.b64decode(chunk["base64"])).split(b"\n")
        for line in lines:
            event = json.loads(line)
            if event["object"].get("kind") == "Pod" and event["object"]["metadata"].get("name") == name:
                yield chunk["at"], "WATCH", event["object"]


def fold(memory: Memory, observations: tuple[Observation, ...]) -> list[Answer]:
    """Returns the answer after each observation."""
    answers = []
    for observation in observations:
        answer, memory = observe(memory, observation)
        answers.append(answer)
    return answers


UID = "8f14e45f-ceea-467f-a1b2-000000000001"
NODE = "node-a"
STARTED = "2026-11-29T10:00:00Z"


def running(started_at: str = STARTED) -> dict[str, Any]:
    return {"running": {"startedAt": started_at}}


def waiting_for(reason: str = "ContainerCreating", message: str = "") -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": message}}


def terminated(code: int = 0, at: str = "2026-11-29T10:00:10Z", **fields: Any) -> dict[str, Any]:
    reason = "Completed" if code == 0 else "Error"
    end = {"exitCode": code, "reason": reason, "startedAt": STARTED, "finishedAt": at, **fields}
    return {"terminated": end}


def condition(kind: str, status: str, reason: str = "", at: str = STARTED, message: str = "") -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "lastTransitionTime": at, "message": message}


def pod_document(
    step: Mapping[str, Any] | None = None,
    *,
    phase: str = "Running",
    ready: str | None = None,
    conditions: tuple[Mapping[str, Any], ...] = (),
    inits: tuple[Mapping[str, Any], ...] = (),
    others: tuple[Mapping[str, Any], ...] = (),
    metadata: Mapping[str, Any] | None = None,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    container: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Returns a pod whose step is in the state `step`. `ready` is the reason of a Ready that is False."""
    statuses = [{"name": "step", "state": step, **(container or {})}] if step is not None else []
    readiness = [condition("Ready", "False", ready)] if ready is not None else []
    return {
        "metadata": {"name": "p", "namespace": "ci", "uid": UID, **(metadata or {})},
        "spec": {"nodeName": NODE, "containers": [{"name": "step"}], **(spec or {})},
        "status": {
            "phase": phase,
            "startTime": STARTED,
            "conditions": [*readiness, *conditions],
            "containerStatuses": [*statuses, *others],
            "initContainerStatuses": list(inits),
            **(status or {}),
        },
    }


def observation_of(document: Mapping[str, Any] | None, at: float = 0.0, **said: Any) -> Observation:
    return Observation(pod=None if document is None else pod_from(document), at=at, **said)


def last(*observations: Observation, own_deadline: int | None = None) -> Answer:
    """Returns the answer after the last observation."""
    return fold(Memory.start(uid=UID, own_deadline=own_deadline), observations)[-1]
