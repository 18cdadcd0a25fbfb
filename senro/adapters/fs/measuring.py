"""How much a folder holds, however deep it is and whatever rights its parts have."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from senro.adapters.fs.open_directory import FOLDER, identity, replace_fd
from senro.domain.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path


def folder_size(folder: Path) -> Generator[None, None, int]:
    """The bytes of all files below it, a file of several names counting with each. Follows no link.

    What we may not read, and what vanishes meanwhile, counts nothing. Raises OSError where the folder itself is not
    there, `StoreError` where a part of it is moved elsewhere meanwhile.
    """
    # Down by name and up by `..`: no path grows longer than the system takes, and two folders are open at most.
    try:
        here = os.open(folder, FOLDER)
    except PermissionError:
        return 0
    try:
        total, waiting = _list(here)
        above: list[tuple[list[str], tuple[int, int]]] = []
        while waiting or above:
            yield
            if not waiting:
                here = replace_fd(here, os.open("..", FOLDER, dir_fd=here))
                waiting, known = above.pop()
                if identity(here) != known:
                    raise StoreError(str(folder), "something in it was moved while it was measured; try again")
                continue
            name = waiting.pop()
            try:
                below = os.open(name, FOLDER, dir_fd=here)
            except OSError:
                continue
            try:
                size, inside = _list(below)
            except OSError:
                os.close(below)
                continue
            total += size
            above.append((waiting, identity(here)))
            here, waiting = replace_fd(here, below), inside
    finally:
        os.close(here)
    return total


def _list(fd: int) -> tuple[int, list[str]]:
    """The bytes of the files in an open folder, and the names of the folders in it."""
    os.stat(".", dir_fd=fd)  # a folder that may be listed and not be entered has no way up either
    size, folders = 0, []
    with os.scandir(fd) as listing:
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
