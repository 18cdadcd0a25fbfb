"""The Pod Security Standards: what each level refuses of a pod.

Written from the tables of the Kubernetes documentation, for every field and volume in them, independently of senro.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

BASELINE_CAPABILITIES = {
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
}
BASELINE_SYSCTLS = {
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}
RESTRICTED_VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}


def baseline(pod: dict[str, Any]) -> list[str]:
    """Returns the fields that the level `baseline` refuses."""
    spec = pod["spec"]
    found = [field for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field)]
    found += ["hostPath" for volume in spec.get("volumes", []) if "hostPath" in volume]
    context = spec.get("securityContext", {})
    found += [
        f"sysctl {entry['name']}" for entry in context.get("sysctls", []) if entry["name"] not in BASELINE_SYSCTLS
    ]
    found += [f"pod {problem}" for problem in _context_problems(context)]
    for container in _containers(spec):
        context = container.get("securityContext", {})
        problems = [*_context_problems(context)]
        if context.get("privileged"):
            problems.append("privileged")
        if set(context.get("capabilities", {}).get("add", [])) - BASELINE_CAPABILITIES:
            problems.append("capabilities")
        if context.get("procMount", "Default") != "Default":
            problems.append("procMount")
        if any(port.get("hostPort") for port in container.get("ports", [])):
            problems.append("hostPort")
        found += [f"{container['name']} {problem}" for problem in problems]
    return found


def restricted(pod: dict[str, Any]) -> list[str]:
    """Returns the fields that the level `restricted` refuses, including those of `baseline`."""
    spec = pod["spec"]
    whole = spec.get("securityContext", {})
    found = baseline(pod)
    found += [
        f"volume {volume['name']}"
        for volume in spec.get("volumes", [])
        if not RESTRICTED_VOLUMES & (volume.keys() - {"name"})
    ]
    found += ["pod runAsUser"] if whole.get("runAsUser") == 0 else []
    for container in _containers(spec):
        context = container.get("securityContext", {})
        capabilities = context.get("capabilities", {})
        profile = context.get("seccompProfile", whole.get("seccompProfile", {})).get("type")
        checks = {
            "allowPrivilegeEscalation": context.get("allowPrivilegeEscalation") is False,
            "runAsNonRoot": context.get("runAsNonRoot", whole.get("runAsNonRoot")) is True,
            "runAsUser": context.get("runAsUser") != 0,
            "seccompProfile": profile in {"RuntimeDefault", "Localhost"},
            "drop": "ALL" in capabilities.get("drop", []),
            "add": set(capabilities.get("add", [])) <= {"NET_BIND_SERVICE"},
        }
        found += [f"{container['name']} {field}" for field, kept in checks.items() if not kept]
    return found


def _containers(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(kind, [])


def _context_problems(context: dict[str, Any]) -> Iterator[str]:
    if context.get("seccompProfile", {}).get("type") == "Unconfined":
        yield "seccompProfile"
    if context.get("appArmorProfile", {}).get("type") == "Unconfined":
        yield "appArmorProfile"
    if context.get("windowsOptions", {}).get("hostProcess"):
        yield "hostProcess"
    selinux = context.get("seLinuxOptions", {})
    if selinux.get("type", "") not in {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}:
        yield "seLinuxOptions"
    if selinux.get("user") or selinux.get("role"):
        yield "seLinuxOptions"
