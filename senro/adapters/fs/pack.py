"""Trees of this machine as the bytes of one archive."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from senro.adapters.fs.beneath import READ, Beneath
from senro.adapters.fs.coding import packer
from senro.adapters.fs.copying import changed
from senro.adapters.fs.prefetch import Buffers, ReadAhead
from senro.adapters.fs.work import PIECE, tree_errors
from senro.domain.errors import TreeError
from senro.domain.tar import END, archive_length, member_header, padding
from senro.domain.tar.header import BLOCK
from senro.domain.tree.tree import EMPTY_FILE, Entry

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from senro.domain.transfer.compression import Coding
    from senro.ports.trees import Packed

_ENOUGH = PIECE // 2
"""Bytes of a file that is read in pieces, and of packed bytes that are handed out; half a piece."""

_READ = READ | os.O_NONBLOCK

_SAMPLE_PIECE = 16 * 1024
"""Bytes that a sample takes from one place."""


class FolderArchive:
    """An archive that is read from its folders while it is sent. Made by `FolderTrees.pack`."""

    def __init__(
        self, parts: Sequence[Packed], sentinel: str, *, coding: Coding = "plain", open_to_all: bool = False
    ) -> None:
        self._parts = parts
        self._open_to_all = open_to_all
        self._tail = END
        if sentinel:
            self._tail = member_header(parts[0].index, Entry(sentinel, "file", digest=EMPTY_FILE)) + END
        members = archive_length((part.index, part.tree.entries) for part in parts)
        self._length = members - len(END) + len(self._tail)
        self._content_bytes = self._members = self._begun = 0
        self._ahead = ReadAhead(self._coded(coding))
        self._torn = False

    @property
    def length(self) -> int:
        """See `ports.trees.Archive.length`."""
        return self._length

    @property
    def content_bytes(self) -> int:
        """See `ports.trees.Archive.content_bytes`."""
        return self._content_bytes

    @property
    def members(self) -> int:
        """See `ports.trees.Archive.members`."""
        return self._members

    async def read(self) -> bytes | memoryview:
        """See `ports.trees.Archive.read`."""
        if self._torn:
            raise TreeError("", "torn", "an earlier read of the archive failed or was cancelled; pack it again")
        # A cancelled wait loses its piece: what is read after it would be an archive with a hole.
        self._torn = True
        found = await self._ahead.next()
        self._torn = False
        if found is None:
            return b""
        piece, self._content_bytes, self._members = found
        return piece

    async def close(self) -> None:
        """Close what is open. Nothing can be read after it."""
        self._torn = True
        await self._ahead.close()

    def _coded(self, coding: Coding) -> Generator[tuple[bytes | memoryview, int, int], None, None]:
        """The pieces as they cross, with the bytes and entries that they bring it to; packed ones fill a message."""
        packing, content_bytes, held = packer(coding), 0, bytearray()
        for piece in self._read():
            content_bytes += len(piece)
            if packing is None:
                yield piece, content_bytes, self._begun
                continue
            held += packing.compress(piece)
            if len(held) >= _ENOUGH:
                yield bytes(held), content_bytes, self._begun
                held.clear()
        if packing is not None:
            held += packing.flush()
            yield bytes(held), content_bytes, self._begun

    def _read(self) -> Generator[memoryview, None, None]:
        buffers = Buffers()
        for part in self._parts:
            with tree_errors(part.folder):
                root = Beneath(part.folder)
            with root:
                for entry in part.tree.entries:
                    self._begun += 1
                    header = member_header(part.index, entry, open_to_all=self._open_to_all)
                    small = entry.size < _ENOUGH
                    if buffers.filled + len(header) + (entry.size + BLOCK if small else 0) > PIECE:
                        yield buffers.take()
                    buffers.put(header)
                    if entry.kind == "file":
                        if small:
                            _small_file(root, entry, buffers)
                        else:
                            yield from _large_file(root, entry, buffers)
                        if zeros := padding(entry.size):
                            buffers.put(bytes(zeros))  # a piece ends between two blocks, so there is room
        if len(self._tail) > len(buffers.room):
            yield buffers.take()
        buffers.put(self._tail)
        yield buffers.take()


def _small_file(root: Beneath, entry: Entry, buffers: Buffers) -> None:
    """Add the content of a file that fits into the piece: one read, whose digest says whether it is what was promised.

    There is room for one byte more, which only a file has that has grown.
    """
    promised = entry.size
    room = buffers.room[: promised + 1]
    try:
        opened = root.open(entry.path, _READ)
        try:
            size = more = os.readv(opened, [room])
            while more and size < promised:
                more = os.readv(opened, [room[size:]])
                size += more
        finally:
            os.close(opened)
    except OSError as error:
        raise changed(entry, error.strerror or str(error)) from error
    if size != promised:
        raise changed(entry, f"it has {'more' if size > promised else 'fewer'} than {promised} bytes")
    if "sha256:" + hashlib.sha256(room[:size]).hexdigest() != entry.digest:
        raise changed(entry, "its content differs")
    buffers.fill(size)


def _large_file(root: Beneath, entry: Entry, buffers: Buffers) -> Generator[memoryview, None, None]:
    """Add the file's content, in full pieces."""
    try:
        opened = root.open(entry.path, _READ)
        try:
            before = os.fstat(opened)
            digest = hashlib.sha256()
            left = entry.size
            while left:
                if not buffers.room:
                    yield buffers.take()
                room = buffers.room[:left]
                size = os.readv(opened, [room])
                if not size:
                    raise changed(entry, f"it ended {left} bytes early")
                digest.update(room[:size])
                buffers.fill(size)
                left -= size
            after = os.fstat(opened)
        finally:
            os.close(opened)
    except OSError as error:
        raise changed(entry, error.strerror or str(error)) from error
    if after.st_size != entry.size or after.st_mtime_ns != before.st_mtime_ns:
        raise changed(entry, "something wrote to it meanwhile")
    if "sha256:" + digest.hexdigest() != entry.digest:
        raise changed(entry, "its content differs")


def sample(parts: Sequence[Packed], size: int) -> Generator[None, None, bytes]:
    """About `size` bytes of the parts' files, from places that lie evenly in all of them. What cannot be read is left.

    A sample is for a guess alone: a file that changed is found out by the archive.
    """
    total = sum(part.tree.size for part in parts)
    stride = max(_SAMPLE_PIECE, total * _SAMPLE_PIECE // size)
    found = bytearray()
    before = 0  # bytes of the files so far
    due = 0  # where among all bytes the next piece begins
    for part in parts:
        with Beneath(part.folder) as root:
            for entry in part.tree.entries:
                while due < before + entry.size and entry.size:
                    found += _read_piece(root, entry.path, max(0, due - before))
                    due += stride
                    yield
                before += entry.size
    return bytes(found[:size])


def _read_piece(root: Beneath, path: str, at: int) -> bytes:
    try:
        opened = root.open(path, _READ)
        try:
            return os.pread(opened, _SAMPLE_PIECE, at)
        finally:
            os.close(opened)
    except OSError:
        return b""
