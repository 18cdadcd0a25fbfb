"""How much a folder holds, however deep it is and whatever rights its parts have."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from senro.domain.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW


def measured(folder: Path) -> Generator[None, None, int]:
    """The bytes of all files below it, a file of several names counting with each. Follows no link.

    What we may not read, and what vanishes meanwhile, counts nothing. Raises OSError where the folder itself is not
    there, `StoreError` where a part of it is moved elsewhere meanwhile.
    """
    # Down by name and up by `..`: no path grows longer than the system takes, and two folders are open at most.
    try:
        here = os.open(folder, _FOLDER)
    except PermissionError:
        return 0
    try:
        total, waiting = _listed(here)
        above: list[tuple[list[str], tuple[int, int]]] = []
        while waiting or above:
            yield
            if not waiting:
                here = _exchanged(here, os.open("..", _FOLDER, dir_fd=here))
                waiting, identity = above.pop()
                if _identity(here) != identity:
                    raise StoreError(str(folder), "something in it was moved while it was measured; try again")
                continue
            name = waiting.pop()
            try:
                below = os.open(name, _FOLDER, dir_fd=here)
            except OSError:
                continue
            try:
                size, inside = _listed(below)
            except OSError:
                os.close(below)
                continue
            total += size
            above.append((waiting, _identity(here)))
            here, waiting = _exchanged(here, below), inside
    finally:
        os.close(here)
    return total


def _listed(opened: int) -> tuple[int, list[str]]:
    """The bytes of the files in an open folder, and the names of the folders in it."""
    os.stat(".", dir_fd=opened)  # a folder that may be listed and not be entered has no way up either
    size, folders = 0, []
    with os.scandir(opened) as listing:
        for item in listing:
            if item.is_dir(follow_symlinks=False):
                folders.append(item.name)
                continue
            try:
                status = item.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            size += status.st_size if stat.S_ISREG(status.st_mode) else 0
    return size, folders


def _exchanged(before: int, now: int) -> int:
    os.close(before)
    return now


def _identity(opened: int) -> tuple[int, int]:
    status = os.fstat(opened)
    return status.st_dev, status.st_ino
