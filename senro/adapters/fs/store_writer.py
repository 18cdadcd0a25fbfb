"""Adds files to a store in batches: creates them under temporary names, syncs them, then renames them."""

from __future__ import annotations

import os
import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

from senro.adapters.fs.copying import sync_folder

_BATCH = 64
"""Files that are written before they are synced, so that the disk writes them together. Each uses a descriptor until
its batch is published, and macOS allows a process 256."""

_SYNCS = 8
"""Concurrent fsync(2) calls: a disk completes several at once (3,000 files of 6 kB on ext4: 1.3 s one by one, 0.4 s
with eight)."""

STALE_SECONDS = 24 * 3600
"""The age in seconds from which a temporary file counts as left by a killed process."""


class StoreWriter:
    """Writes files of the store whose open folder is `root`, to which paths are relative.

    The caller calls `discard` on every path.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._prefix = "tmp/" + secrets.token_hex(8)
        self._count = 0
        self._open: list[tuple[int, str, str]] = []
        self._threads: ThreadPoolExecutor | None = None

    @property
    def full(self) -> bool:
        """Whether the batch is complete: call `publish`."""
        return len(self._open) >= _BATCH

    def has(self, path: str, size: int) -> bool:
        """Whether the file exists with this size. One of another size is damaged, and a new write replaces it."""
        try:
            return os.stat(path, dir_fd=self._root, follow_symlinks=False).st_size == size
        except FileNotFoundError:
            return False

    def create(self, path: str) -> int:
        """Create the file that `publish` renames to `path`. Returns its descriptor; `publish` or `discard` close it."""
        if not self._count:
            self._make("tmp")
        self._count += 1
        temporary = f"{self._prefix}-{self._count}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(temporary, flags, 0o444, dir_fd=self._root)
        self._open.append((fd, temporary, path))
        if self._count == 1:
            self._remove_stale(os.fstat(fd).st_mtime - STALE_SECONDS)
        return fd

    def publish(self) -> None:
        """Sync the batch, rename its files, then sync their folders."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_SYNCS)
        list(self._threads.map(os.fsync, [fd for fd, _, _ in self._open]))
        folders = {"."}
        while self._open:
            fd, temporary, path = self._open[-1]
            self._make_parents(path, folders)
            os.rename(temporary, path, src_dir_fd=self._root, dst_dir_fd=self._root)
            self._open.pop()
            os.close(fd)
        list(self._threads.map(partial(sync_folder, dir_fd=self._root), sorted(folders)))

    def discard(self) -> None:
        """Remove the files that were not published."""
        for fd, temporary, _ in self._open:
            os.close(fd)
            os.unlink(temporary, dir_fd=self._root)
        self._open.clear()
        if self._threads is not None:
            self._threads.shutdown()

    def _make_parents(self, path: str, known: set[str]) -> None:
        top, folder, _ = path.split("/")
        for parent in (top, f"{top}/{folder}"):
            if parent not in known:
                self._make(parent)
                known.add(parent)

    def _make(self, folder: str) -> None:
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700, dir_fd=self._root)

    def _remove_stale(self, before: float) -> None:
        """Remove temporary files that were last written before this time, by the clock of the file system."""
        fd = os.open("tmp", os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY, dir_fd=self._root)
        try:
            with os.scandir(fd) as listing:
                for item in listing:
                    with suppress(FileNotFoundError):
                        if item.stat(follow_symlinks=False).st_mtime < before:
                            os.unlink(item.name, dir_fd=fd)
        finally:
            os.close(fd)
