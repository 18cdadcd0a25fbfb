"""Computes the size of a folder of any depth."""

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
    """The bytes of all files below the folder. Follows no link; a file with several hard links counts with each.

    Entries that this user may not read, or that vanish meanwhile, count as 0. Raises OSError if the folder does not
    exist, `StoreError` if a directory in it is moved meanwhile.
    """
    # Down by name and up by `..`: no path exceeds PATH_MAX, and at most two directories are open.
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
    """The bytes of the files in an open directory, and the names of its subdirectories."""
    os.stat(".", dir_fd=fd)  # a directory that cannot be entered could not be left by `..` either
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
