"""The version, and the few discovery documents that kubectl asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from senro.devcluster.apiserver.paths import RESOURCES
from senro.devcluster.apiserver.status import ACCESS_REVIEWS

if TYPE_CHECKING:
    from senro.devcluster.objects import Object

VERSION: dict[str, str] = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.2",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-08-21T00:00:00Z",
    "goVersion": "go1.26.6",
    "compiler": "gc",
    "platform": "linux/amd64",
}
"""The version whose behaviour the recordings hold. `gitCommit` is empty: this is no build of it."""


def discover(path: str) -> Object | None:
    """The few discovery documents that kubectl asks for; None for any other path."""
    trimmed = path.rstrip("/")
    if trimmed == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    groups = sorted({resource.group for resource in RESOURCES.values() if resource.group})
    if trimmed == "/apis":
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(group) for group in groups]}
    prefix, _, group = trimmed.rpartition("/apis/")
    if trimmed == "/api/v1":
        return _resource_list("v1", "")
    if not prefix and group.endswith("/v1") and group[:-3] in groups:
        return _resource_list(group, group[:-3])
    return None


def _group(name: str) -> Object:
    version = {"groupVersion": f"{name}/v1", "version": "v1"}
    return {"name": name, "versions": [version], "preferredVersion": version}


_SHORT_NAMES = {"pods": ["po"], "nodes": ["no"], "namespaces": ["ns"]}
_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]


def _resource_list(version: str, group: str) -> Object:
    resources = [
        {
            "name": resource.plural,
            "singularName": resource.kind.lower(),
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": ["create"] if resource == ACCESS_REVIEWS else _VERBS,
            "shortNames": _SHORT_NAMES.get(resource.plural, []),
        }
        for resource in RESOURCES.values()
        if resource.group == group
    ]
    if not group:
        resources += [
            {"name": name, "singularName": "", "namespaced": True, "kind": kind, "verbs": verbs}
            for name, kind, verbs in (
                ("pods/log", "Pod", ["get"]),
                ("pods/exec", "PodExecOptions", ["create", "get"]),
                ("pods/eviction", "Eviction", ["create"]),
            )
        ]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}
