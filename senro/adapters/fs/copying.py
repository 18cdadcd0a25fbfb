"""Copies files within this machine and verifies their size and digest."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
from typing import TYPE_CHECKING

from senro.adapters.fs.open_directory import READ
from senro.adapters.fs.work import PIECE, tree_errors
from senro.domain.errors import TreeError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from pathlib import Path

    from senro.adapters.fs.open_directory import OpenDirectory
    from senro.adapters.fs.staged_directory import StagedDirectory
    from senro.domain.tree.tree import Entry, Tree

_KERNEL_COPY_BYTES = 1 << 20
"""Files of at least this many bytes are copied by the kernel: XFS and btrfs then share the blocks. For smaller files
the extra system call costs more."""

_KERNEL_STEP = 8 << 20

_LOCAL_ERRORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO})
"""Errors of this process or of the disk, not of the file that is opened."""


def create_tree(
    folder: StagedDirectory,
    tree: Tree,
    root: OpenDirectory,
    locate: Callable[[Entry], str],
    broken: Callable[[Entry, str], Exception],
) -> Generator[None, None, None]:
    """Create the tree in the empty folder; the content of an entry is the file `locate(entry)` below `root`.

    Raises `broken(entry, how)` if a content is missing or differs, `TreeError` (rule `io`) if the folder cannot be
    written.
    """
    for entry in tree.entries:
        if entry.kind == "directory":
            folder.make_directory(entry.path)
        elif entry.kind == "file":
            yield from _create_file(folder, entry, root, locate(entry), broken)
        yield
    for entry in tree.entries:
        if entry.kind == "link":
            folder.make_link(entry.path, entry.target)
            yield


def create_copies(
    folder: StagedDirectory, tree: Tree, copies: Mapping[str, str], root: OpenDirectory
) -> Generator[None, None, None]:
    """Create the entries of the tree that replace links.

    `copies` maps the path of such an entry to the path below `root` whose content it repeats. `root` is only read; it
    may be the folder itself, which then has the rest of the tree already. Raises as `fill` does.
    """
    for entry in tree.entries:
        source = copies.get(entry.path)
        if source is None:
            continue
        folder.make_parents(entry.path)
        if entry.kind == "directory":
            folder.make_directory(entry.path)
        else:
            yield from _create_file(folder, entry, root, source, changed_error)
        yield


def _create_file(
    folder: StagedDirectory, entry: Entry, root: OpenDirectory, path: str, broken: Callable[[Entry, str], Exception]
) -> Generator[None, None, None]:
    target = folder.create(entry.path, executable=entry.executable)
    with tree_errors(entry.path):
        try:
            yield from copy_checked(root, path, target, entry, broken)
        finally:
            os.close(target)


def copy_checked(
    root: OpenDirectory, path: str, target: int, entry: Entry, broken: Callable[[Entry, str], Exception]
) -> Generator[None, None, None]:
    """Copy the file at `path` below `root` to the open file `target` and verify size and digest against `entry`.

    Raises `broken(entry, how)` if they differ, OSError for errors that are not about this file.
    """
    try:
        source = root.open(path, READ | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in _LOCAL_ERRORS:
            raise
        raise broken(entry, error.strerror or str(error)) from error
    try:
        size = os.fstat(source).st_size
        if size != entry.size:
            raise broken(entry, f"{size} bytes instead of {entry.size}")
        digest = yield from copy_file(source, target, size)
    finally:
        os.close(source)
    if digest != entry.digest:
        raise broken(entry, "its content differs")


def copy_file(source: int, target: int, size: int) -> Generator[None, None, str]:
    """Copy the first `size` bytes between two open files. Returns the digest of the target's content."""
    if size >= _KERNEL_COPY_BYTES and (yield from _copy_by_kernel(source, target, size)):
        return (yield from _digest(target, size))
    return (yield from _digest(source, size, target))


def _digest(fd: int, size: int, copy: int | None = None) -> Generator[None, None, str]:
    """The digest of an open file's first `size` bytes, which are written to the open file `copy`, if there is one."""
    digest = hashlib.sha256()
    at = 0
    while at < size and (data := os.pread(fd, min(size - at, PIECE), at)):
        digest.update(data)
        if copy is not None:
            write_all(copy, data)
        at += len(data)
        yield
    return "sha256:" + digest.hexdigest()


def sync_data(fd: int) -> None:
    """Write the file's data to the disk: an event that was appended must survive a crash of the machine.

    macOS has no `fdatasync`, and its `fsync` leaves the data in the cache of the disk: F_FULLFSYNC does not.
    """
    if hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    elif hasattr(fcntl, "F_FULLFSYNC"):
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fsync(fd)


def sync_folder(path: str | Path, *, dir_fd: int | None = None) -> None:
    """Write the entries of a folder to the disk, so that a file which was renamed survives a crash of the machine."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY, dir_fd=dir_fd)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_synced(path: Path, data: bytes, *, mode: int) -> None:
    """Write a temporary file, which is created or replaced, to the disk; the caller renames or links it."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        write_all(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write all of the data, with as many calls as it takes."""
    written = os.write(fd, data)
    while written < len(data):
        written += os.write(fd, data[written:])


def _copy_by_kernel(source: int, target: int, size: int) -> Generator[None, None, bool]:
    """Copy by `copy_file_range`. Returns False, with nothing written, if the kernel refuses it for these files."""
    copy = getattr(os, "copy_file_range", None)  # Linux only
    at = 0
    while copy is not None and at < size:
        try:
            copied = copy(source, target, min(size - at, _KERNEL_STEP), at, at)
        except OSError:
            if at:
                raise
            return False
        if not copied:
            return bool(at)
        at += copied
        yield
    return copy is not None


def changed_error(entry: Entry, how: str) -> TreeError:
    """The error for a file that differs from its entry in the tree."""
    return TreeError(entry.path, "changed", f"the file changed after senro read the folder: {how}")
