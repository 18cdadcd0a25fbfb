"""The version, discovery as kubectl asks for it, and so much of OpenAPI as tells kubectl what the server checks itself.

The OpenAPI documents name every kind's path and the parameters of its PATCH, from which kubectl learns that fields are
validated here; they describe no schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from senro.devcluster.apiserver.resources import REVIEWS, SERVED, SHORT_NAMES, SUBRESOURCES
from senro.devcluster.apiserver.status import PODS

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

_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]
_GROUPS = tuple(dict.fromkeys(resource.group for resource in SERVED if resource.group))


def discover(path: str) -> Object | None:
    """The discovery document at this path; None for any other path."""
    trimmed = path.rstrip("/")
    if trimmed.startswith("/openapi/v3"):
        return _openapi(trimmed.removeprefix("/openapi/v3").lstrip("/"))
    if trimmed == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if trimmed == "/apis":
        groups = [_group(group) for group in _GROUPS]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    if trimmed == "/api/v1":
        return _resource_list("v1", "")
    prefix, _, rest = trimmed.partition("/apis/")
    group, _, version = rest.partition("/")
    if prefix or group not in _GROUPS:
        return None
    if not version:
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(group)}
    return _resource_list(rest, group) if version == "v1" else None


def _group(name: str) -> Object:
    version = {"groupVersion": f"{name}/v1", "version": "v1"}
    return {"name": name, "versions": [version], "preferredVersion": version}


def _resource_list(version: str, group: str) -> Object:
    resources: list[Object] = [
        {
            "name": resource.plural,
            "singularName": resource.kind.lower(),
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": ["create"] if resource in REVIEWS else _VERBS,
            **({"categories": ["all"]} if resource == PODS else {}),
            **({"shortNames": SHORT_NAMES[resource]} if resource in SHORT_NAMES else {}),
        }
        for resource in SERVED
        if resource.group == group and version.endswith(resource.version)
    ]
    if not group:
        resources += [
            {"name": name, "singularName": "", "namespaced": True, "kind": kind, "verbs": verbs}
            for name, kind, verbs in SUBRESOURCES
        ]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}


_PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}
    for name, kind in (("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"),
                       ("force", "boolean"))
]  # fmt: skip


def _openapi(place: str) -> Object | None:
    places = {"api/v1": "", **{f"apis/{group}/v1": group for group in _GROUPS}}
    if not place:
        return {
            "paths": {
                name: {"serverRelativeURL": f"/openapi/v3/{name}?hash={VERSION['gitVersion']}"} for name in places
            }
        }
    if place not in places:
        return None
    paths: Object = {}
    for resource in SERVED:
        if resource.group != places[place] or resource in REVIEWS:
            continue
        where = "namespaces/{namespace}/" if resource.namespaced else ""
        kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        paths[f"/{place}/{where}{resource.plural}/{{name}}"] = {
            "patch": {
                "parameters": _PARAMETERS,
                "responses": {"200": {"description": "OK"}},
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": kind,
            }
        }
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": VERSION["gitVersion"]},
        "paths": paths,
        "components": {"schemas": {}},
    }
