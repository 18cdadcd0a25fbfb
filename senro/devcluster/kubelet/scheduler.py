"""The scheduler: which node takes a pod, or why none does, in the words of the recordings unschedulable-*."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from senro.devcluster.apiserver.quantities import parse_quantity
from senro.devcluster.apiserver.status import NODES, PODS, Refused
from senro.devcluster.clock import now_text
from senro.devcluster.kubelet import status as pod_status
from senro.devcluster.kubelet.claims import unready
from senro.devcluster.kubelet.events import SCHEDULER

if TYPE_CHECKING:
    from senro.devcluster.clock import Clock
    from senro.devcluster.kubelet.delays import Delays
    from senro.devcluster.kubelet.events import Recorder
    from senro.devcluster.objects import Object
    from senro.devcluster.storage import Storage

_UNHELPFUL = "Preemption is not helpful for scheduling."
_NO_VICTIMS = "No preemption victims found for incoming pod."


@dataclass(slots=True)
class NodeInfo:
    """A node as the scheduler sees it, and what the pods that are bound to it ask for in all."""

    document: Object
    used: dict[str, Fraction] = field(default_factory=dict)
    pods: list[Object] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The node's name."""
        return str(self.document["metadata"]["name"])

    def add(self, pod: Object) -> None:
        """Take a pod's requests into account."""
        self.pods.append(pod)
        for name, amount in requests_of(pod["spec"]).items():
            self.used[name] = self.used.get(name, Fraction(0)) + amount


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why one node does not take a pod; `helpless` where nothing that runs there could make room."""

    reasons: tuple[str, ...]
    helpless: bool


def requests_of(spec: Object) -> dict[str, Fraction]:
    """What a pod asks for: the sum of its containers, or the largest of its init containers where that is more."""
    total: dict[str, Fraction] = {}
    for container in spec["containers"]:
        for name, amount in _requests(container).items():
            total[name] = total.get(name, Fraction(0)) + amount
    for container in spec.get("initContainers") or []:
        for name, amount in _requests(container).items():
            total[name] = max(total.get(name, Fraction(0)), amount)
    return total


def _requests(container: Object) -> dict[str, Fraction]:
    asked = (container.get("resources") or {}).get("requests") or {}
    return {name: parse_quantity(value) or Fraction(0) for name, value in asked.items()}


def refusal(pod: Object, room: NodeInfo) -> Refusal | None:
    """The first filter that a pod does not pass on a node, in the scheduler's order; None where it passes all."""
    spec, node = pod["spec"], room.document["spec"]
    tolerations = spec.get("tolerations") or []
    taints = [taint for taint in node.get("taints") or [] if taint["effect"] != "PreferNoSchedule"]
    if node.get("unschedulable") and not tolerates(
        tolerations, {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    ):
        return Refusal(("node(s) were unschedulable",), helpless=True)
    if not all(tolerates(tolerations, taint) for taint in taints):
        return Refusal(("node(s) had untolerated taint(s)",), helpless=True)
    if not matches_node(spec, room.document):
        return Refusal(("node(s) didn't match Pod's node affinity/selector",), helpless=True)
    return _resources_refusal(requests_of(spec), room)


def _resources_refusal(asked: dict[str, Fraction], room: NodeInfo) -> Refusal | None:
    allocatable = room.document["status"]["allocatable"]
    reasons, helpless = [], False
    if len(room.pods) + 1 > (parse_quantity(allocatable.get("pods", "110")) or 0):
        reasons.append("Too many pods")
    for name, amount in asked.items():
        there = parse_quantity(allocatable.get(name, "0")) or Fraction(0)
        if name == "ephemeral-storage" and name not in allocatable:
            continue  # a node that does not report its disk does not limit it
        if amount and amount > there - room.used.get(name, Fraction(0)):
            reasons.append(f"Insufficient {name}")
            helpless = helpless or amount > there
    return Refusal(tuple(reasons), helpless) if reasons else None


def tolerates(tolerations: list[Object], taint: Object) -> bool:
    """Whether one of the tolerations is for this taint."""
    return any(_is_for(toleration, taint) for toleration in tolerations)


def _is_for(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") not in {None, "", taint["effect"]}:
        return False
    key = toleration.get("key") or ""
    if key and key != taint["key"]:
        return False
    exists = toleration.get("operator") == "Exists"
    return exists or (bool(key) and (toleration.get("value") or "") == (taint.get("value") or ""))


def patience(tolerations: list[Object], taints: list[Object]) -> float | None:
    """Seconds that a pod may stay on a node with these NoExecute taints; None for ever, 0 not at all."""
    shortest: float | None = None
    for taint in taints:
        matching = [toleration for toleration in tolerations if _is_for(toleration, taint)]
        if not matching:
            return 0.0
        limits = [toleration["tolerationSeconds"] for toleration in matching if "tolerationSeconds" in toleration]
        if limits:
            least = float(max(0, min(limits)))
            shortest = least if shortest is None else min(shortest, least)
    return shortest


def matches_node(spec: Object, node: Object) -> bool:
    """Whether a node has the labels of a pod's nodeSelector."""
    labels = node["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in (spec.get("nodeSelector") or {}).items())


def account(refusals: list[Refusal]) -> str:
    """The scheduler's sentence about all nodes (recordings unschedulable-cpu, unschedulable-selector)."""
    if not refusals:
        return "no nodes available to schedule pods"
    nodes = f"0/{len(refusals)} nodes are available"
    reasons = Counter(reason for refused in refusals for reason in refused.reasons)
    preemption = Counter(_UNHELPFUL if refused.helpless else _NO_VICTIMS for refused in refusals)
    return (
        f"{nodes}: {', '.join(_counted(reasons))}. no new claims to deallocate, "
        f"preemption: {nodes}: {' '.join(_counted(preemption))}"
    )


def _counted(words: Counter[str]) -> list[str]:
    return sorted(f"{count} {word}" for word, count in words.items())


class Scheduler:
    """Binds pods to nodes. It preempts no pod: `Faults.fail_pod(reason="Preempted")` does."""

    def __init__(self, storage: Storage, clock: Clock, delays: Delays, recorder: Recorder) -> None:
        self._storage = storage
        self._clock = clock
        self._delays = delays
        self._recorder = recorder

    async def assign(self, namespace: str, name: str, uid: str) -> str:
        """Bind the pod as soon as a node takes it; returns the node's name. Ends with the task that waits."""
        told = ""
        while True:
            pod = self._storage.find(PODS, namespace, name)
            if pod is None or pod["metadata"]["uid"] != uid:
                return ""
            node, message = self._decide(pod)
            if node:
                self._bind(pod, node)
                return node
            if message != told:
                told = message
                self._refuse(pod, message)
            seen = self._storage.version
            while self._storage.version == seen:
                await self._storage.changed()
            await self._clock.sleep(self._delays.reschedule())

    def rooms(self) -> list[NodeInfo]:
        """Every node, with the pods that are bound to it and not over."""
        rooms = {node["metadata"]["name"]: NodeInfo(node) for node in self._storage.select(NODES)}
        for pod in self._storage.select(PODS):
            room = rooms.get(pod["spec"].get("nodeName") or "")
            if room is not None and pod["status"].get("phase") not in {"Succeeded", "Failed"}:
                room.add(pod)
        return list(rooms.values())

    def _decide(self, pod: Object) -> tuple[str, str]:
        rooms = self.rooms()
        if words := unready(self._storage, pod):
            return "", f"0/{len(rooms)} nodes are available: {words}. not found"
        refusals = []
        for room in sorted(rooms, key=lambda room: (len(room.pods), room.name)):
            refused = refusal(pod, room)
            if refused is None:
                return room.name, ""
            refusals.append(refused)
        return "", account(refusals)

    def _bind(self, pod: Object, node: str) -> None:
        meta = pod["metadata"]

        def bind(document: Object) -> None:
            document["spec"]["nodeName"] = node
            document["status"]["conditions"] = [pod_status.scheduled(now_text(self._clock))]

        try:
            bound = self._storage.update(PODS, meta["namespace"], meta["name"], bind)
        except Refused:
            return
        message = f"Successfully assigned {meta['namespace']}/{meta['name']} to {node}"
        self._recorder.normal(bound, "Scheduled", message, by=SCHEDULER)

    def _refuse(self, pod: Object, message: str) -> None:
        meta = pod["metadata"]

        def refuse(document: Object) -> None:
            document["status"]["conditions"] = [
                pod_status.unschedulable(meta["generation"], now_text(self._clock), message)
            ]

        try:
            self._storage.update(PODS, meta["namespace"], meta["name"], refuse)
        except Refused:
            return
        self._recorder.warning(pod, "FailedScheduling", message, by=SCHEDULER)
