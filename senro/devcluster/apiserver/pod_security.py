"""PodSecurity: what `baseline` and `restricted` refuse of a pod, in the admission's own words.

The words of `restricted` for what senro makes are recorded (refused-namespaces); the others follow the Pod Security
Standard's tables in the same form. A namespace says its level by the label `pod-security.kubernetes.io/enforce`, and
`warn` by another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from senro.devcluster.objects import Object

LEVEL_LABEL = "pod-security.kubernetes.io/{}"
_BASELINE_CAPABILITIES = frozenset(
    {
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
        *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    }
)
_SYSCTLS = frozenset(
    {
        *("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start"),
        *("net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports"),
        *("net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl"),
        "net.ipv4.tcp_keepalive_probes",
    }
)
_SELINUX_TYPES = frozenset({"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"})
_VOLUMES = frozenset(
    {
        *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim"),
        *("projected", "secret"),
    }
)
_SECCOMP = frozenset({"RuntimeDefault", "Localhost"})


def violations(spec: Object, level: str) -> list[str]:
    """What this level refuses of a pod, in the order of the message; [] for a pod that it lets in."""
    if level not in {"baseline", "restricted"}:
        return []
    found = [*_baseline(spec, restricted=level == "restricted")]
    if level == "restricted":
        found += _restricted(spec)
    return found


def refusal(spec: Object, level: str, version: str) -> str:
    """The sentence behind "is forbidden: ", or "" where nothing is refused."""
    found = violations(spec, level)
    return f'violates PodSecurity "{level}:{version}": {", ".join(found)}' if found else ""


def _containers(spec: Object) -> list[Object]:
    return [
        container
        for kind in ("initContainers", "containers", "ephemeralContainers")
        for container in spec.get(kind) or []
    ]


def _context(holder: Object) -> Object:
    context: Object = holder.get("securityContext") or {}
    return context


def _named(spec: Object, broken: Callable[[Object], bool]) -> str:
    """`container "a"` or `containers "a", "b"`: those that break a rule, in the spec's order; "" for none."""
    names = [f'"{container["name"]}"' for container in _containers(spec) if broken(container)]
    if not names:
        return ""
    return ("container " if len(names) == 1 else "containers ") + ", ".join(names)


def _baseline(spec: Object, *, restricted: bool) -> Iterator[str]:
    if not restricted:
        yield from _capabilities_baseline(spec)
    yield from _host_process_and_apparmor(spec)
    shared = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field)]
    if shared:
        yield f"host namespaces ({', '.join(shared)})"
    folders = [f'"{volume["name"]}"' for volume in spec.get("volumes") or [] if "hostPath" in volume]
    if folders:
        yield f"hostPath volumes ({'volume' if len(folders) == 1 else 'volumes'} {', '.join(folders)})"
    yield from _host_ports(spec)
    if told := _named(spec, lambda container: bool(_context(container).get("privileged"))):
        yield f"privileged ({told} must not set securityContext.privileged=true)"
    unmasked = _named(spec, lambda container: _context(container).get("procMount", "Default") != "Default")
    if unmasked:
        yield f'procMount ({unmasked} must not set securityContext.procMount to "Unmasked")'
    if not restricted:
        yield from _unconfined(spec)
    yield from _selinux(spec)
    unsafe = [entry["name"] for entry in _context(spec).get("sysctls") or [] if entry["name"] not in _SYSCTLS]
    if unsafe:
        yield f"forbidden sysctls ({', '.join(unsafe)})"


def _host_process_and_apparmor(spec: Object) -> Iterator[str]:
    def hosted(holder: Object) -> bool:
        return bool((_context(holder).get("windowsOptions") or {}).get("hostProcess"))

    def unconfined(holder: Object) -> bool:
        return (_context(holder).get("appArmorProfile") or {}).get("type") == "Unconfined"

    if who := _pod_and_containers(spec, unconfined):
        yield f'forbidden AppArmor profile ({who} must not set AppArmor profile type to "Unconfined")'
    if who := _pod_and_containers(spec, hosted):
        yield f"hostProcess ({who} must not set securityContext.windowsOptions.hostProcess=true)"


def _pod_and_containers(spec: Object, broken: Callable[[Object], bool]) -> str:
    """Who breaks a rule that the pod itself can break as well: `pod and container "a"`."""
    return " and ".join((["pod"] if broken(spec) else []) + ([told] if (told := _named(spec, broken)) else []))


def _capabilities_baseline(spec: Object) -> Iterator[str]:
    def added(container: Object) -> set[str]:
        return set((_context(container).get("capabilities") or {}).get("add") or []) - _BASELINE_CAPABILITIES

    told = _named(spec, lambda container: bool(added(container)))
    if told:
        words = ", ".join(sorted({f'"{word}"' for container in _containers(spec) for word in added(container)}))
        yield f"non-default capabilities ({told} must not include {words} in securityContext.capabilities.add)"


