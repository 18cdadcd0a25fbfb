"""`senro ws diff`: compares the workspaces of two runs by the indexes of their snapshots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from senro.cli.reporters.text import plural, printable, size
from senro.cli.workspaces.lookup import Stored, snapshots_of
from senro.domain.run.history import History
from senro.domain.tree.diff import Change, tree_diff
from senro.domain.tree.tree import Entry


@dataclass(frozen=True, slots=True)
class Difference:
    """A workspace in two runs.

    `before`, `after`: the digest of its newest snapshot in each run; empty if the run has no such workspace.
    `changes`: the paths that differ, if both runs have the workspace.
    """

    name: str
    before: str
    after: str
    changes: tuple[Change, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether both runs have the workspace, with the same content."""
        return self.before == self.after


async def differences(stored: Stored, before: str, after: str, name: str | None) -> list[Difference]:
    """Returns the difference of each workspace that a run has, or of the one called `name`, sorted by name.

    Raises `UnknownNameError`, and `StoreError` if a snapshot is no longer in the store; equal digests need none.
    """
    (_, old), (_, new) = await stored.run(before), await stored.run(after)
    names = sorted(old.workspaces.keys() | new.workspaces.keys())
    if name is not None:
        for history in (old, new):
            snapshots_of(history, name)
        names = [name]
    return [await _difference(stored, one, _newest(old, one), _newest(new, one)) for one in names]


def to_text(found: Sequence[Difference]) -> list[str]:
    """Returns lines of text: one for each workspace, and one for each path that differs."""
    return [line for one in found for line in _lines(one)] or ["neither run has a workspace"]


def to_json(found: Sequence[Difference]) -> dict[str, Any]:
    """Returns a JSON object. Later versions add keys and never remove one.

    A byte of a path that is not UTF-8 is a lone surrogate, as in Python.
    """
    return {
        "equal": all(one.equal for one in found),
        "workspaces": [
            {
                "name": one.name,
                "before": one.before or None,
                "after": one.after or None,
                "equal": one.equal,
                "changes": [
                    {
                        "path": change.path,
                        "what": list(change.what),
                        "before": _entry(change.before),
                        "after": _entry(change.after),
                    }
                    for change in one.changes
                ],
            }
            for one in found
        ],
    }


def _newest(history: History, name: str) -> str:
    return history.workspaces[name][-1].digest if name in history.workspaces else ""


async def _difference(stored: Stored, name: str, before: str, after: str) -> Difference:
    if before == after or not before or not after:
        return Difference(name, before, after)
    changes = tree_diff(await stored.content.get(before), await stored.content.get(after))
    return Difference(name, before, after, changes)


def _lines(one: Difference) -> Iterator[str]:
    if one.equal:
        yield f"{one.name}: equal"
    elif not one.before or not one.after:
        yield f"{one.name}: only the {'second' if one.after else 'first'} run has it"
    else:
        yield f"{one.name}: {plural(len(one.changes), 'difference')}"
        for change in one.changes:
            yield f"  {', '.join(change.what):<13}  {printable(change.path)}{_detail(change)}"


def _detail(change: Change) -> str:
    before, after = change.before, change.after
    if before is None or after is None:
        one = after or before
        return f"  ({size(one.size)})" if one is not None and one.kind == "file" else ""
    parts = []
    for what in change.what:
        if what == "type":
            parts.append(f"{before.kind} -> {after.kind}")
        elif what == "target":
            parts.append(f"{printable(before.target)} -> {printable(after.target)}")
        elif what == "mode":
            parts.append("executable now" if after.executable else "not executable any more")
        elif before.size != after.size:
            parts.append(f"{size(before.size)} -> {size(after.size)}")
    return f"  ({', '.join(parts)})" if parts else ""


def _entry(entry: Entry | None) -> dict[str, Any] | None:
    if entry is None:
        return None
    fields: dict[str, Any] = {"kind": entry.kind}
    if entry.kind == "file":
        fields |= {"size": entry.size, "digest": entry.digest, "executable": entry.executable}
    if entry.kind == "link":
        fields["target"] = entry.target
    return fields
