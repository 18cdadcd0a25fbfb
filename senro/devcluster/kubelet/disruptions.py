"""How a cluster takes pods away: each way by its name, with what it leaves in the pod (recordings *-trap-zero)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Disruption:
    """One way. `how` is who does it: the API (a deletion), the pod's kubelet, the kernel, or the whole node's silence.

    `reason` and `message` stand in the condition DisruptionTarget (`condition`) and, from the kubelet, in the status.
    `grace` is the deletion's own, None where the pod's, or the caller's, counts.
    """

    how: Literal["api", "kubelet", "memory", "node"]
    reason: str = ""
    message: str = ""
    condition: bool = False
    grace: int | None = None


_PRESSURE = (
    "The node was low on resource: memory. Threshold quantity: 100Mi, available: 80Mi. Container step was using "
    "200Mi, request is 0, has larger consumption of memory. "
)

DISRUPTIONS: dict[str, Disruption] = {
    "Evicted": Disruption("api", "EvictionByEvictionAPI", "Eviction API: evicting", condition=True),
    "Preempted": Disruption(
        "api",
        "PreemptionByScheduler",
        "default-scheduler: preempting to accommodate a higher priority pod",
        condition=True,
    ),
    "Tainted": Disruption(
        "api", "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint", condition=True
    ),
    "Deleted": Disruption("api"),
    "ForceDeleted": Disruption("api", grace=0),
    "LimitExceeded": Disruption("kubelet", "Evicted", 'Usage of EmptyDir volume "d" exceeds the limit "8Mi". '),
    "NodePressure": Disruption("kubelet", "Evicted", _PRESSURE, condition=True),
    "NodeShutdown": Disruption(
        "kubelet", "Terminated", "Pod was terminated in response to imminent node shutdown.", condition=True
    ),
    "OutOfMemory": Disruption("memory", "OOMKilled"),
    "NodeLost": Disruption("node"),
}
"""Reasons for `Faults.fail_pod` and `DevCluster.evict`."""
