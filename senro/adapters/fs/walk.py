"""A folder of this machine as a tree."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from typing import TYPE_CHECKING

from senro.adapters.fs.work import PIECE, io_error
from senro.domain.errors import TreeError
from senro.domain.excludes import compile_excludes
from senro.domain.paths import check_link
from senro.domain.printable import printable
from senro.domain.tree import EXECUTABLE, Entry, Tree

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from senro.domain.excludes import Excludes

_SPECIAL = {
    stat.S_IFIFO: "a fifo",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW


def walk(folder: str, exclude: Sequence[str]) -> Generator[None, None, Tree]:
    """See `ports.trees.Trees.walk`. Yields after each file, and within a large one after each piece."""
    excludes = compile_excludes(exclude)
    try:
        root = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    except OSError as error:
        raise io_error(folder, error) from error
    try:
        entries: list[Entry] = []
        left_out: list[tuple[str, str]] = []
        waiting = [""]
        while waiting:
            directory = waiting.pop()
            for path, status in _list(root, directory, excludes):
                mode = status.st_mode
                if stat.S_ISDIR(mode):
                    entries.append(Entry(path, "directory"))
                    waiting.append(path)
                elif stat.S_ISREG(mode):
                    digest = yield from _hash(root, path, status)
                    executable = bool(mode & EXECUTABLE)
                    entries.append(Entry(path, "file", executable=executable, size=status.st_size, digest=digest))
                elif stat.S_ISLNK(mode):
                    entries.append(_link(root, path))
                else:
                    left_out.append((printable(path), _SPECIAL.get(stat.S_IFMT(mode), "of a kind that cannot travel")))
                yield
        return Tree(tuple(entries), left_out=tuple(sorted(left_out)))
    finally:
        os.close(root)


def _list(root: int, directory: str, excludes: Excludes) -> list[tuple[str, os.stat_result]]:
    """What lies in the directory and is not excluded. A name that vanishes meanwhile is not there."""
    found = []
    try:
        opened = os.open(directory or ".", _READ | os.O_DIRECTORY, dir_fd=root)
        try:
            with os.scandir(opened) as listing:
                for item in listing:
                    path = f"{directory}/{item.name}" if directory else item.name
                    if excludes.matches(path, directory=item.is_dir(follow_symlinks=False)):
                        continue
                    try:
                        found.append((path, item.stat(follow_symlinks=False)))
                    except FileNotFoundError:
                        continue
        finally:
            os.close(opened)
    except OSError as error:
        raise _unreadable(directory or ".", error) from error
    return found


def _hash(root: int, path: str, status: os.stat_result) -> Generator[None, None, str]:
    """The digest of a file that must stay as `status` has it until its last byte is read."""
    try:
        opened = os.open(path, _READ | os.O_NONBLOCK, dir_fd=root)
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        digest = hashlib.sha256()
        left = status.st_size
        while left > 0:
            data = os.read(opened, min(left, 8 * PIECE))
            if not data:
                break
            digest.update(data)
            left -= len(data)
            if left:
                yield
        after = os.fstat(opened)
    except OSError as error:
        raise _unreadable(path, error) from error
    finally:
        os.close(opened)
    if left or _identity(after) != _identity(status):
        raise TreeError(path, "changed", "the file changed while it was read; something still writes to it")
    return "sha256:" + digest.hexdigest()


def _link(root: int, path: str) -> Entry:
    try:
        target = os.readlink(path, dir_fd=root)
    except OSError as error:
        raise _unreadable(path, error) from error
    check_link(path, target)
    return Entry(path, "link", target=target)


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _unreadable(path: str, error: OSError) -> TreeError:
    if error.errno in {errno.ENOENT, errno.ELOOP, errno.ENOTDIR}:
        return TreeError(path, "changed", "it vanished or became something else while the folder was read")
    return TreeError(path, "unreadable", f"it cannot be read: {error.strerror}; make it readable or exclude it")
