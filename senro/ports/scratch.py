"""Entries of scratch caches, and the files whose digests are part of their keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from senro.domain.caches.lookup import ScratchEntry
from senro.domain.tree.tree import Tree


class ScratchStore(Protocol):
    """Stores entries by the name of their cache and a key. An entry never changes: the first one saved stays.

    Names and keys come from a built plan: letters, digits and a few signs, never empty. Every call may be cancelled. A
    remote store raises `StoreUnavailable` from any method if it does not answer or denies access; the caller does not
    use it again in this run. Every other error concerns one entry.
    """

    @property
    def name(self) -> str:
        """The folder or the URL of the store, for messages; never a credential."""

    @property
    def read_only(self) -> bool:
        """Whether `save` must not be called."""

    async def find(self, cache: str, key: str) -> ScratchEntry | None:
        """Returns the entry with exactly this key, None if there is none. Only `restore` verifies its content.

        Raises `StoreError` if the key is in use by something that is not an entry and that `save` cannot replace.
        """

    async def find_by_prefix(self, cache: str, prefixes: Sequence[str]) -> Sequence[ScratchEntry]:
        """Returns the entries of the cache whose keys begin with one of the prefixes, in no order."""

    async def restore(self, cache: str, key: str, folder: str) -> Tree:
        """Replace `folder` by the entry: build it in a sibling folder, verify its digest, swap the two by rename.

        Raises `StoreError` if the entry is gone or does not match its digest: the caller tries another entry. Raises
        `TreeError` if the folder cannot be written. `folder` is unchanged then, except after rule `leftover`.
        """

    async def save(self, cache: str, entry: ScratchEntry, tree: Tree, folder: str) -> bool:
        """Store `tree`, whose files are in `folder`, as the entry. It is never visible in part.

        Returns False, with nothing changed, if the key has an entry already. Raises `TreeError` with the name of a
        file that differs from the tree, `StoreError` if there is no space.
        """


class KeyFiles(Protocol):
    """Reads the files that `hash_files` of a key matches."""

    async def digests(self, folder: str, patterns: Sequence[str], *, exclude: Sequence[str]) -> Mapping[str, str]:
        """Returns the digest (`sha256:<hex>`) of each file below `folder` that matches a pattern, by its path.

        Both lists have patterns of `senro.domain.tree.excludes`; folders that `exclude` matches are not read. A
        symbolic link to a file counts as that file; one to a folder is not followed. Raises `TreeError` with the path
        of what cannot be read.
        """
