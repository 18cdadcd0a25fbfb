"""The rules between the members of an archive, and the trees that they make."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from senro.domain.errors import TreeError
from senro.domain.tree import Entry, Tree

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from senro.domain.tar.reader import Member

COPIES_FREE = 16 << 30
"""Bytes that hard links may repeat, whatever came. They come back as copies, so a few kilobytes of archive could
fill any disk."""

COPIES_FACTOR = 8
"""How many times the bytes of all files hard links may repeat, where that is more than `COPIES_FREE`."""


@dataclass(frozen=True, slots=True)
class Placement:
    """What to make on disk for a member: first the directories, outermost first, then the entry.

    `entry` is None for a root. With `replaces`, a file or link is there already and goes first. With `copy_of`, the
    entry's content is that of the file at this path; else a file's digest is still empty.
    """

    directories: tuple[str, ...]
    entry: Entry | None
    replaces: bool = False
    copy_of: str = ""


class Manifest:
    """What came of each tree. `admit` every member before anything of it is made, `digested` each file after it."""

    def __init__(self, indexes: Collection[int], *, copies_free: int = COPIES_FREE) -> None:
        self._trees: dict[int, dict[str, Entry]] = {index: {} for index in indexes}
        self._copies_free = copies_free
        self._bytes = 0
        self._copies = 0

    def admit(self, member: Member) -> Placement:
        """Say how to make the member.

        Raises `TreeError`: rule `parent` where something that is no directory stands above it (which is how a write
        through a link is refused), `duplicate` where its name came before as another kind, `hardlink` where no
        file or link of the target's name came before.
        """
        entries = self._trees[member.index]
        if not member.path:
            return Placement((), None)
        copy_of = ""
        if member.kind == "hardlink":
            entry, copy_of = self._copy(member, entries)
        else:
            entry = Entry(
                member.path, member.kind, executable=member.executable, size=member.size, target=member.target
            )
            self._bytes += member.size
        directories = _missing_parents(member.path, entries)
        for path in directories:
            entries[path] = Entry(path, "directory")
        before = entries.get(member.path)
        if before is not None and before.kind != entry.kind:
            raise TreeError(
                member.path, "duplicate", f"the archive has it as a {before.kind} and again as a {entry.kind}"
            )
        entries[member.path] = entry
        replaces = before is not None and before.kind != "directory"
        return Placement(directories, entry, replaces=replaces, copy_of=copy_of)

    def digested(self, index: int, path: str, digest: str) -> None:
        """The file's content is whole and has this digest."""
        entries = self._trees[index]
        entry = entries[path]
        # dataclasses.replace would cost more than all else that is done for a small file here.
        entries[path] = Entry(path, "file", executable=entry.executable, size=entry.size, digest=digest)

    def trees(self) -> Mapping[int, Tree]:
        """What came, by index. Raises `TreeError` (rule `link`) where links lead out of their tree together."""
        return {index: Tree(tuple(entries.values())) for index, entries in self._trees.items()}

    def _copy(self, member: Member, entries: Mapping[str, Entry]) -> tuple[Entry, str]:
        source = entries.get(member.target)
        if source is None or source.kind == "directory" or member.target == member.path:
            raise TreeError(
                member.path, "hardlink", f"a hard link to `{member.target}`, which is no earlier file of its tree"
            )
        self._copies += source.size
        if self._copies > max(self._copies_free, COPIES_FACTOR * self._bytes):
            raise TreeError(
                member.path,
                "limit",
                f"hard links would repeat more than {self._copies_free} bytes; they come back as copies",
            )
        return replace(source, path=member.path), member.target if source.kind == "file" else ""


def _missing_parents(path: str, entries: Mapping[str, Entry]) -> tuple[str, ...]:
    missing = []
    parent = path.rpartition("/")[0]
    while parent:
        entry = entries.get(parent)
        if entry is not None:
            if entry.kind != "directory":
                raise TreeError(path, "parent", f"it lies in `{parent}`, which is a {entry.kind}")
            break
        missing.append(parent)
        parent = parent.rpartition("/")[0]
    return tuple(reversed(missing))
