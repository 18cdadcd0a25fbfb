"""Reads the JSON that kubectl prints about pods, the input of `senro explain`.

Accepted are documents one after another (`kubectl get pod NAME -o json`, also with `--watch` and
`--output-watch-events`), lists (`kubectl get pods,events -o json`), and arrays of pods in order, in which null stands
for a pod that is gone. Pods are told apart by uid; the states of one pod keep their order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from senro.api.classify import NotAPodError
from senro.domain.kube.event import ClusterEvent
from senro.domain.kube.pod import Pod, object_from, pod_from
from senro.domain.text.printable import printable


@dataclass(slots=True)
class _Collector:
    """Collects the pods and Events of documents.

    `pods`: the states of each pod in order, by uid; None stands for a pod that is gone.
    `events`: the Events.
    `latest`: the uid of the pod that was added last.
    `problem`: why the first document that was ignored is no pod; empty if there was none.
    """

    pods: dict[str, list[Pod | None]] = field(default_factory=dict)
    events: list[ClusterEvent] = field(default_factory=list)
    latest: str = ""
    problem: str = ""

    def add(self, value: object) -> None:
        """Adds the pods and Events of one document. Null means that the latest pod is gone."""
        if value is None:
            if self.latest:
                self.pods[self.latest].append(None)
        elif isinstance(value, list):
            for part in value:
                self.add(part)
        elif isinstance(value, dict):
            self._add_object(value)
        else:
            self._ignore(f"{printable(json.dumps(value)[:40])} is no object of the API")

    def _add_object(self, value: dict[str, Any]) -> None:
        kind = value.get("kind")
        if isinstance(value.get("items"), list):
            self.add(value["items"])
        elif isinstance(value.get("object"), dict) and isinstance(value.get("type"), str):
            self.add(value["object"])
            if value["type"] == "DELETED":
                self.add(None)
        elif isinstance(value.get("involvedObject"), dict):
            self.events.append(object_from(value, ClusterEvent))
        elif kind == "Pod" or (kind is None and ("status" in value or "spec" in value)):
            pod = pod_from(value)
            if pod.uid:
                self.latest = pod.uid
                self.pods.setdefault(pod.uid, []).append(pod)
            else:
                self._ignore("a pod without metadata.uid was never on a cluster")
        else:
            name = f"kind {printable(kind)}" if isinstance(kind, str) else "an object without a kind"
            self._ignore(f"{name} is no pod")

    def _ignore(self, problem: str) -> None:
        self.problem = self.problem or problem


def read_pods(text: str) -> tuple[list[list[Pod | None]], tuple[ClusterEvent, ...]]:
    """Returns the states of each pod in `text`, in order of first appearance, and the Events.

    Raises `NotAPodError` if the text is no JSON or holds no pod.
    """
    collector = _Collector()
    for document in _documents(text):
        collector.add(document)
    if not collector.pods:
        raise NotAPodError(collector.problem or "there is no pod in it")
    return list(collector.pods.values()), tuple(collector.events)


def _documents(text: str) -> Iterator[object]:
    decoder, place = json.JSONDecoder(), 0
    while (place := _next(text, place)) < len(text):
        try:
            document, place = decoder.raw_decode(text, place)
        except json.JSONDecodeError as error:
            raise NotAPodError(f"line {error.lineno}: it is no JSON: {error.msg}") from error
        except (ValueError, RecursionError) as error:
            raise NotAPodError("no object of Kubernetes is nested so deep or has such numbers") from error
        yield document


def _next(text: str, place: int) -> int:
    """Returns the index of the next document: skips white space, record separators (RFC 7464) and a BOM."""
    while place < len(text) and text[place] in " \t\r\n\x1e\ufeff":
        place += 1
    return place
