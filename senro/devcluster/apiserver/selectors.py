"""Label and field selectors, as lists, watches and collections take them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from senro.devcluster.apiserver.status import EVENTS, NAMESPACES, NODES, PODS, SECRETS, bad_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from senro.devcluster.apiserver.http import Request
    from senro.devcluster.apiserver.status import Resource
    from senro.devcluster.objects import Object

_FIELD = re.compile(r"([^!=]+)(==|=|!=)(.*)")
_REQUIREMENT = re.compile(
    r"\s*(?:(!)\s*(?P<absent>[^\s!=,()]+)"
    r"|(?P<key>[^\s!=,()]+)\s*(?:(?P<operator>==|=|!=)\s*(?P<value>[^\s,()]*)"
    r"|(?P<member>in|notin)\s*\((?P<values>[^)]*)\))?)\s*(?:,|$)"
)


_NAMES = frozenset({"metadata.name", "metadata.namespace"})
_OF_EVENTS = ("reason", "reportingComponent", "source", "type")
_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_SELECTABLE = {
    PODS: frozenset({
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
        "status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName",
    }),
    NODES: frozenset({"spec.unschedulable"}),
    NAMESPACES: frozenset({"status.phase"}),
    SECRETS: frozenset({"type"}),
    EVENTS: frozenset({*_OF_EVENTS, *(f"involvedObject.{name}" for name in _INVOLVED)}),
}  # fmt: skip
"""The fields of each resource that a selector may name, beside those of every one."""
_PLACES = {(EVENTS, "source"): "source.component"}
"""Where a field is found that is called otherwise."""
_BOOLEANS = frozenset({(PODS, "spec.hostNetwork"), (NODES, "spec.unschedulable")})
"""Fields that are `true` or `false`; one that is not there is `false`."""


def selector(request: Request, resource: Resource) -> Callable[[Object], bool]:
    """Whether an object is selected; 400 for a selector that cannot be read, or a field that cannot be selected by."""
    labels = _label_rules(request.parameter("labelSelector") or "")
    parts = (request.parameter("fieldSelector") or "").split(",")
    fields = [_field_rule(part, resource) for part in parts if part]

    def selected(document: Object) -> bool:
        own = document["metadata"].get("labels") or {}
        return all(rule(own) for rule in labels) and all(rule(document) for rule in fields)

    return selected


def matches(document: Object, wanted: Object) -> bool:
    """Whether an object has what a LabelSelector asks for; an empty one fits everything."""
    labels = document["metadata"].get("labels") or {}
    for rule in wanted.get("matchExpressions") or []:
        key, values = rule.get("key", ""), rule.get("values") or []
        held = {
            "In": labels.get(key) in values,
            "NotIn": labels.get(key) not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }
        if not held.get(rule.get("operator", ""), False):
            return False
    return all(labels.get(key) == value for key, value in (wanted.get("matchLabels") or {}).items())


def name_of_selector(request: Request) -> str:
    """The one name that a field selector asks for, which RBAC's resourceNames are held against; else ""."""
    for part in (request.parameter("fieldSelector") or "").split(","):
        found = _FIELD.fullmatch(part)
        if found is not None and found[1] == "metadata.name" and found[2] != "!=":
            return str(found[3])
    return ""


def _label_rules(text: str) -> list[Callable[[dict[str, str]], bool]]:
    rules: list[Callable[[dict[str, str]], bool]] = []
    position = 0
    while position < len(text):
        found = _REQUIREMENT.match(text, position)
        if found is None or found.end() == position:
            rest = text[position:]
            raise bad_request(f"unable to parse requirement: found '{rest}', expected: identifier")
        rules.append(_label_rule(found))
        position = found.end()
    return rules


def _label_rule(found: re.Match[str]) -> Callable[[dict[str, str]], bool]:
    if absent := found["absent"]:
        return lambda labels: absent not in labels
    key, operator, value = found["key"], found["operator"], found["value"]
    if operator in {"=", "=="}:
        return lambda labels: labels.get(key) == value
    if operator == "!=":
        return lambda labels: labels.get(key) != value
    if found["member"]:
        wanted = {word.strip() for word in found["values"].split(",")}
        return lambda labels: (labels.get(key) in wanted) == (found["member"] == "in")
    return lambda labels: key in labels


def _field_rule(part: str, resource: Resource) -> Callable[[Object], bool]:
    found = _FIELD.fullmatch(part)
    if found is None:
        raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
    path, operator, value = found.groups()
    if path not in _NAMES | _SELECTABLE.get(resource, _NAMES):
        if resource in _SELECTABLE:
            raise bad_request(f"field label not supported: {path}")
        raise bad_request(f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"')

    place, boolean = _PLACES.get((resource, path), path), (resource, path) in _BOOLEANS

    def rule(document: Object) -> bool:
        current: Any = document
        for step in place.split("."):
            current = current.get(step) if isinstance(current, dict) else None
        text = str(bool(current)).lower() if boolean else str("" if current is None else current)
        return (text == value) == (operator != "!=")

    return rule
