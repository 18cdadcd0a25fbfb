"""`ports.snapshots.ContentStore` in a folder.

::

    <root>/index/<aa>/<hex>   a tree, as `domain.tree.tree.encode` writes it; named by its sha256
    <root>/body/<aa>/<hex>    the content of a file; named by its sha256
    <root>/tmp/               files that are being written
    <root>/lock               locked shared to write or restore, exclusive to remove (`adapters.fs.locks`)

`<aa>` are the first two digits of `<hex>`. Files are read-only and never change, so processes may write at the same
time: two that write the same content rename equal files to the same name. A body is synced to disk before it is
visible, and an index becomes visible after all of its bodies.

The modification time of an index is when the snapshot was last put or restored; `senro cache gc` removes by it. The
lock keeps it from removing files that a `put` has found to exist.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from senro.adapters.fs.copying import changed_error, copy_checked, create_tree, write_all
from senro.adapters.fs.layout import body_path, index_path, read_index
from senro.adapters.fs.locks import lock_shared
from senro.adapters.fs.open_directory import OpenDirectory
from senro.adapters.fs.staged_directory import StagedDirectory, discarding
from senro.adapters.fs.store_writer import StoreWriter
from senro.adapters.fs.work import run_in_slices, store_errors, tree_errors
from senro.domain.errors import ContentLost
from senro.domain.tree.tree import encode

if TYPE_CHECKING:
    from collections.abc import Generator

    from senro.domain.tree.tree import Entry, Tree

_LOCK_SECONDS = 600.0
"""Seconds to wait for `senro cache gc`, which holds the lock while it reads indexes and removes files."""


class FolderContentStore:
    """Snapshots below `root`, which the first `put` creates. Blocking work runs in worker threads.

    `put` does not read a file whose content is in the store already. The snapshot is the tree as it was walked; a file
    that changed since is noticed only if its content has to be stored.
    """

    def __init__(self, root: str) -> None:
        self._root = Path(root).absolute()

    async def put(self, tree: Tree, folder: str) -> str:
        """See `ports.snapshots.ContentStore.put`."""
        return await run_in_slices(self._put(tree, folder))

    async def get(self, digest: str) -> Tree:
        """See `ports.snapshots.ContentStore.get`."""
        return await run_in_slices(self._get(digest))

    async def restore(self, digest: str, folder: str) -> Tree:
        """See `ports.snapshots.ContentStore.restore`. `ContentLost` names the missing or damaged body."""
        return await run_in_slices(self._restore(digest, folder))

    def _put(self, tree: Tree, folder: str) -> Generator[None, None, str]:
        message = "the snapshot cannot be stored: {}; make room or choose another folder"
        with store_errors(self._root, message), ExitStack() as stack:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            root = stack.enter_context(OpenDirectory(self._root)).root
            stack.enter_context((yield from lock_shared(self._root, _LOCK_SECONDS)))
            writer = StoreWriter(root)
            stack.callback(writer.discard)
            yield from _put_bodies(writer, tree, folder)
            index = index_path(tree.digest)
            data = encode(tree)
            if writer.has(index, len(data)):
                os.utime(index, dir_fd=root)
            else:
                write_all(writer.create(index), data)
                writer.publish()
        return tree.digest

    def _get(self, digest: str) -> Generator[None, None, Tree]:
        path = self._root / index_path(digest)
        yield
        return read_index(path)

    def _restore(self, digest: str, folder: str) -> Generator[None, None, Tree]:
        with tree_errors(str(self._root)):
            lock = yield from lock_shared(self._root, _LOCK_SECONDS)
        with lock:
            tree = yield from self._get(digest)
            yield from self._fill(tree, folder)
        return tree

    def _fill(self, tree: Tree, folder: str) -> Generator[None, None, None]:
        staged = StagedDirectory(folder)
        with discarding(staged):
            with tree_errors(str(self._root)):
                root = OpenDirectory(self._root)
            with root:
                yield from create_tree(staged, tree, root, _body, self._damaged)
                with suppress(OSError):  # the store may be read-only
                    os.utime(index_path(tree.digest), dir_fd=root.root)
            staged.swap()

    def _damaged(self, entry: Entry, how: str) -> ContentLost:
        return ContentLost(
            f"{self._root}/{_body(entry)}",
            f"the content of `{entry.path}` is damaged: {how}; remove this file, and the next run with this "
            f"content stores it again",
        )


def _put_bodies(writer: StoreWriter, tree: Tree, folder: str) -> Generator[None, None, None]:
    missing = {}
    for entry in tree.entries:
        if entry.kind == "file" and entry.digest not in missing and not writer.has(_body(entry), entry.size):
            missing[entry.digest] = entry
        yield
    if not missing:
        return
    with tree_errors(folder):
        source = OpenDirectory(folder)
    with source:
        for entry in missing.values():
            target = writer.create(_body(entry))
            yield from copy_checked(source, entry.path, target, entry, changed_error)
            if writer.full:
                writer.publish()
        writer.publish()


def _body(entry: Entry) -> str:
    return body_path(entry.digest)
