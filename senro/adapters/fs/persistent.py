"""`ports.persistent` in the cache folder.

::

    <root>/persistent/<name>/content       the files of the workspace
    <root>/persistent/<name>/record.json   a `domain.caches.persistent.PersistentRecord`
    <root>/persistent/<name>/holder.json   a `_Holder`
    <root>/persistent/<name>/lock          locked while a run uses the workspace

The name of a workspace is a DNS-1123 label, which is lower case: file systems that ignore case distinguish them too.
"""

from __future__ import annotations

import os
import secrets
from contextlib import ExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import anyio.to_thread
import msgspec

from senro.adapters.fs.copying import sync_folder, write_synced
from senro.adapters.fs.locks import FileLock
from senro.adapters.fs.measuring import folder_size
from senro.adapters.fs.removal import remove_folder
from senro.adapters.fs.staged_directory import sibling, siblings
from senro.adapters.fs.work import run_in_slices, store_errors
from senro.domain.caches.persistent import PersistentRecord
from senro.domain.errors import ConfigurationError, Refusal
from senro.ports.persistent import Inspection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence

    from senro.ports.persistent import WorkspaceLock

T = TypeVar("T")

FOLDER = "persistent"
CONTENT, RECORD, HOLDER, LOCK = "content", "record.json", "holder.json", "lock"

_GONE = "gone"
"""The sibling of the content that is being evicted; see `adapters.fs.staged_directory` for the other siblings."""


_CANNOT_USE = "the persistent workspace cannot be used: {}"


