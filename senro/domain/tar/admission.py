"""The rules between the members of an archive, and the trees that they make."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from dataclasses import dataclass

from msgspec import Struct
from msgspec.structs import replace

from senro.domain.errors import TreeError
from senro.domain.tar.reader import Member
from senro.domain.text.printable import printable
from senro.domain.tree.content_rules import DEFAULT_RULES, ContentRules
from senro.domain.tree.excludes import compile_excludes
from senro.domain.tree.follow_links import COPIES_FACTOR, COPIES_FREE, resolve_links
from senro.domain.tree.tree import Entry, Tree, check_links


class Placement(Struct, frozen=True, gc=False):
    """What to create on disk for a member.

    `directories`: directories to create first, the outermost one first.
    `entry`: what to create, None for a root and for what is left out. The digest of a file is empty, except for copies.
    `replaces`: whether a file or link must be removed before.
    `copy_of`: the path of the file whose content to copy, empty if the content follows.
    """

    directories: tuple[str, ...]
    entry: Entry | None
    replaces: bool = False
    copy_of: str = ""


_NOTHING = Placement((), None)

IMPLIED_FREE = 1000
"""Directories that need not be members in any archive. A name may contain two thousand, while GNU tar and busybox tar
send every directory before its content."""


@dataclass(frozen=True, slots=True)
class AdmittedTree:
    """The tree of one mount, after its rules were applied.

    `tree`: the tree. Its links are still to be created.
    `excluded`: files and directories that were created and must be removed, with their content. They are kept until the
    archive has ended, since a hard link may refer to them.
    `copies`: for each path in place of a link, the path whose content it copies.
    """

    tree: Tree
    excluded: tuple[str, ...]
    copies: Mapping[str, str]


class ArchiveAdmission:
    """Collects the trees of an archive. Call `admit` before a member is created, and `digested` after each file.

    `rules` has the rules of each tree; by default nothing is excluded and no link may leave.
    """

    def __init__(
        self,
        indexes: Collection[int],
        *,
        rules: Mapping[int, ContentRules] | None = None,
        copies_free: int = COPIES_FREE,
    ) -> None:
        known = rules or {}
        self._parts = {index: _Part(known.get(index, DEFAULT_RULES)) for index in indexes}
        self._copies_free = copies_free
        self._bytes = 0
        self._copies = 0
        self._members = 0
        self._implied = 0

    def admit(self, member: Member) -> Placement:
        """How to create the member.

        Raises `TreeError`: `parent` if something above it is no directory, which includes writes through a link;
        `duplicate` if its name came before as another kind; `hardlink` if no file or link has the target's name;
        `limit` if hard links, or directories that are no members, would fill a disk. These rules hold for excluded
        members too.
        """
        part = self._parts[member.index]
        if not member.path:
            return _NOTHING
        if part.repeated:
            part.check_again(member.path)
        if member.kind == "special":
            return part.leave_out(member.path, member.lost)
        if member.kind == "hardlink":
            return self._admit_hard_link(part, member)
        self._bytes += member.size
        entry = Entry(member.path, member.kind, member.executable, member.size, "", member.target)
        placement = part.place(entry, member.lost)
        self._members += 1
        if placement.directories:
            self._implied += len(placement.directories)
            if self._implied > max(IMPLIED_FREE, self._members):
                most = f"more than {IMPLIED_FREE} directories, and more than there are members"
                raise TreeError(member.path, "limit", f"{most}, stand in the names of its members alone")
        return placement

    def digested(self, index: int, path: str, digest: str) -> None:
        """Records the digest of a file whose content is complete."""
        entries = self._parts[index].entries
        entry = entries[path]
        entries[path] = replace(entry, digest=digest)

    def contents(self) -> Generator[None, None, Mapping[int, AdmittedTree]]:
        """The trees by index. The generator may be closed at each yield.

        Raises one `TreeError` (rule `link`) that names every refused link.
        """
        contents = {}
        for index, part in self._parts.items():
            contents[index] = yield from part.content()
            yield
        return contents

    def _admit_hard_link(self, part: _Part, member: Member) -> Placement:
        target = part.repeats.get(member.target, member.target)
        if target in part.special:
            return part.leave_out(member.path, part.special[target])
        source = part.entries.get(target)
        if source is None or source.kind == "directory" or target == member.path:
            raise TreeError(
                member.path, "hardlink", f"a hard link to `{member.target}`, which is no earlier file of its tree"
            )
        if part.excludes.matches(member.path, directory=False):
            # It is not created, so a later hard link to it refers to its target.
            part.repeats[member.path] = target
            part.repeated.add(target)
            return _NOTHING
        self._copies += source.size
        if self._copies > max(self._copies_free, COPIES_FACTOR * self._bytes):
            raise TreeError(
                member.path,
                "limit",
                f"hard links would repeat more than {self._copies_free} bytes; they come back as copies",
            )
        copy_of = target if source.kind == "file" else ""
        return part.place(replace(source, path=member.path), member.lost, copy_of=copy_of)


class _Part:
    """The members of one tree. `repeats` maps excluded hard links to their targets."""

    def __init__(self, rules: ContentRules) -> None:
        self._rules = rules
        self._omitted: dict[str, str] = {}
        self.excludes = compile_excludes(rules.exclude)
        self.entries: dict[str, Entry] = {}
        self.special: dict[str, str] = {}
        self.repeats: dict[str, str] = {}
        self.repeated: set[str] = set()

    def check_again(self, path: str) -> None:
        """Handles a name that came before: a later file replaces an earlier one, unless a hard link refers to it."""
        if path in self.repeated:
            raise TreeError(path, "duplicate", "the name comes again after hard links to it")
        self.repeats.pop(path, None)

    def leave_out(self, path: str, what: str) -> Placement:
        """Admits a fifo or a device, which is not created."""
        before = self.entries.get(path)
        if before is not None:
            raise TreeError(path, "duplicate", f"the archive has it as a {before.kind} and again as {what}")
        _missing_parents(path, self.entries, self.special)
        self.special[path] = what
        if not self.excludes.matches(path, directory=False):
            self._omitted[path] = what
        return _NOTHING

    def place(self, entry: Entry, lost: str, *, copy_of: str = "") -> Placement:
        path = entry.path
        directories = _missing_parents(path, self.entries, self.special)
        for parent in directories:
            self.entries[parent] = Entry(parent, "directory")
        before = self.entries.get(path)
        if before is not None or path in self.special:
            was = self.special[path] if before is None else f"a {before.kind}"
            if was != f"a {entry.kind}":
                raise TreeError(path, "duplicate", f"the archive has it as {was} and again as a {entry.kind}")
        self.entries[path] = entry
        if lost and not self.excludes.matches(path, directory=False):
            self._omitted[path] = lost
        replaces = before is not None and before.kind != "directory"
        return Placement(directories, entry, replaces, copy_of)

    def content(self) -> Generator[None, None, AdmittedTree]:
        kept, excluded = [], {}
        for path, entry in self.entries.items():
            if self.excludes.matches(path, directory=entry.kind == "directory"):
                excluded[path] = entry
            else:
                kept.append(entry)
        yield
        omitted = tuple(sorted((printable(path), what) for path, what in self._omitted.items()))
        rules = self._rules
        tree = Tree(tuple(kept), omitted=omitted, links="keep")
        yield
        copies: Mapping[str, str] = {}
        if rules.follow:
            tree, copies = yield from resolve_links(tree, self.excludes)
        elif rules.links == "refuse":
            yield from check_links(tree.entries)
        outermost = (
            path for path, entry in excluded.items() if entry.kind != "link" and path.rpartition("/")[0] not in excluded
        )
        return AdmittedTree(tree, tuple(outermost), copies)


def _missing_parents(path: str, entries: Mapping[str, Entry], special: Mapping[str, str]) -> tuple[str, ...]:
    missing = []
    parent = path.rpartition("/")[0]
    while parent:
        entry = entries.get(parent)
        if entry is not None:
            if entry.kind != "directory":
                raise TreeError(path, "parent", f"it lies in `{parent}`, which is a {entry.kind}")
            break
        if parent in special:
            raise TreeError(path, "parent", f"it lies in `{parent}`, which is {special[parent]}")
        missing.append(parent)
        parent = parent.rpartition("/")[0]
    return tuple(reversed(missing))
