"""`ports.content.ContentStore` in a folder.

::

    <root>/index/<aa>/<hex>   a tree as `domain.tree.encode` writes it; its sha256 is its name
    <root>/body/<aa>/<hex>    the content of a file; its sha256 is its name
    <root>/tmp/               what is being written

`<aa>` are the first two digits of `<hex>`. Files are read-only and never change, so any number of processes may share
a store without a lock: two that write the same content rename the same bytes to the same name. A body is on disk
before it is visible, and an index only after all of its bodies, power failures included.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from senro.adapters.fs.beside import Beside
from senro.adapters.fs.copying import copy_checked, fill, write_all
from senro.adapters.fs.work import drive, naming
from senro.domain.errors import StoreError, TreeError
from senro.domain.tree import Entry, Tree, decode, encode

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")

_BATCH = 64
"""Files that are written before the first of them is synced: the disk then writes them together, and a snapshot of
small files takes a fraction of the time. Each holds a descriptor until its batch is done."""

_SYNCS = 8

_FORGOTTEN = 24 * 3600
"""Seconds after which a file in `tmp/` is taken for what a killed process left."""


class FolderContentStore:
    """Snapshots below `root`, which is made with the first one. Blocking work happens in worker threads.

    `put` does not read a file whose content the store holds already: the snapshot is the tree as it was walked, and
    a file that changed since is noticed only where its content would be new.
    """

    def __init__(self, root: str) -> None:
        self._root = Path(root).absolute()

    async def put(self, tree: Tree, folder: str) -> str:
        """See `ports.content.ContentStore.put`."""
        return await drive(self._put(tree, folder))

    async def get(self, digest: str) -> Tree:
        """See `ports.content.ContentStore.get`."""
        return await drive(self._get(digest))

    async def restore(self, digest: str, folder: str) -> Tree:
        """See `ports.content.ContentStore.restore`. Raises `StoreError` naming a body that is missing or damaged."""
        return await drive(self._restore(digest, folder))

    def _put(self, tree: Tree, folder: str) -> Generator[None, None, str]:
        digest = tree.digest
        wanted = {entry.digest: entry for entry in tree.entries if entry.kind == "file"}
        missing = []
        for entry in wanted.values():
            if not self._holds(self._body(entry.digest), entry.size):
                missing.append(entry)
            yield
        writing = _Writing(self._root)
        try:
            with naming(folder):
                source = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
            try:
                for at in range(0, len(missing), _BATCH):
                    for entry in missing[at : at + _BATCH]:
                        target = writing.create(self._body(entry.digest))
                        yield from copy_checked(source, entry.path, target, entry, _changed)
                    yield from writing.publish()
            finally:
                os.close(source)
            index = self._index(digest)
            data = encode(tree)
            if not self._holds(index, len(data)):
                write_all(writing.create(index), data)
                yield from writing.publish()
        except OSError as error:
            raise StoreError(
                str(self._root), f"the snapshot cannot be kept: {error.strerror}; make room or choose another folder"
            ) from error
        finally:
            writing.drop()
        return digest

    def _get(self, digest: str) -> Generator[None, None, Tree]:
        path = self._index(digest)
        yield
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise StoreError(str(path), "the snapshot is not held here; run the step that makes it again") from None
        except OSError as error:
            raise StoreError(str(path), f"the snapshot cannot be read: {error.strerror}") from error
        if hashlib.sha256(data).hexdigest() != path.name:
            raise StoreError(str(path), "the snapshot does not match its digest; remove this file and run again")
        try:
            return decode(data)
        except TreeError as error:
            raise StoreError(str(path), f"the snapshot is no tree ({error}); remove this file and run again") from error

    def _restore(self, digest: str, folder: str) -> Generator[None, None, Tree]:
        tree = yield from self._get(digest)
        beside = Beside(folder)
        try:
            root = os.open(self._root, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
            try:
                yield from fill(beside, tree, root, _body_name, self._damaged)
            finally:
                os.close(root)
            beside.swap()
        finally:
            for _ in beside.discard():
                pass
        return tree

    def _damaged(self, entry: Entry, how: str) -> StoreError:
        return StoreError(
            str(self._body(entry.digest)),
            f"the content of `{entry.path}` is damaged: {how}; remove this file, and the next run that has "
            f"this content writes it again",
        )

    def _body(self, digest: str) -> Path:
        return self._root / "body" / _place(digest)

    def _index(self, digest: str) -> Path:
        return self._root / "index" / _place(digest)

    @staticmethod
    def _holds(path: Path, size: int) -> bool:
        """Whether it is there with the size it should have; another size is a damage that a new write mends."""
        try:
            return path.stat().st_size == size
        except FileNotFoundError:
            return False


class _Writing:
    """Files on their way into the store: created in `tmp/`, then synced and renamed together."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._temporary = root / "tmp"
        self._prefix = secrets.token_hex(8)
        self._count = 0
        self._open: list[tuple[int, Path, Path]] = []

    def create(self, path: Path) -> int:
        """A new file that will be `path`; it is closed by `publish` or `drop`."""
        if not self._count:
            self._temporary.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._count += 1
        temporary = self._temporary / f"{self._prefix}-{self._count}"
        opened = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
        self._open.append((opened, temporary, path))
        if self._count == 1:
            _forget(self._temporary, os.fstat(opened).st_mtime - _FORGOTTEN)
        return opened

    def publish(self) -> Generator[None, None, None]:
        """Sync everything created so far, then make it visible, then sync the folders."""
        # A sync mostly waits, and a disk that is asked for several at once answers several times as fast.
        with ThreadPoolExecutor(_SYNCS) as threads:
            list(threads.map(os.fsync, [opened for opened, _, _ in self._open]))
        yield
        parents = set()
        while self._open:
            opened, temporary, path = self._open[-1]
            if path.parent not in parents:
                path.parent.mkdir(parents=True, exist_ok=True)
            temporary.rename(path)
            self._open.pop()
            os.close(opened)
            parents.add(path.parent)
        _sync_folders({*parents, *(parent.parent for parent in parents), self._root})
        yield

    def drop(self) -> None:
        """Remove what was not published."""
        for opened, temporary, _ in self._open:
            os.close(opened)
            temporary.unlink(missing_ok=True)
        self._open.clear()


def _sync_folders(folders: Iterable[Path]) -> None:
    for folder in sorted(folders):
        opened = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def _forget(folder: Path, before: float) -> None:
    """Remove what was last written before this time, by the clock of the file system itself."""
    for path in folder.iterdir():
        try:
            if path.stat().st_mtime < before:
                path.unlink()
        except FileNotFoundError:
            continue


def _place(digest: str) -> str:
    match = _DIGEST.fullmatch(digest)
    if not match:
        raise StoreError(digest, "this is no digest; a snapshot is named sha256:<64 hexadecimal digits>")
    return f"{match[1][:2]}/{match[1]}"


def _body_name(entry: Entry) -> str:
    return f"body/{_place(entry.digest)}"


def _changed(entry: Entry, how: str) -> TreeError:
    return TreeError(entry.path, "changed", f"the file is not what it was when the folder was walked: {how}")
