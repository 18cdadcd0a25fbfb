from __future__ import annotations

import base64
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.domain.text.redactor import MASK, SHORTEST, Redactor
from tests.lib.archives.files import BUSYBOX, needs_busybox

# Few letters, so that values begin, end and overlap with each other and with the mask.
pieces = st.text("ab* ", min_size=SHORTEST, max_size=9).map(str.encode)
values = st.lists((pieces | st.binary(min_size=SHORTEST, max_size=12)).filter(lambda value: value.strip()), max_size=4)
lines = st.text("ab* x", max_size=12).map(str.encode)


def parts(value: bytes) -> list[bytes]:
    """What a log that is cut at newlines can show of the value."""
    return [
        part for part in (line.strip(b"\r") for line in value.split(b"\n")) if len(part) >= SHORTEST and part.strip()
    ]


@given(values, st.lists(lines | st.integers(0, 3), max_size=8))
def test_no_value_survives_where_it_stood(known: list[bytes], drawn: list[bytes | int]) -> None:
    """Whatever stands around them, side by side or overlapping: after masking no known value is in the line."""
    line = b"".join(part if isinstance(part, bytes) else known[part % len(known)] if known else b"" for part in drawn)
    line = line.replace(b"\n", b" ")
    masked = Redactor(known).apply(line)
    for value in known:
        for part in parts(value):
            assert part not in masked


@given(values, lines)
def test_masking_again_changes_nothing(known: list[bytes], line: bytes) -> None:
    """`apply` is idempotent, also where a mask and what stands beside it are a value themselves."""
    redactor = Redactor(known)
    once = redactor.apply(line)
    assert redactor.apply(once) == once


@given(values, lines)
def test_a_line_without_a_value_stays(known: list[bytes], line: bytes) -> None:
    """Only values are masked: a line that holds none, in no form, comes out byte for byte."""
    forms = [form for value in known for form in (*parts(value), *map(bytes.strip, parts(value)))]
    encoded = [base64.b64encode(value).rstrip(b"=") for value in known]
    if not any(form in line for form in [*forms, *encoded] if len(form) >= SHORTEST):
        assert Redactor(known).apply(line) == line


@given(st.lists(st.text("abcxyz", min_size=4, max_size=8), min_size=1, max_size=4), st.sampled_from(["\n", "\r\n"]))
def test_each_line_of_a_value_is_known(written: list[str], newline: str) -> None:
    """A key of several lines shows in no line of the log, with the file's own newlines or with others."""
    redactor = Redactor([newline.join(written).encode()])
    for line in written:
        assert redactor.apply(f"> {line} <".encode()) == b"> *** <"
        assert redactor.apply(f"    {line}\r\n".encode()) == b"    ***\r\n"


def test_a_line_is_known_without_its_indentation() -> None:
    """What is indented in the file is masked where it is printed further to the left, too."""
    redactor = Redactor([b"users:\n    token: hunter2hunter2\n"])
    assert redactor.apply(b"token: hunter2hunter2") == MASK
    assert redactor.apply(b"  users:") == b"  ***"


@given(st.binary(min_size=3, max_size=300))
def test_the_base64_form_is_known(value: bytes) -> None:
    """As `kubectl get secret -o yaml` prints it, padded or not."""
    redactor = Redactor([value])
    encoded = base64.b64encode(value)
    assert encoded.rstrip(b"=") not in redactor.apply(b"data: " + encoded)
    assert redactor.apply(b"data: " + encoded.rstrip(b"=")) == b"data: ***"


@needs_busybox
@pytest.mark.parametrize("command", [["base64"], [BUSYBOX or "", "base64"]], ids=["gnu", "busybox"])
@pytest.mark.parametrize("size", [56, 57, 58, 200])
def test_the_base64_form_is_known_as_the_command_cuts_it(command: list[str], size: int) -> None:
    """Every full line that `base64` prints of a long value is masked."""
    value = bytes(range(size))
    printed = subprocess.run(command, input=value, capture_output=True, check=True, timeout=10).stdout
    redactor = Redactor([value])
    assert {redactor.apply(line) for line in printed.rstrip(b"=\n").split(b"\n") if len(line) >= SHORTEST} == {MASK}


def test_values_that_overlap_leave_no_end_behind() -> None:
    """Neither the end of the one nor the beginning of the other stays."""
    assert Redactor([b"abcdef", b"defghi"]).apply(b"<abcdefghi>") == b"<***>"
    assert Redactor([b"abcd", b"abcdefgh"]).apply(b"abcdefgh abcd") == b"*** ***"
    assert Redactor([b"aaaa"]).apply(b"aaaaaa") == MASK


@pytest.mark.parametrize("value", [b"", b"abc", b"a\nb\nc", b"    ", b"\t\t\t\t\n", b"x\n     \ny"])
def test_what_is_short_or_blank_is_not_masked(value: bytes) -> None:
    """Fewer than four bytes, or nothing but blanks, would make every text unreadable and hide nothing."""
    line = b"a b c abc x y     \t\t\t\t  ."
    assert Redactor([value]).apply(line) == line


@given(values, st.text(st.characters(), max_size=12))
def test_any_text_is_masked_and_can_be_written(known: list[bytes], text: str) -> None:
    """`text` is total: halves of surrogate pairs and bytes that are no UTF-8 become marks; all else is as `apply`."""
    masked = Redactor(known).text(text)
    masked.encode()
    if all(not 0xD800 <= ord(letter) < 0xE000 for letter in text):
        assert masked == Redactor(known).apply(text.encode()).decode("utf-8", "replace")


def test_text_keeps_a_file_name_legible() -> None:
    """A name with a byte that is no UTF-8 keeps the rest; so does a text with half a character of another kind."""
    redactor = Redactor([b"hunter2"])
    assert redactor.text("caf\udce9 hunter2") == "caf\ufffd ***"
    assert redactor.text("\ud800 hunter2") == "? ***"


def test_a_redactor_tells_nothing() -> None:
    """Its repr holds no value."""
    assert repr(Redactor([b"hunter2"])) == "<Redactor>"
