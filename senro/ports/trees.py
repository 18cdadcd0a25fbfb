"""Folders and archives: how a workspace leaves the coordinator and how it comes back.

A `TreeError` of these calls names a file or folder as its `path`, and one of these as its `rule`:

===========  ==================================================================================================
changed      a file changed after it was walked, or something writes to it; walk again
unreadable   a file cannot be read as this user
link         links are absolute, leave their tree, or cannot be followed; all of them are named
limit        a path is too long, or copies in place of links would be too much
case         two names of a tree are one to the file system of this machine
io           the system refused something else (a full disk, above all); its words are in the message
destination  what shall be replaced is no folder, or not empty, or lies in another one that is replaced
torn         a call before this one failed or was cancelled, or `finish` is missing; begin again
leftover     everything was done, but what is left of it could not be removed
===========  ==================================================================================================

and, for an archive that comes in, the rules of `domain.tar.reader`, with `parent`, `duplicate` and `link` for members
that do not fit together: `truncated`, `checksum`, `format`, `pax` and `end` say that the bytes are damaged, the others
that nobody should unpack them.
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
    """One tree to pack: its place in the archive (members are named `<index>/...`), its folder, what to pack of it."""

    index: int
    folder: str
    tree: Tree


class Archive(Protocol):
    """A tar, read once from front to back."""

    @property
    def length(self) -> int:
        """Its exact size in bytes before it is packed, known before the first one is read."""
        ...

    @property
    def content_bytes(self) -> int:
        """How many of these bytes the pieces stand for that were read so far."""
        ...

    @property
    def members(self) -> int:
        """How many entries begin in them."""
        ...

    async def read(self) -> bytes | memoryview:
        """The next piece as it crosses, 256 to 512 KiB except at the end; b"" at the end.

        Its memory is used again: copy or send what it holds before the next call, and keep nothing of it. Raises
        `TreeError` naming the file if one changed or vanished since it was walked: the archive so far is torn and
        must not be used.
        """
        ...


class Unpacking(Protocol):
    """An archive that comes in. Nothing of it touches the destinations before `replace`."""

    async def write(self, data: bytes) -> None:
        """Take the next piece, cut anywhere. Raises `TreeError` for a member that must not be unpacked."""
        ...

    async def finish(self) -> Mapping[int, Tree]:
        """Check that the archive is whole, its two end blocks included; returns what came and stays, by index.

        Raises `TreeError` (rule `truncated`) if it is not. Call `replace` next, or leave the context to drop it.
        """
        ...

    async def replace(self) -> None:
        """Swap what came in for each destination, whole, by rename. Only after `finish`."""
        ...

    @property
    def received(self) -> int:
        """Bytes taken so far, as they crossed."""
        ...

    @property
    def unpacked(self) -> int:
        """Bytes of the archive that they stood for; more than `received` where gzip or zstd packed them."""
        ...

    @property
    def members(self) -> int:
        """Members of the archive seen so far, the roots not counted."""
        ...


class Trees(Protocol):
    """Folders of this machine. Blocking work happens in worker threads; every call may be cancelled."""

    async def walk(self, folder: str, *, rules: ContentRules = DEFAULT_RULES) -> Tree:
        """The folder as a tree with the digest of every file, what is excluded left away. It only reads.

        Sockets, fifos, devices and mode bits that do not travel are named in `Tree.omitted`. Links are told as they
        are; where the rules follow them, nothing is said here against any. Raises `TreeError` for links that the
        rules refuse, a file that cannot be read or that changes while it is read.
        """
        ...

    async def prune(self, folder: str, *, rules: ContentRules) -> Tree:
        """Make the folder as the rules have it, and return it as `walk` does.

        Removed are what is excluded, sockets, fifos, devices and mode bits that do not travel; where links are
        followed, copies stand in their place. Whoever sees the folder then sees what the tree says. Raises as `walk`
        does, with nothing changed; also `TreeError` (rule `io`) for what cannot be removed or written.
        """
        ...

    async def read(self, folder: str, name: str, *, limit: int) -> bytes | None:
        """At most the first `limit` bytes of the file `name` at the top of the folder; None where there is none.

        Raises `TreeError` (rule `unreadable`) for what is no file; a link is followed by nobody.
        """
        ...

    def pack(
        self, parts: Sequence[Packed], *, sentinel: str = "", coding: Coding = "plain", open_to_all: bool = False
    ) -> AbstractAsyncContextManager[Archive]:
        """One archive of all parts, in order, packed by `coding`. Leaving the context closes every file.

        With `sentinel`, an empty file of that name is its last member, in the first part. With `open_to_all` anybody
        may write to what is unpacked of it.
        """
        ...

    async def ratio(self, parts: Sequence[Packed]) -> float:
        """The share of its size that a sample of the parts' files packs to: 1.0 where packing wins nothing."""
        ...

    async def ratio_of(self, sample: bytes) -> float:
        """The share of its size that a sample of an archive packs to."""
        ...

    def unpack(
        self, destinations: Mapping[int, str], *, rules: Mapping[int, ContentRules] | None = None
    ) -> AbstractAsyncContextManager[Unpacking]:
        """Receive an archive of the parts `destinations`, each built beside its destination.

        It may come packed by gzip or zstd: its first bytes tell.

        `rules` has those of each part; one without any takes everything but links that leave it. What they exclude
        may come all the same: it is dropped, and keeps no rule but those that no archive may break.

        Leaving the context without `replace` removes what was built; after it, what was replaced.
        """
        ...

    async def copy(self, tree: Tree, source: str, destination: str, *, rules: ContentRules = DEFAULT_RULES) -> Tree:
        """Make `destination`, which must not exist or be empty, hold exactly `tree`, read from `source`; returns it.

        Where the rules follow links, that is the tree with copies in their place, but for those that are excluded
        there. Raises `TreeError`, with nothing made, also for links that cannot be followed.
        """
        ...
