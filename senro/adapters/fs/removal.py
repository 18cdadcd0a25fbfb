"""Removes directories with their content by descriptors, so that nothing outside of them is ever touched.

A process that a step left behind may replace a directory by a link between two system calls. Each directory is opened
by its name in its open parent without following a link, and all that is removed is named relative to that descriptor.
"""

from __future__ import annotations

import errno
import os
import stat
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from senro.adapters.fs.open_directory import FOLDER, identity, replace_fd

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

_OWNER = 0o700


def remove_folder(folder: Path) -> Generator[None, None, None]:
    """Remove the folder with its content, following no link; do nothing if it does not exist. Raises OSError."""
    try:
        parent = os.open(folder.parent, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    except FileNotFoundError:
        return
    try:
        os.stat(folder.name, dir_fd=parent, follow_symlinks=False)
        yield from remove_directory(parent, folder.name)
    except FileNotFoundError:
        return
    finally:
        os.close(parent)


def remove_directory(parent: int, name: str) -> Generator[None, None, None]:
    """Remove the directory `name` of the open directory `parent` with its content. Yields after each entry.

    Raises OSError, also if a directory is moved elsewhere meanwhile.
    """
    here = _open_for_removal(parent, name)
    try:
        # Down by name and up by `..`: paths stay short and at most two directories are open, however deep the tree is.
        waiting = yield from _remove_files(here)
        above: list[tuple[list[str], tuple[int, int]]] = []
        while waiting or above:
            if waiting:
                below = _open_for_removal(here, waiting[-1])
                above.append((waiting, identity(here)))
                here = replace_fd(here, below)
                waiting = yield from _remove_files(here)
            else:
                here = replace_fd(here, os.open("..", FOLDER, dir_fd=here))
                waiting, known = above.pop()
                if identity(here) != known:
                    raise OSError(errno.ESTALE, "a directory in it was moved while it was removed", name)
                os.rmdir(waiting.pop(), dir_fd=here)
            yield
    finally:
        os.close(here)
    with_write_access(parent, partial(os.rmdir, name, dir_fd=parent))


def with_write_access(directory: int, change: Callable[[], None]) -> None:
    """Call `change`, which modifies the open directory, also if its owner may not write to it.

    The directory gets its mode back afterwards: `go mod download` leaves its directories read-only on purpose.
    """
    try:
        change()
    except PermissionError:
        mode = stat.S_IMODE(os.fstat(directory).st_mode)
        if mode & _OWNER == _OWNER:
            raise
        os.fchmod(directory, mode | _OWNER)
        try:
            change()
        finally:
            os.fchmod(directory, mode)


def _open_for_removal(parent: int, name: str) -> int:
    """Open a directory so that its entries can be removed, whatever rights a step took from its owner."""
    try:
        fd = os.open(name, FOLDER, dir_fd=parent)
    except PermissionError:
        _grant(parent, name)
        fd = os.open(name, FOLDER, dir_fd=parent)
    if os.fstat(fd).st_mode & _OWNER != _OWNER:
        os.fchmod(fd, _OWNER)
    return fd


def _grant(parent: int, name: str) -> None:
    """Give the owner of a directory all rights, without following a link."""
    if not hasattr(os, "O_PATH"):
        os.chmod(name, _OWNER, dir_fd=parent, follow_symlinks=False)
        return
    # Older C libraries of Linux have no fchmodat(2) that does not follow links.
    fd = os.open(name, os.O_PATH | FOLDER, dir_fd=parent)
    try:
        Path(f"/proc/self/fd/{fd}").chmod(_OWNER)
    finally:
        os.close(fd)


def _remove_files(fd: int) -> Generator[None, None, list[str]]:
    """Remove all but the directories of an open directory. Returns the names of the directories."""
    with os.scandir(fd) as listing:
        entries = [(item.name, item.is_dir(follow_symlinks=False)) for item in listing]
    for name, is_directory in entries:
        if not is_directory:
            os.unlink(name, dir_fd=fd)
            yield
    return [name for name, is_directory in entries if is_directory]
