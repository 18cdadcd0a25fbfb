"""From the JSON that people have at hand to pods as they were seen, for `senro explain`.

It may be one pod or several documents behind one another (`kubectl get pod NAME -o json`, with `--watch` too), a list
(`kubectl get pods,events -o json`), an array of sightings in order, or a recording of apiserver traffic as they lie
under tests/contract/recordings. Pods are told apart by uid; what was seen of one stays in order.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from senro.api.classify import NotAPodError
from senro.domain.kube.event import ClusterEvent
from senro.domain.kube.pod import object_from, pod_from
from senro.domain.text.printable import printable
from senro.domain.verdict import Observation


@dataclass(slots=True)
class Sightings:
    """One pod: everything that was seen of it, in order."""

    observations: list[Observation] = field(default_factory=list)


@dataclass(slots=True)
class _Reading:
    """What was found so far. `latest` is the uid of the pod seen last, which a 404 without a name is about."""

    pods: dict[str, Sightings] = field(default_factory=dict)
    events: list[ClusterEvent] = field(default_factory=list)
    latest: str = ""
    refused: str = ""

    def see(self, value: object, *, at: float = 0.0, ours: bool = False) -> None:
        """Take one document, whatever it is."""
        if value is None:
            if self.latest:
                self.pods[self.latest].observations.append(Observation(pod=None, at=at, deletion_asked=ours))
        elif isinstance(value, list):
            for part in value:
                self.see(part, at=at, ours=ours)
        elif isinstance(value, dict):
            self._see_object(value, at=at, ours=ours)
        else:
            self.refused = self.refused or f"{printable(json.dumps(value)[:40])} is no object of the API"

    def _see_object(self, value: dict[str, Any], *, at: float, ours: bool) -> None:
        kind = value.get("kind")
        if isinstance(value.get("exchanges"), list):
            self._see_recording(value["exchanges"])
        elif isinstance(value.get("items"), list):
            self.see(value["items"], at=at, ours=ours)
        elif isinstance(value.get("object"), dict) and isinstance(value.get("type"), str):
            self.see(value["object"], at=at, ours=ours)
            if value["type"] == "DELETED":
                self.see(None, at=at, ours=ours)
        elif "pod" in value and "metadata" not in value:
            moment = value.get("at")
            self.see(
                value["pod"],
                at=float(moment) if isinstance(moment, int | float) else at,
                ours=value.get("deletion_asked") is True,
            )
        elif isinstance(value.get("involvedObject"), dict):
            self.events.append(object_from(value, ClusterEvent))
        elif kind == "Pod" or (kind is None and ("status" in value or "spec" in value)):
            self._see_pod(value, at=at, ours=ours)
        else:
            told = f"kind {printable(kind)}" if isinstance(kind, str) else "an object without a kind"
            self.refused = self.refused or f"{told} is no pod"

    def _see_pod(self, value: dict[str, Any], *, at: float, ours: bool) -> None:
        pod = pod_from(value)
        if not pod.uid:
            self.refused = self.refused or "a pod without metadata.uid was never on a cluster"
            return
        self.latest = pod.uid
        seen = self.pods.setdefault(pod.uid, Sightings())
        seen.observations.append(Observation(pod=pod, at=at, deletion_asked=ours))

    def _see_recording(self, exchanges: list[Any]) -> None:
        """Answers to POST, GET and DELETE of pods, 404s and watches. What it deletes itself is its own doing."""
        deleted: set[str] = set()
        names: dict[str, str] = {}
        for exchange in exchanges:
            request, response = _part(exchange, "request"), _part(exchange, "response")
            path, document = str(request.get("path", "")), response.get("json")
            moment = response.get("at")
            at = float(moment) if isinstance(moment, int | float) else 0.0
            if request.get("method") == "DELETE":
                deleted.add(path)
            if isinstance(document, dict) and document.get("kind") == "Pod":
                place = _path_of(document, path)
                self.see(document, at=at, ours=place in deleted)
                names[place] = self.latest
            elif response.get("status") == 404 and path in names:
                self.latest = names[path]
                self.see(None, at=at, ours=path in deleted)
            elif isinstance(document, dict) and document.get("kind") == "EventList":
                self.see(document)
            elif path.endswith("/pods"):
                for watched_at, watched in _watched(response.get("chunks")):
                    self.see(watched, at=watched_at)


def read_sightings(text: str) -> tuple[list[Sightings], tuple[ClusterEvent, ...]]:
    """Every pod in `text` in the order of its first sighting, and the Events in it. Raises `NotAPodError`."""
    reading = _Reading()
    for document in _documents(text):
        reading.see(document)
    if not reading.pods:
        raise NotAPodError(reading.refused or "there is no pod in it")
    return list(reading.pods.values()), tuple(reading.events)


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
    """The next place that holds no white space; also what `kubectl --watch` and JSON lines put between documents."""
    while place < len(text) and text[place] in " \t\r\n\x1e\ufeff":
        place += 1
    return place


def _part(value: object, key: str) -> Mapping[str, Any]:
    part = value.get(key) if isinstance(value, dict) else None
    return part if isinstance(part, dict) else {}


def _path_of(document: dict[str, Any], path: str) -> str:
    """The pod's own path, whichever path it was answered on."""
    name = f"/{pod_from(document).name}"
    return path if path.endswith(name) else path + name


def _watched(chunks: object) -> Iterator[tuple[float, object]]:
    rest = b""
    for chunk in chunks if isinstance(chunks, list) else ():
        try:
            *lines, rest = (rest + base64.b64decode(_text(chunk, "base64"))).split(b"\n")
        except binascii.Error:
            return
        moment = chunk.get("at")
        for line in lines:
            try:
                yield (float(moment) if isinstance(moment, int | float) else 0.0), json.loads(line)
            except ValueError:
                return


def _text(value: object, key: str) -> str:
    part = value.get(key) if isinstance(value, dict) else None
    return part if isinstance(part, str) else ""
