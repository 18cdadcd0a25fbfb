"""What the apiserver keeps: objects by resource, namespace and name, and every change in its order.

Objects are never changed in place: a change stores a new one. So whoever holds one, in any thread, holds a snapshot.
"""

from __future__ import annotations

import copy
import uuid
from collections import deque
from typing import TYPE_CHECKING

import anyio

from senro.devcluster.apiserver.resources import STORED
from senro.devcluster.apiserver.status import EVENTS, NAMESPACES, NODES, PODS, already_exists, conflict, not_found
from senro.devcluster.clock import now_text
from senro.devcluster.objects import key_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from senro.devcluster.apiserver.status import Resource
    from senro.devcluster.clock import Clock
    from senro.devcluster.objects import Object

_HISTORY = 10_000
"""How many changes are kept for watchers; an older resourceVersion is answered with 410."""

_COLLECTED = tuple(resource for resource in STORED if resource not in {NAMESPACES, NODES, EVENTS})
"""What the garbage collector looks at when an owner is gone."""

_FIRST_VERSION = 1000


class Change:
    """One change: its resource, kind (ADDED, MODIFIED, DELETED), the object after it, and its resourceVersion."""

    __slots__ = ("document", "kind", "resource", "version")

    def __init__(self, version: int, resource: Resource, kind: str, document: Object) -> None:
        self.version = version
        self.resource = resource
        self.kind = kind
        self.document = document


