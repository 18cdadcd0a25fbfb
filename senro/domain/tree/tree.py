r"""The content of a folder as a value: sorted entries, and a digest. For paths see `senro.domain.tree.paths`.

The digest of a tree is `sha256:<hex>` of this text, which `encode` writes and `decode` reads::

    senro tree 2\n
    F <size> <digest> <length>:<path>\n      a file that is not executable
    X <size> <digest> <length>:<path>\n      a file that is executable
    D <length>:<path>\n                      a directory
    L <length>:<path> <length>:<target>\n    a symbolic link

with one line per entry, sorted by the bytes of the path. Lengths and sizes are decimal numbers of bytes, so no name can
imitate a line; `<digest>` is the `sha256:<hex>` of the file's content. Modification times, owners and other mode bits
are not included, since they differ between machines with the same files.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Generator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import msgspec

from senro.domain.errors import TreeError
from senro.domain.pipeline.workspace import Links
from senro.domain.tree.paths import check_path, check_target, link_problem, raw, refused_links, text

_HEAD = b"senro tree 2\n"
# At most 18 digits, so that int() is cheap for a damaged file too.
_LINE = re.compile(
    rb"(?:(?P<file>[FX]) (?P<size>\d{1,18}) (?P<digest>sha256:[0-9a-f]{64})|(?P<other>[DL])) (?P<length>\d{1,18}):"
)
_LENGTH = re.compile(rb" (?P<length>\d{1,18}):")
_LINKS_AT_ONCE = 100
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")

Kind = Literal["file", "directory", "link"]
"""The kind of an entry. Sockets, fifos and devices are no entries, since they have no content."""

EXECUTABLE = 0o100
"""The mode bit that makes a file executable: the owner's, as in git."""

_LOST_BITS = ((0o4000, "setuid"), (0o2000, "setgid"), (0o1000, "sticky"))
_LOST = sum(bit for bit, _ in _LOST_BITS)

EMPTY_FILE = "sha256:" + hashlib.sha256().hexdigest()
"""The digest of an empty file."""

LINKS_REMEDY = 'point it inside, exclude it, or carry it as text with Workspace(links="keep")'
"""What a person can do about a refused link."""


# Trees have many thousands. A Struct without gc is made in a tenth of the time of a dataclass, and causes no garbage
# collections.
class Entry(msgspec.Struct, frozen=True, gc=False):
    """A file, directory or link. `executable`, `size` (bytes) and `digest` are of files, `target` is of links."""

    path: str
    kind: Kind
    executable: bool = False
    size: int = 0
    digest: str = ""
    target: str = ""


@dataclass(frozen=True)
class Tree:
    """The entries of a folder. Raises `TreeError` for entries that no folder can have (see `check_path`).

    `entries`: the entries, which are sorted by the bytes of their paths. The root is no entry; the parents of an entry
    are entries.
    `omitted`: what was left out, as printable path and what it is. It does not count for equality and digest.
    `links`: whether links that are absolute or leave the tree (see `link_problem`) raise a `TreeError` that names them.
    """

    entries: tuple[Entry, ...] = ()
    omitted: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    links: Links = field(default="refuse", compare=False, kw_only=True)

    def __post_init__(self) -> None:
        for entry in self.entries:
            check_path(entry.path)
        object.__setattr__(self, "entries", tuple(sorted(self.entries, key=lambda entry: raw(entry.path))))
        _check(self.entries)
        if self.links == "refuse":
            for _ in check_links(self.entries):
                pass

    @cached_property
    def digest(self) -> str:
        """The digest `sha256:<hex>`."""
        return "sha256:" + hashlib.sha256(encode(self)).hexdigest()

    @cached_property
    def size(self) -> int:
        """The size of all files in bytes."""
        return sum(entry.size for entry in self.entries)

    @cached_property
    def files(self) -> int:
        """The number of files."""
        return sum(entry.kind == "file" for entry in self.entries)


