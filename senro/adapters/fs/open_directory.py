"""Opens what lies below one directory without following a link in any part of a path.

`openat(2)` with a path of several names follows links in all but the last. A process that a step left behind may
replace a directory by a link at any time, so each directory is opened by its own name, relative to its parent.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
FOLDER = READ | os.O_DIRECTORY


class OpenDirectory:
    """An open directory, as a context manager. Paths are relative to it and use `/`; the empty path is itself.

    The directory that was used last stays open, since callers go through a tree directory by directory.

    `root`: the descriptor of the directory, open as long as this object is.
    """

    def __init__(self, folder: str | Path) -> None:
        self.root = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
        self._last = ""
        self._fd = self.root

    def __enter__(self) -> Self:
        """Return the object."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close all descriptors."""
        self._use("", self.root)
        os.close(self.root)

    def open(self, path: str, flags: int = READ) -> int:
        """Open the entry at `path`. The caller closes the descriptor. Raises OSError: ELOOP or ENOTDIR for a link."""
        parent, name = self.parent(path)
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)

    def parent(self, path: str) -> tuple[int, str]:
        """The descriptor of the directory that holds the entry, valid until the next call, and the entry's name."""
        directory, _, name = path.rpartition("/")
        return self.directory(directory), name

    def directory(self, path: str) -> int:
        """The descriptor of the directory at `path`, valid until the next call. Raises OSError."""
        if path == self._last:
            return self._fd
        if not (self._last and path.startswith(f"{self._last}/")):
            self._use("", self.root)
        names = path[len(self._last) :].strip("/")
        for name in names.split("/") if names else ():
            below = os.open(name, FOLDER, dir_fd=self._fd)
            self._use(f"{self._last}/{name}" if self._last else name, below)
        return self._fd

    def _use(self, path: str, fd: int) -> None:
        if self._fd != self.root:
            os.close(self._fd)
        self._last, self._fd = path, fd


def replace_fd(before: int, now: int) -> int:
    """Close the descriptor `before` and return `now`."""
    os.close(before)
    return now


def identity(fd: int) -> tuple[int, int]:
    """The device and the inode of an open file."""
    status = os.fstat(fd)
    return status.st_dev, status.st_ino
