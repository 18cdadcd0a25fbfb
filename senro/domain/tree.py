r"""What a folder holds, as a value: entries in one order, and a digest that says whether two folders are equal.

Paths are POSIX paths relative to the folder's root. Bytes that are not UTF-8 are kept by `surrogateescape`, as the
operating system hands them to Python; `raw` gives the bytes back.

**The digest** of a tree is `sha256:<hex>` over this text, encoded as `raw` does::

    senro tree 1\n
    F <length>:<path> <digest>\n      a file that nobody may execute
    X <length>:<path> <digest>\n      a file that is executable
    D <length>:<path>\n               a directory
    L <length>:<path> <length>:<target>\n

one line an entry, sorted by the bytes of the path; lengths count bytes, so no name can pass for the next line;
`<digest>` is the `sha256:<hex>` of the file's content. Modification times, owners and other mode bits are not in it:
they differ between two machines that hold the same files.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from senro.domain.errors import TreeError

if TYPE_CHECKING:
    from collections.abc import Iterable

Kind = Literal["file", "directory", "link"]
"""What an entry is. Sockets, fifos and devices are no entries: they have no content that could travel."""

EMPTY_FILE = "sha256:" + hashlib.sha256().hexdigest()
"""The digest of a file without content."""


def raw(text: str) -> bytes:
    """The bytes of a path or a link's target, as they stand on disk and in an archive."""
    return text.encode("utf-8", "surrogateescape")


def text(data: bytes) -> str:
    """The path or target that `data` spells; `raw` is its inverse."""
    return data.decode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class Entry:
    """One file, directory or symbolic link of a tree.

    `size` (bytes), `digest` and `executable` belong to files, `target` to links; elsewhere they are 0, "", False, "".
    """

    path: str
    kind: Kind
    executable: bool = False
    size: int = 0
    digest: str = ""
    target: str = ""


@dataclass(frozen=True)
class Tree:
    """The entries of a folder, sorted by the bytes of their paths, whatever order they are given in.

    The root itself is no entry. Every parent of an entry is an entry too, and a directory. `left_out` names what a
    walk found and could not take, as (path, reason); it is no part of the tree: neither equality nor the digest
    sees it. Raises `TreeError` for entries that can be no folder (see `check_path`, `check_link`).
    """

    entries: tuple[Entry, ...] = ()
    left_out: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "entries", tuple(sorted(self.entries, key=lambda entry: raw(entry.path))))
        _check(self.entries)

    @cached_property
    def digest(self) -> str:
        """`sha256:<hex>`, by the format in this module's docstring."""
        seen = hashlib.sha256(b"senro tree 1\n")
        for entry in self.entries:
            seen.update(_line(entry))
        return "sha256:" + seen.hexdigest()

    @cached_property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(entry.size for entry in self.entries)

    @cached_property
    def files(self) -> int:
        """How many entries are files."""
        return sum(entry.kind == "file" for entry in self.entries)


def check_path(path: str) -> None:
    """Raise `TreeError` (rule `path`) unless `path` is a relative path in its shortest form that stays below its root.

    Refused: the empty path, absolute ones, `.`, `..` and empty segments, a trailing slash, NUL, and text that no
    file system can have handed out (lone surrogates that are not escaped bytes).
    """
    if not path:
        raise TreeError(path, "path", "an entry without a name")
    if path.startswith("/"):
        raise TreeError(path, "path", "the name is absolute; it must be relative to the tree")
    if "\0" in path:
        raise TreeError(path, "path", "the name holds a NUL")
    if not path.isascii() and not _is_from_bytes(path):
        raise TreeError(ascii(path), "path", "the name is no text that a file system has")
    if path.startswith(".") or "//" in path or "/." in path or path.endswith("/"):
        segments = path.split("/")
        if ".." in segments:
            raise TreeError(path, "path", "the name has a `..` and may leave the tree")
        if "" in segments or "." in segments:
            raise TreeError(path, "path", "the name has an empty or `.` segment")


def check_link(path: str, target: str, links: Iterable[str] = ()) -> None:
    """Raise `TreeError` (rule `link`) unless the link at `path` points into its tree, or at its root.

    `links` holds the paths of the tree's links (a set). The parents of `path` are directories, so `..` at the front
    of a target goes where it seems to; after a name it does so only if that name is no link, hence that is refused.
    With this rule for every link of a tree, no chain of them leads out. A target that does not exist is fine.
    """
    if not target:
        raise TreeError(path, "link", "the link has no target")
    if "\0" in target:
        raise TreeError(path, "link", "the link's target holds a NUL")
    if target.startswith("/"):
        raise TreeError(path, "link", f"the link is absolute ({target}); make it relative to its folder or exclude it")
    place = path.split("/")[:-1]
    for segment in target.split("/"):
        if segment in {"", "."}:
            continue
        if segment != "..":
            place.append(segment)
            continue
        if not place:
            raise TreeError(path, "link", f"the link leaves the tree ({target}); make it point inside or exclude it")
        if "/".join(place) in links:
            raise TreeError(
                path,
                "link",
                f"the link goes through another link and up again ({target}); point it at its end, or exclude it",
            )
        place.pop()


def _is_from_bytes(path: str) -> bool:
    try:
        return text(raw(path)) == path
    except UnicodeEncodeError:
        return False


def _check(entries: tuple[Entry, ...]) -> None:
    directories = {entry.path for entry in entries if entry.kind == "directory"}
    links = {entry.path for entry in entries if entry.kind == "link"}
    before = None
    for entry in entries:
        path = entry.path
        check_path(path)
        if path == before:
            raise TreeError(path, "duplicate", "the name appears twice")
        before = path
        parent = path.rpartition("/")[0]
        if parent and parent not in directories:
            raise TreeError(path, "parent", f"`{parent}` is not a directory of the tree")
        if entry.kind == "link":
            check_link(path, entry.target, links)


def _line(entry: Entry) -> bytes:
    path = raw(entry.path)
    if entry.kind == "file":
        return b"%b %d:%b %b\n" % (b"X" if entry.executable else b"F", len(path), path, entry.digest.encode())
    if entry.kind == "directory":
        return b"D %d:%b\n" % (len(path), path)
    target = raw(entry.target)
    return b"L %d:%b %d:%b\n" % (len(path), path, len(target), target)
