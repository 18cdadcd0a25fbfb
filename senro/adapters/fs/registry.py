"""Registers the runs that use a cache's snapshots: one file each, `<root>/runs/<run id>-<hash of its folder>.json`.

A run writes its file before its first snapshot and locks it until it ends. The file tells where the ledger of the run
is, when the run began (the file's modification time, by the clock of the file system) and whether it still runs.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import ExitStack, asynccontextmanager, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from senro.adapters.fs.copying import write_all
from senro.adapters.fs.locks import NO_LOCKS, FileLock, acquire
from senro.adapters.fs.runs import LEDGER, read_history
from senro.adapters.fs.work import run_in_slices, store_errors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator

    from senro.domain.run.history import History

FOLDER = "runs"

_LOCK_SECONDS = 10.0
"""How long a run waits for the lock of its new file, which another process may test for a moment."""


class _Entry(msgspec.Struct, frozen=True):
    run: str
    folder: str


@dataclass(frozen=True, slots=True)
class RegisteredRun:
    """A run that is registered with the cache.

    `entry`: the path of its file.
    `run`, `folder`: the id and the folder of the run; empty if the file is not written completely.
    `began`: when the run began, by the clock of the file system.
    `running`: whether its process still runs.
    `history`: the content of its ledger; None if the folder does not exist any more.
    """

    entry: Path
    run: str
    folder: str
    began: float
    running: bool
    history: History | None


@asynccontextmanager
async def register_run(root: str, run: str, folder: str) -> AsyncIterator[None]:
    """Register the run, whose folder exists, as running while the context is open. Raises `StoreError`."""
    name = f"{run}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]}.json"
    path = Path(root, FOLDER, name)
    with store_errors(path, "the run cannot be registered: {}; check SENRO_CACHE_DIR"):
        lock = await run_in_slices(_register(path, _Entry(run, folder)))
    with closing(lock):
        yield


def _register(path: Path, entry: _Entry) -> Generator[None, None, FileLock]:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with ExitStack() as stack:
        lock = stack.enter_context(closing(FileLock(path)))
        try:
            # The name is unique to the run: only a process that tests the lock can hold it, for a moment.
            yield from acquire(lock, _LOCK_SECONDS, exclusive=True)
        except OSError as error:
            # On a file system without locks nothing is ever removed from the cache.
            if error.errno not in NO_LOCKS:
                raise
        write_all(lock.fd, msgspec.json.encode(entry))
        os.fsync(lock.fd)
        stack.pop_all()
    return lock


def list_runs(root: Path) -> list[RegisteredRun]:
    """All registered runs. Raises `StoreError` if a ledger exists and cannot be read."""
    try:
        entries = sorted((root / FOLDER).iterdir())
    except FileNotFoundError:
        return []
    return [known for entry in entries if (known := _read_entry(entry)) is not None]


def unregister(known: RegisteredRun) -> None:
    """Remove the file of a run that has ended."""
    with suppress(FileNotFoundError), closing(FileLock(known.entry, create=False)) as lock:
        if lock.try_acquire(exclusive=True):
            known.entry.unlink()


def _read_entry(entry: Path) -> RegisteredRun | None:
    try:
        lock = FileLock(entry, create=False)
    except FileNotFoundError:
        return None  # another process removed it
    with closing(lock):
        running = not lock.try_acquire(exclusive=False)
        began = os.fstat(lock.fd).st_mtime
        data = os.pread(lock.fd, 1 << 16, 0)
    try:
        found = msgspec.json.decode(data, type=_Entry)
    except msgspec.DecodeError:
        # The run is just registering, or was killed while it did; it has no snapshot yet.
        return RegisteredRun(entry, "", "", began, running, None)
    return RegisteredRun(entry, found.run, found.folder, began, running, _read_history(Path(found.folder)))


def _read_history(folder: Path) -> History | None:
    message = "the run's ledger cannot be read, so its snapshots are unknown: {}; make it readable or remove it"
    with store_errors(folder / LEDGER, message), suppress(FileNotFoundError, NotADirectoryError):
        return read_history(folder)
    return None