class _Holder(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which process holds the lock, since when, and for which run; `run` is empty before the run has an id."""

    pid: int
    host: str
    since: str
    run: str = ""


class FolderPersistentStore:
    """Persistent workspaces below the cache folder `root`."""

    def __init__(self, root: str) -> None:
        self._root = Path(root).absolute()

    @asynccontextmanager
    async def lock(self, name: str, *, since: str) -> AsyncIterator[WorkspaceLock]:
        """See `ports.persistent.PersistentStore.lock`. Raises `StoreError` if the folder cannot be locked."""
        folder = self._root / FOLDER / name
        with store_errors(folder, "the workspace cannot be locked: {}; check SENRO_CACHE_DIR"):
            lock = await anyio.to_thread.run_sync(_try_lock, folder)
        if lock is None:
            holder = _describe_holder(folder)
            message = f"{holder} uses it, and only one run at a time may; wait until that ends, or use another name"
            raise ConfigurationError((Refusal(f"workspace {name}", "persistent-held", message),))
        workspace = FolderWorkspaceLock(name, folder, _Holder(os.getpid(), os.uname().nodename, since))
        with closing(lock):
            await workspace.record_holder("")
            yield workspace

    async def records(self) -> Sequence[PersistentRecord]:
        """See `ports.persistent.PersistentStore.records`."""
        return await self._read(lambda: list(read_records(self._root)))

    async def names_to_repair(self) -> Sequence[str]:
        """See `ports.persistent.PersistentStore.names_to_repair`."""
        return await self._read(lambda: [path.name for path in _folders(self._root) if _needs_repair(path)])

    async def _read(self, work: Callable[[], T]) -> T:
        with store_errors(self._root, "it cannot be read: {}", name_file=True):
            return await anyio.to_thread.run_sync(work)


class FolderWorkspaceLock:
    """See `ports.persistent.WorkspaceLock`. Created by `FolderPersistentStore.lock`."""

    def __init__(self, name: str, folder: Path, holder: _Holder) -> None:
        self.name = name
        self._place = folder
        self._content = folder / CONTENT
        self.folder = str(self._content)
        self._holder = holder

    async def record_holder(self, run: str) -> None:
        """See `ports.persistent.WorkspaceLock.record_holder`."""
        data = msgspec.json.encode(msgspec.structs.replace(self._holder, run=run))
        await self._in_thread(lambda: _replace(self._place / HOLDER, data))

    async def repair(self) -> bool:
        """See `ports.persistent.WorkspaceLock.repair`."""
        return await self._in_slices(self._repair())

    async def inspect(self) -> Inspection:
        """See `ports.persistent.WorkspaceLock.inspect`."""
        return await self._in_slices(self._inspect())

    async def record(self) -> PersistentRecord | None:
        """See `ports.persistent.WorkspaceLock.record`."""
        return await self._in_thread(lambda: _record(self._place))

    async def write(self, record: PersistentRecord) -> None:
        """See `ports.persistent.WorkspaceLock.write`."""
        await self._in_thread(lambda: _replace(self._place / RECORD, msgspec.json.encode(record)))

    async def measure(self) -> int:
        """See `ports.persistent.WorkspaceLock.measure`."""
        return await self._in_slices(folder_size(self._content))

    async def evict(self) -> None:
        """See `ports.persistent.WorkspaceLock.evict`. `repair` completes an eviction that was interrupted."""
        await self._in_slices(self._evict())

    async def _in_thread(self, work: Callable[[], T]) -> T:
        with store_errors(self._place, _CANNOT_USE, name_file=True):
            return await anyio.to_thread.run_sync(work)

    async def _in_slices(self, work: Generator[None, None, T]) -> T:
        with store_errors(self._place, _CANNOT_USE, name_file=True):
            return await run_in_slices(work)

    def _repair(self) -> Generator[None, None, bool]:
        before = self._swapped_out()
        if before is not None:
            before.rename(self._content)
        for path in self._siblings():
            yield from remove_folder(path)
        return self._content.exists()

    def _inspect(self) -> Generator[None, None, Inspection]:
        before, leftover = self._swapped_out(), 0
        for path in self._siblings():
            if path != before:
                leftover += yield from folder_size(path)
        content = self._content if before is None else before
        size = (yield from folder_size(content)) if content.exists() else None
        return Inspection(size, leftover)

    def _siblings(self) -> list[Path]:
        found = siblings(self._content)
        return [sibling(self._content, stem, part) for stem, parts in found.items() for part in parts]

    def _swapped_out(self) -> Path | None:
        """The sibling with the content, if a process was killed between the two renames of a swap."""
        if not self._content.exists():
            for stem, parts in siblings(self._content).items():
                if {"new", "old"} <= parts:
                    return sibling(self._content, stem, "old")
        return None

    def _evict(self) -> Generator[None, None, None]:
        gone = sibling(self._content, secrets.token_hex(6), _GONE)
        if self._content.exists():
            self._content.rename(gone)
        (self._place / RECORD).unlink(missing_ok=True)
        yield from remove_folder(gone)


def read_records(root: Path) -> Iterator[PersistentRecord]:
    """The records of the persistent workspaces of a cache folder. Raises OSError."""
    for folder in _folders(root):
        record = _record(folder)
        if record is not None:
            yield record


def _folders(root: Path) -> list[Path]:
    try:
        return sorted(path for path in (root / FOLDER).iterdir() if path.is_dir())
    except FileNotFoundError:
        return []


def _needs_repair(folder: Path) -> bool:
    try:
        left = bool(siblings(folder / CONTENT))
    except OSError:
        return False  # not readable by this user
    return left or ((folder / RECORD).exists() and not (folder / CONTENT).exists())


def _try_lock(folder: Path) -> FileLock | None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with ExitStack() as stack:
        lock = stack.enter_context(closing(FileLock(folder / LOCK)))
        if lock.try_acquire(exclusive=True):
            stack.pop_all()
            return lock
    return None


def _describe_holder(folder: Path) -> str:
    try:
        holder = msgspec.json.decode((folder / HOLDER).read_bytes(), type=_Holder)
    except (OSError, msgspec.DecodeError):
        return "another run, which is starting,"
    run = f"the run {holder.run}" if holder.run else "a run that is starting"
    return f"{run} (process {holder.pid} on {holder.host}, since {holder.since})"


def _record(folder: Path) -> PersistentRecord | None:
    try:
        return msgspec.json.decode((folder / RECORD).read_bytes(), type=PersistentRecord)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(f"{path.name}.new")  # a fixed name: the writer holds the lock
    write_synced(temporary, data, mode=0o600)
    temporary.rename(path)
    sync_folder(path.parent)
