"""Which runs refer to a cache's snapshots: one file for each, `<root>/runs/<run id>-<hash of its folder>.json`.

A run writes its file before its first snapshot and holds a lock on it until it ends, so whoever has the file knows
where the ledger lies, when the run began (by the clock of the file system: the file's time) and whether it goes on.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from senro.adapters.fs.copying import write_all
from senro.adapters.fs.locks import NO_LOCKS, FileLock, wait_for
from senro.adapters.fs.runs import LEDGER, read_history
from senro.adapters.fs.work import run_in_slices
from senro.domain.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator

    from senro.domain.run.history import History

FOLDER = "runs"

_LONGEST_LOOK = 10.0
"""Seconds."""


class _Registered(msgspec.Struct, frozen=True):
    run: str
    folder: str


@dataclass(frozen=True, slots=True)
class KnownRun:
    """A run that refers to the cache. `began` is by the file system's clock; `lives` while its process does.

    `told` is None for a run of which nothing is to be read any more: its folder is gone.
    """

    entry: Path
    run: str
    folder: str
    began: float
    lives: bool
    told: History | None


@asynccontextmanager
async def register_run(root: str, run: str, folder: str) -> AsyncIterator[None]:
    """Register the run, whose folder is there, and keep it known as one that goes on. Raises `StoreError`."""
    name = f"{run}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]}.json"
    path = Path(root, FOLDER, name)
    try:
        lock = await run_in_slices(_register(path, _Registered(run, folder)))
    except OSError as error:
        raise StoreError(str(path), f"the run cannot be registered: {error.strerror}; check SENRO_CACHE_DIR") from error
    try:
        yield
    finally:
        lock.close()


def _register(path: Path, entry: _Registered) -> Generator[None, None, FileLock]:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        try:
            # Its name holds the run's id, so nobody has it but who looks, for a moment, whether it is locked.
            yield from wait_for(lock, _LONGEST_LOOK, exclusive=True)
        except OSError as error:
            # Where there are no locks, nothing is ever dropped.
            if error.errno not in NO_LOCKS:
                raise
        write_all(lock.opened, msgspec.json.encode(entry))
        os.fsync(lock.opened)
    except BaseException:
        lock.close()
        raise
    return lock


def known_runs(root: Path) -> list[KnownRun]:
    """Every run that is registered. Raises `StoreError` where a ledger is there and cannot be read."""
    try:
        entries = sorted((root / FOLDER).iterdir())
    except FileNotFoundError:
        return []
    return [known for entry in entries if (known := _known(entry)) is not None]


def forget(known: KnownRun) -> None:
    """Remove the entry of a run that has ended."""
    with suppress(FileNotFoundError):
        lock = FileLock(known.entry, create=False)
        try:
            if lock.take(exclusive=True):
                known.entry.unlink()
        finally:
            lock.close()


def _known(entry: Path) -> KnownRun | None:
    try:
        lock = FileLock(entry, create=False)
    except FileNotFoundError:
        return None  # somebody else removed it
    try:
        lives = not lock.take(exclusive=False)
        began = os.fstat(lock.opened).st_mtime
        data = os.pread(lock.opened, 1 << 16, 0)
    finally:
        lock.close()
    try:
        found = msgspec.json.decode(data, type=_Registered)
    except msgspec.DecodeError:
        # It registers at this moment, or was killed as it did: it has no snapshot yet.
        return KnownRun(entry, "", "", began, lives, None)
    return KnownRun(entry, found.run, found.folder, began, lives, _told(Path(found.folder)))


def _told(folder: Path) -> History | None:
    try:
        return read_history(folder)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreError(
            str(folder / LEDGER),
            f"what the run still needs cannot be read: {error.strerror}; make it readable, or remove it",
        ) from error
