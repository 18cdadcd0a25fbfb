"""Label and field selectors of lists and watches: equality, inequality and, for labels, presence."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from senro.devcluster.apiserver.status import EVENTS, NAMESPACES, PODS, bad_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from senro.devcluster.apiserver.http import Request
    from senro.devcluster.apiserver.status import Resource
    from senro.devcluster.objects import Object

_FIELD = re.compile(r"([^!=]+)(==|=|!=)(.*)")
_LABEL = re.compile(r"\s*(?:([^\s!=,()]+)\s*(==|=|!=)\s*([^\s!=,()]*)|(!?)\s*([^\s!=,()]+))\s*")
_NAMES = frozenset({"metadata.name", "metadata.namespace"})
_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_SELECTABLE = {
    PODS: frozenset({"spec.nodeName", "spec.restartPolicy", "spec.serviceAccountName", "status.phase"}),
    NAMESPACES: frozenset({"status.phase"}),
    EVENTS: frozenset({"reason", "type", *(f"involvedObject.{name}" for name in _INVOLVED)}),
}
"""The fields of each resource that a field selector may name, besides its name and namespace."""


def selector(request: Request, resource: Resource) -> Callable[[Object], bool]:
    """Returns a predicate of objects; 400 for a selector that cannot be read, or a field that is not selectable."""
    labels = [_label_rule(part) for part in (request.parameter("labelSelector") or "").split(",") if part]
    fields = [_field_rule(part, resource) for part in (request.parameter("fieldSelector") or "").split(",") if part]

    def selected(document: Object) -> bool:
        own = document["metadata"].get("labels") or {}
        return all(rule(own) for rule in labels) and all(rule(document) for rule in fields)

    return selected


def _label_rule(part: str) -> Callable[[dict[str, str]], bool]:
    found = _LABEL.fullmatch(part)
    if found is None:
        raise bad_request(f"unable to parse requirement: found '{part}', expected: identifier")
    key, operator, value, absent, present = found.groups()
    if present:
        return lambda labels: (present in labels) != bool(absent)
    return lambda labels: (labels.get(key) == value) == (operator != "!=")


def _field_rule(part: str, resource: Resource) -> Callable[[Object], bool]:
    found = _FIELD.fullmatch(part)
    if found is None:
        raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
    path, operator, value = found.groups()
    if path not in _NAMES | _SELECTABLE.get(resource, _NAMES):
        if resource in _SELECTABLE:
            raise bad_request(f"field label not supported: {path}")
        raise bad_request(f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"')

    def rule(document: Object) -> bool:
        current: Any = document
        for step in path.split("."):
            current = current.get(step) if isinstance(current, dict) else None
        return (str("" if current is None else current) == value) == (operator != "!=")

    return rule
