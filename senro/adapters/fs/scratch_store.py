"""`ports.scratch.ScratchStore` in the cache folder.

::

    <root>/scratch/<cache>/<hex>.json   a `domain.caches.record.ScratchRecord`; `<hex>` is the sha256 of its key
    <root>/index, <root>/body           its content, a snapshot of the content store

A record is written to a temporary file, then linked to its name, which fails if the name exists: it appears complete
and never changes. Its modification time is when the entry was saved or last restored. **A record keeps its snapshot
alive**: the removal of an old entry removes the record first, then the files that no other item uses.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from senro.adapters.fs.copying import write_synced
from senro.adapters.fs.work import store_errors
from senro.domain.caches.lookup import ScratchEntry
from senro.domain.caches.record import FORMAT, LARGEST, ScratchRecord, decode_record, encode_record
from senro.domain.errors import ContentLost, StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from senro.domain.tree.tree import Tree
    from senro.ports.snapshots import ContentStore

FOLDER = "scratch"
"""The folder of the records, relative to the cache folder."""


class FolderScratchStore:
    """The entries of the cache folder `root`, whose content is in `content`. Processes share it without a lock."""

    def __init__(self, root: str, content: ContentStore) -> None:
        self._root = Path(root).absolute() / FOLDER
        self._content = content
        self.name = str(self._root)
        self.read_only = False

    async def find(self, cache: str, key: str) -> ScratchEntry | None:
        """See `ports.scratch.ScratchStore.find`."""
        record = await anyio.to_thread.run_sync(self._read, cache, key)
        return None if record is None else ScratchEntry(record.key, record.created)

    async def find_by_prefix(self, cache: str, prefixes: Sequence[str]) -> Sequence[ScratchEntry]:
        """See `ports.scratch.ScratchStore.find_by_prefix`."""
        records = await anyio.to_thread.run_sync(self._records, cache)
        return [ScratchEntry(one.key, one.created) for one in records if one.key.startswith(tuple(prefixes))]

    async def restore(self, cache: str, key: str, folder: str) -> Tree:
        """See `ports.scratch.ScratchStore.restore`. Removes a record whose content is lost or damaged."""
        record = await anyio.to_thread.run_sync(self._read, cache, key)
        path = self._path(cache, key)
        if record is None:
            raise StoreError(str(path), "the entry does not exist any more")
        # Before the content is read, so that `senro cache gc` does not remove it meanwhile for its age.
        await anyio.to_thread.run_sync(_touch, path)
        try:
            return await self._content.restore(record.tree, folder)
        except ContentLost:
            # Its key could never be saved again.
            await anyio.to_thread.run_sync(_remove, path)
            raise

    async def save(self, cache: str, entry: ScratchEntry, tree: Tree, folder: str) -> bool:
        """See `ports.scratch.ScratchStore.save`."""
        if await self.find(cache, entry.key) is not None:
            return False
        digest = await self._content.put(tree, folder)
        record = ScratchRecord(format=FORMAT, cache=cache, key=entry.key, created=entry.created, tree=digest)
        return await anyio.to_thread.run_sync(self._write, record)

    def _path(self, cache: str, key: str) -> Path:
        # Named by hash: some file systems ignore case, and keys may differ in case only.
        return self._root / cache / f"{hashlib.sha256(key.encode()).hexdigest()}.json"

    def _read(self, cache: str, key: str) -> ScratchRecord | None:
        return read_record(self._path(cache, key), cache, key)

    def _records(self, cache: str) -> list[ScratchRecord]:
        with store_errors(self._root / cache, "it cannot be read: {}"):
            paths = sorted((self._root / cache).glob("*.json"))
        return [record for path in paths if (record := read_record(path, cache, None)) is not None]

    def _write(self, record: ScratchRecord) -> bool:
        path = self._path(record.cache, record.key)
        temporary = path.with_name(f".{secrets.token_hex(8)}")
        with store_errors(path, "the entry cannot be saved: {}; make room or choose another folder"):
            try:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                write_synced(temporary, encode_record(record), mode=0o400)
                if path.exists() and read_record(path, record.cache, record.key) is None:
                    _remove(path)  # it is damaged, and its key could never be saved again
                os.link(temporary, path)
            except FileExistsError:
                return False
            finally:
                _remove(temporary)
        return True


def read_record(path: Path, cache: str, key: str | None) -> ScratchRecord | None:
    """The record at `path`; None if there is none of this cache (and key, if given). Raises `StoreError`."""
    with store_errors(path, "it cannot be read: {}"), suppress(FileNotFoundError), path.open("rb") as file:
        return decode_record(file.read(LARGEST), cache, key)
    return None


def _touch(path: Path) -> None:
    with suppress(OSError):  # the restored content matters more than the time of its use
        os.utime(path)


def _remove(path: Path) -> None:
    with suppress(OSError):  # a damaged record that stays is reported again at its next use
        path.unlink()
