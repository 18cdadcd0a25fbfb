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
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import anyio.to_thread
import msgspec

from senro.adapters.fs.copying import write_all
from senro.adapters.fs.locks import FileLock
from senro.adapters.fs.measuring import folder_size
from senro.adapters.fs.removal import remove_folder
from senro.adapters.fs.staged_directory import sibling, siblings
from senro.adapters.fs.work import run_in_slices
from senro.domain.caches.persistent import PersistentRecord
from senro.domain.errors import ConfigurationError, Refusal, StoreError
from senro.ports.persistent import Inspection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence

    from senro.ports.persistent import WorkspaceLock

T = TypeVar("T")

FOLDER = "persistent"
CONTENT, RECORD, HOLDER, LOCK = "content", "record.json", "holder.json", "lock"

_GONE = "gone"
"""The sibling of the content that is being evicted; see `adapters.fs.staged_directory` for the other siblings."""


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
        try:
            lock = await anyio.to_thread.run_sync(_try_lock, folder)
        except OSError as error:
            raise StoreError(
                str(folder), f"the workspace cannot be locked: {error.strerror}; check SENRO_CACHE_DIR"
            ) from error
        if lock is None:
            holder = _describe_holder(folder)
            message = f"{holder} uses it, and only one run at a time may; wait until that ends, or use another name"
            raise ConfigurationError((Refusal(f"workspace {name}", "persistent-held", message),))
        workspace = FolderWorkspaceLock(name, folder, _Holder(os.getpid(), os.uname().nodename, since))
        try:
            await workspace.record_holder("")
            yield workspace
        finally:
            lock.close()

    async def records(self) -> Sequence[PersistentRecord]:
        """See `ports.persistent.PersistentStore.records`."""
        return await self._read(lambda: list(read_records(self._root)))

    async def names_to_repair(self) -> Sequence[str]:
        """See `ports.persistent.PersistentStore.names_to_repair`."""
        return await self._read(lambda: [path.name for path in _folders(self._root) if _needs_repair(path)])

    async def _read(self, work: Callable[[], T]) -> T:
        try:
            return await anyio.to_thread.run_sync(work)
        except OSError as error:
            raise StoreError(str(error.filename or self._root), f"it cannot be read: {error.strerror}") from error


class FolderWorkspaceLock:
    """See `ports.persistent.WorkspaceLock`. Created by `FolderPersistentStore.lock`."""

    def __init__(self, name: str, folder: Path, holder: _Holder) -> None:
        self._name = name
        self._place = folder
        self._content = folder / CONTENT
        self._holder = holder

    @property
    def name(self) -> str:
        """See `ports.persistent.WorkspaceLock.name`."""
        return self._name

    @property
    def folder(self) -> str:
        """See `ports.persistent.WorkspaceLock.folder`."""
        return str(self._content)

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
        try:
            return await anyio.to_thread.run_sync(work)
        except OSError as error:
            raise self._failed(error) from error

    async def _in_slices(self, work: Generator[None, None, T]) -> T:
        try:
            return await run_in_slices(work)
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> StoreError:
        return StoreError(
            str(error.filename or self._place), f"the persistent workspace cannot be used: {error.strerror}"
        )

    def _repair(self) -> Generator[None, None, bool]:
        leftovers, before = siblings(self._content), self._swapped_out()
        if before is not None:
            before.rename(self._content)
        for stem, parts in leftovers.items():
            for part in parts:
                yield from remove_folder(sibling(self._content, stem, part))
        return self._content.exists()

    def _inspect(self) -> Generator[None, None, Inspection]:
        before, leftover = self._swapped_out(), 0
        for stem, parts in siblings(self._content).items():
            for part in parts:
                if (path := sibling(self._content, stem, part)) != before:
                    leftover += yield from folder_size(path)
        content = self._content if before is None else before
        size = (yield from folder_size(content)) if content.exists() else None
        return Inspection(size, leftover)

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
    lock = FileLock(folder / LOCK)
    try:
        if lock.try_acquire(exclusive=True):
            return lock
    except BaseException:
        lock.close()
        raise
    lock.close()
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
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        write_all(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)
    temporary.rename(path)
    parent = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)
