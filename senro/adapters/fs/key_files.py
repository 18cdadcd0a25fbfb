"""`ports.scratch.KeyFiles`: the files of a folder that match patterns, with their digests."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from typing import TYPE_CHECKING

from senro.adapters.fs.work import PIECE, run_in_slices
from senro.domain.errors import TreeError
from senro.domain.tree.exclude_reach import reach_of
from senro.domain.tree.excludes import compile_excludes

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence


_NO_FILE = frozenset({errno.ENXIO, errno.ENODEV, errno.EOPNOTSUPP})
"""What open(2) says of a socket and of a device that is not there: Linux ENXIO or ENODEV, macOS EOPNOTSUPP."""


class FolderKeyFiles:
    """Reads no file but those that match. Blocking work happens in worker threads."""

    async def digests(self, folder: str, patterns: Sequence[str], *, exclude: Sequence[str]) -> Mapping[str, str]:
        """See `ports.scratch.KeyFiles.digests`."""
        return await run_in_slices(_digests(folder, patterns, exclude))


def _digests(folder: str, patterns: Sequence[str], exclude: Sequence[str]) -> Generator[None, None, dict[str, str]]:
    wanted, reach, excludes = compile_excludes(patterns), reach_of(patterns), compile_excludes(exclude)
    found = {}
    waiting = [""]
    while waiting:
        directory = waiting.pop()
        for path, is_directory in _list(folder, directory):
            if excludes.matches(path, directory=is_directory):
                continue
            if is_directory:
                if reach.enters(path):
                    waiting.append(path)
            elif wanted.matches(path, directory=False):
                digest = yield from _digest(folder, path)
                if digest:
                    found[path] = digest
            yield
    return found


def _list(folder: str, directory: str) -> list[tuple[str, bool]]:
    try:
        with os.scandir(os.path.join(folder, directory)) as listing:  # noqa: PTH118 - joined as it is, not normalised
            return [
                (f"{directory}/{item.name}" if directory else item.name, item.is_dir(follow_symlinks=False))
                for item in listing
            ]
    except (FileNotFoundError, NotADirectoryError):
        return []  # it vanished meanwhile, as if it had before
    except PermissionError:
        # A folder that we may not enter holds no file that a key could be made of; a pattern that matches nothing else
        # is refused by whoever asked.
        return []
    except OSError as error:
        raise _unreadable(directory or folder, error) from error


def _digest(folder: str, path: str) -> Generator[None, None, str]:
    """The digest of the file, through a link; "" for what is none: a fifo, a socket, a link that leads nowhere."""
    try:
        fd = os.open(os.path.join(folder, path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # noqa: PTH118 - as above
    except FileNotFoundError:
        return ""
    except OSError as error:
        if error.errno in _NO_FILE:
            return ""
        raise _unreadable(path, error) from error
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return ""
        digest = hashlib.sha256()
        while data := os.read(fd, 8 * PIECE):
            digest.update(data)
            yield
    except OSError as error:
        raise _unreadable(path, error) from error
    finally:
        os.close(fd)
    return "sha256:" + digest.hexdigest()


def _unreadable(path: str, error: OSError) -> TreeError:
    return TreeError(path, "unreadable", f"it cannot be read: {error.strerror}")
