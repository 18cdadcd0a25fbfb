"""Every resource that is served, and how discovery and kubectl name it."""

from __future__ import annotations

from senro.devcluster.apiserver.status import (
    ACCESS_REVIEWS,
    CLAIMS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    SECRETS,
    Resource,
)

_RBAC = "rbac.authorization.k8s.io"

SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
ROLES = Resource(_RBAC, "v1", "roles", "Role")
ROLE_BINDINGS = Resource(_RBAC, "v1", "rolebindings", "RoleBinding")
CLUSTER_ROLES = Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = Resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
STORED = (
    CONFIG_MAPS,
    EVENTS,
    NAMESPACES,
    NODES,
    CLAIMS,
    PODS,
    QUOTAS,
    SECRETS,
    SERVICE_ACCOUNTS,
    LEASES,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    ROLES,
    PRIORITY_CLASSES,
)
"""What is kept, in the order of discovery."""

REVIEWS = (ACCESS_REVIEWS,)
"""What is only answered."""

SERVED = (*STORED, *REVIEWS)

SHORT_NAMES = {
    CONFIG_MAPS: ["cm"],
    EVENTS: ["ev"],
    NAMESPACES: ["ns"],
    NODES: ["no"],
    CLAIMS: ["pvc"],
    PODS: ["po"],
    QUOTAS: ["quota"],
    SERVICE_ACCOUNTS: ["sa"],
    PRIORITY_CLASSES: ["pc"],
}

SUBRESOURCES = (("pods/log", "Pod", ["get"]), ("pods/exec", "PodExecOptions", ["create", "get"]))
"""Name, kind and verbs of each subresource."""
