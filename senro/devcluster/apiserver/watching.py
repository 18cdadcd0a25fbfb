"""Lists and watches (recording watch; docs/design/api-rules.md#list-and-watch)."""

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
    from collections.abc import AsyncIterator, Callable, Iterator

    from senro.devcluster.apiserver.http import Answer, Request
    from senro.devcluster.apiserver.status import Resource
    from senro.devcluster.objects import Object
    from senro.devcluster.storage import Change, Storage

_LONGEST_SECONDS = 1800
"""How long a watch lasts that does not say."""
_BOOKMARK_SECONDS = 60
_BOOKMARK_BEFORE_END = 2.0
_INITIAL_END = "k8s.io/initial-events-end"


def list_or_watch(request: Request, resource: Resource, namespace: str, storage: Storage) -> Answer:
    """A list of the objects that are selected, or a stream of their changes."""
    selected = selector(request, resource)
    if request.flag("watch"):
        watch = _Watch(request, resource, namespace, selected, storage)
        headers = (*audited(), ("content-type", "application/json"), ("transfer-encoding", "chunked"))
        return Response(200, headers, watch.stream())
    if request.flag("sendInitialEvents"):
        cause = Cause.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")
        raise invalid("ListOptions", "", [cause], "meta.k8s.io")
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
    """One watch: what it was asked for, and what its client has seen."""

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
        self._initial = request.flag("sendInitialEvents")
        self._bookmarks = request.flag("allowWatchBookmarks")
        self._tabular = wants_table(request)
        self._told_columns = False
        self._told_last = False
        self._known: set[str] = set()
        seconds = request.parameter("timeoutSeconds") or str(_LONGEST_SECONDS)
        self._seconds = parse_integer(seconds) or _LONGEST_SECONDS
        if self._version and not is_version(self._version):
            raise bad_request(f'Invalid value: "{self._version}": strconv.ParseUint: invalid syntax')
        if self._initial and request.parameter("resourceVersionMatch") != "NotOlderThan":
            words = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            raise invalid("ListOptions", "", [Cause.forbidden("resourceVersionMatch", words)], "meta.k8s.io")

    def _first_events(self, version: int) -> Iterator[bytes]:
        """What is there already, where the watch does not begin at a resourceVersion."""
        for document in self._storage.select(self._resource, self._namespace):
            if self._selected(document):
                self._known.add(document["metadata"]["uid"])
                yield self._event("ADDED", document)
        if self._initial and self._bookmarks:
            yield self._bookmark(version, initial=True)

    async def stream(self) -> AsyncIterator[bytes]:
        """The events, one line each, until the time is over."""
        end = anyio.current_time() + self._seconds
        seen = self._storage.version
        if self._initial or self._version in {"", "0"}:
            for line in list(self._first_events(seen)):
                yield line
        else:
            seen = int(self._version)
        bookmark_at = self._next_bookmark(end)
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
            if anyio.current_time() >= bookmark_at:
                yield self._bookmark(seen, initial=False)
                bookmark_at = self._next_bookmark(end)
            if anyio.current_time() >= end:
                return
            if self._storage.version > seen:
                continue  # it went on while the client read
            with anyio.move_on_after(max(0.0, min(end, bookmark_at) - anyio.current_time())):
                await self._storage.changed()

    def _next_bookmark(self, end: float) -> float:
        """About once a minute, and once two seconds before the end, or at once where that has passed."""
        now, last = anyio.current_time(), end - _BOOKMARK_BEFORE_END
        if not self._bookmarks or self._told_last:
            return float("inf")
        self._told_last = now + _BOOKMARK_SECONDS >= last
        return max(now, last) if self._told_last else now + _BOOKMARK_SECONDS

    def _event_line(self, change: Change) -> bytes:
        document = change.document
        meta = document["metadata"]
        if change.resource != self._resource or (self._namespace and meta.get("namespace") != self._namespace):
            return b""
        uid, matches = meta["uid"], self._selected(document)
        if change.kind == "DELETED" or not matches:
            # What leaves the selection is DELETED for this watcher (docs/design/api-rules.md#selectors-of-a-watch). One
            # that began at a resourceVersion may have seen it without this watch having told it.
            told = matches or uid in self._known
            self._known.discard(uid)
            return self._event("DELETED", document) if told else b""
        kind = change.kind if uid in self._known or change.kind == "ADDED" else self._first()
        self._known.add(uid)
        return self._event(kind, document)

    def _first(self) -> str:
        """A watcher from a resourceVersion has seen what existed then; one from the beginning has not."""
        return "MODIFIED" if self._version not in {"", "0"} else "ADDED"

    def _event(self, kind: str, document: Object) -> bytes:
        if not self._tabular:
            return _line(kind, document)
        shown = table(self._request, self._resource, [document], "", head=not self._told_columns)
        self._told_columns = True
        return _line(kind, shown)

    def _bookmark(self, version: int, *, initial: bool) -> bytes:
        meta: Object = {"resourceVersion": str(version)}
        if initial:
            meta["annotations"] = {_INITIAL_END: "true"}
        bookmark: Object = {"kind": self._resource.kind, "apiVersion": self._resource.api_version, "metadata": meta}
        if self._resource.kind == "Pod":
            # As Go encodes a Pod of which nothing is set (recording watch).
            bookmark |= {"spec": {"containers": None}, "status": {}}
        return _line("BOOKMARK", bookmark)


def _line(kind: str, document: Object) -> bytes:
    return msgspec.json.encode({"type": kind, "object": document}) + b"\n"
