"""The paths of snapshots in a store, shared by `FolderContentStore`, which writes them, and `FolderCache`."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from senro.domain.errors import ContentLost, StoreError, TreeError
from senro.domain.tree.tree import decode

if TYPE_CHECKING:
    from pathlib import Path

    from senro.domain.tree.tree import Tree

INDEX, BODY = "index", "body"

_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")


def index_path(digest: str) -> str:
    """The path of a snapshot's index, relative to the store. Raises `ContentLost` for a malformed digest."""
    return f"{INDEX}/{_place(digest)}"


def body_path(digest: str) -> str:
    """The path of a file's content, relative to the store. Raises `ContentLost` for a malformed digest."""
    return f"{BODY}/{_place(digest)}"


def digest_at(path: str) -> str:
    """The digest of the file at a path of `index_path` or `body_path`."""
    return "sha256:" + path.rpartition("/")[2]


def read_index(path: Path) -> Tree:
    """Read the index at `path`. Raises `ContentLost` if it is missing or damaged, `StoreError` if it is unreadable."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise ContentLost(str(path), "the snapshot is not in this store; run the step that made it again") from None
    except OSError as error:
        raise StoreError(str(path), f"the snapshot cannot be read: {error.strerror}") from error
    if hashlib.sha256(data).hexdigest() != path.name:
        raise ContentLost(str(path), "the snapshot does not match its digest; remove this file and run again")
    try:
        return decode(data, links="keep")  # whatever rules the tree was taken by, they held then
    except TreeError as error:
        message = f"the snapshot's index cannot be decoded ({error}); remove this file and run again"
        raise ContentLost(str(path), message) from error


def _place(digest: str) -> str:
    match = _DIGEST.fullmatch(digest)
    if not match:
        raise ContentLost(digest, "this is not a digest; a snapshot is named sha256:<64 hexadecimal digits>")
    return f"{match[1][:2]}/{match[1]}"
