"""Locks between processes, by flock(2): the kernel releases a lock when its holder ends, for whatever reason.

A lock belongs to the open file description: two `FileLock` objects exclude each other within one process too. A holder
never removes the file of its lock, or another process could create and lock a second file of that name.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from senro.domain.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Generator

LOCK_FILE = "lock"
"""The name of a cache's lock file: locked shared to write or restore a snapshot, exclusive to remove some."""

_POLL_SECONDS = 0.02
NO_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS})
"""The errors of file systems without locks."""

_NO_FILE = frozenset({errno.EROFS, errno.EACCES, errno.ENOENT, errno.ENOTDIR})
"""The errors for a lock file in a cache folder that is read-only or does not exist."""


class FileLock:
    """A lock on the file at `path`; `create` says whether to create a missing file. Raises OSError.

    The caller calls `close` on every path.
    """

    def __init__(self, path: Path, *, create: bool = True) -> None:
        self.path = path
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(path, flags | os.O_CREAT if create else flags, 0o600)

    def try_acquire(self, *, exclusive: bool) -> bool:
        """Try once. Returns whether the lock is held now. Raises OSError if the file system has no locks."""
        try:
            fcntl.flock(self._fd, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    @property
    def fd(self) -> int:
        """The descriptor of the file, open for reading and writing."""
        return self._fd

    def release(self) -> None:
        """Release the lock, also if a forked process still has the file open. It may be acquired again."""
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Release the lock and close the file. A second call does nothing."""
        if self._fd >= 0:
            try:
                self.release()
            finally:
                fd, self._fd = self._fd, -1
                os.close(fd)


def lock_shared(root: Path, seconds: float) -> Generator[None, None, FileLock | None]:
    """Acquire the cache's lock, shared. Returns None on a file system that has no locks or is read-only.

    Nothing can be removed from such a cache, since that needs the exclusive lock. Raises `StoreError` after `seconds`.
    """
    try:
        lock = FileLock(root / LOCK_FILE)
    except OSError as error:
        if error.errno in _NO_FILE:
            return None
        raise
    try:
        yield from acquire(lock, seconds, exclusive=False)
    except OSError as error:
        lock.close()
        if error.errno in NO_LOCKS:
            return None
        raise
    except BaseException:
        lock.close()
        raise
    return lock


def acquire(lock: FileLock, seconds: float, *, exclusive: bool) -> Generator[None, None, None]:
    """Acquire the lock. Raises `StoreError` after `seconds`, OSError if the file system has no locks."""
    end = time.monotonic() + seconds
    while not lock.try_acquire(exclusive=exclusive):
        if time.monotonic() >= end:
            raise StoreError(str(lock.path), "another senro process holds this lock; try again when that has ended")
        time.sleep(_POLL_SECONDS)
        yield
