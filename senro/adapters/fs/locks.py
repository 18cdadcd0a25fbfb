"""Locks between processes, by flock(2): the kernel gives one back when its holder ends, however that happens.

A lock belongs to the open file, so two that are opened in one process keep each other out as two processes do. The
files of locks are never removed by whoever locks them: of two names for two files, both would be held.
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
"""The name of a cache's lock: shared while a snapshot is written or restored, exclusive while some are dropped."""

_POLL_SECONDS = 0.02
NO_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS})
"""What a file system says that has no locks."""

_NO_FILE = frozenset({errno.EROFS, errno.EACCES, errno.ENOENT, errno.ENOTDIR})
"""What is said of a lock's file that cannot be made: by a cache that one may only read, or that is not there."""


class FileLock:
    """A lock on the file at `path`, which `create` makes where it is missing. Raises OSError. `close` it always."""

    def __init__(self, path: Path, *, create: bool = True) -> None:
        self.path = path
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(path, flags | os.O_CREAT if create else flags, 0o600)

    def try_acquire(self, *, exclusive: bool) -> bool:
        """Take it without waiting; False where another has it. Raises OSError where there are no locks."""
        try:
            fcntl.flock(self._fd, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    @property
    def fd(self) -> int:
        """The open file, to read and write."""
        return self._fd

    def release(self) -> None:
        """Give it back, also where a process that was forked meanwhile still has the file. `take` may come again."""
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give it back for good; a second call is nothing."""
        if self._fd >= 0:
            try:
                self.release()
            finally:
                fd, self._fd = self._fd, -1
                os.close(fd)


def lock_shared(root: Path, seconds: float) -> Generator[None, None, FileLock | None]:
    """The cache's lock, shared, after at most `seconds`. None where its file system has no locks, or is read-only.

    Without a lock nothing can be dropped there either: that needs the exclusive one. Raises `StoreError`.
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
    """Take the lock, trying for at most `seconds`. Raises `StoreError` after that, OSError where there are no locks."""
    end = time.monotonic() + seconds
    while not lock.try_acquire(exclusive=exclusive):
        if time.monotonic() >= end:
            raise StoreError(
                str(lock.path), "another senro has had this lock for too long; try again when that has ended"
            )
        time.sleep(_POLL_SECONDS)
        yield
