"""Who owns which field: `metadata.managedFields`, and the conflicts of apply.

See docs/design/api-rules.md#server-side-apply.

The owners of a status are not recorded: the embedded cluster's own parts write it, and nobody applies it.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from senro.devcluster.apiserver.defaults import default_pod
from senro.devcluster.apiserver.field_sets import NODE, Path, applied_fields, decode, encode, fields, remove, shown
from senro.devcluster.apiserver.patch import strategic_merge
from senro.devcluster.apiserver.status import CLAIMS, PODS, Refused, failure

if TYPE_CHECKING:
    from senro.devcluster.apiserver.status import Resource
    from senro.devcluster.objects import Object


@dataclass(frozen=True, slots=True)
class Author:
    """Who writes to an object, and how: by `Update` or by `Apply`; `now` is the time of its entry."""

    name: str
    operation: str
    api_version: str
    now: str

    @property
    def identity(self) -> tuple[str, str]:
        """What tells one entry from another: an applier is the same in every version of the API."""
        return self.name, self.operation

    def entry(self, owned: set[Path]) -> Object:
        """The author's entry in managedFields."""
        return {
            "manager": self.name,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "time": self.now,
            "fieldsType": "FieldsV1",
            "fieldsV1": encode(owned),
        }


class Owners:
    """The owners of one object's fields, as its managedFields say."""

    def __init__(self, document: Object) -> None:
        entries = document["metadata"].get("managedFields") or []
        self._entries: dict[tuple[str, str], Object] = {(one["manager"], one["operation"]): one for one in entries}
        self._sets = {identity: decode(one["fieldsV1"]) for identity, one in self._entries.items()}

    def of_others(self, author: Author) -> dict[tuple[str, str], set[Path]]:
        """What everybody else owns."""
        return {identity: owned for identity, owned in self._sets.items() if identity != author.identity}

    def own(self, author: Author) -> set[Path]:
        """What the author owns."""
        return self._sets.get(author.identity, set())

    def describe(self, identity: tuple[str, str]) -> str:
        """An owner as a conflict names it."""
        name, operation = identity
        using = f" using {self._entries[identity]['apiVersion']}" if operation == "Update" else ""
        return f'"{name}"{using}'

    def after(self, author: Author, before: Object, changed: Object, applied: set[Path] | None = None) -> list[Object]:
        """The managedFields once the author has made one document of the other.

        Whoever updates adds what changed to what was its own; whoever applies owns what was `applied`, and no more.
        """
        old, new = fields(before), fields(changed)
        gone = old.keys() - new.keys()
        touched = {path for path, value in new.items() if path not in old or _differ(old[path], value)}
        own = (self.own(author) | touched) - gone if applied is None else applied
        entries = {
            identity: {**self._entries[identity], "fieldsV1": encode(left)}
            for identity, owned in self.of_others(author).items()
            if (left := owned - touched - gone)
        }
        if own and own == self.own(author):
            entries[author.identity] = self._entries[author.identity]
        elif own:
            entries[author.identity] = author.entry(own)
        return sorted(entries.values(), key=lambda entry: (entry["operation"], entry["time"], entry["manager"]))


def first_owner(author: Author, resource: Resource, sent: Object, prepared: Object) -> list[Object]:
    """The managedFields of a new object: what was sent, and the defaults; what admission adds is nobody's."""
    if author.operation == "Apply":
        return [author.entry(applied_fields(sent))]
    authored = prepared
    if resource == PODS:
        filled = default_pod(sent["spec"])
        by_admission = _ADMITTED - (sent["spec"].keys() - {"tolerations"})
        spec = {key: value for key, value in filled.items() if key not in by_admission}
        if sent["spec"].get("tolerations"):
            spec["tolerations"] = sent["spec"]["tolerations"]
        authored = {**sent, "spec": spec}
    elif resource == CLAIMS:
        authored = sent
    return Owners({"metadata": {}}).after(author, {}, authored)


_ADMITTED = frozenset({"priority", "preemptionPolicy", "serviceAccount", "serviceAccountName", "tolerations"})
"""What of a pod's spec admission fills in, not the defaults."""


def _differ(old: object, new: object) -> bool:
    return old is not new and (old is NODE or new is NODE or old != new)


def apply(author: Author, current: Object, applied: Object, *, force: bool) -> tuple[Object, list[Object]]:
    """The object after an apply, and its managedFields; 409 with a cause for each field that somebody else owns.

    What the author applied before and does not any more is removed, unless somebody else owns it too. With `force`
    the fields become the author's.
    """
    owners, wanted, there = Owners(current), fields(applied), fields(current)
    paths = applied_fields(applied)
    others = owners.of_others(author)
    conflicts = [
        (identity, path)
        for identity, owned in sorted(others.items())
        for path in sorted(owned & paths)
        if wanted[path] is not NODE and path in there and _differ(there[path], wanted[path])
    ]
    if conflicts and not force:
        raise _conflict([(owners.describe(identity), path) for identity, path in conflicts])
    left = copy.deepcopy(current)
    owned_by_others = set().union(*others.values())
    for path in sorted(owners.own(author) - paths - owned_by_others, key=len, reverse=True):
        if not any(other[: len(path)] == path for other in owned_by_others | paths):
            remove(left, path)
    for path in paths:
        # A map that is one field is taken as it is, not merged.
        if path in there and isinstance(there[path], dict):
            remove(left, path)
    merged = strategic_merge(left, applied)
    return merged, owners.after(author, current, merged, paths)


def _conflict(conflicts: list[tuple[str, Path]]) -> Refused:
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {owner}", "field": shown(path)}
        for owner, path in conflicts
    ]
    if len(conflicts) == 1:
        ((owner, path),) = conflicts
        words = f"Apply failed with 1 conflict: conflict with {owner}: {shown(path)}"
    else:
        lines = []
        for owner in sorted({owner for owner, _ in conflicts}):
            lines.append(f"conflicts with {owner}:")
            lines += [f"- {shown(path)}" for other, path in conflicts if other == owner]
        words = f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
    document = failure(409, "Conflict", words)
    document["details"] = {"causes": causes}
    return Refused(document)
