"""`ports.trees.Trees` for the folders of this machine."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from senro.adapters.fs.coding import ratio_of
from senro.adapters.fs.copying import changed_error, create_tree
from senro.adapters.fs.open_directory import OpenDirectory
from senro.adapters.fs.pack import FolderArchive, sample
from senro.adapters.fs.staged_directory import StagedDirectory, discarding
from senro.adapters.fs.unpack import FolderUnpacking
from senro.adapters.fs.walk import prune, read_file, walk
from senro.adapters.fs.work import run_in_slices, tree_errors
from senro.domain.errors import TreeError
from senro.domain.transfer.compression import SAMPLE_BYTES
from senro.domain.tree.content_rules import DEFAULT_RULES, ContentRules
from senro.domain.tree.excludes import compile_excludes
from senro.domain.tree.follow_links import resolve_links

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence

    from senro.domain.transfer.compression import Coding
    from senro.domain.tree.tree import Tree
    from senro.ports.trees import Archive, Packed, Unpacking


class FolderTrees:
    """Walks, packs, unpacks and copies folders. Has no state."""

    async def walk(self, folder: str, *, rules: ContentRules = DEFAULT_RULES) -> Tree:
        """See `ports.trees.Trees.walk`. Raises `PlanError` for an invalid exclude."""
        return await run_in_slices(walk(folder, rules))

    async def prune(self, folder: str, *, rules: ContentRules) -> Tree:
        """See `ports.trees.Trees.prune`."""
        return await run_in_slices(prune(folder, rules))

    async def read(self, folder: str, name: str, *, limit: int) -> bytes | None:
        """See `ports.trees.Trees.read`."""
        return await run_in_slices(read_file(folder, name, limit))

    @asynccontextmanager
    async def pack(
        self, parts: Sequence[Packed], *, sentinel: str = "", coding: Coding = "plain", open_to_all: bool = False
    ) -> AsyncIterator[Archive]:
        """See `ports.trees.Trees.pack`. A `sentinel` needs at least one part."""
        archive = FolderArchive(parts, sentinel, coding=coding, open_to_all=open_to_all)
        async with closing(archive.close):
            yield archive

    async def ratio(self, parts: Sequence[Packed]) -> float:
        """See `ports.trees.Trees.ratio`."""
        return await self.ratio_of(await run_in_slices(sample(parts, SAMPLE_BYTES)))

    async def ratio_of(self, sample: bytes) -> float:
        """See `ports.trees.Trees.ratio_of`."""
        return await anyio.to_thread.run_sync(ratio_of, sample)

    @asynccontextmanager
    async def unpack(
        self, destinations: Mapping[int, str], *, rules: Mapping[int, ContentRules] | None = None
    ) -> AsyncIterator[Unpacking]:
        """See `ports.trees.Trees.unpack`. Creates missing parents of the destinations."""
        unpacking = FolderUnpacking(destinations, rules or {})
        async with closing(unpacking.close):
            await unpacking.begin()
            yield unpacking

    async def copy(self, tree: Tree, source: str, destination: str, *, rules: ContentRules = DEFAULT_RULES) -> Tree:
        """See `ports.trees.Trees.copy`. The destination appears complete, by rename."""
        return await run_in_slices(_copy(tree, source, destination, rules))


@asynccontextmanager
async def closing(close: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Call `close` on every path, shielded from cancellation. Its error becomes a note of one that is being raised."""
    try:
        yield
    except BaseException as error:
        with anyio.CancelScope(shield=True):
            try:
                await close()
            except TreeError as leftover:
                error.add_note(str(leftover))
        raise
    with anyio.CancelScope(shield=True):
        await close()


def _copy(tree: Tree, source: str, destination: str, rules: ContentRules) -> Generator[None, None, Tree]:
    with tree_errors(destination):
        try:
            if next(Path(destination).iterdir(), None) is not None:
                raise TreeError(destination, "destination", "it is not empty, so nothing can be copied there")
        except FileNotFoundError:
            pass
    copies: Mapping[str, str] = {}
    if rules.follow:
        tree, copies = yield from resolve_links(tree, compile_excludes(rules.exclude))
    folder = StagedDirectory(destination)
    with discarding(folder):
        with tree_errors(source):
            root = OpenDirectory(source)
        with root:
            yield from create_tree(folder, tree, root, lambda entry: copies.get(entry.path, entry.path), changed_error)
        folder.swap()
    return tree
