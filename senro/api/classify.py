"""`senro.classify`: why a pod came to its answer, from what the apiserver said of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from senro.domain.errors import SenroError
from senro.domain.kube.event import ClusterEvent, decode_events
from senro.domain.kube.names import MANAGED_LABEL
from senro.domain.kube.pod import Pod, decode_pod, object_from, pod_from
from senro.domain.text.printable import printable
from senro.domain.transfer.scripts import STEP_CONTAINER
from senro.domain.verdict import Memory, Observation
from senro.domain.verdict.explain.classification import Classification, classified

PodLike: TypeAlias = Mapping[str, Any] | bytes | str | Pod
"""A pod: the decoded JSON of the API, its text, or what `senro.domain.kube.pod` decoded."""

Sighting: TypeAlias = PodLike | Observation | None
"""A pod as it was seen once; None where the apiserver answered 404."""


class NotAPodError(SenroError):
    """What should be a pod is none. `message` says what it is instead."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return self.message


def classify(
    seen: PodLike | Iterable[Sighting],
    *,
    container: str | None = None,
    own_deadline: int | None = None,
    events: bytes | Iterable[Mapping[str, Any] | ClusterEvent] | None = None,
) -> Classification:
    """What became of the step in a pod, and why: the answer, its evidence, the rows of the table, what to do.

    `seen` is one pod, or everything that was seen of one in order. One state says less than the states before it do: a
    finish that was seen before a deletion is believed, one that is first seen together with it is not. No time passes
    between pods; an `Observation` has its own.

    `container` is the one whose end counts (default: `step`, else the first of the pod's). `own_deadline` is the
    activeDeadlineSeconds that the run asked for, so that the pod's DeadlineExceeded is a timeout (default: the pod's,
    where senro made the pod). `events` are the Events about it, an EventList's text or its items; without them a 0 of
    some pods carries the note `disruption-unchecked`.

    Raises `NotAPodError` where something in `seen` is no pod with a uid, or nothing is. Any other JSON has an answer.
    """
    if isinstance(seen, Mapping | bytes | str | Pod):
        seen = (seen,)
    read = _events(events)
    observations = []
    for sighting in seen:
        observation = sighting if isinstance(sighting, Observation) else Observation(pod=_pod(sighting), at=0.0)
        observations.append(replace(observation, events=read) if observation.events is None else observation)
    first = next((each.pod for each in observations if each.pod is not None), None)
    if first is None:
        raise NotAPodError("there is no pod in it")
    deadline = first.spec.active_deadline_seconds if MANAGED_LABEL in first.metadata.labels else None
    memory = Memory.start(
        uid=first.uid,
        step=container or _container(first),
        own_deadline=deadline if own_deadline is None else own_deadline,
    )
    return classified(memory, observations)


def _pod(value: PodLike | None) -> Pod | None:
    if value is None:
        return None
    try:
        if isinstance(value, Pod):
            pod = value
        elif isinstance(value, Mapping):
            pod = pod_from(dict(value))
        else:
            pod = decode_pod(value if isinstance(value, bytes) else value.encode("utf-8", "replace"))
    except ValueError as error:
        raise NotAPodError(f"it is no JSON: {printable(str(error))}") from error
    if not pod.uid:
        kind = value.get("kind") if isinstance(value, Mapping) else None
        told = f"it is a {printable(kind)}, and no pod" if isinstance(kind, str) and kind != "Pod" else "it is no pod"
        raise NotAPodError(f"{told}: a pod of the API has a metadata.uid (kubectl get pod NAME -o json)")
    return pod


def _container(pod: Pod) -> str:
    """The step's container in a pod of senro's; in another's the first, as kubectl takes it."""
    names = [container.name for container in pod.spec.containers]
    return names[0] if names and STEP_CONTAINER not in names else STEP_CONTAINER


def _events(
    events: bytes | Iterable[Mapping[str, Any] | ClusterEvent] | None,
) -> tuple[ClusterEvent, ...] | None:
    if events is None:
        return None
    if isinstance(events, bytes):
        try:
            return decode_events(events)
        except ValueError as error:
            raise NotAPodError(f"events: it is no JSON: {printable(str(error))}") from error
    return tuple(each if isinstance(each, ClusterEvent) else object_from(dict(each), ClusterEvent) for each in events)
