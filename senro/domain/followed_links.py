"""A tree without links: each is replaced by a copy of the file or the whole directory that it leads to.

Links are resolved as the kernel does it (path_resolution(7)), but never out of the tree.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from senro.domain.errors import TreeError
from senro.domain.paths import MAX_PATH, raw, refused_links
from senro.domain.tree import Entry, Tree

if TYPE_CHECKING:
    from collections.abc import Mapping

COPIES_FREE = 16 << 30
"""Bytes that links may repeat, hard ones and followed ones, whatever came. They become copies, so a few kilobytes of
archive could fill any disk."""

COPIES_FACTOR = 8
"""How many times the bytes of all files links may repeat, where that is more than `COPIES_FREE`; so for entries."""

ENTRIES_FREE = 200_000
"""Entries that a tree may have once its links are followed, whatever it had before: directories have no bytes."""

MAX_HOPS = 40
"""Links that one path may go through: Linux' MAXSYMLINKS."""

_REMEDY = "point it at something inside, exclude it, or leave preserve_symlinks=True"


def followed(
    tree: Tree, *, copies_free: int = COPIES_FREE, entries_free: int = ENTRIES_FREE
) -> tuple[Tree, Mapping[str, str]]:
    """The tree with its links followed; and for each path that stands in place of a link or below one, what it copies.

    Raises one `TreeError` (rule `link`) that names each link that leads out of the tree, to nothing or to a directory
    that holds it; rule `limit` where the copies would be more than the bounds, or a path longer than `MAX_PATH`.
    """
    if all(entry.kind != "link" for entry in tree.entries):
        return tree, {}
    return _Following(tree, copies_free, entries_free).run()


class _Chain:
    """A directory that is being copied, and those above it on its path, by their places in the tree as it is."""

    __slots__ = ("above", "directory")

    def __init__(self, directory: str, above: _Chain | None) -> None:
        self.directory = directory
        self.above = above

    def has(self, directory: str) -> bool:
        chain: _Chain | None = self
        while chain is not None:
            if chain.directory == directory:
                return True
            chain = chain.above
        return False


class _Following:
    def __init__(self, tree: Tree, copies_free: int, entries_free: int) -> None:
        self._tree = tree
        self._most_bytes = max(copies_free, COPIES_FACTOR * tree.size)
        self._most_entries = max(entries_free, COPIES_FACTOR * len(tree.entries))
        self._known = {entry.path: entry for entry in tree.entries}
        self._known[""] = Entry("", "directory")
        self._children: dict[str, list[Entry]] = {}
        for entry in tree.entries:
            self._children.setdefault(entry.path.rpartition("/")[0], []).append(entry)
        self._ends: dict[str, Entry | str] = {}
        self._problems: dict[str, str] = {}
        self._entries: list[Entry] = []
        self._copies: dict[str, str] = {}
        self._bytes = 0

    def run(self) -> tuple[Tree, Mapping[str, str]]:
        waiting = [("", _Chain("", None))]
        while waiting:
            path, chain = waiting.pop()
            for child in self._children.get(chain.directory, ()):
                name = child.path.rpartition("/")[2]
                new = f"{path}/{name}" if path else name
                end = self._end(child)
                if isinstance(end, str):
                    self._problems[child.path] = end
                elif end.kind == "file":
                    self._add(replace(end, path=new), end.path)
                elif child.kind == "link" and chain.has(end.path):
                    self._problems[child.path] = f"the link leads to a directory that holds it ({child.target})"
                else:
                    self._add(Entry(new, "directory"), end.path)
                    waiting.append((new, _Chain(end.path, chain)))
        if self._problems:
            raise refused_links(sorted(self._problems.items(), key=lambda item: raw(item[0])), _REMEDY)
        return Tree(tuple(self._entries), left_out=self._tree.left_out), self._copies

    def _add(self, entry: Entry, source: str) -> None:
        if len(raw(entry.path)) > MAX_PATH:
            raise TreeError(entry.path, "limit", f"the path, once links are followed, has more than {MAX_PATH} bytes")
        self._entries.append(entry)
        if source != entry.path:
            self._copies[entry.path] = source
            self._bytes += entry.size
        if len(self._entries) > self._most_entries or self._bytes > self._most_bytes:
            raise TreeError(
                entry.path,
                "limit",
                f"the copies in place of links would be more than {self._most_entries} entries or {self._most_bytes} "
                "bytes; leave preserve_symlinks=True",
            )

    def _end(self, entry: Entry) -> Entry | str:
        """The entry itself, or the one that the link leads to; in words why it leads to none."""
        if entry.kind != "link":
            return entry
        end = self._ends.get(entry.path)
        if end is None:
            end = self._ends[entry.path] = self._resolve(entry)
        return end

    def _resolve(self, link: Entry) -> Entry | str:
        place = link.path.split("/")
        rest = [place.pop()]  # the next name last
        hops = 0
        while rest:
            name = rest.pop()
            if name in {"", "."}:
                continue
            if name == "..":
                if not place:
                    return f"the link leaves the tree ({link.target})"
                place.pop()
                continue
            found = self._known.get("/".join([*place, name]))
            if found is None or (found.kind == "file" and rest):
                return f"the link leads to nothing in the tree ({link.target})"
            if found.kind == "file":
                return found
            if found.kind == "directory":
                place.append(name)
                continue
            hops += 1
            if hops > MAX_HOPS:
                return f"the link leads through more than {MAX_HOPS} links, or to itself ({link.target})"
            if found.target.startswith("/"):
                return f"the link is absolute, or leads to one that is ({link.target})"
            rest += reversed(found.target.split("/"))
        return self._known["/".join(place)]
