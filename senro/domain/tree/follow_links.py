"""Replaces each link of a tree by a copy of the file or directory that it leads to.

Links are resolved like the kernel does (path_resolution(7)), but never out of the tree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping

from msgspec.structs import replace

from senro.domain.errors import TreeError
from senro.domain.tree.excludes import Excludes
from senro.domain.tree.paths import MAX_PATH, raw, refused_links, shortened
from senro.domain.tree.tree import Entry, Tree

COPIES_FREE = 16 << 30
"""Bytes that hard and symbolic links may repeat in any tree. They become copies, so that a few kilobytes of archive
could fill any disk."""

COPIES_FACTOR = 8
"""How many times the bytes of all files links may repeat, if that is more than `COPIES_FREE`; also for entries."""

ENTRIES_FREE = 200_000
"""Entries that may be visited to follow the links of any tree: a directory has no bytes, and what is excluded or
refused is visited again for each link to it."""

NAMES_FACTOR = 8
"""How many times as many names the targets of all links may have in total, since they may go up and down."""

MAX_HOPS = 40
"""Links that one path may pass: Linux' MAXSYMLINKS."""

_REMEDY = "point it at something inside, exclude it, or leave preserve_symlinks=True"

_PAUSE = 2000
"""Entries and names that are visited between two yields, which takes some milliseconds."""

ResolvedTree = tuple[Tree, "Mapping[str, str]"]
"""A tree without links, and what each path in place of a link, or below one, is a copy of."""


def resolve_links(
    tree: Tree, excludes: Excludes | None = None, *, copies_free: int = COPIES_FREE, entries_free: int = ENTRIES_FREE
) -> Generator[None, None, ResolvedTree]:
    """The tree with its links followed. A copy whose own path is excluded is left out.

    The generator may be closed at each yield. Raises one `TreeError` (rule `link`) that names each link which leads out
    of the tree, to nothing, or to a directory that contains it; rule `limit` if the copies exceed the bounds, or a path
    `MAX_PATH`.
    """
    if all(entry.kind != "link" for entry in tree.entries):
        return tree, {}
    return (yield from _LinkResolver(tree, excludes, copies_free, entries_free).run())


class _LinkResolver:
    def __init__(self, tree: Tree, excludes: Excludes | None, copies_free: int, entries_free: int) -> None:
        self._tree = tree
        self._excludes = excludes
        self._most_bytes = max(copies_free, COPIES_FACTOR * tree.size)
        self._most_entries = max(entries_free, COPIES_FACTOR * len(tree.entries))
        # One string object for each directory's path makes look-ups independent of the depth.
        self._directories = {"": Entry("", "directory")}
        self._above: dict[str, str] = {}
        self._children: dict[str, dict[str, Entry]] = {"": {}}
        for entry in tree.entries:
            parent, _, name = entry.path.rpartition("/")
            above = self._directories[parent].path
            self._children[above][name] = entry
            if entry.kind == "directory":
                self._directories[entry.path] = entry
                self._above[entry.path] = above
                self._children[entry.path] = {}
        self._ends: dict[str, Entry | str] = {}
        self._problems: dict[str, str] = {}
        self._entries: list[Entry] = []
        self._copies: dict[str, str] = {}
        self._bytes = 0
        self._looks = 0
        self._names = 0
        self._next_pause = _PAUSE

    def run(self) -> Generator[None, None, ResolvedTree]:
        within: Counter[str] = Counter()  # the directories that are being copied, by their original paths
        waiting = [("", "", True)]
        while waiting:
            path, directory, enters = waiting.pop()
            within[directory] += 1 if enters else -1
            if not enters:
                continue
            waiting.append((path, directory, False))
            for name, child in self._children[directory].items():
                self._looks += 1
                if self._looks + self._names >= self._next_pause:
                    self._next_pause = self._looks + self._names + _PAUSE
                    yield
                new = f"{path}/{name}" if path else name
                end = self._end(child, directory)
                if isinstance(end, str):
                    self._problems[child.path] = end
                elif self._excludes is not None and self._excludes.matches(new, directory=end.kind == "directory"):
                    pass
                elif end.kind == "file":
                    self._add(replace(end, path=new), end.path)
                elif child.kind == "link" and within[end.path]:
                    target = shortened(child.target)
                    self._problems[child.path] = f"the link leads to a directory that holds it ({target})"
                else:
                    self._add(Entry(new, "directory"), end.path)
                    waiting.append((new, end.path, True))
                self._check_bounds(new)
        if self._problems:
            raise self._refusal()
        return Tree(tuple(self._entries), omitted=self._tree.omitted), self._copies

    def _add(self, entry: Entry, source: str) -> None:
        # A code point has at most 4 bytes, so most paths need not be encoded.
        if len(entry.path) * 4 > MAX_PATH and len(raw(entry.path)) > MAX_PATH:
            raise TreeError(entry.path, "limit", f"the path, once links are followed, has more than {MAX_PATH} bytes")
        self._entries.append(entry)
        if source != entry.path:
            self._copies[entry.path] = source
            self._bytes += entry.size

    def _check_bounds(self, path: str) -> None:
        most = self._most_entries
        if self._looks <= most and self._names <= NAMES_FACTOR * most and self._bytes <= self._most_bytes:
            return
        if self._problems:
            raise self._refusal()  # which says what to do, and may be the cause
        raise TreeError(
            path,
            "limit",
            f"the copies in place of links would be more than {most} entries or {self._most_bytes} bytes, or the links "
            "go about too far; leave preserve_symlinks=True",
        )

    def _refusal(self) -> TreeError:
        return refused_links(sorted(self._problems.items(), key=lambda item: raw(item[0])), _REMEDY)

    def _end(self, entry: Entry, directory: str) -> Entry | str:
        """The entry itself, or what the link in the directory leads to; a text if it leads to nothing."""
        if entry.kind != "link":
            return entry
        end = self._ends.get(entry.path)
        if end is None:
            end = self._ends[entry.path] = self._resolve(entry, directory)
        return end

    def _resolve(self, link: Entry, place: str) -> Entry | str:
        target = shortened(link.target)
        rest = [link.path.rpartition("/")[2]]  # the next name last
        hops = 0
        while rest:
            name = rest.pop()
            self._names += 1
            if name in {"", "."}:
                continue
            if name == "..":
                if not place:
                    return f"the link leaves the tree ({target})"
                place = self._above[place]
                continue
            found = self._children[place].get(name)
            if found is None or (found.kind == "file" and rest):
                return f"the link leads to nothing in the tree ({target})"
            if found.kind == "file":
                return found
            if found.kind == "directory":
                place = found.path
                continue
            hops += 1
            if hops > MAX_HOPS:
                return f"the link leads through more than {MAX_HOPS} links, or to itself ({target})"
            if found.target.startswith("/"):
                return f"the link is absolute, or leads to one that is ({target})"
            rest += reversed(found.target.split("/"))
        return self._directories[place]
