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
    """What a log that is split at newlines can show of the value."""
    return [
        part for part in (line.strip(b"\r") for line in value.split(b"\n")) if len(part) >= SHORTEST and part.strip()
    ]


@given(values, st.lists(lines | st.integers(0, 3), max_size=8))
def test_no_value_remains(known: list[bytes], drawn: list[bytes | int]) -> None:
    """After masking no known value is in the line, also where values adjoin or overlap."""
    line = b"".join(part if isinstance(part, bytes) else known[part % len(known)] if known else b"" for part in drawn)
    line = line.replace(b"\n", b" ")
    masked = Redactor(known).apply(line)
    for value in known:
        for part in parts(value):
            assert part not in masked


@given(values, lines)
def test_masking_again_changes_nothing(known: list[bytes], line: bytes) -> None:
    """`apply` is idempotent, also if a mask and its surroundings are a value."""
    redactor = Redactor(known)
    once = redactor.apply(line)
    assert redactor.apply(once) == once


@given(values, lines)
def test_a_line_without_a_value(known: list[bytes], line: bytes) -> None:
    """It does not change."""
    forms = [form for value in known for form in (*parts(value), *map(bytes.strip, parts(value)))]
    encoded = [base64.b64encode(value).rstrip(b"=") for value in known]
    if not any(form in line for form in [*forms, *encoded] if len(form) >= SHORTEST):
        assert Redactor(known).apply(line) == line


@given(st.lists(st.text("abcxyz", min_size=4, max_size=8), min_size=1, max_size=4), st.sampled_from(["\n", "\r\n"]))
def test_each_line_of_a_value_is_masked(written: list[str], newline: str) -> None:
    """A key with several lines appears in no line of the log, whatever its newlines are."""
    redactor = Redactor([newline.join(written).encode()])
    for line in written:
        assert redactor.apply(f"> {line} <".encode()) == b"> *** <"
        assert redactor.apply(f"    {line}\r\n".encode()) == b"    ***\r\n"


def test_a_line_is_masked_without_its_indentation() -> None:
    """A line of a value is masked also with less indentation."""
    redactor = Redactor([b"users:\n    token: hunter2hunter2\n"])
    assert redactor.apply(b"token: hunter2hunter2") == MASK
    assert redactor.apply(b"  users:") == b"  ***"


@given(st.binary(min_size=3, max_size=300))
def test_base64_is_masked(value: bytes) -> None:
    """As `kubectl get secret -o yaml` prints it, with and without padding."""
    redactor = Redactor([value])
    encoded = base64.b64encode(value)
    assert encoded.rstrip(b"=") not in redactor.apply(b"data: " + encoded)
    assert redactor.apply(b"data: " + encoded.rstrip(b"=")) == b"data: ***"


@needs_busybox
@pytest.mark.parametrize("command", [["base64"], [BUSYBOX or "", "base64"]], ids=["gnu", "busybox"])
@pytest.mark.parametrize("size", [56, 57, 58, 200])
def test_lines_of_base64_are_masked(command: list[str], size: int) -> None:
    """Every full line that `base64` prints of a long value is masked."""
    value = bytes(range(size))
    printed = subprocess.run(command, input=value, capture_output=True, check=True, timeout=10).stdout
    redactor = Redactor([value])
    assert {redactor.apply(line) for line in printed.rstrip(b"=\n").split(b"\n") if len(line) >= SHORTEST} == {MASK}


def test_overlapping_values() -> None:
    """Neither the end of one nor the beginning of the other remains."""
    assert Redactor([b"abcdef", b"defghi"]).apply(b"<abcdefghi>") == b"<***>"
    assert Redactor([b"abcd", b"abcdefgh"]).apply(b"abcdefgh abcd") == b"*** ***"
    assert Redactor([b"aaaa"]).apply(b"aaaaaa") == MASK


@pytest.mark.parametrize("value", [b"", b"abc", b"a\nb\nc", b"    ", b"\t\t\t\t\n", b"x\n     \ny"])
def test_short_and_blank_values(value: bytes) -> None:
    """Values with less than four bytes, or only blanks, are not masked."""
    line = b"a b c abc x y     \t\t\t\t  ."
    assert Redactor([value]).apply(line) == line


@given(values, st.text(st.characters(), max_size=12))
def test_any_text(known: list[bytes], text: str) -> None:
    """`text` replaces halves of surrogate pairs and invalid bytes; else it is like `apply`."""
    masked = Redactor(known).text(text)
    masked.encode()
    if all(not 0xD800 <= ord(letter) < 0xE000 for letter in text):
        assert masked == Redactor(known).apply(text.encode()).decode("utf-8", "replace")


def test_text_keeps_a_file_name_legible() -> None:
    """A name with an invalid byte keeps its other characters."""
    redactor = Redactor([b"hunter2"])
    assert redactor.text("caf\udce9 hunter2") == "caf\ufffd ***"
    assert redactor.text("\ud800 hunter2") == "? ***"


def test_the_repr_of_a_redactor() -> None:
    """It has no value."""
    assert repr(Redactor([b"hunter2"])) == "<Redactor>"
