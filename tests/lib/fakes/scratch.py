"""A `ScratchStore` in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio.lowlevel

from senro.adapters.fs import FolderTrees
from senro.domain.caches.lookup import ScratchEntry
from senro.domain.errors import StoreError
from senro.domain.tree.content_rules import KEEP_EVERYTHING
from senro.domain.tree.tree import Tree
from senro.ports.trees import Packed


@dataclass
class ScratchEntries:
    """The entries that several `FakeScratchStore`s share: an archive for each cache and key."""

    archives: dict[tuple[str, str], tuple[ScratchEntry, Tree, bytes]] = field(default_factory=dict)


class FakeScratchStore:
    """A `ScratchStore` in memory.

    `calls`: the names of all calls.
    `fails`: errors to raise, by the name of the call, one for each call.
    `hangs`: calls that never return.
    `damaged`: keys whose content does not match the entry.
    """

    def __init__(self, entries: ScratchEntries | None = None, *, name: str = "fake", read_only: bool = False) -> None:
        self.entries = entries or ScratchEntries()
        self.name = name
        self.read_only = read_only
        self.fails: dict[str, list[Exception]] = {}
        self.hangs: set[str] = set()
        self.damaged: set[str] = set()
        self.calls: list[str] = []
        self._trees = FolderTrees()

    async def find(self, cache: str, key: str) -> ScratchEntry | None:
        """See `ports.scratch.ScratchStore.find`."""
        await self._begin("find")
        held = self.entries.archives.get((cache, key))
        return held[0] if held else None

    async def find_by_prefix(self, cache: str, prefixes: Sequence[str]) -> Sequence[ScratchEntry]:
        """See `ports.scratch.ScratchStore.find_by_prefix`."""
        await self._begin("find_by_prefix")
        return [
            entry
            for (of, key), (entry, _, _) in self.entries.archives.items()
            if of == cache and key.startswith(tuple(prefixes))
        ]

    async def restore(self, cache: str, key: str, folder: str) -> Tree:
        """See `ports.scratch.ScratchStore.restore`."""
        await self._begin("restore")
        held = self.entries.archives.get((cache, key))
        if held is None:
            raise StoreError(key, "the entry is not there")
        if key in self.damaged:
            raise StoreError(key, "the entry is damaged")
        async with self._trees.unpack({0: folder}, rules={0: KEEP_EVERYTHING}) as unpacking:
            await unpacking.write(held[2])
            tree = (await unpacking.finish())[0]
            await unpacking.replace()
        return tree

    async def save(self, cache: str, entry: ScratchEntry, tree: Tree, folder: str) -> bool:
        """See `ports.scratch.ScratchStore.save`."""
        await self._begin("save")
        if (cache, entry.key) in self.entries.archives:
            return False
        data = b""
        async with self._trees.pack([Packed(0, folder, tree)]) as archive:
            while piece := await archive.read():
                data += piece
        if (cache, entry.key) in self.entries.archives:
            return False
        self.entries.archives[cache, entry.key] = (entry, tree, data)
        return True

    async def _begin(self, call: str) -> None:
        self.calls.append(call)
        await anyio.lowlevel.checkpoint()
        if call in self.hangs:
            await anyio.sleep_forever()
        if self.fails.get(call):
            raise self.fails[call].pop(0)
