"""What must hold for any bytes that are given to the decoder, the classifier and the reader of `senro explain`."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from senro.api.classify import NotAPodError, classify
from senro.cli.explain import to_json, to_text
from senro.cli.pod_documents import read_pods
from senro.domain.kube.event import decode_events
from senro.domain.kube.pod import Pod, decode_pod, pod_from
from senro.domain.verdict import Memory, Observation, observe, wants_events
from tests.lib.verdict.observations import UID, pod_document, running

CORPUS = Path(__file__).parents[2] / "fuzz" / "corpus"

RUNS = pod_from(pod_document(running()))

Feature = tuple[object, ...]
"""What an input caused. An input that caused something new is mutated further."""


def check(data: bytes) -> Feature:
    """Gives the bytes to all readers of what an apiserver or a user provides. Fails if anything raises."""
    pod = _decoded(data)
    if pod is None:
        return ("no JSON",)
    known = pod if pod.uid == UID else _with_uid(pod)
    features: list[object] = []
    for seen in ((known,), (RUNS, known), (known, RUNS), (known, None), (known, known)):
        memory = Memory.start(uid=UID, own_deadline=3)
        for index, each in enumerate(seen):
            before = memory.answer
            observation = Observation(pod=each, at=21.0 * index)
            answer, memory = observe(memory, observation)
            wants_events(answer, memory, observation.at)
            assert not before.settled or answer == before
        features += [memory.rule, type(memory.answer).__name__, str(getattr(memory.answer, "kind", ""))]
    told = classify(known)
    assert json.loads(json.dumps(to_json(told)))["pod"] == known.name
    assert all(line.isprintable() for line in to_text(told).splitlines())
    return tuple(features)


def _decoded(data: bytes) -> Pod | None:
    try:
        decode_events(data)
        pod = decode_pod(data)
    except ValueError:
        pod = None
    refused = ""
    try:
        read_pods(data.decode("utf-8", "replace"))
    except NotAPodError as error:
        refused = str(error)
    assert refused.isprintable()
    if pod is not None:
        # A decoded pod can be encoded, and decodes to the same pod.
        assert decode_pod(msgspec.json.encode(pod)) == pod
    return pod


def _with_uid(pod: Pod) -> Pod:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid=UID))
