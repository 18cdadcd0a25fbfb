"""PodSecurity: what the levels `baseline` and `restricted` refuse of a pod, in the words of the admission plugin.

The rules cover the fields that senro writes or that a privileged pod needs. There is no rule for AppArmor, SELinux,
sysctls, host ports, procMount, Windows and rare volume types. The words of `restricted` are those of the recording
refused-namespaces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from senro.devcluster.objects import Object

ENFORCE = "pod-security.kubernetes.io/enforce"
"""The label by which a namespace says its level."""

_BASELINE_CAPABILITIES = frozenset(
    {
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
        *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    }
)
_SECCOMP = frozenset({"RuntimeDefault", "Localhost"})


def violations(spec: Object, level: str) -> list[str]:
    """What this level refuses of a pod, in the order of the message; [] for a pod that it accepts."""
    if level not in {"baseline", "restricted"}:
        return []
    return [*_baseline(spec, restricted=level == "restricted"), *(_restricted(spec) if level == "restricted" else ())]


def _containers(spec: Object) -> list[Object]:
    return [*(spec.get("initContainers") or []), *spec["containers"]]


def _context(holder: Object) -> Object:
    """The securityContext of a pod's spec or of a container."""
    context: Object = holder.get("securityContext") or {}
    return context


def _capabilities(container: Object, field: str) -> set[str]:
    return set((_context(container).get("capabilities") or {}).get(field) or [])


def _seccomp(holder: Object) -> str | None:
    kind: str | None = (_context(holder).get("seccompProfile") or {}).get("type")
    return kind


def _named(spec: Object, broken: Callable[[Object], bool]) -> str:
    """`container "a"` or `containers "a", "b"`: those that break a rule, in the spec's order; "" for none."""
    names = [f'"{container["name"]}"' for container in _containers(spec) if broken(container)]
    if not names:
        return ""
    return ("container " if len(names) == 1 else "containers ") + ", ".join(names)


def _pod_and_containers(spec: Object, broken: Callable[[Object], bool]) -> str:
    """`pod and container "a"`: the pod, if it breaks the rule itself, and its containers that do; "" for none."""
    return " and ".join(filter(None, ["pod" if broken(spec) else "", _named(spec, broken)]))


def _baseline(spec: Object, *, restricted: bool) -> Iterator[str]:
    if not restricted:  # `restricted` has stricter rules for both
        yield from _added_capabilities("non-default", spec, _BASELINE_CAPABILITIES)
    shared = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field)]
    if shared:
        yield f"host namespaces ({', '.join(shared)})"
    folders = [f'"{volume["name"]}"' for volume in spec.get("volumes") or [] if "hostPath" in volume]
    if folders:
        yield f"hostPath volumes ({'volume' if len(folders) == 1 else 'volumes'} {', '.join(folders)})"
    if found := _named(spec, lambda container: bool(_context(container).get("privileged"))):
        yield f"privileged ({found} must not set securityContext.privileged=true)"
    if not restricted and (found := _pod_and_containers(spec, lambda holder: _seccomp(holder) == "Unconfined")):
        yield f'seccompProfile ({found} must not set securityContext.seccompProfile.type to "Unconfined")'


def _added_capabilities(kind: str, spec: Object, allowed: frozenset[str], first: str = "") -> Iterator[str]:
    """The rule about capabilities; `first` is another violation that stands in the same brackets."""
    parts = [first] if first else []
    if found := _named(spec, lambda container: bool(_capabilities(container, "add") - allowed)):
        added = {word for container in _containers(spec) for word in _capabilities(container, "add") - allowed}
        words = ", ".join(f'"{word}"' for word in sorted(added))
        parts.append(f"{found} must not include {words} in securityContext.capabilities.add")
    if parts:
        yield f"{kind} capabilities ({'; '.join(parts)})"


def _restricted(spec: Object) -> Iterator[str]:
    if found := _named(spec, lambda container: _context(container).get("allowPrivilegeEscalation") is not False):
        yield f"allowPrivilegeEscalation != false ({found} must set securityContext.allowPrivilegeEscalation=false)"
    kept = _named(spec, lambda container: "ALL" not in _capabilities(container, "drop"))
    first = f'{kept} must set securityContext.capabilities.drop=["ALL"]' if kept else ""
    yield from _added_capabilities("unrestricted", spec, frozenset({"NET_BIND_SERVICE"}), first)
    yield from _non_root(spec)
    yield from _restricted_seccomp(spec)


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
    if found := _pod_and_containers(spec, lambda holder: _context(holder).get("runAsUser") == 0):
        yield f"runAsUser=0 ({found} must not set runAsUser=0)"


def _restricted_seccomp(spec: Object) -> Iterator[str]:
    wanted = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    denied = _named(spec, lambda container: _seccomp(container) not in {None, *_SECCOMP})
    silent = _named(spec, lambda container: _seccomp(container) is None)
    if _seccomp(spec) not in {None, *_SECCOMP}:
        yield f"seccompProfile (pod {wanted})"
    elif denied:
        yield f"seccompProfile ({denied} {wanted})"
    elif _seccomp(spec) is None and silent:
        yield f"seccompProfile (pod or {silent} {wanted})"
