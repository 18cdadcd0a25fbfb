"""Unpacks an archive into folders of this machine."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING

import anyio.to_thread

from senro.adapters.fs.coding import Decompressor
from senro.adapters.fs.copying import copy_file, create_copies, write_all
from senro.adapters.fs.open_directory import OpenDirectory
from senro.adapters.fs.prefetch import Buffers, WriteBehind
from senro.adapters.fs.staged_directory import StagedDirectory, raise_leftovers, swap_all
from senro.adapters.fs.work import io_error, run_in_slices, tree_errors
from senro.domain.errors import TreeError
from senro.domain.tar.admission import ArchiveAdmission, Placement
from senro.domain.tar.reader import ArchiveReader, Data, EndOfArchive, Member

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from senro.domain.tree.content_rules import ContentRules
    from senro.domain.tree.tree import Entry, Tree

MEMBERS_PER_STEP = 16
"""Members that are created between two yields: creating one may take a millisecond."""


class FolderUnpacking:
    """Builds each tree in a sibling of its destination while the archive arrives. Created by `FolderTrees.unpack`.

    No name in the archive can lead out of the new folders: only this object writes to them, they contain no link
    before `finish`, and it has created every parent directory.
    """

    def __init__(self, destinations: Mapping[int, str], rules: Mapping[int, ContentRules]) -> None:
        self._destinations = destinations
        self._folders: dict[int, StagedDirectory] = {}
        self._reader = ArchiveReader(destinations)
        self._decompressor = Decompressor()
        self.received = self.unpacked = 0
        self._admission = ArchiveAdmission(destinations, rules=rules)
        self._buffers = Buffers()
        self._writer = WriteBehind(self._decompress)
        self._open: _OpenFile | None = None
        self._state = "receiving"

    @property
    def members(self) -> int:
        """See `ports.trees.Unpacking.members`."""
        return self._reader.members

    async def begin(self) -> None:
        """Create the new folders."""
        await anyio.to_thread.run_sync(self._begin)

    async def write(self, data: bytes) -> None:
        """See `ports.trees.Unpacking.write`. Pieces are buffered, so a later call may raise the error of this one."""
        self._require_state("receiving")
        self.received += len(data)
        # Most pieces are a few KiB: waking the writer for each would cost more than processing it.
        rest = memoryview(data)
        while len(rest) >= (room := len(self._buffers.room)):
            self._buffers.put(rest[:room])
            rest = rest[room:]
            await self._flush()
        self._buffers.put(rest)

    async def finish(self) -> Mapping[int, Tree]:
        """See `ports.trees.Unpacking.finish`."""
        self._require_state("receiving")
        await self._flush()
        self._state = "broken"
        await self._writer.finish()
        await run_in_slices(self._receive(self._decompressor.finish()))
        self._reader.receive_eof()
        trees = await run_in_slices(self._finish())
        self._state = "complete"
        return trees

    async def replace(self) -> None:
        """See `ports.trees.Unpacking.replace`: all destinations, or none."""
        self._require_state("complete")
        self._state = "replaced"
        await anyio.to_thread.run_sync(swap_all, list(self._folders.values()))

    async def close(self) -> None:
        """Close all files and remove the siblings of the destinations."""
        self._state = "closed"
        await self._writer.close()
        await anyio.to_thread.run_sync(self._close_file)
        leftovers = []
        for folder in self._folders.values():
            try:
                await run_in_slices(folder.discard())
            except TreeError as error:
                leftovers.append(error)
        raise_leftovers(leftovers)

    def _require_state(self, state: str) -> None:
        if self._state != state:
            raise TreeError(
                "", "torn", f"the unpacking is {self._state}, not {state}; a call before this one failed or is missing"
            )

    def _begin(self) -> None:
        _check_disjoint(self._destinations)
        for index, destination in self._destinations.items():
            self._folders[index] = StagedDirectory(destination)

    async def _flush(self) -> None:
        # If the wait is cancelled, the archive has a hole.
        self._state = "broken"
        await self._writer.put(self._buffers.take())
        self._state = "receiving"

    def _decompress(self, data: memoryview) -> Generator[None, None, None]:
        for piece in self._decompressor.feed(data):
            yield from self._receive(piece)
            yield

    def _receive(self, data: bytes | memoryview) -> Generator[None, None, None]:
        self.unpacked += len(data)
        begun = 0
        for event in self._reader.receive_data(data):
            if isinstance(event, Member):
                placement = self._admission.admit(event)
                entry = placement.entry
                if placement.copy_of and entry is not None:
                    self._make_parents(event.index, placement)
                    yield from self._copy(event.index, entry, placement.copy_of)
                elif entry is not None and entry.kind == "file":
                    if placement.directories or placement.replaces:
                        self._make_parents(event.index, placement)
                    fd = self._folders[event.index].create(entry.path, executable=entry.executable)
                    self._open = _OpenFile(event.index, entry.path, fd)
                else:
                    self._make_parents(event.index, placement)
                begun += 1
                if begun % MEMBERS_PER_STEP == 0:
                    yield
            elif isinstance(event, Data):
                self._write(event.data)
            elif not isinstance(event, EndOfArchive):
                self._end_file()

    def _make_parents(self, index: int, placement: Placement) -> None:
        """Create the directories above the entry, and the entry if it is one; remove a file that it replaces."""
        folder = self._folders[index]
        for path in placement.directories:
            folder.make_directory(path)
        entry = placement.entry
        if entry is not None and entry.kind == "directory":
            folder.make_directory(entry.path)
        elif entry is not None and placement.replaces and entry.kind != "link":
            folder.remove(entry.path)

    def _copy(self, index: int, entry: Entry, source_path: str) -> Generator[None, None, None]:
        folder = self._folders[index]
        fd = folder.create(entry.path, executable=entry.executable)
        with tree_errors(entry.path):
            try:
                source = os.open(source_path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder.root)
                try:
                    yield from copy_file(source, fd, entry.size)
                finally:
                    os.close(source)
            finally:
                os.close(fd)

    def _write(self, data: bytes | memoryview) -> None:
        file = self._open
        if file is None:
            raise AssertionError("the archive reader returned data outside a file")
        file.digest.update(data)
        try:
            write_all(file.fd, data)
        except OSError as error:
            raise io_error(file.path, error) from error

    def _end_file(self) -> None:
        file, self._open = self._open, None
        if file is None:
            raise AssertionError("the archive reader ended a file that it had not begun")
        try:
            os.close(file.fd)  # NFS and others report a full disk here
        except OSError as error:
            raise io_error(file.path, error) from error
        self._admission.digested(file.index, file.path, "sha256:" + file.digest.hexdigest())

    def _finish(self) -> Generator[None, None, Mapping[int, Tree]]:
        contents = yield from self._admission.contents()
        for index, content in contents.items():
            folder = self._folders[index]
            for path in content.excluded:
                yield from folder.remove_tree(path)
            with OpenDirectory(folder.built) as root:
                yield from create_copies(folder, content.tree, content.copies, root)
            for entry in content.tree.entries:
                if entry.kind == "link":
                    folder.make_link(entry.path, entry.target)
                    yield
        return {index: content.tree for index, content in contents.items()}

    def _close_file(self) -> None:
        file, self._open = self._open, None
        if file is not None:
            with suppress(OSError):  # the file is removed anyway
                os.close(file.fd)


class _OpenFile:
    __slots__ = ("digest", "fd", "index", "path")

    def __init__(self, index: int, path: str, fd: int) -> None:
        self.index = index
        self.path = path
        self.fd = fd
        self.digest = hashlib.sha256()


def _check_disjoint(destinations: Mapping[int, str]) -> None:
    """Raise `TreeError` for a destination inside another one: the two could not both be swapped atomically."""
    places = sorted(os.path.realpath(destination) + "/" for destination in destinations.values())
    for outer, inner in pairwise(places):
        if inner.startswith(outer):
            raise TreeError(inner[:-1], "destination", f"it is, or lies in, `{outer[:-1]}`, which is replaced too")
