"""Names in a tree: text and bytes, and the rules that keep a tree inside its folder.

A path is a POSIX path relative to its tree's root. Names are bytes on disk and in an archive; here they are text, and
bytes that are not UTF-8 are kept by `surrogateescape`, as the operating system hands them to Python.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from senro.domain.errors import TreeError

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

MAX_NAME = 4095
"""Bytes of a name or a target: Linux' PATH_MAX without the final NUL."""

MAX_PATH = MAX_NAME - len("0/")
"""Bytes of a path in a tree: it travels behind the number of its mount."""

NAMED_LINKS = 100
"""How many refused links one error names at most; it says how many more there are."""

NAMED_CHARACTERS = 16 * 1024
"""In how many characters it does so, the first one not counted."""

SHOWN_CHARACTERS = 200
"""Characters of a path or a target within a sentence: either may have `MAX_NAME`, and a pod chooses them."""

MAX_LOOKS = 40
"""After how many names the target of a link that may not leave its tree may go up again: each is looked at."""


def raw(text: str) -> bytes:
    """The bytes of a path or a link's target, as they stand on disk and in an archive."""
    return text.encode("utf-8", "surrogateescape")


def text(data: bytes) -> str:
    """The path or target that `data` spells; `raw` is its inverse."""
    return data.decode("utf-8", "surrogateescape")


def shortened(text: str) -> str:
    """The path or target as a sentence shows it: at most `SHOWN_CHARACTERS`, and dots in place of the rest."""
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."


def check_path(path: str) -> None:
    """Raise `TreeError` (rule `path`) unless `path` is a relative path in its shortest form that stays below its root.

    Refused: the empty path, absolute ones, `.`, `..` and empty segments, a trailing slash, NUL, and text that no
    file system can have handed out (lone surrogates that are not escaped bytes).
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
    """Raise `TreeError` (rule `link`) unless `target` is text that the link at `path` can hold, wherever it leads."""
    if not target:
        raise TreeError(path, "link", "the link has no target")
    if "\0" in target:
        raise TreeError(path, "link", "the link's target holds a NUL")
    if not target.isascii() and not _is_from_bytes(target):
        raise TreeError(path, "link", "the link's target is no text that a file system has")


def link_problem(path: str, target: str, links: Container[str] = ()) -> str:
    """What keeps the link at `path` from its tree, in words; "" for one that points into the tree, or at its root.

    `links` holds the paths of the tree's links. The parents of `path` are directories, so `..` at the front
    of a target goes where it seems to; after names it does so only if none of them is a link, hence that is a problem:
    what follows a link lies elsewhere, and may be a link there. Where no link of a tree has one, no chain of them leads
    out. A target that does not exist is fine.
    """
    if target.startswith("/"):
        return f"the link is absolute ({shortened(target)})"
    if ".." not in target:
        return ""
    above = path.rpartition("/")[0]
    names: list[str] = []  # what follows `above`
    known = 0  # so many of them are no links
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
    """One error (rule `link`) for links, at least one, given as (path, what is wrong with it): each is named.

    Of very many, or very long ones, as many as `NAMED_LINKS` and `NAMED_CHARACTERS` let; the others are counted.
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
