"""Restores a snapshot."""

from __future__ import annotations

from senro.domain.errors import TreeError
from senro.domain.tree.tree import Tree
from senro.ports.snapshots import ContentStore


async def restore_snapshot(content: ContentStore, digest: str, folder: str) -> tuple[Tree, str]:
    """Replace the folder by the snapshot. Returns its tree, and which part of the old content could not be removed.

    The second value is "" if all was removed. Raises as `ContentStore.restore` does, with the folder unchanged.
    """
    try:
        return await content.restore(digest, folder), ""
    except TreeError as error:
        if error.rule != "leftover":
            raise
        # The snapshot is in place; only the old content could not be removed completely.
        return await content.get(digest), str(error)
