"""The one node, as `GET /api/v1/nodes` shows it (recording nodes)."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING

from senro.devcluster.clock import now_text
from senro.devcluster.kubelet.status import HOST_ADDRESS
from senro.devcluster.objects import NODE_NAME

if TYPE_CHECKING:
    from senro.devcluster.clock import Clock
    from senro.devcluster.objects import Object

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64", "ppc64le": "ppc64le", "s390x": "s390x"}
_PRESSURES = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)


def node_object(clock: Clock, mode: str) -> Object:
    """The node: this machine's platform, the runtime's mode as its container runtime."""
    system = platform.system().lower()
    machine = _ARCHITECTURES.get(platform.machine(), platform.machine())
    now = now_text(clock)
    amounts = {"cpu": str(os.cpu_count() or 1), "memory": f"{_memory_kibibytes()}Ki", "pods": "110"}
    conditions = [(kind, "False", reason, message) for kind, reason, message in _PRESSURES]
    conditions.append(("Ready", "True", "KubeletReady", "kubelet is posting ready status"))
    return {
        "metadata": {
            "name": NODE_NAME,
            "labels": {
                "kubernetes.io/arch": machine,
                "kubernetes.io/hostname": NODE_NAME,
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
                {"type": "InternalIP", "address": HOST_ADDRESS},
                {"type": "Hostname", "address": NODE_NAME},
            ],
            "nodeInfo": {
                "kernelVersion": platform.release(),
                "osImage": "senro devcluster",
                "containerRuntimeVersion": f"senro-devcluster-{mode}://1",
                "kubeletVersion": "v1.36.2",
                "operatingSystem": system,
                "architecture": machine,
            },
            "declaredFeatures": ["ExtendWebSocketsToKubelet"],
        },
    }


def _memory_kibibytes() -> int:
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1024)
