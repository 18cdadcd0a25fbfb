"""Where a store has its snapshots, and how one is read: `FolderContentStore` keeps them, `FolderCache` drops them."""

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
    """Where the index of a snapshot lies below the store. Raises `ContentLost` for what is no digest."""
    return f"{INDEX}/{_place(digest)}"


def body_path(digest: str) -> str:
    """Where the content of a file lies below the store. Raises `ContentLost` for what is no digest."""
    return f"{BODY}/{_place(digest)}"


def digest_at(path: str) -> str:
    """The digest of what lies there."""
    return "sha256:" + path.rpartition("/")[2]


def read_index(path: Path) -> Tree:
    """The tree of the index there. Raises `ContentLost` where it is missing or damaged, else `StoreError`."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise ContentLost(str(path), "the snapshot is not held here; run the step that makes it again") from None
    except OSError as error:
        raise StoreError(str(path), f"the snapshot cannot be read: {error.strerror}") from error
    if hashlib.sha256(data).hexdigest() != path.name:
        raise ContentLost(str(path), "the snapshot does not match its digest; remove this file and run again")
    try:
        return decode(data, links="keep")  # a tree that was taken, by whatever rules
    except TreeError as error:
        message = f"the snapshot is no tree ({error}); remove this file and run again"
        raise ContentLost(str(path), message) from error


def _place(digest: str) -> str:
    match = _DIGEST.fullmatch(digest)
    if not match:
        raise ContentLost(digest, "this is no digest; a snapshot is named sha256:<64 hexadecimal digits>")
    return f"{match[1][:2]}/{match[1]}"
