"""Foreign text is made safe for a terminal, a log and JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.domain.errors import StoreError, TreeError
from senro.domain.text.printable import printable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("a b/é/日本", "a b/é/日本"),
        ("\x1b[2J", r"\x1b[2J"),
        ("a\nb\tc", r"a\nb\tc"),
        ("\udcff", r"\udcff"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
    ],
)
def test_cases(text: str, expected: str) -> None:
    """Printable text stays; control sequences, invalid bytes and direction marks are escaped."""
    assert printable(text) == expected


@given(st.text(st.characters()))
def test_always_printable(text: str) -> None:
    """Any text becomes printable and can be encoded as UTF-8."""
    result = printable(text)
    assert result.isprintable()
    assert json.loads(json.dumps(result).encode("utf-8")) == result
    assert printable(result) == result


def test_errors_are_printable() -> None:
    """The sentence of an error with a name from a pod is printable, while its `path` is the name itself."""
    error = TreeError("0/\x1b]0;\udcff", "type", "the member is\na fifo")
    assert str(error) == r"0/\x1b]0;\udcff: the member is\na fifo"
    assert error.path == "0/\x1b]0;\udcff"
    assert str(StoreError("a\udcff", "gone")) == r"a\udcff: gone"
