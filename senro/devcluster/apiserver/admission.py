"""What admission says of a new object: its namespace, its ServiceAccount, PodSecurity, and the quota.

In the order of a real one: the namespace's own state, the ServiceAccount, PodSecurity, and the quota last
(recordings refused, refused-namespaces).
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from senro.devcluster.apiserver.pod_security import LEVEL_LABEL, refusal, violations
from senro.devcluster.apiserver.quantities import canonical, parse_quantity
from senro.devcluster.apiserver.resources import CONFIG_MAPS, QUOTAS, SERVICE_ACCOUNTS
from senro.devcluster.apiserver.status import CLAIMS, NAMESPACES, PODS, PRIORITY_CLASSES, SECRETS, forbidden

if TYPE_CHECKING:
    from senro.devcluster.apiserver.status import Resource
    from senro.devcluster.objects import Object
    from senro.devcluster.storage import Storage

_COUNTED = (SECRETS, CONFIG_MAPS, SERVICE_ACCOUNTS, CLAIMS)
"""What a quota may count beside pods, by its plural or as `count/...`."""

_AMOUNTS = ("cpu", "memory", "ephemeral-storage")
_COMPUTE = {
    **{name: ("requests", name) for name in _AMOUNTS},
    **{f"{kind}.{name}": (kind, name) for kind in ("requests", "limits") for name in _AMOUNTS},
}
"""What a quota may count of containers: its own name for it, and where a container says it."""


def check_namespace(storage: Storage, resource: Resource, namespace: str, name: str) -> Object:
    """The namespace; 404 where it is absent, 403 where it is being deleted."""
    found = storage.get(NAMESPACES, "", namespace)
    if found["metadata"].get("deletionTimestamp"):
        raise forbidden(
            resource,
            name,
            f"unable to create new content in namespace {namespace} because it is being terminated",
            [
                {
                    "reason": "NamespaceTerminating",
                    "message": f"namespace {namespace} is being terminated",
                    "field": "metadata.namespace",
                }
            ],
        )
    return found


def admit_pod(storage: Storage, namespace: Object, name: str, spec: Object) -> list[str]:
    """Let a pod in or answer 403; the warnings that PodSecurity gives."""
    where = namespace["metadata"]["name"]
    account = spec["serviceAccountName"]
    if storage.find(SERVICE_ACCOUNTS, where, account) is None:
        words = f'error looking up service account {where}/{account}: serviceaccount "{account}" not found'
        raise forbidden(PODS, name, words)
    labels = namespace["metadata"].get("labels") or {}
    level, version = (labels.get(LEVEL_LABEL.format(key), default) for key, default in _ENFORCED)
    if refused := refusal(spec, level, version):
        raise forbidden(PODS, name, refused)
    charge(storage, PODS, where, name, spec)
    warned, version = (labels.get(LEVEL_LABEL.format(key), default) for key, default in _WARNED)
    found = violations(spec, warned)
    return [f'would violate PodSecurity "{warned}:{version}": {", ".join(found)}'] if found else []


_ENFORCED = (("enforce", "privileged"), ("enforce-version", "latest"))
_WARNED = (("warn", "privileged"), ("warn-version", "latest"))


def priority_of(storage: Storage, name: str, spec: Object) -> tuple[int, str]:
    """The pod's priority and preemption policy by its class; 403 where there is no such class."""
    wanted = spec.get("priorityClassName")
    if not wanted:
        return 0, "PreemptLowerPriority"
    found = storage.find(PRIORITY_CLASSES, "", wanted)
    if found is None:
        raise forbidden(PODS, name, f"no PriorityClass with name {wanted} was found")
    return int(found.get("value") or 0), str(found.get("preemptionPolicy") or "PreemptLowerPriority")


# --- quota ---------------------------------------------------------------------------------------------------------


def charge(storage: Storage, resource: Resource, namespace: str, name: str, spec: Object | None) -> None:
    """403 where a quota of the namespace would be exceeded, or wants what a container does not say."""
    for quota in storage.select(QUOTAS, namespace):
        hard = (quota.get("spec") or {}).get("hard") or {}
        counted = _counts(resource, spec, hard)
        if spec is not None:
            _refuse_silent(quota["metadata"]["name"], hard, name, spec)
        used = usage(storage, namespace, hard)
        over = [key for key, amount in sorted(counted.items()) if amount and used[key] + amount > _number(hard[key])]
        if over:
            told = (
                ",".join(f"{key}={shown}" for key, shown in ((key, _shown(key, amounts[key])) for key in over))
                for amounts in (counted, used, {key: _number(value) for key, value in hard.items()})
            )
            requested, in_use, limited = told
            raise forbidden(
                resource,
                name,
                f"exceeded quota: {quota['metadata']['name']}, requested: {requested}, used: {in_use}, "
                f"limited: {limited}",
            )


def usage(storage: Storage, namespace: str, hard: Object) -> dict[str, Fraction]:
    """What is used of each thing that a quota limits."""
    used = {key: _number("0") for key in hard}
    for resource in (PODS, *_COUNTED):
        for document in storage.select(resource, namespace):
            if resource == PODS and document["status"].get("phase") in {"Succeeded", "Failed"}:
                continue
            for key, amount in _counts(resource, document.get("spec"), hard).items():
                used[key] += amount
    return used


def usage_status(storage: Storage, namespace: str, hard: Object) -> Object:
    """A quota's status."""
    used = usage(storage, namespace, hard)
    return {"hard": dict(hard), "used": {key: _shown(key, amount) for key, amount in used.items()}}


def _counts(resource: Resource, spec: Object | None, hard: Object) -> dict[str, Fraction]:
    counted: dict[str, Fraction] = {}
    for key in hard:
        if key == f"count/{resource.qualified}" or (key == resource.plural and resource in {PODS, *_COUNTED}):
            counted[key] = _number("1")
        elif resource == PODS and key in _COMPUTE:
            counted[key] = _amount(spec or {}, *_COMPUTE[key])
    return counted


def _amount(spec: Object, kind: str, name: str) -> Fraction:
    """A pod's amount: its containers together, or the largest init container where that is more."""

    def of(container: Object) -> Fraction:
        return _number(((container.get("resources") or {}).get(kind) or {}).get(name, "0"))

    together = sum((of(container) for container in spec.get("containers") or []), _number("0"))
    return max([together, *(of(container) for container in spec.get("initContainers") or [])])


def _refuse_silent(quota: str, hard: Object, name: str, spec: Object) -> None:
    containers = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
    parts: list[str] = []
    for key in sorted(hard):
        if key not in _COMPUTE:
            continue
        kind, word = _COMPUTE[key]
        silent = [
            container["name"]
            for container in containers
            if word not in ((container.get("resources") or {}).get(kind) or {})
        ]
        if silent:
            parts.append(f"{key} for: {','.join(sorted(silent))}")
    if parts:
        raise forbidden(PODS, name, f"failed quota: {quota}: must specify {'; '.join(parts)}")


def _number(value: object) -> Fraction:
    return parse_quantity(value) or Fraction(0)


def _shown(key: str, amount: Fraction) -> str:
    return canonical(amount, binary="memory" in key or "storage" in key)
