"""A kubelet's admission: which of the pods that are bound to its node it refuses, and with what reason and message.

See docs/design/pod-states.md#refusals-by-the-kubelet.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

from senro.devcluster.apiserver.quantities import parse_quantity
from senro.devcluster.kubelet.scheduler import matches_node, requests_of, tolerates

if TYPE_CHECKING:
    from senro.devcluster.kubelet.scheduler import NodeInfo
    from senro.devcluster.objects import Object

_OS_LABEL = "kubernetes.io/os"


def rejection(pod: Object, room: NodeInfo) -> tuple[str, str] | None:
    """The reason and message for which the node's kubelet does not take a pod; None where it does.

    `room` holds the pods that it has taken. What the scheduler has looked at is looked at again, since a pod may name
    its node itself; of the taints NoExecute alone counts here.
    """
    spec, node = pod["spec"], room.document
    labels, system = pod["metadata"].get("labels") or {}, node["metadata"]["labels"][_OS_LABEL]
    if labels.get(_OS_LABEL, system) != system:
        words = f"Failed to admit pod as the `{_OS_LABEL}` label doesn't match node label"
        return "PodOSSelectorNodeLabelDoesNotMatch", words
    if (spec.get("os") or {}).get("name", system) != system:
        return "PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"
    if lacking := _lacking(spec, room):
        return lacking
    if not matches_node(spec, node):
        return _predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
    taints = [taint for taint in node["spec"].get("taints") or [] if taint["effect"] == "NoExecute"]
    if not all(tolerates(spec.get("tolerations") or [], taint) for taint in taints):
        return _predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate")
    return None


def _predicate(name: str, words: str) -> tuple[str, str]:
    return name, f"Predicate {name} failed: {words}"


def _lacking(spec: Object, room: NodeInfo) -> tuple[str, str] | None:
    """The first resource that the node has too little of; cpu is told in thousandths, all else in whole units."""
    allocatable = room.document["status"]["allocatable"]
    asked, used = {"pods": Fraction(1), **requests_of(spec)}, {**room.used, "pods": Fraction(len(room.pods))}
    for name, amount in asked.items():
        if name == "ephemeral-storage" and name not in allocatable:
            continue  # as for the scheduler: a node that does not report its disk does not limit it
        there, taken = parse_quantity(allocatable.get(name, "0")) or Fraction(0), used.get(name, Fraction(0))
        if amount and amount > there - taken:
            unit = 1000 if name == "cpu" else 1
            requested, in_use, capacity = (ceil(value * unit) for value in (amount, taken, there))
            words = f"{name}, requested: {requested}, used: {in_use}, capacity: {capacity}"
            return f"OutOf{name}", f"Node didn't have enough resource: {words}"
    return None