def _host_ports(spec: Object) -> Iterator[str]:
    def ports(container: Object) -> list[int]:
        return [port["hostPort"] for port in container.get("ports") or [] if port.get("hostPort")]

    told = _named(spec, lambda container: bool(ports(container)))
    if told:
        used = sorted({port for container in _containers(spec) for port in ports(container)})
        verb = "uses" if told.startswith("container ") else "use"
        word = "hostPort" if len(used) == 1 else "hostPorts"
        yield f"hostPort ({told} {verb} {word} {', '.join(map(str, used))})"


def _unconfined(spec: Object) -> Iterator[str]:
    def broken(holder: Object) -> bool:
        return (_context(holder).get("seccompProfile") or {}).get("type") == "Unconfined"

    if who := _pod_and_containers(spec, broken):
        yield f'seccompProfile ({who} must not set securityContext.seccompProfile.type to "Unconfined")'


def _selinux(spec: Object) -> Iterator[str]:
    def broken(holder: Object) -> bool:
        options = _context(holder).get("seLinuxOptions") or {}
        return options.get("type", "") not in _SELINUX_TYPES or bool(options.get("user") or options.get("role"))

    if who := _pod_and_containers(spec, broken):
        yield f"seLinuxOptions ({who} set forbidden securityContext.seLinuxOptions)"


def _restricted(spec: Object) -> Iterator[str]:
    if told := _named(spec, lambda container: _context(container).get("allowPrivilegeEscalation") is not False):
        yield f"allowPrivilegeEscalation != false ({told} must set securityContext.allowPrivilegeEscalation=false)"
    yield from _capabilities_restricted(spec)
    yield from _restricted_volumes(spec)
    yield from _non_root(spec)
    yield from _seccomp_restricted(spec)


def _capabilities_restricted(spec: Object) -> Iterator[str]:
    def capabilities(container: Object, field: str) -> list[str]:
        words: list[str] = (_context(container).get("capabilities") or {}).get(field) or []
        return words

    parts: list[str] = []
    if told := _named(spec, lambda container: "ALL" not in capabilities(container, "drop")):
        parts.append(f'{told} must set securityContext.capabilities.drop=["ALL"]')
    forbidden = _named(spec, lambda container: bool(set(capabilities(container, "add")) - {"NET_BIND_SERVICE"}))
    if forbidden:
        added = {word for container in _containers(spec) for word in capabilities(container, "add")}
        words = ", ".join(f'"{word}"' for word in sorted(added - {"NET_BIND_SERVICE"}))
        parts.append(f"{forbidden} must not include {words} in securityContext.capabilities.add")
    if parts:
        yield f"unrestricted capabilities ({'; '.join(parts)})"


def _restricted_volumes(spec: Object) -> Iterator[str]:
    parts = [
        f'volume "{volume["name"]}" uses restricted volume type "{kind}"'
        for volume in spec.get("volumes") or []
        for kind in volume
        if kind not in {*_VOLUMES, "name"}
    ]
    if parts:
        yield f"restricted volume types ({', '.join(parts)})"


def _non_root(spec: Object) -> Iterator[str]:
    whole = _context(spec).get("runAsNonRoot")
    denied = _named(spec, lambda container: _context(container).get("runAsNonRoot") is False)
    silent = _named(spec, lambda container: _context(container).get("runAsNonRoot") is None)
    if whole is False and silent:
        yield "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false)"
    elif denied:
        yield f"runAsNonRoot != true ({denied} must not set securityContext.runAsNonRoot=false)"
    elif not whole and silent:
        yield f"runAsNonRoot != true (pod or {silent} must set securityContext.runAsNonRoot=true)"
    if who := _pod_and_containers(spec, lambda holder: _context(holder).get("runAsUser") == 0):
        yield f"runAsUser=0 ({who} must not set runAsUser=0)"


def _seccomp_restricted(spec: Object) -> Iterator[str]:
    def kind(holder: Object) -> str | None:
        profile: str | None = (_context(holder).get("seccompProfile") or {}).get("type")
        return profile

    wanted = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    denied = _named(spec, lambda container: kind(container) not in {None, *_SECCOMP})
    silent = _named(spec, lambda container: kind(container) is None)
    if kind(spec) not in {None, *_SECCOMP}:
        yield f"seccompProfile (pod {wanted})"
    elif denied:
        yield f"seccompProfile ({denied} {wanted})"
    elif kind(spec) is None and silent:
        yield f"seccompProfile (pod or {silent} {wanted})"
