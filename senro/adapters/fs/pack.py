"""Packs trees of this machine into one archive."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from senro.adapters.fs.coding import make_compressor
from senro.adapters.fs.copying import changed_error
from senro.adapters.fs.open_directory import READ, OpenDirectory
from senro.adapters.fs.prefetch import Buffers, ReadAhead
from senro.adapters.fs.work import PIECE, tree_errors
from senro.domain.errors import TreeError
from senro.domain.tar.header import BLOCK
from senro.domain.tar.writer import END, archive_length, member_header, padding
from senro.domain.tree.tree import EMPTY_FILE, Entry

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from senro.domain.transfer.compression import Coding
    from senro.ports.trees import Packed

_HALF_PIECE = PIECE // 2
"""Half a piece: larger files are read in pieces, and at least this many compressed bytes are returned at a time."""

_READ = READ | os.O_NONBLOCK

_SAMPLE_PIECE = 16 * 1024
"""Bytes that a sample takes from each place."""


class FolderArchive:
    """An archive whose content is read from its folders while it is sent. Created by `FolderTrees.pack`."""

    def __init__(
        self, parts: Sequence[Packed], sentinel: str, *, coding: Coding = "plain", open_to_all: bool = False
    ) -> None:
        self._parts = parts
        self._open_to_all = open_to_all
        self._tail = END
        if sentinel:
            self._tail = member_header(parts[0].index, Entry(sentinel, "file", digest=EMPTY_FILE)) + END
        members = archive_length((part.index, part.tree.entries) for part in parts)
        self.length = members - len(END) + len(self._tail)
        self.content_bytes = self.members = self._begun = 0
        self._read_ahead = ReadAhead(self._encode(coding))
        self._failed = False

    async def read(self) -> bytes | memoryview:
        """See `ports.trees.Archive.read`."""
        if self._failed:
            raise TreeError("", "torn", "an earlier read of the archive failed or was cancelled; pack it again")
        # A cancelled wait loses its piece, and the archive would have a hole.
        self._failed = True
        found = await self._read_ahead.next()
        self._failed = False
        if found is None:
            return b""
        piece, self.content_bytes, self.members = found
        return piece

    async def close(self) -> None:
        """Close all files. Nothing can be read afterwards."""
        self._failed = True
        await self._read_ahead.close()

    def _encode(self, coding: Coding) -> Generator[tuple[bytes | memoryview, int, int], None, None]:
        """Yields the pieces to send, each with the archive's bytes and entries up to its end."""
        compressor, content_bytes, held = make_compressor(coding), 0, bytearray()
        for piece in self._pack():
            content_bytes += len(piece)
            if compressor is None:
                yield piece, content_bytes, self._begun
                continue
            held += compressor.compress(piece)
            if len(held) >= _HALF_PIECE:
                yield bytes(held), content_bytes, self._begun
                held.clear()
        if compressor is not None:
            held += compressor.flush()
            yield bytes(held), content_bytes, self._begun

    def _pack(self) -> Generator[memoryview, None, None]:
        buffers = Buffers()
        for part in self._parts:
            with tree_errors(part.folder):
                root = OpenDirectory(part.folder)
            with root:
                for entry in part.tree.entries:
                    self._begun += 1
                    header = member_header(part.index, entry, open_to_all=self._open_to_all)
                    small = entry.size < _HALF_PIECE
                    if buffers.filled + len(header) + (entry.size + BLOCK if small else 0) > PIECE:
                        yield buffers.take()
                    buffers.put(header)
                    if entry.kind == "file":
                        if small:
                            _read_small(root, entry, buffers)
                        else:
                            yield from _read_large(root, entry, buffers)
                        if zeros := padding(entry.size):
                            buffers.put(bytes(zeros))  # a piece is a multiple of the block size, so there is room
        if len(self._tail) > len(buffers.room):
            yield buffers.take()
        buffers.put(self._tail)
        yield buffers.take()


def _read_small(root: OpenDirectory, entry: Entry, buffers: Buffers) -> None:
    """Append a file that fits into the piece and verify its digest.

    One byte more is requested, so that a file that has grown is noticed.
    """
    promised = entry.size
    room = buffers.room[: promised + 1]
    try:
        fd = root.open(entry.path, _READ)
        try:
            size = more = os.readv(fd, [room])
            while more and size < promised:
                more = os.readv(fd, [room[size:]])
                size += more
        finally:
            os.close(fd)
    except OSError as error:
        raise changed_error(entry, error.strerror or str(error)) from error
    if size != promised:
        raise changed_error(entry, f"it has {'more' if size > promised else 'fewer'} than {promised} bytes")
    if "sha256:" + hashlib.sha256(room[:size]).hexdigest() != entry.digest:
        raise changed_error(entry, "its content differs")
    buffers.fill(size)


def _read_large(root: OpenDirectory, entry: Entry, buffers: Buffers) -> Generator[memoryview, None, None]:
    """Append a file, yielding full pieces."""
    try:
        fd = root.open(entry.path, _READ)
        try:
            before = os.fstat(fd)
            digest = hashlib.sha256()
            left = entry.size
            while left:
                if not buffers.room:
                    yield buffers.take()
                room = buffers.room[:left]
                size = os.readv(fd, [room])
                if not size:
                    raise changed_error(entry, f"it ended {left} bytes early")
                digest.update(room[:size])
                buffers.fill(size)
                left -= size
            after = os.fstat(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise changed_error(entry, error.strerror or str(error)) from error
    if after.st_size != entry.size or after.st_mtime_ns != before.st_mtime_ns:
        raise changed_error(entry, "something wrote to it meanwhile")
    if "sha256:" + digest.hexdigest() != entry.digest:
        raise changed_error(entry, "its content differs")


def sample(parts: Sequence[Packed], size: int) -> Generator[None, None, bytes]:
    """About `size` bytes of the parts' files, taken at even distances. Unreadable files are skipped."""
    total = sum(part.tree.size for part in parts)
    stride = max(_SAMPLE_PIECE, total * _SAMPLE_PIECE // size)
    found = bytearray()
    before = 0  # bytes of the files so far
    due = 0  # where among all bytes the next piece begins
    for part in parts:
        with OpenDirectory(part.folder) as root:
            for entry in part.tree.entries:
                while due < before + entry.size and entry.size:
                    found += _read_piece(root, entry.path, max(0, due - before))
                    due += stride
                    yield
                before += entry.size
    return bytes(found[:size])


def _read_piece(root: OpenDirectory, path: str, at: int) -> bytes:
    with suppress(OSError):
        fd = root.open(path, _READ)
        try:
            return os.pread(fd, _SAMPLE_PIECE, at)
        finally:
            os.close(fd)
    return b""
