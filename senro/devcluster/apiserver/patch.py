"""Patches: merge (RFC 7386), JSON (RFC 6902), and strategic merge with its directives, with which apply merges too."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from senro.devcluster.apiserver.status import Refused, failure, unsupported_media_type

if TYPE_CHECKING:
    from senro.devcluster.apiserver.http import Request
    from senro.devcluster.objects import Object

MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
_SERVED = (JSON, MERGE, STRATEGIC, APPLY)
_OPERATIONS_LIMIT = 10_000
_BAD_PATCH = "the server rejected our request due to an error in our request"

_MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "ownerReferences": "uid",
    "conditions": "type",
    "secrets": "name",
    "taints": "key",
}
"""Lists whose items strategic merge knows by a key (the API types' patchMergeKey)."""

_SETS = frozenset({"finalizers"})


def patch_type(request: Request) -> str:
    """The patch's media type; 415 for one that is not served. A charset is tolerated.

    See docs/design/api-rules.md#patches.
    """
    given = request.headers.get("content-type", "").partition(";")[0].strip()
    if given not in _SERVED:
        raise unsupported_media_type(", ".join(_SERVED))
    return given


def apply_patch(kind: str, current: Object, patch: Any) -> Object:
    """The object as the patch wants it; 400 for one whose parts are not of the types that are merged."""
    if kind == MERGE:
        merged: Object = merge_patch(current, patch)
        return merged
    if kind == JSON:
        return json_patch(current, patch)
    try:
        return strategic_merge(current, patch)
    except (AttributeError, TypeError):
        raise _refused(400, "BadRequest", _BAD_PATCH) from None


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386: null deletes a key, objects are merged, everything else is replaced whole."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = copy.deepcopy(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


# --- JSON patch ----------------------------------------------------------------------------------------------------


def json_patch(current: Object, operations: Any) -> Object:
    """RFC 6902; 422 for a test that fails or a place that is not there, 413 for more than 10,000 operations."""
    if not isinstance(operations, list):
        raise _refused(400, "BadRequest", "error decoding patch: json: cannot unmarshal object into Go value of type "
                       "jsonpatch.Patch")  # fmt: skip
    if len(operations) > _OPERATIONS_LIMIT:
        words = f"The allowed maximum operations in a JSON patch is {_OPERATIONS_LIMIT}, got {len(operations)}"
        raise _refused(413, "RequestEntityTooLarge", f"Request entity too large: {words}")
    document: Any = copy.deepcopy(current)
    for operation in operations:
        document = _operate(document, operation)
    changed: Object = document
    return changed


def _operate(document: Any, operation: Any) -> Any:
    try:
        kind, path = operation["op"], _pointer(operation["path"])
        if kind in {"copy", "move"}:
            origin = _pointer(operation["from"])
            value = copy.deepcopy(_at(document, origin))
            if kind == "move":
                _remove(document, origin)
            return _add(document, path, value)
        if kind == "add":
            return _add(document, path, copy.deepcopy(operation["value"]))
        if kind == "remove":
            _remove(document, path)
        elif kind == "replace":
            _at(document, path)
            _remove(document, path)
            return _add(document, path, copy.deepcopy(operation["value"]))
        elif kind != "test" or _at(document, path) != operation.get("value"):
            raise _refused(422, "Invalid", _BAD_PATCH)
    except (AttributeError, LookupError, TypeError, ValueError):
        raise _refused(422, "Invalid", _BAD_PATCH) from None
    return document


def _pointer(path: str) -> list[str]:
    if path and not path.startswith("/"):
        raise LookupError(path)
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def _at(document: Any, path: list[str]) -> Any:
    for part in path:
        document = document[int(part)] if isinstance(document, list) else document[part]
    return document


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    place, last = _at(document, path[:-1]), path[-1]
    if isinstance(place, list):
        position = len(place) if last == "-" else int(last)
        if not 0 <= position <= len(place):
            raise LookupError(last)
        place.insert(position, value)
    else:
        place[last] = value
    return document


def _remove(document: Any, path: list[str]) -> None:
    place, last = _at(document, path[:-1]), path[-1]
    del place[int(last) if isinstance(place, list) else last]


def _refused(code: int, reason: str, message: str) -> Refused:
    return Refused(failure(code, reason, message))


# --- strategic merge -----------------------------------------------------------------------------------------------


def strategic_merge(current: Any, patch: Object) -> Object:
    """Kubernetes' own patch: as a merge patch, but lists with a key are merged item by item."""
    if patch.get("$patch") == "replace":
        return {key: copy.deepcopy(value) for key, value in patch.items() if not key.startswith("$")}
    merged: Object = copy.deepcopy(current) if isinstance(current, dict) else {}
    for key, value in patch.items():
        if key == "$retainKeys":
            merged = {name: kept for name, kept in merged.items() if name in value}
        elif key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            merged[name] = [item for item in merged.get(name) or [] if item not in value]
        elif key.startswith("$"):
            continue  # an order that is only for show
        elif value is None or (isinstance(value, dict) and value.get("$patch") == "delete"):
            merged.pop(key, None)
        else:
            merged[key] = _merged_field(key, merged.get(key), value)
    return merged


def _merged_field(key: str, current: Any, value: Any) -> Any:
    if isinstance(value, dict):
        return strategic_merge(current, value)
    if isinstance(value, list) and key in _SETS:
        return list(dict.fromkeys([*(current or []), *value]))
    if isinstance(value, list) and key in _MERGE_KEYS:
        return _merge_list(current or [], value, _MERGE_KEYS[key])
    return copy.deepcopy(value)


def _merge_list(current: list[Any], patch: list[Any], key: str) -> list[Any]:
    if any(item.get("$patch") == "replace" for item in patch):
        return [copy.deepcopy(item) for item in patch if item.get("$patch") != "replace"]
    merged = list(current)
    for item in patch:
        known = next((place for place, kept in enumerate(merged) if kept.get(key) == item.get(key)), None)
        if item.get("$patch") == "delete":
            if known is not None:
                del merged[known]
        elif known is None:
            merged.append(strategic_merge({}, item))
        else:
            merged[known] = strategic_merge(merged[known], item)
    return merged
