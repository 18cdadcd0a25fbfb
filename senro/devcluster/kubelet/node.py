"""A node, as `GET /api/v1/nodes` shows it (recording nodes), and as its kubelet is reached."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING

import anyio

from senro.devcluster.clock import now_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from senro.devcluster.clock import Clock
    from senro.devcluster.objects import Object

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64", "ppc64le": "ppc64le", "s390x": "s390x"}
READY = ("True", "KubeletReady", "kubelet is posting ready status")
_PATCHES = {"1.36": 2}
_PODS = "500"
"""More than a kubelet's 110: two hundred at once are what the embedded cluster is for."""
PRESSURES = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)


class Node:
    """A node's kubelet: its address, and whether it can be reached."""

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self.silent = False
        """It neither reports nor answers; what runs there runs on (recording node-lost)."""
        self.back = anyio.Event()
        self.gone = anyio.Event()
        """Set when it falls silent: open connections to it break."""

    async def reachable(self) -> None:
        """Return once the kubelet can be reached."""
        while self.silent:
            await self.back.wait()

    def fall_silent(self) -> None:
        """From now on nothing is heard of it."""
        self.silent = True
        self.gone.set()

    def come_back(self) -> None:
        """It is heard of again."""
        self.silent = False
        self.gone = anyio.Event()
        happened, self.back = self.back, anyio.Event()
        happened.set()


def node_object(clock: Clock, mode: str, node: Node, *, version: str, capacity: Mapping[str, str]) -> Object:
    """The node: this machine's platform, the runtime's mode as its container runtime.

    `capacity` takes the place of what the machine has, name by name. `version` is the cluster's, as `1.36`.
    """
    system = platform.system().lower()
    machine = _ARCHITECTURES.get(platform.machine(), platform.machine())
    now = now_text(clock)
    amounts = {
        "cpu": str(os.cpu_count() or 1),
        "memory": f"{_memory_kibibytes()}Ki",
        "pods": _PODS,
        **capacity,
    }
    conditions = [(kind, "False", reason, message) for kind, reason, message in PRESSURES]
    conditions.append(("Ready", *READY))
    return {
        "metadata": {
            "name": node.name,
            "labels": {
                "beta.kubernetes.io/arch": machine,
                "beta.kubernetes.io/os": system,
                "kubernetes.io/arch": machine,
                "kubernetes.io/hostname": node.name,
                "kubernetes.io/os": system,
            },
        },
        "spec": {},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [
                {
                    "type": kind,
                    "status": status,
                    "lastHeartbeatTime": now,
                    "lastTransitionTime": now,
                    "reason": reason,
                    "message": message,
                }
                for kind, status, reason, message in conditions
            ],
            "addresses": [
                {"type": "InternalIP", "address": node.address},
                {"type": "Hostname", "address": node.name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "kernelVersion": platform.release(),
                "osImage": "senro devcluster",
                "containerRuntimeVersion": f"senro-devcluster-{mode}://1",
                "kubeletVersion": f"v{version}.{_PATCHES.get(version, 0)}",
                "operatingSystem": system,
                "architecture": machine,
            },
            **({"declaredFeatures": ["ExtendWebSocketsToKubelet"]} if kubelet_translates(version) else {}),
        },
    }


def kubelet_translates(version: str) -> bool:
    """Whether a cluster of that version turns a v5 exec into the runtime's words in the kubelet (1.36) or before."""
    return tuple(int(part) for part in version.split(".")[:2]) >= (1, 36)


def _memory_kibibytes() -> int:
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1024)
