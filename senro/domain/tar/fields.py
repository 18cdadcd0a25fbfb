"""The fields of a header block, as GNU tar, busybox tar and others write them."""

from __future__ import annotations

import re
from typing import NamedTuple
from zlib import adler32

from senro.domain.errors import TreeError
from senro.domain.paths import text

BLOCK = 512

_MAGICS = {
    b"ustar\x0000": True,  # POSIX: the prefix field continues the name
    b"ustar  \0": False,  # GNU and busybox: other things stand where the prefix would
    bytes(8): False,  # before POSIX
}
_RECORD = re.compile(rb"(\d{1,9}) ")


class Header(NamedTuple):
    """A header block, taken apart: names are bytes without their padding, numbers are checked."""

    name: bytes
    kind: bytes
    mode: int
    size: int
    target: bytes


def read_header(block: bytes) -> Header:
    """Take a header block apart. Raises `TreeError`: rules `checksum`, `format`, `size`."""
    # The sum counts its own field as spaces (POSIX ustar).
    if _number(block[148:156], "checksum") != byte_sum(block[:148]) + 8 * 32 + byte_sum(block[156:]):
        raise TreeError("", "checksum", "a member's header does not match its checksum; the archive is damaged")
    has_prefix = _MAGICS.get(block[257:265])
    if has_prefix is None:
        raise TreeError("", "format", f"a member's header is in no known form ({block[257:265]!r})")
    name = block[:100].partition(b"\0")[0]
    if has_prefix and block[345]:
        name = block[345:500].partition(b"\0")[0] + b"/" + name
    return Header(
        name=name,
        kind=block[156:157],
        mode=_number(block[100:108], "format"),
        size=_number(block[124:136], "size"),
        target=block[157:257].partition(b"\0")[0],
    )


def byte_sum(block: bytes) -> int:
    """The sum of at most 512 bytes.

    The lower half of an Adler-32 (RFC 1950) is 1 + the sum modulo 65521, so it is exact for 256 bytes, and it takes
    a tenth of the time that `sum` does, for each header of each file.
    """
    if len(block) <= 256:
        return (adler32(block) & 0xFFFF) - 1
    return (adler32(block[:256]) & 0xFFFF) + (adler32(block[256:]) & 0xFFFF) - 2


def read_pax(body: bytes) -> dict[bytes, bytes]:
    """The records of a PAX header. Raises `TreeError` (rule `pax`) for anything but whole records."""
    records = {}
    at = 0
    while at < len(body):
        match = _RECORD.match(body, at)
        end = at + int(match[1]) if match else 0
        if not match or end <= match.end() or body[end - 1 : end] != b"\n":
            raise TreeError("", "pax", f"a PAX header is malformed at byte {at}")
        keyword, equals, value = body[match.end() : end - 1].partition(b"=")
        if not equals:
            raise TreeError("", "pax", f"a PAX record has no value: {text(keyword[:80])!r}")
        records[keyword] = value
        at = end
    return records


def _number(field: bytes, rule: str) -> int:
    """An octal number between spaces, NULs behind it, or one in base 256 (GNU; never negative here)."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = field.lstrip(b" ").rstrip(b" \0")
    if digits.translate(None, b"01234567"):
        raise TreeError("", rule, f"a member's header holds {field!r} where a number belongs")
    return int(digits or b"0", 8)
