"""Which fields an object has, as server-side apply counts them: paths, and their writing as FieldsV1.

A path is a tuple of elements: `f:<name>` of a struct or a map, `k:<keys>` of an item of a list that is merged by keys,
`v:<value>` of an item of a set. Every other list is one field, and so are a few maps (the API types' structured-merge
tags). What the apiserver itself decides (name, uid, status, ...) belongs to nobody.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from senro.devcluster.objects import Object

Path = tuple[str, ...]

_KEYS = {
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "env": ("name",),
    "ports": ("containerPort", "protocol"),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "imagePullSecrets": ("name",),
    "hostAliases": ("ip",),
    "ownerReferences": ("uid",),
}
_SETS = frozenset({"finalizers"})
_WHOLE_ITEMS = frozenset({"ownerReferences", "imagePullSecrets"})
_WHOLE = frozenset({"nodeSelector", "selector", "roleRef", "secretKeyRef", "configMapKeyRef", "fieldRef"})
"""Maps that are one field."""
_METADATA = frozenset({"labels", "annotations", "ownerReferences", "finalizers", "generateName"})
_NOBODYS = frozenset({"apiVersion", "kind", "status"})
_ALWAYS_THERE = frozenset({("f:metadata",), ("f:spec",), ("f:spec", "f:containers")})
"""Nodes that an object has before anybody has written to it: nobody adds them."""

NODE = object()
"""The value of a path that has others below it."""


def fields(document: Object) -> dict[Path, Any]:
    """Every field of an object with its value, NODE where there are others below it."""
    found: dict[Path, Any] = {}
    for name, value in document.items():
        if name not in _NOBODYS:
            given = {key: value[key] for key in value if key in _METADATA} if name == "metadata" else value
            found.update(_below((f"f:{name}",), name, given))
    return {path: value for path, value in found.items() if path not in _ALWAYS_THERE}


def applied_fields(document: Object) -> set[Path]:
    """What an apply of this document owns: its leaves, and the items of its lists."""
    return {path for path, value in fields(document).items() if value is not NODE or not path[-1].startswith("f:")}


def _below(path: Path, name: str, value: Any) -> Iterator[tuple[Path, Any]]:
    if value is None:
        return
    if isinstance(value, dict) and value and name not in _WHOLE:
        yield path, NODE
        for key, item in value.items():
            yield from _below((*path, f"f:{key}"), key, item)
    elif isinstance(value, list) and value and (name in _KEYS or name in _SETS):
        yield path, NODE
        for item in value:
            place = (*path, element(name, item))
            if name in _SETS or name in _WHOLE_ITEMS:
                yield place, item
            else:
                yield place, NODE
                for key, inner in item.items():
                    yield from _below((*place, f"f:{key}"), key, inner)
    else:
        yield path, value


def element(name: str, item: Any) -> str:
    """How an item of the list of that name is written in a path."""
    if name in _SETS:
        return f"v:{json.dumps(item)}"
    keys = {key: item[key] for key in _KEYS[name] if key in item}
    return f"k:{json.dumps(keys, separators=(',', ':'))}"


def remove(document: Object, path: Path) -> None:
    """Take the field of a path out of a document, and what is empty above it then."""
    _remove(document, path, "")


def _remove(value: Any, path: Path, name: str) -> bool:
    """Remove it below `value`; True where nothing is left of that."""
    first, rest = path[0], path[1:]
    if isinstance(value, list):
        place = next((index for index, item in enumerate(value) if element(name, item) == first), None)
        if place is not None and (not rest or _remove(value[place], rest, "")):
            del value[place]
    elif isinstance(value, dict):
        key = first[2:]
        if key in value and (not rest or _remove(value[key], rest, key)):
            del value[key]
    return not value


def shown(path: Path) -> str:
    """A path as messages write it: `.spec.containers[name="step"].image`."""
    words = []
    for part in path:
        kind, text = part[0], part[2:]
        if kind == "f":
            words.append(f".{text}")
        elif kind == "k":
            pairs = (f"{key}={json.dumps(value)}" for key, value in json.loads(text).items())
            words.append(f"[{','.join(pairs)}]")
        else:
            words.append(f"[={text}]")
    return "".join(words)


def encode(paths: Iterable[Path]) -> Object:
    """A set of paths as FieldsV1: nested, `.` for a node that is itself in the set."""
    tree: Object = {}
    for path in sorted(paths):
        node = tree
        for part in path:
            node = node.setdefault(part, {})
        node["."] = {}
    return _without_lone_dots(tree)


def _without_lone_dots(tree: Object) -> Object:
    if set(tree) == {"."}:
        return {}
    return {key: _without_lone_dots(tree[key]) for key in sorted(tree)}


def decode(tree: Object, above: Path = ()) -> set[Path]:
    """The set of paths that FieldsV1 stands for."""
    found: set[Path] = set()
    for key, below in tree.items():
        if key == ".":
            found.add(above)
        elif not below:
            found.add((*above, key))
        else:
            found |= decode(below, (*above, key))
    return found


def manager_of(field_manager: str, user_agent: str) -> str:
    """Who writes: what the request says, else the first word of its user agent."""
    return field_manager or re.split("/", user_agent, maxsplit=1)[0]
