"""The fields of a header block: numbers and checksums."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from senro.domain.errors import TreeError
from senro.domain.tar.header import byte_sum, read_header
from senro.domain.tar.writer import member_header
from senro.domain.tree.tree import Entry

_OCTAL = re.compile(rb" *(?P<digits>[0-7]*)[ \0]*\Z")
_CHARACTERS = [b"0", b"1", b"7", b"8", b"9", b" ", b"\0", b"+", b"-", b"_", b"o", b"x", b"\t", b"\n", b"\x80", b"\xff"]


def _block(field: bytes, start: int) -> bytes:
    """A file's header with these bytes at `start`, and its checksum."""
    block = bytearray(member_header(0, Entry("a", "file")))
    block[start : start + len(field)] = field
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def _expected(field: bytes, rule: str) -> int | str:
    """The value of the field by POSIX ustar and GNU's base 256, or the rule by which it is refused."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    match = _OCTAL.match(field)
    return int(match["digits"] or b"0", 8) if match else rule


def _fields(length: int) -> st.SearchStrategy[bytes]:
    return st.lists(st.sampled_from(_CHARACTERS), min_size=length, max_size=length).map(b"".join)


@given(_fields(12))
@example(b"+0000000017\0")
@example(b"0_000000017\0")
@example(b"0o000000017\0")
@example(b"\x0000000000017"[:12])
@example(b"  17 \0 \0\0\0\0\0")
@example(bytes(12))
def test_a_size_is_octal_or_base_256_or_refused(field: bytes) -> None:
    """A size has the value of POSIX and GNU; a sign, an underscore or a digit above 7 is refused."""
    block = _block(field, 124)
    try:
        found: int | str = read_header(block).size
    except TreeError as error:
        found = error.rule
    assert found == _expected(field, "size")


@given(_fields(8))
@example(b"0000644\0")
def test_a_mode_is_octal_or_base_256_or_refused(field: bytes) -> None:
    """A mode follows the same rule, also when it is cached."""
    block = _block(field, 100)
    for _ in range(2):
        try:
            found: int | str = read_header(block).mode
        except TreeError as error:
            found = error.rule
        assert found == _expected(field, "format")


@given(st.binary(max_size=512))
@example(b"\xff" * 512)
@example(b"\xff" * 256)
@example(b"")
def test_the_sum_of_a_block(block: bytes) -> None:
    """The sum of at most 512 bytes is exact."""
    assert byte_sum(block) == sum(block)


@given(st.integers(min_value=0, max_value=511), st.integers(min_value=1, max_value=255))
def test_a_header_with_one_byte_changed_is_refused(place: int, by: int) -> None:
    """A header with one changed byte is refused, or its checksum is the same."""
    block = bytearray(_block(b"00000000017\0", 124))
    before = read_header(bytes(block))
    block[place] = (block[place] + by) % 256
    try:
        after = read_header(bytes(block))
    except TreeError:
        return
    assert 148 <= place < 156  # only the checksum itself can be written in more ways than one
    assert after == before
