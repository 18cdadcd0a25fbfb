"""What a request names: the resource, the object, the subresource, and the verb that RBAC sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from senro.devcluster.apiserver.resources import SERVED

if TYPE_CHECKING:
    from senro.devcluster.apiserver.http import Request
    from senro.devcluster.apiserver.status import Resource

RESOURCES = {(resource.group, resource.plural): resource for resource in SERVED}
"""Every resource that is served, by group and plural."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a path names."""

    resource: Resource
    namespace: str
    name: str
    subresource: str


def parse_target(path: str) -> Target | None:
    """What a path names; None where it names no resource that is served."""
    parts = path.strip("/").split("/")
    if parts[:2] == ["api", "v1"]:
        group, rest = "", parts[2:]
    elif parts[0] == "apis" and len(parts) >= 3 and parts[2] == "v1":
        group, rest = parts[1], parts[3:]
    else:
        return None
    namespace = ""
    if len(rest) >= 3 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    if not 1 <= len(rest) <= 3:
        return None
    resource = RESOURCES.get((group, rest[0]))
    if resource is None or (namespace and not resource.namespaced):
        return None
    return Target(resource, namespace, rest[1] if len(rest) > 1 else "", rest[2] if len(rest) > 2 else "")


def verb_of(request: Request, target: Target) -> str:
    """The verb that RBAC sees for a request that names no subresource."""
    if not target.name:
        if request.method == "GET":
            return "watch" if request.flag("watch") else "list"
        return {"POST": "create", "DELETE": "deletecollection"}.get(request.method, request.method.lower())
    verbs = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
    return verbs.get(request.method, request.method.lower())
