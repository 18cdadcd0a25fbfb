"""`ports.scratch.KeyFiles` for a folder: the digests of the files that match patterns."""

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
"""What open(2) returns for a socket or a missing device: ENXIO or ENODEV on Linux, EOPNOTSUPP on macOS."""


class FolderKeyFiles:
    """Reads only files that match. Blocking work runs in worker threads."""

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
        with os.scandir(os.path.join(folder, directory)) as listing:  # noqa: PTH118 - `Path` would normalise the path
            return [
                (f"{directory}/{item.name}" if directory else item.name, item.is_dir(follow_symlinks=False))
                for item in listing
            ]
    except (FileNotFoundError, NotADirectoryError):
        return []  # removed since its parent was listed
    except PermissionError:
        # A key cannot depend on files that this user may not read. The caller refuses patterns that match nothing.
        return []
    except OSError as error:
        raise _unreadable(directory or folder, error) from error


def _digest(folder: str, path: str) -> Generator[None, None, str]:
    """The digest of the file, following a link; "" if it is no regular file or a dangling link."""
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
