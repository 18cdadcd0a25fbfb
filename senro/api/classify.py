"""`senro.classify`: explains the result of the step in a pod, from the pod's states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from senro.domain.errors import SenroError
from senro.domain.kube.event import ClusterEvent, decode_events
from senro.domain.kube.names import MANAGED_LABEL
from senro.domain.kube.pod import Pod, decode_pod, object_from, pod_from
from senro.domain.text.printable import printable
from senro.domain.transfer.containers import STEP_CONTAINER
from senro.domain.verdict import Memory, Observation
from senro.domain.verdict.explain.classification import Classification, classified

PodLike: TypeAlias = Mapping[str, Any] | bytes | str | Pod
"""A pod: the JSON of the API, decoded or not, or a decoded `senro.domain.kube.pod.Pod`."""

ObservedPod: TypeAlias = PodLike | Observation | None
"""One state of a pod. None means that the apiserver answered 404."""


class NotAPodError(SenroError):
    """A value is no pod of the API. `message`: what it is instead."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return self.message


def classify(
    pods: PodLike | Iterable[ObservedPod],
    *,
    container: str | None = None,
    own_deadline: int | None = None,
    events: bytes | Iterable[Mapping[str, Any] | ClusterEvent] | None = None,
) -> Classification:
    """Returns the result of the step in a pod, with its evidence, the matching rows of the table and what to do.

    `pods`: one state of a pod, or its states in order. Several states give a more precise answer than the last alone:
    an exit that was observed before a deletion counts, one that is first observed together with it does not. All
    states but an `Observation` have the same time.
    `container`: the step's container; by default `step`, else the pod's first container.
    `own_deadline`: the activeDeadlineSeconds that is the step's timeout, so that DeadlineExceeded means `timed_out`;
    by default that of the pod, if senro created it.
    `events`: the Events about the pod, as the JSON text of an EventList or as its items. Without them the exit code 0
    of some pods has the note `disruption-unchecked`.

    Raises `NotAPodError` if `pods` holds no pod, or a value that is no pod with a uid.
    """
    if isinstance(pods, Mapping | bytes | str | Pod):
        pods = (pods,)
    known_events = _events(events)
    observations = []
    for state in pods:
        observation = state if isinstance(state, Observation) else Observation(pod=_pod(state), at=0.0)
        observations.append(replace(observation, events=known_events) if observation.events is None else observation)
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
        found = f"it is a {printable(kind)}, and no pod" if isinstance(kind, str) and kind != "Pod" else "it is no pod"
        raise NotAPodError(f"{found}: a pod of the API has a metadata.uid (kubectl get pod NAME -o json)")
    return pod


def _container(pod: Pod) -> str:
    """Returns `step` if the pod has such a container, else the name of its first one, as kubectl chooses it."""
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
