"""Names in a tree: text and bytes, and the rules that keep a tree inside its folder.

A path is a POSIX path relative to its tree's root. Names are bytes on disk and in an archive; here they are text, and
bytes that are not UTF-8 are kept by `surrogateescape`, as the operating system hands them to Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from senro.domain.errors import TreeError

if TYPE_CHECKING:
    from collections.abc import Container


def raw(text: str) -> bytes:
    """The bytes of a path or a link's target, as they stand on disk and in an archive."""
    return text.encode("utf-8", "surrogateescape")


def text(data: bytes) -> str:
    """The path or target that `data` spells; `raw` is its inverse."""
    return data.decode("utf-8", "surrogateescape")


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


def check_link(path: str, target: str, links: Container[str] = ()) -> None:
    """Raise `TreeError` (rule `link`) unless the link at `path` points into its tree, or at its root.

    `links` holds the paths of the tree's links (a set). The parents of `path` are directories, so `..` at the front
    of a target goes where it seems to; after a name it does so only if that name is no link, hence that is refused.
    With this rule for every link of a tree, no chain of them leads out. A target that does not exist is fine.
    """
    if not target:
        raise TreeError(path, "link", "the link has no target")
    if "\0" in target:
        raise TreeError(path, "link", "the link's target holds a NUL")
    if not target.isascii() and not _is_from_bytes(target):
        raise TreeError(path, "link", "the link's target is no text that a file system has")
    if target.startswith("/"):
        raise TreeError(path, "link", f"the link is absolute ({target}); make it relative to its folder or exclude it")
    if ".." in target:
        _check_upwards(path, target, links)


def _check_upwards(path: str, target: str, links: Container[str]) -> None:
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
