"""An embedded cluster: a small apiserver and kubelet in one process, on this machine.

It exists so that the first run needs no cluster, and so that faults can be injected where no real cluster would
oblige. Pods are real processes of this machine; images are only names, each with a behaviour (`images.IMAGES`).
It is no place for untrusted commands, and it keeps nothing.
"""

from __future__ import annotations

from senro.devcluster.clock import SystemClock, VirtualClock
from senro.devcluster.cluster import DevCluster
from senro.devcluster.fault_points import FAULT_POINTS
from senro.devcluster.faults import Faults
from senro.devcluster.images import IMAGE
from senro.devcluster.kubelet.disruptions import DISRUPTIONS
from senro.devcluster.thread import DevClusterThread, serve

__all__ = [
    "DISRUPTIONS",
    "FAULT_POINTS",
    "IMAGE",
    "DevCluster",
    "DevClusterThread",
    "Faults",
    "SystemClock",
    "VirtualClock",
    "serve",
]
