"""Lists and watches, with label and field selectors (recording watch)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from senro.devcluster.apiserver.http import Response, audited, json_response
from senro.devcluster.apiserver.status import bad_request, failure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from senro.devcluster.apiserver.http import Answer, Request
    from senro.devcluster.apiserver.status import Resource
    from senro.devcluster.objects import Object
    from senro.devcluster.storage import Storage

_FIELD = re.compile(r"([^!=]+)(==|=|!=)(.*)")
_SET = re.compile(r"(!?)\s*([^\s!=,()]+)\s*(?:(==|=|!=)\s*([^\s,()]*)|(in|notin)\s*\(([^)]*)\))?\s*")


def list_or_watch(request: Request, resource: Resource, namespace: str, storage: Storage) -> Answer:
    """A list of the objects that are selected, or a stream of their changes."""
    selected = _selector(request)
    if request.flag("watch"):
        version = request.parameter("resourceVersion") or ""
        stream = _watch(resource, namespace, selected, storage, version)
        headers = (*audited(), ("content-type", "application/json"), ("transfer-encoding", "chunked"))
        return Response(200, headers, stream)
    items = [document for document in storage.select(resource, namespace) if selected(document)]
    for_list = [{key: value for key, value in item.items() if key not in {"kind", "apiVersion"}} for item in items]
    return json_response(
        200,
        {
            "kind": f"{resource.kind}List",
            "apiVersion": resource.api_version,
            "metadata": {"resourceVersion": str(storage.version)},
            "items": for_list,
        },
    )


async def _watch(
    resource: Resource, namespace: str, selected: Callable[[Object], bool], storage: Storage, version: str
) -> AsyncIterator[bytes]:
    if version in {"", "0"}:
        seen = storage.version
        present = [document for document in storage.select(resource, namespace) if selected(document)]
        for document in present:
            yield _event("ADDED", document)
    else:
        seen, present = int(version), []
    known = {document["metadata"]["uid"] for document in present}
    while True:
        changes = storage.changes_since(seen)
        if changes is None:
            # HTTP 200 and one ERROR event (recording watch).
            yield _event("ERROR", failure(410, "Expired", f"too old resource version: {seen}"))
            return
        for change in changes:
            seen = change.version
            document = change.document
            if change.resource != resource or (namespace and document["metadata"].get("namespace") != namespace):
                continue
            uid, matches = document["metadata"]["uid"], selected(document)
            if change.kind == "DELETED" or not matches:
                # What leaves the selection is DELETED for this watcher (facts/api-rules.md section 13).
                if matches or uid in known:
                    yield _event("DELETED", document)
                known.discard(uid)
            else:
                yield _event(change.kind if uid in known or change.kind == "ADDED" else _first(version), document)
                known.add(uid)
        await storage.changed()


def _first(version: str) -> str:
    """A watcher from a resourceVersion has seen what existed then; one from the beginning has not."""
    return "MODIFIED" if version not in {"", "0"} else "ADDED"


def _event(kind: str, document: Object) -> bytes:
    return msgspec.json.encode({"type": kind, "object": document}) + b"\n"


def _selector(request: Request) -> Callable[[Object], bool]:
    labels = [_label_rule(found) for found in _SET.finditer(request.parameter("labelSelector") or "")]
    fields = [_field_rule(part) for part in (request.parameter("fieldSelector") or "").split(",") if part]

    def selected(document: Object) -> bool:
        own = document["metadata"].get("labels") or {}
        return all(rule(own) for rule in labels) and all(rule(document) for rule in fields)

    return selected


def _label_rule(found: re.Match[str]) -> Callable[[dict[str, str]], bool]:
    absent, key, operator, value, member, values = found.groups()
    if operator in {"=", "=="}:
        return lambda labels: labels.get(key) == value
    if operator == "!=":
        return lambda labels: labels.get(key) != value
    if member is not None:
        wanted = {word.strip() for word in values.split(",")}
        return lambda labels: (labels.get(key) in wanted) == (member == "in")
    return lambda labels: (key in labels) != bool(absent)


def _field_rule(part: str) -> Callable[[Object], bool]:
    found = _FIELD.fullmatch(part)
    if found is None:
        raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
    path, operator, value = found.groups()

    def rule(document: Object) -> bool:
        current: Any = document
        for step in path.split("."):
            current = current.get(step) if isinstance(current, dict) else None
        return (str("" if current is None else current) == value) == (operator != "!=")

    return rule
