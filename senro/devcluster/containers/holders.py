"""Who still has a pipe open, where a wrapper of ours would keep it from ever ending.

nsenter stays behind as the parent of the command that it enters a container with, and holds the command's output open
as long as it lives. A real runtime sees the end of a stream as soon as the command has closed it.
"""

from __future__ import annotations

import os
from pathlib import Path


def is_held(wrapper: int, inode: int, others: list[int]) -> bool:
    """Whether a process below the wrapper, or one of the others, has that pipe open.

    True also where there is nothing below the wrapper (it has not begun, or it has ended) and where /proc cannot be
    read: the end of the stream will tell.
    """
    below = _descendants(wrapper)
    if not below:
        return True
    return any(_has_open(pid, inode) for pid in below) or any(_has_open(pid, inode) for pid in others)


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        try:
            children = [int(word) for word in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
        except OSError:
            children = []
        found += children
        waiting += children
    return found


def _has_open(pid: int, inode: int) -> bool:
    wanted = f"pipe:[{inode}]"
    try:
        descriptors = os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208 - names alone
    except FileNotFoundError:
        return False  # it is gone
    except OSError:
        return True
    for descriptor in descriptors:
        try:
            if os.readlink(f"/proc/{pid}/fd/{descriptor}") == wanted:  # noqa: PTH115 - a name that is no path
                return True
        except OSError:
            continue
    return False
