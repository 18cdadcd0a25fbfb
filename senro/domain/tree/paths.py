"""Paths in a tree, and the rules that keep a tree inside its folder.

A path is a POSIX path relative to the tree's root. It is text here, and bytes on disk and in an archive; bytes that are
not UTF-8 become surrogates (`surrogateescape`), as elsewhere in Python.
"""

from __future__ import annotations

import posixpath
from collections.abc import Container, Sequence

from senro.domain.errors import TreeError

MAX_NAME = 4095
"""Bytes of a path or a link's target: Linux' PATH_MAX without the final NUL."""

MAX_PATH = MAX_NAME - len("0/")
"""Bytes of a path in a tree: in an archive it follows the number of its mount."""

NAMED_LINKS = 100
"""How many refused links an error names at most."""

NAMED_CHARACTERS = 16 * 1024
"""In how many characters it does so, the first one not counted."""

SHOWN_CHARACTERS = 200
"""Characters of a path or a target in a message: a pod chooses them, and both may have `MAX_NAME` bytes."""

MAX_LOOKS = 40
"""The number of names after which a link's target may go up again, since each of them is looked up."""


def raw(text: str) -> bytes:
    """The bytes of a path or a target on disk and in an archive."""
    return text.encode("utf-8", "surrogateescape")


def text(data: bytes) -> str:
    """The path or target with these bytes; the inverse of `raw`."""
    return data.decode("utf-8", "surrogateescape")


def shortened(text: str) -> str:
    """The path or target for a message, cut to `SHOWN_CHARACTERS`."""
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."


def check_path(path: str) -> None:
    """Raises `TreeError` (rule `path`) unless `path` is a relative path in its shortest form, below the root.

    Refused are also NUL, and surrogates that are no escaped bytes.
    """
    if not path:
        raise TreeError(path, "path", "an entry without a name")
    if path[0] == "/":
        raise TreeError(path, "path", "the name is absolute; it must be relative to the tree")
    if "\0" in path:
        raise TreeError(path, "path", "the name holds a NUL")
    if not path.isascii() and not _is_from_bytes(path):
        raise TreeError(ascii(path), "path", "the name is no text that a file system has")
    if path[0] == "." or path[-1] == "/" or "//" in path or "/." in path:
        segments = path.split("/")
        if ".." in segments:
            raise TreeError(path, "path", "the name has a `..` and may leave the tree")
        if "" in segments or "." in segments:
            raise TreeError(path, "path", "the name has an empty or `.` segment")


def check_target(path: str, target: str) -> None:
    """Raises `TreeError` (rule `link`) unless the link at `path` can have this target, wherever it leads."""
    if not target:
        raise TreeError(path, "link", "the link has no target")
    if "\0" in target:
        raise TreeError(path, "link", "the link's target holds a NUL")
    if not target.isascii() and not _is_from_bytes(target):
        raise TreeError(path, "link", "the link's target is no text that a file system has")


def link_problem(path: str, target: str, links: Container[str] = ()) -> str:
    """Why the link at `path` is refused; "" if it stays in the tree, whether its target exists or not.

    `links` has the paths of the tree's links. The parents of `path` are directories, so `..` at the beginning of a
    target leads to the parent. A `..` behind a name may lead elsewhere if that name is a link, so this is refused. If
    no link of a tree is refused, no chain of links leads out of it.
    """
    if target.startswith("/"):
        return f"the link is absolute ({shortened(target)})"
    if ".." not in target:
        return ""
    above = path.rpartition("/")[0]
    names: list[str] = []  # the names behind `above`
    known = 0  # how many of them are known to be no links
    looks = 0
    for segment in target.split("/"):
        if segment in {"", "."}:
            continue
        if segment != "..":
            names.append(segment)
        elif names:
            unknown = range(known + 1, len(names) + 1)
            looks += len(unknown)
            if looks > MAX_LOOKS:
                return f"the link goes up again after more than {MAX_LOOKS} names ({shortened(target)})"
            if any(posixpath.join(above, *names[:count]) in links for count in unknown):
                return f"the link goes through another link and up again ({shortened(target)})"
            names.pop()
            known = len(names)
        elif not above:
            return f"the link leaves the tree ({shortened(target)})"
        else:
            above = above.rpartition("/")[0]
    return ""


def refused_links(problems: Sequence[tuple[str, str]], remedy: str) -> TreeError:
    """One error (rule `link`) for the refused links, at least one, as pairs of path and problem.

    It names as many as `NAMED_LINKS` and `NAMED_CHARACTERS` allow, and counts the others.
    """
    (path, first), *others = problems
    words = [first]
    room = NAMED_CHARACTERS
    for other, problem in others[: NAMED_LINKS - 1]:
        named = f"{shortened(other)}: {problem}"
        room -= len(named)
        if room < 0:
            break
        words.append(named)
    if len(problems) > len(words):
        words.append(f"and {len(problems) - len(words)} links more")
    return TreeError(path, "link", "; ".join([*words, remedy]))


def _is_from_bytes(path: str) -> bool:
    try:
        return text(raw(path)) == path
    except UnicodeEncodeError:
        return False
