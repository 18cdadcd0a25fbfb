"""Makes the bytes of an archive's members.

The format is ustar (POSIX.1-1988), which any tar reads. Names are written as bytes: neither GNU nor busybox tar
converts the fields of a ustar header, while GNU tar converts the values of a PAX header (POSIX.1-2001) to its locale.
So a PAX header precedes only a member whose name or link target does not fit. Sizes above 8 GiB are base-256, since
busybox does not read sizes in PAX headers. Owner and time are constant, and so is the mode but for the executable bit.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from senro.domain.errors import TreeError
from senro.domain.tar.header import byte_sum
from senro.domain.tree.paths import MAX_NAME, raw
from senro.domain.tree.tree import Entry

BLOCK = 512
"""Bytes of a block: a header is one block, and contents are padded to whole blocks."""

END = bytes(2 * BLOCK)
"""The two blocks that end an archive. Without them it is incomplete."""

_NAME = 100
_PREFIX = 155
_LAST_OCTAL_SIZE = 0o77777777777
_NO_TIME = b"00000000000\0"
_ZERO = b"0000000\0"
_OWNERS = _ZERO + _ZERO

_TAIL = b"ustar\x0000" + bytes(64) + _OWNERS
_PAX_NAME = b"PaxHeaders"


def _modes(file: int, executable: int) -> dict[bytes, bytes]:
    """The fields between name and size: the mode of each kind, and no owner."""
    modes = {b"0": file, b"x": executable, b"5": executable, b"2": 0o777}
    return {kind: b"%07o\0" % mode + _OWNERS for kind, mode in modes.items()}


_MODES, _OPEN_MODES = _modes(0o644, 0o755), _modes(0o666, 0o777)


def member_header(index: int, entry: Entry, *, open_to_all: bool = False) -> bytes:
    """The header of the entry as a member of the tree `index`: one block, or at least three with a PAX header.

    `entry.size` bytes and `padding(entry.size)` zeros must follow. With `open_to_all`, for a user that senro does not
    know, the modes are 0666 and 0777, else 0644 and 0755. Raises `TreeError` (rule `limit`) if the name is too long.
    """
    modes = _OPEN_MODES if open_to_all else _MODES
    name = b"%d/" % index + raw(entry.path)
    if entry.kind == "file":
        kind, mode, target = b"0", modes[b"x" if entry.executable else b"0"], b""
    else:
        kind = b"5" if entry.kind == "directory" else b"2"
        mode, target = modes[kind], raw(entry.target)
    if len(name) <= _NAME and len(target) <= _NAME:
        return _header(name, mode, entry.size, kind, target)
    if len(name) > MAX_NAME:
        raise TreeError(entry.path, "limit", f"with its mount's number the path has more than {MAX_NAME} bytes")
    records = b""
    prefix, short = _split(name)
    if not short:
        records += _record(b"path", name)
        # For a reader without PAX; with a slash at its end it would be a directory for busybox tar.
        short = name[:_NAME].rstrip(b"/")
    if len(target) > _NAME:
        records += _record(b"linkpath", target)
        target = target[:_NAME]
    extension = b""
    if records:
        extension = _header(_PAX_NAME, _MODES[b"0"], len(records), b"x", b"")
        extension += records + bytes(padding(len(records)))
    return extension + _header(short, mode, entry.size, kind, target, prefix=prefix)


def padding(size: int) -> int:
    """How many zeros fill the last block of `size` bytes."""
    return -size % BLOCK


def archive_length(parts: Iterable[tuple[int, Iterable[Entry]]]) -> int:
    """The length in bytes of an archive of these entries, with its end blocks."""
    length = len(END)
    for index, entries in parts:
        room = _NAME - len(str(index)) - 1
        for entry in entries:
            # A code point has at most 4 bytes, so the header of a short name needs not be built.
            if len(entry.path) * 4 <= room and len(entry.target) * 4 <= _NAME:
                length += BLOCK
            else:
                length += len(member_header(index, entry))
            length += entry.size + padding(entry.size)
    return length


def _header(name: bytes, mode: bytes, size: int, kind: bytes, target: bytes, *, prefix: bytes = b"") -> bytes:
    length = b"%011o\0" % size if size <= _LAST_OCTAL_SIZE else b"\x80" + size.to_bytes(11, "big")
    front = name.ljust(_NAME, b"\0") + mode + length
    back, known = _back(kind, target, prefix)
    return b"%b%b%06o\0 %b" % (front, _NO_TIME, byte_sum(front) + known, back)


@lru_cache(maxsize=64)
def _back(kind: bytes, target: bytes, prefix: bytes) -> tuple[bytes, int]:
    """What follows the checksum, and the sum of it, of the time, and of a checksum field of spaces.

    Nearly all members have the same.
    """
    back = kind + target.ljust(_NAME, b"\0") + _TAIL + prefix.ljust(_PREFIX + 12, b"\0")
    return back, byte_sum(back) + byte_sum(_NO_TIME) + 8 * ord(" ")


def _split(name: bytes) -> tuple[bytes, bytes]:
    """The name as prefix and name field, without the slash between them; two empty ones if it does not fit."""
    if len(name) <= _NAME:
        return b"", name
    at = name.find(b"/", max(len(name) - _NAME - 1, 1), _PREFIX + 1)
    return (name[:at], name[at + 1 :]) if at > 0 else (b"", b"")


def _record(keyword: bytes, value: bytes) -> bytes:
    """A PAX record: length, keyword, value and newline. The length includes its own digits."""
    rest = b" %b=%b\n" % (keyword, value)
    length = len(rest)
    while length != len(rest) + len(str(length)):
        length = len(rest) + len(str(length))
    return b"%d%b" % (length, rest)
