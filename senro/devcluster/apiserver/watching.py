"""Lists and watches (recording watch; docs/design/api-rules.md#list-and-watch).

A watch has no bookmarks, and `sendInitialEvents` is refused in the words of an apiserver without that feature: kubectl
then lists and watches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import msgspec

from senro.devcluster.apiserver.http import Response, audited, json_response
from senro.devcluster.apiserver.integers import is_version, parse_integer
from senro.devcluster.apiserver.selectors import selector
from senro.devcluster.apiserver.status import Cause, bad_request, failure, invalid
from senro.devcluster.apiserver.table import table, wants_table

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from senro.devcluster.apiserver.http import Answer, Request
    from senro.devcluster.apiserver.status import Resource
    from senro.devcluster.objects import Object
    from senro.devcluster.storage import Change, Storage

_LONGEST_SECONDS = 1800
"""How long a watch lasts if it does not say."""


def list_or_watch(request: Request, resource: Resource, namespace: str, storage: Storage) -> Answer:
    """Returns a list of the selected objects, or a stream of their changes."""
    selected = selector(request, resource)
    if request.flag("sendInitialEvents"):
        words = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
        raise invalid("ListOptions", "", [Cause.forbidden("sendInitialEvents", words)], "meta.k8s.io")
    if request.flag("watch"):
        watch = _Watch(request, resource, namespace, selected, storage)
        headers = (*audited(), ("content-type", "application/json"), ("transfer-encoding", "chunked"))
        return Response(200, headers, watch.stream())
    items = [document for document in storage.select(resource, namespace) if selected(document)]
    if wants_table(request):
        return json_response(200, table(request, resource, items, str(storage.version)))
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


class _Watch:
    """One watch: its parameters, and the uids of the objects that its client knows."""

    def __init__(
        self,
        request: Request,
        resource: Resource,
        namespace: str,
        selected: Callable[[Object], bool],
        storage: Storage,
    ) -> None:
        self._request = request
        self._resource = resource
        self._namespace = namespace
        self._selected = selected
        self._storage = storage
        self._version = request.parameter("resourceVersion") or ""
        self._tabular = wants_table(request)
        self._columns_sent = False
        self._known: set[str] = set()
        seconds = request.parameter("timeoutSeconds") or str(_LONGEST_SECONDS)
        self._seconds = parse_integer(seconds) or _LONGEST_SECONDS
        if self._version and not is_version(self._version):
            raise bad_request(f'Invalid value: "{self._version}": strconv.ParseUint: invalid syntax')

    async def stream(self) -> AsyncIterator[bytes]:
        """The events, one line each, until the time is over."""
        end = anyio.current_time() + self._seconds
        seen = self._storage.version
        if self._version in {"", "0"}:
            for document in filter(self._selected, self._storage.select(self._resource, self._namespace)):
                self._known.add(document["metadata"]["uid"])
                yield self._event("ADDED", document)
        else:
            seen = int(self._version)
        while True:
            changes = self._storage.changes_since(seen)
            if changes is None:
                # HTTP 200 and one ERROR event (recording watch).
                words = f"too old resource version: {seen} ({self._storage.oldest})"
                yield _line("ERROR", failure(410, "Expired", words))
                return
            for line in filter(None, [self._event_line(change) for change in changes]):
                yield line
            seen = changes[-1].version if changes else seen
            if anyio.current_time() >= end:
                return
            if self._storage.version > seen:
                continue  # something changed while the client read
            with anyio.move_on_after(max(0.0, end - anyio.current_time())):
                await self._storage.changed()

    def _event_line(self, change: Change) -> bytes:
        document = change.document
        meta = document["metadata"]
        if change.resource != self._resource or (self._namespace and meta.get("namespace") != self._namespace):
            return b""
        uid, matches = meta["uid"], self._selected(document)
        if change.kind == "DELETED" or not matches:
            # An object that no longer matches is DELETED for this client
            # (docs/design/api-rules.md#selectors-of-a-watch).
            known = matches or uid in self._known
            self._known.discard(uid)
            return self._event("DELETED", document) if known else b""
        # The client of a watch from a resourceVersion knows the objects that existed then.
        modified = uid in self._known or self._version not in {"", "0"}
        self._known.add(uid)
        return self._event("MODIFIED" if change.kind == "MODIFIED" and modified else "ADDED", document)

    def _event(self, kind: str, document: Object) -> bytes:
        if not self._tabular:
            return _line(kind, document)
        shown = table(self._request, self._resource, [document], "", head=not self._columns_sent)
        self._columns_sent = True
        return _line(kind, shown)


def _line(kind: str, document: Object) -> bytes:
    return msgspec.json.encode({"type": kind, "object": document}) + b"\n"