class Storage:
    """The objects of one cluster. Used by the cluster's own event loop; reading snapshots is free to any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._version = _FIRST_VERSION
        self._objects: dict[Resource, dict[tuple[str, str], Object]] = {}
        self._changes: deque[Change] = deque(maxlen=_HISTORY)
        self._changed = anyio.Event()
        self._released: set[str] = set()
        self.delete_pod: Callable[[Object], object] = self._delete_at_once
        """How the garbage collector deletes a pod; the kubelet ends its processes."""

    @property
    def version(self) -> int:
        """The resourceVersion of the last change."""
        return self._version

    def create(self, resource: Resource, document: Object, *, dry_run: bool = False) -> Object:
        """Store a new object with uid, resourceVersion and creationTimestamp; 409 where the name is taken.

        A dry run gives what would have been stored, which has no resourceVersion.
        """
        key = key_of(document)
        kept = self._objects.setdefault(resource, {})
        if key in kept:
            raise already_exists(resource, key[1])
        given = document["metadata"]
        meta: Object = {"name": given["name"]}
        if resource.namespaced:
            meta["namespace"] = given["namespace"]
        meta["uid"] = str(uuid.uuid4())
        meta["resourceVersion"] = ""
        if resource == PODS:
            meta["generation"] = 1
        meta["creationTimestamp"] = now_text(self._clock)
        for field in ("labels", "annotations", "ownerReferences", "finalizers"):
            if given.get(field):
                meta[field] = given[field]
        rest = {field: value for field, value in document.items() if field not in {"kind", "apiVersion", "metadata"}}
        stored = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta, **rest}
        if dry_run:
            del meta["resourceVersion"]
            return stored
        return self._keep(resource, key, copy.deepcopy(stored), "ADDED")

    def find(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """The object, or None."""
        return self._objects.get(resource, {}).get((namespace, name))

    def get(self, resource: Resource, namespace: str, name: str) -> Object:
        """The object; 404 where there is none."""
        document = self.find(resource, namespace, name)
        if document is None:
            raise not_found(resource, name)
        return document

    def select(self, resource: Resource, namespace: str = "") -> list[Object]:
        """All objects of a resource, of one namespace or of all, sorted by namespace and name."""
        kept = dict(self._objects.get(resource, {}))
        return [kept[key] for key in sorted(kept) if not namespace or key[0] == namespace]

    def everything(self, namespace: str) -> list[tuple[Resource, Object]]:
        """All objects of one namespace, with their resources."""
        return [
            (resource, document)
            for resource in list(self._objects)
            if resource.namespaced
            for document in self.select(resource, namespace)
        ]

    def update(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        change: Callable[[Object], None],
        *,
        version: str = "",
    ) -> Object:
        """Apply `change` to a copy and store it; nothing is stored where nothing changed.

        `version` is a resourceVersion that must still hold: 409 Conflict where it does not. An object that only its
        finalizers kept is gone with the last of them.
        """
        current = self.get(resource, namespace, name)
        if version and version != current["metadata"]["resourceVersion"]:
            raise conflict(
                resource,
                name,
                "the object has been modified; please apply your changes to the latest version and try again",
            )
        changed = copy.deepcopy(current)
        change(changed)
        if changed == current:
            return changed
        kept = self._keep(resource, (namespace, name), changed, "MODIFIED")
        if kept["metadata"]["uid"] in self._released and not kept["metadata"].get("finalizers"):
            self.remove(resource, namespace, name)
        return kept

    def remove(self, resource: Resource, namespace: str, name: str, *, uid: str = "") -> Object | None:
        """Take the object away, and what it owned; None where it (or the one with that uid) is gone already.

        One with finalizers is marked as being deleted and stays until they are gone
        (docs/design/api-rules.md#finalizers).
        """
        kept = self._objects.get(resource, {})
        current = kept.get((namespace, name))
        if current is None or (uid and current["metadata"]["uid"] != uid):
            return None
        if current["metadata"].get("finalizers"):
            self._released.add(current["metadata"]["uid"])
            return self.update(resource, namespace, name, self._mark)
        gone = copy.deepcopy(current)
        del kept[(namespace, name)]
        self._released.discard(gone["metadata"]["uid"])
        self._record(resource, gone, "DELETED")
        self.collect(namespace)
        return gone

    def collect(self, namespace: str) -> None:
        """Remove what has owners of which none is left (docs/design/api-rules.md#owners)."""
        dependents = [
            (resource, document)
            for resource in _COLLECTED
            for document in self.select(resource, namespace)
            if document["metadata"].get("ownerReferences")
        ]
        if not dependents:
            return
        # A namespaced owner counts in its own namespace alone; one of the whole cluster counts everywhere.
        living = {
            document["metadata"]["uid"]
            for resource in self._objects
            for document in self.select(resource, namespace if resource.namespaced else "")
        }
        for resource, document in dependents:
            if not any(owner.get("uid") in living for owner in document["metadata"]["ownerReferences"]):
                if resource == PODS:
                    self.delete_pod(document)
                else:
                    self.remove(resource, namespace, document["metadata"]["name"])

    def changes_since(self, version: int) -> list[Change] | None:
        """Every change after that resourceVersion, or None where the history no longer reaches back to it."""
        if version < self.oldest:
            return None
        return [change for change in self._changes if change.version > version]

    @property
    def oldest(self) -> int:
        """The oldest resourceVersion from which a watch can still begin."""
        full = len(self._changes) == _HISTORY
        return self._changes[0].version - 1 if full else _FIRST_VERSION

    def changes(self) -> list[Change]:
        """Every change that is still kept."""
        return list(self._changes)

    async def changed(self) -> None:
        """Return after the next change."""
        await self._changed.wait()

    def _delete_at_once(self, pod: Object) -> object:
        return self.remove(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"])

    def _mark(self, document: Object) -> None:
        document["metadata"].setdefault("deletionTimestamp", now_text(self._clock))
        document["metadata"].setdefault("deletionGracePeriodSeconds", 0)

    def _keep(self, resource: Resource, key: tuple[str, str], document: Object, kind: str) -> Object:
        self._objects.setdefault(resource, {})[key] = document
        self._record(resource, document, kind)
        return document

    def _record(self, resource: Resource, document: Object, kind: str) -> None:
        self._version += 1
        document["metadata"]["resourceVersion"] = str(self._version)
        self._changes.append(Change(self._version, resource, kind, document))
        happened, self._changed = self._changed, anyio.Event()
        happened.set()
