"""Tables: what the server makes of objects for `kubectl get`, where `Accept` asks for `as=Table`."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from senro.devcluster.apiserver.status import EVENTS, LEASES, NAMESPACES, NODES, PODS, SECRETS

if TYPE_CHECKING:
    from collections.abc import Callable

    from senro.devcluster.apiserver.http import Request
    from senro.devcluster.apiserver.status import Resource
    from senro.devcluster.objects import Object

_UNITS = ((365 * 86_400, "y"), (86_400, "d"), (3_600, "h"), (60, "m"))


def wants_table(request: Request) -> bool:
    """Whether the client would rather have a Table of version v1."""
    return any(
        "as=Table" in word and "v=v1" in word.split(";")
        for word in (part.strip() for part in request.headers.get("accept", "").split(","))
    )


def table(request: Request, resource: Resource, documents: list[Object], version: str, *, head: bool = True) -> Object:
    """A Table of these objects; `head` False leaves the columns out, as behind a watch's first event."""
    columns = _COLUMNS.get(resource, _PLAIN)
    include = request.parameter("includeObject") or "Metadata"
    meta: Object = {"resourceVersion": version} if version else {}
    definitions = [
        {
            "name": name,
            "type": kind,
            "format": "name" if name == "Name" else "",
            "description": f"{name} of the {resource.kind}",
            "priority": priority,
        }
        for name, kind, priority, _ in columns
    ]
    rows = [
        {"cells": [cell(document) for *_, cell in columns], "object": _included(document, include)}
        for document in documents
    ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": definitions if head else None,
        "rows": rows,
    }


def _included(document: Object, include: str) -> Object | None:
    if include == "None":
        return None
    if include == "Object":
        return document
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": document["metadata"],
    }


def _age_of(text: str | None) -> str:
    if not text:
        return "<unknown>"
    begun = datetime.fromisoformat(text).astimezone(UTC).timestamp()
    seconds = max(0, int(time.time() - begun))
    # Two minutes and less are told in seconds, ten and less with them, as kubectl tells durations.
    if seconds < 120:
        return f"{seconds}s"
    if seconds < 600:
        minutes, rest = divmod(seconds, 60)
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    for size, unit in _UNITS:
        if seconds >= size * (2 if unit in {"d", "y"} else 1):
            return f"{seconds // size}{unit}"
    return f"{seconds // 60}m"


def _name(document: Object) -> Any:
    return document["metadata"]["name"]


def _age(document: Object) -> str:
    return _age_of(document["metadata"].get("creationTimestamp"))


def _ready(pod: Object) -> str:
    statuses: list[Object] = pod["status"].get("containerStatuses") or []
    return f"{sum(bool(item.get('ready')) for item in statuses)}/{len(pod['spec']['containers'])}"


def _pod_status(pod: Object) -> str:
    """The word of STATUS: what the containers wait for or ended with, before the pod's own phase."""
    status = pod["status"]
    word = str(status.get("reason") or status.get("phase") or "Unknown")
    initial = status.get("initContainerStatuses") or []
    for number, item in enumerate(initial):
        state = item.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting") or {}
        if ended is not None and ended.get("exitCode") == 0:
            continue
        if ended is not None:
            word = f"Init:{ended.get('reason') or 'ExitCode:' + str(ended.get('exitCode'))}"
        elif waiting.get("reason") not in {None, "", "PodInitializing"}:
            word = f"Init:{waiting['reason']}"
        else:
            word = f"Init:{number}/{len(initial)}"
        break
    else:
        for item in reversed(status.get("containerStatuses") or []):
            state = item.get("state") or {}
            told = (state.get("waiting") or {}).get("reason") or (state.get("terminated") or {}).get("reason")
            if told:
                word = str(told)
    return "Terminating" if pod["metadata"].get("deletionTimestamp") else word


def _data(document: Object) -> int:
    return len(document.get("data") or {})


def _node_status(node: Object) -> str:
    conditions: list[Object] = node["status"].get("conditions") or []
    ready = any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
    return "Ready" if ready else "NotReady"


def _field(*path: str, absent: str = "<none>") -> Callable[[Object], Any]:
    def cell(document: Object) -> Any:
        current: Any = document
        for part in path:
            current = current.get(part) if isinstance(current, dict) else None
        return absent if current in (None, "", [], {}) else current

    return cell


def _involved(event: Object) -> str:
    about = event.get("involvedObject") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


Column = tuple[str, str, int, "Callable[[Object], Any]"]
_NAME: Column = ("Name", "string", 0, _name)
_AGE: Column = ("Age", "string", 0, _age)
_PLAIN: tuple[Column, ...] = (_NAME, _AGE)

_COLUMNS: dict[Resource, tuple[Column, ...]] = {
    PODS: (
        _NAME,
        ("Ready", "string", 0, _ready),
        ("Status", "string", 0, _pod_status),
        ("Restarts", "string", 0, lambda _: "0"),
        _AGE,
        ("IP", "string", 1, _field("status", "podIP")),
        ("Node", "string", 1, _field("spec", "nodeName")),
    ),
    SECRETS: (_NAME, ("Type", "string", 0, _field("type")), ("Data", "string", 0, _data), _AGE),
    LEASES: (_NAME, ("Holder", "string", 0, _field("spec", "holderIdentity", absent="")), _AGE),
    NODES: (
        _NAME,
        ("Status", "string", 0, _node_status),
        ("Roles", "string", 0, lambda _: "<none>"),
        _AGE,
        ("Version", "string", 0, _field("status", "nodeInfo", "kubeletVersion")),
    ),
    NAMESPACES: (_NAME, ("Status", "string", 0, _field("status", "phase")), _AGE),
    EVENTS: (
        ("Last Seen", "string", 0, lambda event: _age_of(event.get("lastTimestamp"))),
        ("Type", "string", 0, _field("type")),
        ("Reason", "string", 0, _field("reason")),
        ("Object", "string", 0, _involved),
        ("Message", "string", 0, _field("message", absent="")),
        ("Count", "integer", 1, _field("count", absent="1")),
        ("Name", "string", 1, _name),
    ),
}
