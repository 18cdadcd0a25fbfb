"""Folders of the coordinator, and the archives that carry workspaces to pods and back.

A `TreeError` of these methods has the file or folder as its `path`, and one of these as its `rule`:

===========  ==================================================================================================
changed      a file changed since it was walked, or is being written; the caller walks again
unreadable   this user cannot read a file
link         links are absolute, leave their tree, or cannot be followed; all of them are named
limit        a path is too long, or copies in place of links would be too large
case         two names of a tree are the same to the file system of this machine
io           another error of the operating system, such as a full disk; the message has its text
destination  what is to be replaced is not a folder, is not empty, or is inside another one that is replaced
torn         an earlier call failed or was cancelled, or `finish` is missing; the caller begins again
leftover     the call did its work, but could not remove its temporary files
===========  ==================================================================================================

An archive that is unpacked has the rules of `senro.domain.tar` as well. `truncated`, `checksum`, `format`, `pax` and
`end` mean that its bytes are damaged; the others, also `parent`, `duplicate` and `link`, that it must not be unpacked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from senro.domain.transfer.compression import Coding
from senro.domain.tree.content_rules import DEFAULT_RULES, ContentRules
from senro.domain.tree.tree import Tree


@dataclass(frozen=True, slots=True)
class Packed:
    """One tree to pack.

    index: its number in the archive, whose members are named `<index>/...`.
    folder: the path of its files.
    tree: the files to pack.
    """

    index: int
    folder: str
    tree: Tree


class Archive(Protocol):
    """A tar archive that is read once, from the beginning to the end."""

    @property
    def length(self) -> int:
        """The exact size in bytes of the uncompressed archive, known before the first `read`."""

    @property
    def content_bytes(self) -> int:
        """How many uncompressed bytes `read` has returned so far."""

    @property
    def members(self) -> int:
        """How many members begin in these bytes."""

    async def read(self) -> bytes | memoryview:
        """Returns the next piece to send, 256 to 512 KiB except the last one; b"" at the end.

        The next call reuses the memory of the piece. Raises `TreeError` with the name of a file that changed or
        vanished since it was walked: the pieces returned so far must not be used then.
        """


class Unpacking(Protocol):
    """An archive that is being received. The destinations do not change before `replace`."""

    async def write(self, data: bytes) -> None:
        """Unpack the next piece, which may begin and end anywhere. Raises `TreeError` for a refused member."""

    async def finish(self) -> Mapping[int, Tree]:
        """Check that the archive is complete, including its two end blocks. Returns the received trees by index.

        Excluded files are not in them. Raises `TreeError` (rule `truncated`) if the archive is incomplete. The caller
        calls `replace` next, or leaves the context to discard the files.
        """

    async def replace(self) -> None:
        """Swap each received tree with its destination by rename. Call it after `finish`."""

    @property
    def received(self) -> int:
        """How many bytes `write` was given so far."""

    @property
    def unpacked(self) -> int:
        """How many uncompressed bytes they contained."""

    @property
    def members(self) -> int:
        """How many members they contained, without the roots of the trees."""


class Trees(Protocol):
    """Folders of this machine. Every call may be cancelled; blocking work is done in worker threads."""

    async def walk(self, folder: str, *, rules: ContentRules = DEFAULT_RULES) -> Tree:
        """Returns the folder as a tree, without excluded files, with the digest of every file. Changes nothing.

        `Tree.omitted` names sockets, fifos, devices and mode bits that an archive cannot carry. Links are in the tree
        as they are; if the rules follow links, this method refuses none. Raises `TreeError` for links that the rules
        refuse, and for a file that cannot be read or changes while it is read.
        """

    async def prune(self, folder: str, *, rules: ContentRules) -> Tree:
        """Change the folder so that it contains exactly what `walk` returns for these rules, and return that.

        Removes excluded files, sockets, fifos, devices and mode bits that an archive cannot carry. If the rules follow
        links, copies replace them. Raises as `walk` does, with nothing changed; also `TreeError` (rule `io`) for what
        cannot be removed or written.
        """

    async def read(self, folder: str, name: str, *, limit: int) -> bytes | None:
        """Returns at most the first `limit` bytes of the file `name` in the folder; None if there is none.

        Raises `TreeError` (rule `unreadable`) if it is not a file. Does not follow a link.
        """

    def pack(
        self, parts: Sequence[Packed], *, sentinel: str = "", coding: Coding = "plain", open_to_all: bool = False
    ) -> AbstractAsyncContextManager[Archive]:
        """Open an archive of all parts, in order, compressed by `coding`. Leaving the context closes every file.

        If `sentinel` is set, the last member is an empty file of that name, in the first part. With `open_to_all` every
        user may write to the unpacked files.
        """

    async def ratio(self, parts: Sequence[Packed]) -> float:
        """Returns the compressed size of a sample of the parts' files, divided by its size; 1.0 is no gain."""

    async def ratio_of(self, sample: bytes) -> float:
        """Returns the compressed size of `sample`, divided by its size."""

    def unpack(
        self, destinations: Mapping[int, str], *, rules: Mapping[int, ContentRules] | None = None
    ) -> AbstractAsyncContextManager[Unpacking]:
        """Receive an archive. Part `n` is built in a sibling of the folder `destinations[n]`.

        The first bytes show whether it is compressed by gzip or zstd. `rules` are those of each part; a part without
        rules accepts everything except links that leave it. Members that the rules exclude are discarded; only the
        rules for every archive apply to them.

        Leaving the context removes what was built, or, after `replace`, what was replaced.
        """

    async def copy(self, tree: Tree, source: str, destination: str, *, rules: ContentRules = DEFAULT_RULES) -> Tree:
        """Copy `tree`, whose files are in `source`, to `destination`. Returns the tree of `destination`.

        `destination` must be empty or not exist. If the rules follow links, copies replace them in the returned tree,
        except copies that are excluded. Raises `TreeError`, with nothing made, also for links that cannot be followed.
        """