def lost_bits(mode: int) -> str:
    """The mode bits of a file that a snapshot does not keep, as text; "" if it has none of them."""
    names = [name for bit, name in _LOST_BITS if mode & bit] if mode & _LOST else ()
    return f"the {' and '.join(names)} bit{'s' if len(names) > 1 else ''}" if names else ""


def encode(tree: Tree) -> bytes:
    """The text whose sha256 is the tree's digest."""
    return b"".join([_HEAD, *map(_line, tree.entries)])


def decode(data: bytes, *, links: Links = "refuse") -> Tree:
    """The tree that `encode` wrote. Raises `TreeError` (rule `index`) for anything else."""
    if not data.startswith(_HEAD):
        raise TreeError("", "index", f"the text does not begin with {_HEAD!r}")
    entries = []
    at = len(_HEAD)
    while at < len(data):
        match = _LINE.match(data, at)
        if not match:
            raise TreeError("", "index", f"no entry at byte {at}")
        entry, at = _read_entry(data, match)
        entries.append(entry)
    tree = Tree(tuple(entries), links=links)
    if encode(tree) != data:
        raise TreeError("", "index", "the entries are not in their one order or form")
    return tree


def _check(entries: tuple[Entry, ...]) -> None:
    directories = {entry.path for entry in entries if entry.kind == "directory"}
    before = None
    for entry in entries:
        path = entry.path
        if path == before:
            raise TreeError(path, "duplicate", "the name appears twice")
        before = path
        parent = path.rpartition("/")[0]
        if parent and parent not in directories:
            raise TreeError(path, "parent", f"`{parent}` is not a directory of the tree")
        if entry.kind == "link":
            check_target(path, entry.target)
        elif entry.kind == "file" and not _DIGEST.fullmatch(entry.digest):
            raise TreeError(path, "digest", f"{entry.digest!r} is no sha256:<64 hexadecimal digits>")


def check_links(entries: tuple[Entry, ...]) -> Generator[None, None, None]:
    """Raises one `TreeError` (rule `link`) that names each link which is absolute or leaves the tree.

    It checks a hundred links between two yields: a long target takes a third of a millisecond, and a pod may leave
    many.
    """
    targets = {entry.path: entry.target for entry in entries if entry.kind == "link"}
    problems = []
    for count, (path, target) in enumerate(targets.items()):
        if problem := link_problem(path, target, targets):
            problems.append((path, problem))
        if count % _LINKS_AT_ONCE == 0:
            yield
    if problems:
        raise refused_links(problems, LINKS_REMEDY)


def _line(entry: Entry) -> bytes:
    path = raw(entry.path)
    if entry.kind == "file":
        letter = b"X" if entry.executable else b"F"
        return b"%b %d %b %d:%b\n" % (letter, entry.size, entry.digest.encode(), len(path), path)
    if entry.kind == "directory":
        return b"D %d:%b\n" % (len(path), path)
    target = raw(entry.target)
    return b"L %d:%b %d:%b\n" % (len(path), path, len(target), target)


def _read_entry(data: bytes, match: re.Match[bytes]) -> tuple[Entry, int]:
    path, at = _read_text(data, match.end(), int(match["length"]))
    if match["file"]:
        size, digest = int(match["size"]), match["digest"].decode()
        entry = Entry(path, "file", executable=match["file"] == b"X", size=size, digest=digest)
    elif match["other"] == b"D":
        entry = Entry(path, "directory")
    else:
        second = _LENGTH.match(data, at)
        if not second:
            raise TreeError(path, "index", f"no link target at byte {at}")
        target, at = _read_text(data, second.end(), int(second["length"]))
        entry = Entry(path, "link", target=target)
    if data[at : at + 1] != b"\n":
        raise TreeError(path, "index", f"the entry does not end at byte {at}")
    return entry, at + 1


def _read_text(data: bytes, start: int, length: int) -> tuple[str, int]:
    end = start + length
    return text(data[start:end]), end
