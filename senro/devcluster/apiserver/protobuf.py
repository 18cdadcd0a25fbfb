r"""The few protobuf bodies that kubectl sends for built-in kinds, read into what their JSON would have been.

An envelope (`k8s\\0`, then runtime.Unknown) names the kind; a table of field numbers, from the API's published
`generated.proto` files, says what stands where. A kind that is not in the table is refused with 415, as any unknown
media type is.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"

_Fields = dict[int, tuple[str, Any]]
"""Field number to name and kind: `text`, `raw`, `int`, `bool`, `time`, `map`, fields, or a list with one of these."""

_OWNER: _Fields = {
    1: ("kind", "text"),
    3: ("name", "text"),
    4: ("uid", "text"),
    5: ("apiVersion", "text"),
    6: ("controller", "bool"),
    7: ("blockOwnerDeletion", "bool"),
}
_META: _Fields = {
    1: ("name", "text"),
    2: ("generateName", "text"),
    3: ("namespace", "text"),
    5: ("uid", "text"),
    6: ("resourceVersion", "text"),
    7: ("generation", "int"),
    8: ("creationTimestamp", "time"),
    9: ("deletionTimestamp", "time"),
    10: ("deletionGracePeriodSeconds", "int"),
    11: ("labels", "map"),
    12: ("annotations", "map"),
    13: ("ownerReferences", [_OWNER]),
    14: ("finalizers", ["text"]),
}
_RESOURCE_ATTRIBUTES: _Fields = {
    1: ("namespace", "text"),
    2: ("verb", "text"),
    3: ("group", "text"),
    4: ("version", "text"),
    5: ("resource", "text"),
    6: ("subresource", "text"),
    7: ("name", "text"),
}
_DELETE_OPTIONS: _Fields = {
    1: ("gracePeriodSeconds", "int"),
    2: ("preconditions", {1: ("uid", "text"), 2: ("resourceVersion", "text")}),
    3: ("orphanDependents", "bool"),
    4: ("propagationPolicy", "text"),
    5: ("dryRun", ["text"]),
}
_RULE: _Fields = {
    1: ("verbs", ["text"]),
    2: ("apiGroups", ["text"]),
    3: ("resources", ["text"]),
    4: ("resourceNames", ["text"]),
    5: ("nonResourceURLs", ["text"]),
}
_SUBJECT: _Fields = {1: ("kind", "text"), 2: ("apiGroup", "text"), 3: ("name", "text"), 4: ("namespace", "text")}
_ROLE_REFERENCE: _Fields = {1: ("apiGroup", "text"), 2: ("kind", "text"), 3: ("name", "text")}
_ROLE: _Fields = {1: ("metadata", _META), 2: ("rules", [_RULE])}
_BINDING: _Fields = {1: ("metadata", _META), 2: ("subjects", [_SUBJECT]), 3: ("roleRef", _ROLE_REFERENCE)}

_BUDGET: _Fields = {
    1: ("minAvailable", "int-or-text"),
    2: ("selector", {1: ("matchLabels", "map")}),
    3: ("maxUnavailable", "int-or-text"),
}

_KINDS: dict[str, _Fields] = {
    "PodDisruptionBudget": {1: ("metadata", _META), 2: ("spec", _BUDGET)},
    "SelfSubjectAccessReview": {
        1: ("metadata", _META),
        2: (
            "spec",
            {
                1: ("resourceAttributes", _RESOURCE_ATTRIBUTES),
                2: ("nonResourceAttributes", {1: ("path", "text"), 2: ("verb", "text")}),
            },
        ),
    },
    "SelfSubjectRulesReview": {1: ("metadata", _META), 2: ("spec", {1: ("namespace", "text")})},
    "SelfSubjectReview": {1: ("metadata", _META)},
    "DeleteOptions": _DELETE_OPTIONS,
    "Eviction": {1: ("metadata", _META), 2: ("deleteOptions", _DELETE_OPTIONS)},
    "Namespace": {1: ("metadata", _META)},
    "ServiceAccount": {1: ("metadata", _META)},
    "ConfigMap": {1: ("metadata", _META), 2: ("data", "map"), 4: ("immutable", "bool")},
    "Secret": {
        1: ("metadata", _META),
        2: ("data", "bytes-map"),
        3: ("type", "text"),
        4: ("stringData", "map"),
        5: ("immutable", "bool"),
    },
    "Role": _ROLE,
    "ClusterRole": _ROLE,
    "RoleBinding": _BINDING,
    "ClusterRoleBinding": _BINDING,
}


class UnreadableError(Exception):
    """The body is no envelope, or of a kind whose fields are not known here."""


def decode(body: bytes) -> dict[str, Any]:
    """The object in an envelope; `UnreadableError` where it cannot be read."""
    if not body.startswith(_MAGIC):
        raise UnreadableError("no envelope")
    try:
        envelope = _read(
            body[len(_MAGIC) :], {1: ("typeMeta", {1: ("apiVersion", "text"), 2: ("kind", "text")}), 2: ("raw", "raw")}
        )
        kind = envelope.get("typeMeta", {}).get("kind", "")
        if kind not in _KINDS:
            raise UnreadableError(kind)
        return {**envelope["typeMeta"], **_read(envelope.get("raw", b""), _KINDS[kind])}
    except (IndexError, UnicodeDecodeError) as error:
        raise UnreadableError(str(error)) from None


def _read(data: bytes, fields: _Fields) -> dict[str, Any]:
    found: dict[str, Any] = {}
    position = 0
    while position < len(data):
        tag, position = _number(data, position)
        number, wire = tag >> 3, tag & 7
        value: int | bytes
        if wire == 0:
            value, position = _number(data, position)
        elif wire == 2:
            size, position = _number(data, position)
            value, position = data[position : position + size], position + size
        elif wire in {1, 5}:
            size = 8 if wire == 1 else 4
            value, position = data[position : position + size], position + size
        else:
            raise UnreadableError(f"wire type {wire}")
        if number in fields:
            name, kind = fields[number]
            _put(found, name, kind, value)
    return found


def _number(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _put(found: dict[str, Any], name: str, kind: Any, value: int | bytes) -> None:
    if isinstance(kind, list):
        found.setdefault(name, []).append(_scalar(kind[0], value))
    elif kind in ("map", "bytes-map"):
        pair = _read(_bytes(value), {1: ("key", "text"), 2: ("value", "raw")})
        content = pair.get("value", b"")
        text = content.decode() if kind == "map" else base64.b64encode(content).decode()
        found.setdefault(name, {})[pair.get("key", "")] = text
    elif (scalar := _scalar(kind, value)) not in ("", None, {}):
        # proto2 writes empty strings too; JSON leaves them out.
        found[name] = scalar


def _scalar(kind: Any, value: int | bytes) -> Any:
    if isinstance(kind, dict):
        return _read(_bytes(value), kind)
    if kind == "int":
        number = value if isinstance(value, int) else 0
        return number - (1 << 64) if number >> 63 else number
    if kind == "bool":
        return bool(value)
    if kind == "raw":
        return _bytes(value)
    if kind == "int-or-text":
        either = _read(_bytes(value), {1: ("type", "int"), 2: ("number", "int"), 3: ("text", "text")})
        return either.get("text", "") if either.get("type") else either.get("number", 0)
    if kind == "time":
        seconds = _read(_bytes(value), {1: ("seconds", "int")}).get("seconds")
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return _bytes(value).decode()


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise UnreadableError("a number where bytes were expected")
    return value
