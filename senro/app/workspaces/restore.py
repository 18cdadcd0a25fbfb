"""A snapshot in the place of a folder, whoever asks for it."""

from __future__ import annotations

from senro.domain.errors import TreeError
from senro.domain.tree.tree import Tree
from senro.ports.snapshots import ContentStore


async def restore_snapshot(content: ContentStore, digest: str, folder: str) -> tuple[Tree, str]:
    """The snapshot's tree, once it is there, and what of the folder before could not be removed; "" for nothing.

    Raises as `ContentStore.restore` does, with the folder as it was.
    """
    try:
        return await content.restore(digest, folder), ""
    except TreeError as error:
        if error.rule != "leftover":
            raise
        # The snapshot is in place; only what was there before could not be removed.
        return await content.get(digest), str(error)
