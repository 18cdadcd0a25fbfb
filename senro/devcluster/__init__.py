"""An embedded cluster: a small apiserver and kubelet in one process, on this machine.

It exists so that the first run needs no cluster, and so that faults can be injected where no real cluster would
oblige. Pods are real processes of this machine; images are only names, and every one of them is the host's tools.
It is no place for untrusted commands, it keeps nothing, and it has one node.
"""

from __future__ import annotations

from senro.devcluster.cluster import DevCluster
from senro.devcluster.faults import DISRUPTIONS, Faults
from senro.devcluster.images import IMAGE
from senro.devcluster.thread import DevClusterThread, serve

__all__ = ["DISRUPTIONS", "IMAGE", "DevCluster", "DevClusterThread", "Faults", "serve"]
