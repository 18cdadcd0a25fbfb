"""`ports.ledger.RunLedger` in a folder.

::

    <run-dir>/<utc>-<random>/
        plan.json
        events.jsonl
        logs/<step>/<attempt>.log
        workspaces/<name>        mode 0700
        scratch/<name>           mode 0700, removed when the run ends
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.to_thread

from senro.adapters.fs.copying import sync_data, write_all, write_synced
from senro.adapters.fs.removal import remove_folder
from senro.adapters.fs.runs import LEDGER
from senro.adapters.fs.work import store_errors
from senro.domain.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from datetime import datetime

    from senro.ports.ledger import RunLedger, StepLog

T = TypeVar("T")

_APPEND = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
_TOKEN_LENGTHS = (6, 10, 16)
_CANNOT_WRITE = "it cannot be written: {}; check the folder given by --run-dir"


@asynccontextmanager
async def open_run_folder(run_dir: str, *, now: datetime, token: str) -> AsyncIterator[RunLedger]:
    """Create the folder of a new run below `run_dir`; leaving the context closes its ledger.

    The name of the folder is `now`, in UTC, and as many of the hexadecimal digits of `token` as make it unique. Raises
    `StoreError` if the folder cannot be created.
    """
    folder, events = await _in_thread(
        run_dir, lambda: _make_run_folder(Path(run_dir).absolute(), f"{now:%Y%m%dT%H%M%SZ}", token)
    )
    ledger = FolderLedger(folder, events)
    try:
        yield ledger
    finally:
        with anyio.CancelScope(shield=True):
            await _in_thread(ledger.folder, ledger.close)


class FolderLedger:
    """The folder of one run. Created by `open_run_folder`. `events`: the descriptor of `events.jsonl`."""

    def __init__(self, folder: Path, events: int) -> None:
        self.run_id = folder.name
        self.folder = str(folder)
        self._folder = folder
        self._events = events
        self._length = 0
        self._lock = anyio.Lock()

    async def write_plan(self, document: bytes) -> None:
        """See `ports.ledger.RunLedger.write_plan`. Raises `StoreError` for a second call."""
        path = self._folder / "plan.json"
        await _in_thread(str(path), lambda: _write_once(path, document))

    async def append(self, line: bytes) -> None:
        """See `ports.ledger.RunLedger.append`. A line that could not be written completely is removed again."""
        if b"\n" in line or not line:
            raise ValueError("an event is one line, and not empty")
        async with self._lock:
            await _in_thread(str(self._folder / LEDGER), lambda: self._append(line + b"\n"))

    @asynccontextmanager
    async def open_log(self, step_folder: str, attempt: int) -> AsyncIterator[StepLog]:
        """See `ports.ledger.RunLedger.open_log`. Raises `StoreError` if the log of the attempt exists."""
        path = self._folder / "logs" / _check_name(step_folder) / f"{attempt}.log"
        fd = await _in_thread(str(path), lambda: _open_log(path))
        log = FolderLog(path, fd)
        try:
            yield log
        finally:
            with anyio.CancelScope(shield=True):
                await _in_thread(str(path), log.close)

    def workspace(self, name: str) -> str:
        """See `ports.ledger.RunLedger.workspace`."""
        return str(self._folder / "workspaces" / _check_name(name))

    def scratch(self, name: str) -> str:
        """See `ports.ledger.RunLedger.scratch`. Returns the same folder for the same name."""
        path = self._folder / "scratch" / _check_name(name)
        with store_errors(path, _CANNOT_WRITE):
            path.parent.mkdir(mode=0o700, exist_ok=True)
            path.mkdir(mode=0o700, exist_ok=True)
        return str(path)

    def close(self) -> None:
        """Close the ledger and remove its scratch folders."""
        try:
            for _ in remove_folder(self._folder / "scratch"):
                pass
        finally:
            os.close(self._events)
            self._events = -1

    def _append(self, line: bytes) -> None:
        try:
            write_all(self._events, line)
            sync_data(self._events)
        except OSError:
            # A full disk may have taken a part of the line; the next line must not continue it.
            os.ftruncate(self._events, self._length)
            raise
        self._length += len(line)


class FolderLog:
    """The log of one attempt. Created by `FolderLedger.open_log`."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path = str(path)
        self._fd = fd

    async def write(self, data: bytes) -> None:
        """See `ports.ledger.StepLog.write`. The data is on disk once the log is closed."""
        await _in_thread(self.path, lambda: write_all(self._fd, data))

    def close(self) -> None:
        """Sync the log and close it."""
        fd, self._fd = self._fd, -1
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


async def _in_thread(path: str, work: Callable[[], T]) -> T:
    with store_errors(path, _CANNOT_WRITE):
        return await anyio.to_thread.run_sync(work)


def _make_run_folder(run_dir: Path, moment: str, token: str) -> tuple[Path, int]:
    """Returns the run's new folder, and the descriptor of its events, open for appending."""
    run_dir.mkdir(parents=True, exist_ok=True)
    for length in _TOKEN_LENGTHS:
        folder = run_dir / f"{moment}-{token[:length]}"
        with suppress(FileExistsError):
            folder.mkdir()
            (folder / "logs").mkdir()
            (folder / "workspaces").mkdir(mode=0o700)
            return folder, os.open(folder / LEDGER, _APPEND, 0o644)
    raise StoreError(str(run_dir / f"{moment}-{token}"), "a run of this name exists already; start the run again")


def _write_once(path: Path, document: bytes) -> None:
    temporary = path.with_name(".plan.json.new")
    try:
        write_synced(temporary, document, mode=0o644)
        # Unlike rename(2), link(2) does not replace an existing file.
        os.link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _open_log(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, _APPEND, 0o644)


def _check_name(name: str) -> str:
    if not name or name in {".", ".."} or "/" in name or "\0" in name:
        raise StoreError(name, "this is not the name of a single folder")
    return name
