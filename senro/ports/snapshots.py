"""Snapshots of workspaces, kept by digest."""

from __future__ import annotations

from typing import Protocol

from senro.domain.tree.tree import Tree


class ContentStore(Protocol):
    """Keeps snapshots: an index each, and the bodies that it names.

    Each is written aside, verified, then renamed into place: nothing is visible before it is whole, and what is there
    already is not written again.
    """

    async def put(self, tree: Tree, folder: str) -> str:
        """Keep `tree`, whose files lie in `folder`; returns its digest, `sha256:<hex>`.

        Raises `TreeError` naming the file if one is not what the tree says any more.
        """
        ...

    async def get(self, digest: str) -> Tree:
        """The index of a snapshot. Raises `ContentLost` where it is not held, or does not match its digest.

        `StoreError` where the store cannot be read just now.
        """
        ...

    async def restore(self, digest: str, folder: str) -> Tree:
        """Replace `folder` by the snapshot: built beside it, verified, swapped by rename.

        Raises as `get` does, `ContentLost` also for a content that is missing or damaged, `TreeError` where the folder
        cannot be written. It is then as it was, except after a `TreeError` of rule `leftover`.
        """
        ...
