"""Parses archives from a pod into events.

It reads what GNU tar and busybox tar write: ustar, GNU long names, PAX headers, base-256 numbers, hard links. What a
hostile or broken pod may send raises a `TreeError` whose `rule` is one of

==========  =====================================================================================================
checksum    a header does not match its checksum, or has no number where one belongs
format      a header of an unknown format, or an extension header where none may be
pax         a malformed PAX header, or one that would rename every member
limit       an extension header past `MAX_EXTENSION`, a name past `MAX_NAME`, more than `MAX_MEMBERS` members
index       a name that is not `<index>/<path>` with an index that is expected
path        a name that is absolute or has `..`, an empty segment or a NUL
link        a link whose target is empty or holds a NUL
hardlink    a hard link to another tree
type        a sparse file, or a member of a kind that no Linux file system has
size        a size past `MAX_SIZE`, or content of a member that can have none
end         something other than zeros after the end, or a lone zero block
truncated   the bytes ended before the end blocks did
==========  =====================================================================================================

`admission` has the rules between members.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import msgspec

from senro.domain.errors import TreeError
from senro.domain.tar.header import BLOCK, Header, read_header, read_pax
from senro.domain.tree.paths import MAX_NAME, check_path, check_target, raw, text
from senro.domain.tree.tree import EXECUTABLE, lost_bits

MAX_EXTENSION = 1 << 20
"""Bytes of an extension header. Linux limits an extended attribute to 64 KiB, and a name to 4 KiB."""

MAX_SIZE = 1 << 43
"""Bytes of a file: 8 TiB, half of what ext4 can store."""

MAX_MEMBERS = 4_000_000
"""Members of an archive. Each needs about half a kilobyte of memory."""

_MAX_EXTENSIONS = 8  # GNU tar writes at most one of each of its four kinds before a member
_FILES = {b"0", b"\0", b"7"}
_OTHERS = {b"1", b"2", b"5"}
_SPECIAL = {b"3": "a character device", b"4": "a block device", b"6": "a fifo"}
_NAMES = {
    b"S": "a sparse file",
    b"M": "the rest of a file from another volume",
    b"V": "a volume label",
    b"D": "a directory of an incremental backup",
}
_ZERO_BLOCK = bytes(BLOCK)
_EXTENSIONS = {b"x", b"g", b"L", b"K"}


class Member(msgspec.Struct, frozen=True, gc=False):
    """A member begins.

    `index`: the number of its mount.
    `path`: its path, "" for the root of the tree.
    `kind`: what it is; "special" is a fifo or a device.
    `executable`, `size`: of a file, which `size` bytes of `Data` follow.
    `target`: what a link leads to, or the earlier member whose content a hard link has.
    `lost`: what a tree cannot keep of it: mode bits, or what a special member is.
    """

    index: int
    path: str
    kind: Literal["file", "directory", "link", "hardlink", "special"]
    executable: bool = False
    size: int = 0
    target: str = ""
    lost: str = ""


class Data(msgspec.Struct, frozen=True, gc=False):
    """A piece, never empty, of the content of the latest file."""

    data: bytes | memoryview


@dataclass(frozen=True, slots=True)
class EndOfMember:
    """The latest file is complete. Other members have no such event."""


@dataclass(frozen=True, slots=True)
class EndOfArchive:
    """Both end blocks have come. Only zeros may follow."""


_END_OF_MEMBER = EndOfMember()

Event = Member | Data | EndOfMember | EndOfArchive
"""What `ArchiveReader.receive_data` returns."""


class ArchiveReader:
    """Give it the bytes in order, then `receive_eof`. After a `TreeError` it must not be used again.

    `indexes` are the trees that may come. `members` counts what came so far, roots not counted. A `Data` may be a
    view of the bytes given: use it before they change.
    """

    def __init__(self, indexes: Collection[int]) -> None:
        self._indexes = {b"%d" % index: index for index in indexes}
        self._block = bytearray()  # the first bytes of a header block that is not whole yet
        self._left = 0  # bytes of content to come
        self._padding = 0  # bytes of padding to come after them
        self._extension: tuple[bytes, bytearray] | None = None  # kind and body of the extension header under way
        self._pending: dict[bytes, bytes] = {}  # what extension headers say of the next member
        self._extensions = 0
        self._zero_blocks = 0
        self.members = 0

    def receive_data(self, data: bytes | memoryview) -> list[Event]:
        """The events of these bytes. Raises `TreeError`."""
        events: list[Event] = []
        view = memoryview(data)
        at = 0
        end = len(view)
        while at < end:
            if self._left:
                take = min(self._left, end - at)
                self._take_content(view[at : at + take], events)
                at += take
            elif self._padding:
                take = min(self._padding, end - at)
                self._padding -= take
                at += take
            elif not self._block and end - at >= BLOCK:
                self._take_block(bytes(view[at : at + BLOCK]), events)
                at += BLOCK
                at += self._take_whole(view, at, events)
            else:
                take = min(BLOCK - len(self._block), end - at)
                self._block += view[at : at + take]
                at += take
                if len(self._block) == BLOCK:
                    block = bytes(self._block)
                    self._block.clear()
                    self._take_block(block, events)
        return events

    def receive_eof(self) -> None:
        """Ends the input. Raises `TreeError` (rule `truncated`) unless the archive is complete."""
        if self._zero_blocks < 2:
            raise TreeError(
                "",
                "truncated",
                f"the archive ended after {self.members} members without its two end blocks; the transfer was cut",
            )
        if any(self._block):
            raise TreeError("", "end", "something other than zeros follows the end of the archive")

    def _take_whole(self, view: memoryview, at: int, events: list[Event]) -> int:
        """Takes the content of a file if all of it is there, as for most files. Returns its length with the padding.

        This saves two iterations per file.
        """
        left = self._left
        size = left + self._padding
        if not left or size > len(view) - at or self._extension is not None:
            return 0
        events += (Data(view[at : at + left]), _END_OF_MEMBER)
        self._left = self._padding = 0
        return size

    def _take_content(self, piece: memoryview, events: list[Event]) -> None:
        self._left -= len(piece)
        if self._extension is None:
            events.append(Data(piece))
            if not self._left:
                events.append(_END_OF_MEMBER)
            return
        kind, body = self._extension
        body += piece
        if not self._left:
            self._extension = None
            self._take_extension(kind, bytes(body))

    def _take_block(self, block: bytes, events: list[Event]) -> None:
        if block == _ZERO_BLOCK:
            self._zero_blocks += 1
            if self._extensions:
                raise TreeError("", "format", "an extension header stands before no member")
            if self._zero_blocks == 2:
                events.append(EndOfArchive())
            return
        if self._zero_blocks:
            raise TreeError("", "end", "something other than zeros follows the end of the archive")
        header = read_header(block)
        if header.kind in _EXTENSIONS:
            self._begin_extension(header)
        else:
            self._begin_member(header, events)

    def _begin_extension(self, header: Header) -> None:
        self._extensions += 1
        if header.size > MAX_EXTENSION or self._extensions > _MAX_EXTENSIONS:
            raise TreeError("", "limit", f"the headers before a member are too large ({header.size} bytes)")
        if not header.size:
            raise TreeError("", "format", "an extension header is empty")
        self._extension = (header.kind, bytearray())
        self._left = header.size
        self._padding = -header.size % BLOCK

    def _take_extension(self, kind: bytes, body: bytes) -> None:
        if kind == b"L":
            self._pending.setdefault(b"path", body.removesuffix(b"\0"))
        elif kind == b"K":
            self._pending.setdefault(b"linkpath", body.removesuffix(b"\0"))
        elif kind == b"x":
            self._pending.update(read_pax(body))
        else:
            self._extensions = 0
            if {b"path", b"linkpath", b"size"} & read_pax(body).keys():
                raise TreeError("", "pax", "a global header would give every member one name or size")

    def _begin_member(self, header: Header, events: list[Event]) -> None:
        name, size, target = header.name, header.size, header.target
        if self._pending:
            name, size, target = self._extended(name, size, target)
        self._extensions = 0
        # The slash behind a directory does not belong to its path.
        if len(name) > MAX_NAME and len(name.removesuffix(b"/")) > MAX_NAME:
            raise TreeError(_shown(name), "limit", f"the name has more than {MAX_NAME} bytes")
        # Before POSIX a directory was a file whose name ends with a slash.
        kind = b"5" if header.kind == b"\0" and name.endswith(b"/") else header.kind
        if kind not in _FILES and kind not in _OTHERS and kind not in _SPECIAL:
            what = _NAMES.get(kind, f"of the unknown kind {kind!r}")
            raise TreeError(_shown(name), "type", f"the member is {what}; only what a file system has may come back")
        if size > MAX_SIZE:
            raise TreeError(_shown(name), "size", f"the member claims {size} bytes; at most {MAX_SIZE} are allowed")
        index, path = self._place(name, directory=kind == b"5", shown=name)
        if kind in _FILES:
            executable, lost = bool(header.mode & EXECUTABLE), lost_bits(header.mode)
            events.append(Member(index, path, "file", executable, size, "", lost))
            self._left = size
            self._padding = -size % BLOCK
            if not size:
                events.append(_END_OF_MEMBER)
        else:
            member = self._member(index, path, kind, header, target)
            if size:
                raise TreeError(_shown(name), "size", f"a {member.kind} with {size} bytes of content")
            events.append(member)
        self.members += bool(path)
        if self.members > MAX_MEMBERS:
            raise TreeError(_shown(name), "limit", f"the archive has more than {MAX_MEMBERS} members")

    def _extended(self, name: bytes, size: int, target: bytes) -> tuple[bytes, int, bytes]:
        """Name, size and link target, with the values of the extension headers before the member."""
        pending, self._pending = self._pending, {}
        name = pending.get(b"path", name)
        if any(keyword.startswith(b"GNU.sparse.") for keyword in pending):
            raise TreeError(_shown(name), "type", "the member is a sparse file; only whole files may come back")
        record = pending.get(b"size")
        if record is not None:
            if not record.isdigit() or len(record) > 20:
                raise TreeError(_shown(name), "pax", f"a PAX header gives the size {text(record[:40])!r}")
            size = int(record)
        return name, size, pending.get(b"linkpath", target)

    def _member(self, index: int, path: str, kind: bytes, header: Header, target: bytes) -> Member:
        if kind == b"5":
            return Member(index, path, "directory")
        if kind in _SPECIAL:
            return Member(index, path, "special", lost=_SPECIAL[kind])
        if len(target) > MAX_NAME:
            raise TreeError(path, "limit", f"the link's target has more than {MAX_NAME} bytes")
        if kind == b"2":
            check_target(path, text(target))
            return Member(index, path, "link", target=text(target))
        to, earlier = self._place(target, directory=False, shown=raw(path))
        if to != index:
            raise TreeError(path, "hardlink", f"the hard link leads to another tree (`{text(target)}`)")
        return Member(index, path, "hardlink", target=earlier, lost=lost_bits(header.mode))

    def _place(self, name: bytes, *, directory: bool, shown: bytes) -> tuple[int, str]:
        """Tree and path of a member. GNU tar puts `./` before names and a slash behind directories."""
        while name[:2] == b"./":
            name = name[2:]
        if directory:
            name = name.removesuffix(b"/")
        head, _, rest = name.partition(b"/")
        index = self._indexes.get(head)
        if index is None:
            check_path(text(name))
            raise TreeError(
                _shown(shown), "index", "the name does not begin with the number of a mount that comes back"
            )
        path = text(rest)
        if path or not directory:
            check_path(path)
        return index, path


def _shown(name: bytes) -> str:
    return text(name[:MAX_NAME])
