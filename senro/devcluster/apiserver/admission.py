"""What admission says of a new object: its namespace, its ServiceAccount, PodSecurity, and the quota.

In the order of a real one: the namespace's own state, the ServiceAccount, PodSecurity, and the quota last
(recordings refused, refused-namespaces).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from senro.devcluster.apiserver.pod_security import ENFORCE, violations
from senro.devcluster.apiserver.resources import QUOTAS, SERVICE_ACCOUNTS
from senro.devcluster.apiserver.status import NAMESPACES, PODS, PRIORITY_CLASSES, forbidden

if TYPE_CHECKING:
    from senro.devcluster.apiserver.status import Resource
    from senro.devcluster.objects import Object
    from senro.devcluster.storage import Storage


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


def admit_pod(storage: Storage, namespace: Object, name: str, spec: Object) -> None:
    """Raises 403 for a pod without a ServiceAccount, or that PodSecurity or a quota of its namespace refuses."""
    where = namespace["metadata"]["name"]
    account = spec["serviceAccountName"]
    if storage.find(SERVICE_ACCOUNTS, where, account) is None:
        words = f'error looking up service account {where}/{account}: serviceaccount "{account}" not found'
        raise forbidden(PODS, name, words)
    labels = namespace["metadata"].get("labels") or {}
    level, version = labels.get(ENFORCE, "privileged"), labels.get(f"{ENFORCE}-version", "latest")
    if found := violations(spec, level):
        raise forbidden(PODS, name, f'violates PodSecurity "{level}:{version}": {", ".join(found)}')
    check_quota(storage, where, name)


def priority_of(storage: Storage, name: str, spec: Object) -> tuple[int, str]:
    """The pod's priority and preemption policy by its class; 403 where there is no such class."""
    wanted = spec.get("priorityClassName")
    if not wanted:
        return 0, "PreemptLowerPriority"
    found = storage.find(PRIORITY_CLASSES, "", wanted)
    if found is None:
        raise forbidden(PODS, name, f"no PriorityClass with name {wanted} was found")
    return int(found.get("value") or 0), str(found.get("preemptionPolicy") or "PreemptLowerPriority")


def check_quota(storage: Storage, namespace: str, name: str) -> None:
    """403 if a ResourceQuota of the namespace limits pods and one more would exceed it. Nothing else is counted."""
    pods = storage.select(PODS, namespace)
    used = sum(pod["status"].get("phase") not in {"Succeeded", "Failed"} for pod in pods)
    for quota in storage.select(QUOTAS, namespace):
        hard = (quota.get("spec") or {}).get("hard") or {}
        for key in ("count/pods", "pods"):
            if key in hard and used >= int(hard[key]):
                words = f"requested: {key}=1, used: {key}={used}, limited: {key}={hard[key]}"
                raise forbidden(PODS, name, f"exceeded quota: {quota['metadata']['name']}, {words}")
