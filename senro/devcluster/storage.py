"""What the apiserver keeps: objects by resource, namespace and name, and every change in its order.

Objects are never changed in place: a change stores a new one. So whoever holds one, in any thread, holds a snapshot.
"""

from __future__ import annotations

import copy
import secrets
import uuid
from collections import deque
from typing import TYPE_CHECKING

import anyio

from senro.devcluster.apiserver.status import PODS, SECRETS, already_exists, conflict, not_found
from senro.devcluster.clock import now_text
from senro.devcluster.objects import key_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from senro.devcluster.apiserver.status import Resource
    from senro.devcluster.clock import Clock
    from senro.devcluster.objects import Object

_HISTORY = 10_000
"""How many changes are kept for watchers; an older resourceVersion is answered with 410."""

_COLLECTED = (SECRETS, PODS)
"""What the garbage collector looks at when an owner is gone."""


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
        self._version = 1000
        self._objects: dict[Resource, dict[tuple[str, str], Object]] = {}
        self._changes: deque[Change] = deque(maxlen=_HISTORY)
        self._changed = anyio.Event()

    @property
    def version(self) -> int:
        """The resourceVersion of the last change."""
        return self._version

    @staticmethod
    def suffix() -> str:
        """Five characters for a generateName (facts/api-rules.md section 2)."""
        return "".join(secrets.choice("bcdfghjklmnpqrstvwxz2456789") for _ in range(5))

    def create(self, resource: Resource, document: Object) -> Object:
        """Store a new object with uid, resourceVersion and creationTimestamp; 409 where the name is taken."""
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

    def update(
        self, resource: Resource, namespace: str, name: str, change: Callable[[Object], None], *, version: str = ""
    ) -> Object:
        """Apply `change` to a copy and store it; nothing is stored where nothing changed.

        `version` is a resourceVersion that must still hold: 409 Conflict where it does not.
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
            return current
        return self._keep(resource, (namespace, name), changed, "MODIFIED")

    def remove(self, resource: Resource, namespace: str, name: str, *, uid: str = "") -> Object | None:
        """Take the object away, and what it owned; None where it (or the one with that uid) is gone already."""
        kept = self._objects.get(resource, {})
        current = kept.get((namespace, name))
        if current is None or (uid and current["metadata"]["uid"] != uid):
            return None
        gone = copy.deepcopy(current)
        del kept[(namespace, name)]
        self._record(resource, gone, "DELETED")
        self.collect(namespace)
        return gone

    def collect(self, namespace: str) -> None:
        """Remove what has owners of which none is left (facts/api-rules.md section 5)."""
        living = {
            document["metadata"]["uid"] for resource in self._objects for document in self.select(resource, namespace)
        }
        for resource in _COLLECTED:
            for document in self.select(resource, namespace):
                owners = document["metadata"].get("ownerReferences") or []
                if owners and not any(owner.get("uid") in living for owner in owners):
                    self.remove(resource, namespace, document["metadata"]["name"])

    def changes_since(self, version: int) -> list[Change] | None:
        """Every change after that resourceVersion, or None where the history no longer reaches back to it."""
        if self._changes and version < self._changes[0].version - 1 and len(self._changes) == _HISTORY:
            return None
        return [change for change in self._changes if change.version > version]

    def changes(self) -> list[Change]:
        """Every change that is still kept."""
        return list(self._changes)

    async def changed(self) -> None:
        """Return after the next change."""
        await self._changed.wait()

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
