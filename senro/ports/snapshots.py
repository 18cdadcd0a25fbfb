"""Snapshots of workspaces, by digest."""

from __future__ import annotations

from typing import Protocol

from senro.domain.tree.tree import Tree


class ContentStore(Protocol):
    """Stores snapshots. Each has an index, which names the bodies of its files.

    Files are written elsewhere, verified, and renamed into place: no incomplete snapshot is ever visible. What is
    stored already is not written again.
    """

    async def put(self, tree: Tree, folder: str) -> str:
        """Store `tree`, whose files are in `folder`. Returns its digest, `sha256:<hex>`.

        Raises `TreeError` with the name of a file that differs from the tree.
        """

    async def get(self, digest: str) -> Tree:
        """Returns the index of a snapshot.

        Raises `ContentLost` if it is missing or does not match its digest, `StoreError` if the store cannot be read.
        """

    async def restore(self, digest: str, folder: str) -> Tree:
        """Replace `folder` by the snapshot: build it in a sibling folder, verify it, swap the two by rename.

        Raises as `get` does; also `ContentLost` if the body of a file is missing or damaged, and `TreeError` if the
        folder cannot be written. `folder` is unchanged then, except after a `TreeError` of rule `leftover`.
        """
