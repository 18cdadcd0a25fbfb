"""The differences between two trees, computed from their entries without reading files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from senro.domain.tree.paths import raw
from senro.domain.tree.tree import Entry, Tree

What = Literal["added", "removed", "type", "content", "mode", "target"]
"""What differs at a path. `type`: a file, directory or link became another kind. `content` and `mode` (the executable
bit) are of files and may both differ, `target` is of links."""


@dataclass(frozen=True, slots=True)
class Change:
    """A path at which the trees differ. `before` is None if it was added, `after` if it was removed."""

    path: str
    before: Entry | None
    after: Entry | None

    @property
    def what(self) -> tuple[What, ...]:
        """What differs; never empty."""
        before, after = self.before, self.after
        if before is None:
            return ("added",)
        if after is None:
            return ("removed",)
        if before.kind != after.kind:
            return ("type",)
        if before.kind == "link":
            return ("target",)
        found: list[What] = []
        if before.digest != after.digest:
            found.append("content")
        if before.executable != after.executable:
            found.append("mode")
        return tuple(found)


def tree_diff(before: Tree, after: Tree) -> tuple[Change, ...]:
    """Each path at which the trees differ, sorted by its bytes. An added directory and each entry in it are changes."""
    old = {entry.path: entry for entry in before.entries}
    new = {entry.path: entry for entry in after.entries}
    paths = sorted(old.keys() | new.keys(), key=raw)
    return tuple(Change(path, old.get(path), new.get(path)) for path in paths if old.get(path) != new.get(path))
