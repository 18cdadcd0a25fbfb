"""Locks between processes, by flock(2): the kernel releases a lock when its holder ends, for whatever reason.

A lock belongs to the open file description: two `FileLock` objects exclude each other within one process too. A holder
never removes the file of its lock, or another process could create and lock a second file of that name.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from contextlib import ExitStack, closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from senro.domain.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Generator
    from contextlib import AbstractContextManager

LOCK_FILE = "lock"
"""The name of a cache's lock file: locked shared to write or restore a snapshot, exclusive to remove some."""

_POLL_SECONDS = 0.02
NO_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS})
"""The errors of file systems without locks."""

_NO_FILE = frozenset({errno.EROFS, errno.EACCES, errno.ENOENT, errno.ENOTDIR})
"""The errors for a lock file in a cache folder that is read-only or does not exist."""


class FileLock:
    """A lock on the file at `path`; `create` says whether to create a missing file. Raises OSError.

    The caller calls `close` on every path. `fd`: the descriptor of the file, open for reading and writing.
    """

    def __init__(self, path: Path, *, create: bool = True) -> None:
        self.path = path
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        self.fd = os.open(path, flags | os.O_CREAT if create else flags, 0o600)

    def try_acquire(self, *, exclusive: bool) -> bool:
        """Try once. Returns whether the lock is held now. Raises OSError if the file system has no locks."""
        try:
            fcntl.flock(self.fd, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Release the lock, also if a forked process still has the file open. It may be acquired again."""
        fcntl.flock(self.fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Release the lock and close the file. A second call does nothing."""
        if self.fd >= 0:
            try:
                self.release()
            finally:
                fd, self.fd = self.fd, -1
                os.close(fd)


def lock_shared(root: Path, seconds: float) -> Generator[None, None, AbstractContextManager[object]]:
    """Acquire the cache's lock, shared. Returns a context that releases it. Raises `StoreError` after `seconds`.

    On a file system that has no locks or is read-only, nothing is locked: nothing can be removed there, since that
    needs the exclusive lock.
    """
    with ExitStack() as stack:
        try:
            lock = stack.enter_context(closing(FileLock(root / LOCK_FILE)))
            yield from acquire(lock, seconds, exclusive=False)
        except OSError as error:
            if error.errno not in _NO_FILE | NO_LOCKS:
                raise
            return nullcontext()
        return stack.pop_all()


def acquire(lock: FileLock, seconds: float, *, exclusive: bool) -> Generator[None, None, None]:
    """Acquire the lock. Raises `StoreError` after `seconds`, OSError if the file system has no locks."""
    end = time.monotonic() + seconds
    while not lock.try_acquire(exclusive=exclusive):
        if time.monotonic() >= end:
            raise StoreError(str(lock.path), "another senro process holds this lock; try again when that has ended")
        time.sleep(_POLL_SECONDS)
        yield
