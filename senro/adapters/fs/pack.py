"""Trees of this machine as the bytes of one archive."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

import anyio.to_thread

from senro.adapters.fs.copying import changed
from senro.adapters.fs.work import PIECE, Naming
from senro.domain.errors import TreeError
from senro.domain.tar import END, archive_length, member_header, padding
from senro.domain.tree import EMPTY_FILE, Entry

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from senro.ports.trees import Packed

_ENOUGH = PIECE // 2
"""Bytes at which a piece is handed out between two members: a header and its PAX header fit into the other half."""


class FolderArchive:
    """An archive that is read from its folders while it is sent. Made by `FolderTrees.pack`."""

    def __init__(self, parts: Sequence[Packed], sentinel: str) -> None:
        self._parts = parts
        self._tail = END
        if sentinel:
            self._tail = member_header(parts[0].index, Entry(sentinel, "file", digest=EMPTY_FILE)) + END
        members = archive_length((part.index, part.tree.entries) for part in parts)
        self._length = members - len(END) + len(self._tail)
        self._pieces = self._read()
        self._torn = False

    @property
    def length(self) -> int:
        """See `ports.trees.Archive.length`."""
        return self._length

    async def read(self) -> bytes:
        """See `ports.trees.Archive.read`: one hop to a thread for each piece."""
        if self._torn:
            raise TreeError("", "torn", "an earlier read of the archive failed or was cancelled; pack it again")
        # A cancelled hop loses its piece: what is read after it would be an archive with a hole.
        self._torn = True
        piece = await anyio.to_thread.run_sync(next, self._pieces, b"")
        self._torn = False
        return piece

    async def close(self) -> None:
        """Close what is open. Nothing can be read after it."""
        self._torn = True
        await anyio.to_thread.run_sync(self._pieces.close)

    def _read(self) -> Generator[bytes, None, None]:
        held = bytearray()
        for part in self._parts:
            with Naming(part.folder):
                root = os.open(part.folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
            try:
                for entry in part.tree.entries:
                    held += member_header(part.index, entry)
                    if entry.kind == "file":
                        yield from _read_file(root, entry, held)
                        held += bytes(padding(entry.size))
                    if len(held) >= _ENOUGH:
                        yield bytes(held)
                        held.clear()
            finally:
                os.close(root)
        held += self._tail
        yield bytes(held)


def _read_file(root: int, entry: Entry, held: bytearray) -> Generator[bytes, None, None]:
    """Add the file's content to `held`, in full pieces. What the tree says of it was promised in its header."""
    try:
        opened = os.open(entry.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=root)
    except OSError as error:
        raise changed(entry, error.strerror or str(error)) from error
    try:
        before = os.fstat(opened)
        if before.st_size != entry.size:
            raise changed(entry, f"{before.st_size} bytes instead of {entry.size}")
        digest = hashlib.sha256()
        left = entry.size
        while left:
            data = os.read(opened, min(left, PIECE - len(held)))
            if not data:
                raise changed(entry, f"it ended {left} bytes early")
            digest.update(data)
            held += data
            left -= len(data)
            if len(held) == PIECE:
                yield bytes(held)
                held.clear()
        after = os.fstat(opened)
    except OSError as error:
        raise changed(entry, error.strerror or str(error)) from error
    finally:
        os.close(opened)
    if after.st_size != before.st_size or after.st_mtime_ns != before.st_mtime_ns:
        raise changed(entry, "something wrote to it meanwhile")
    if "sha256:" + digest.hexdigest() != entry.digest:
        raise changed(entry, "its content is another")
