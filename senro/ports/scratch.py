"""Entries of scratch caches, and the files that their keys are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from senro.domain.caches.lookup import ScratchEntry
from senro.domain.tree.tree import Tree


class ScratchStore(Protocol):
    """Keeps entries, each under the name of its cache and a key. An entry never changes: the first one saved stays.

    Names and keys are those of a plan that was built: letters, digits and a few signs, never empty. Every call may be
    cancelled. A store on another machine raises `StoreUnavailable` from any of them where it does not answer or does
    not let us: ask it nothing more in this run. What else goes wrong concerns the one entry.
    """

    @property
    def name(self) -> str:
        """What a person knows it by, such as its folder or its URL; never a credential."""
        ...

    @property
    def read_only(self) -> bool:
        """Whether `save` must not be called."""
        ...

    async def find(self, cache: str, key: str) -> ScratchEntry | None:
        """The entry under exactly this key. Nothing is promised of its content before `restore` has checked it.

        Raises `StoreError` where something lies under the key that is no entry, and cannot be replaced by one.
        """
        ...

    async def find_by_prefix(self, cache: str, prefixes: Sequence[str]) -> Sequence[ScratchEntry]:
        """Every entry of the cache whose key begins with one of the prefixes, in any order."""
        ...

    async def restore(self, cache: str, key: str, folder: str) -> Tree:
        """Replace `folder` by the entry: built beside it, verified against its digest, swapped by rename.

        Raises `StoreError` where the entry is gone, or is not what its digest says: try the next one. `TreeError`
        where the folder cannot be written. The folder is then as it was, except after a `TreeError` of rule `leftover`.
        """
        ...

    async def save(self, cache: str, entry: ScratchEntry, tree: Tree, folder: str) -> bool:
        """Keep `tree`, whose files lie in `folder`, as the entry; visible once it is whole.

        False, and nothing is changed, where the key has one already, also if somebody else saved it meanwhile.
        Raises `TreeError` naming a file that is not what the tree says any more, `StoreError` where there is no room.
        """
        ...


class KeyFiles(Protocol):
    """Reads the files that a key's `hash_files` names."""

    async def digests(self, folder: str, patterns: Sequence[str], *, exclude: Sequence[str]) -> Mapping[str, str]:
        """The digest (`sha256:<hex>`) of each file below `folder` that matches one of the patterns, by its path.

        Both lists are in the words of `domain.excludes`; what `exclude` matches is not entered. A symbolic link to a
        file counts as that file, one to a folder is not followed. Raises `TreeError` naming what cannot be read.
        """
        ...
