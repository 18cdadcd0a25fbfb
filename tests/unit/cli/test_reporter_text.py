from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.cli.reporters.text import clock_time, cut, display_width, duration, plural, printable, size
from senro.cli.reporters.transfer_meter import Meter

HOSTILE = st.text(alphabet="\x1b[]()\\;0123mKHPX^_#\x07\x08\r\n\t\x7f\x80\x90\x9b\x9c\x9d\u202e\u2028\ud800ab")


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain words, ünïcode, 日本語, 👩‍💻", "plain words, ünïcode, 日本語, 👩‍💻"),
        ("\x1b[1;31merror\x1b[0m: no", "error: no"),
        ("\x1b[2J\x1b[H\x1b[?25lgone", "gone"),
        ("\x1b]0;a title\x07text", "text"),
        ("\x1b]8;;http://example.com\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP1$r0m\x1b\\after", "after"),
        ("\x1b]52;c;aGk=", ""),
        ("\x1b(0\x1b7\x1b#8\x1bcreset", "reset"),
        ("\x9b31mred\x9b0m", "red"),
        ("\x1b\x1b[0m[31mnot rebuilt", "\\x1b[31mnot rebuilt"),
        ("bell\x07 back\x08space del\x7f", "bell\\x07 back\\x08space del\\x7f"),
        (" 10%\r 55%\r100% done\r\n", "100% done"),
        ("\r\r", ""),
        ("one\ntwo\r\nthree", "one two three"),
        ("a\tb", "a   b"),
        ("safe\u202eevil\u2066x", "safe\\u202eevil\\u2066x"),
        ("line\u2028separator\x85next", "line\\u2028separator\\x85next"),
        ("half \ud800 a letter", "half \\ud800 a letter"),
        ("no\u00a0break", "no break"),
        ("end   ", "end"),
        ("", ""),
    ],
)
def test_printable(raw: str, shown: str) -> None:
    """Colours are removed, a line that was rewritten shows its last state, other control characters are escaped."""
    assert printable(raw) == shown


@given(HOSTILE | st.text())
def test_printable_is_harmless_and_stable(raw: str) -> None:
    """The result has no control character, lone surrogate or second line, and a second pass changes nothing."""
    shown = printable(raw)
    assert all(character >= " " and not "\x7f" <= character <= "\x9f" for character in shown)
    assert shown.encode().decode() == shown
    assert len(shown.splitlines()) <= 1
    assert printable(shown) == shown


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("short", 5, "short"),
        ("longer", 5, "long…"),
        ("日本語", 6, "日本語"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
        ("e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"),
        ("anything", None, "anything"),
        ("ab", 1, "…"),
    ],
)
def test_cut(text: str, width: int | None, expected: str) -> None:
    """A text is cut by its columns, with an ellipsis in the last one."""
    assert cut(text, width) == expected


@given(st.text(), st.integers(1, 30))
def test_cut_fits(text: str, width: int) -> None:
    """A cut text fits into the width."""
    assert display_width(cut(printable(text), width)) <= width


@pytest.mark.parametrize(
    ("seconds", "clock", "words"),
    [
        (-1, "00:00", "0.0 s"),
        (0.04, "00:00", "0.0 s"),
        (59.96, "00:59", "60.0 s"),
        (99.96, "01:39", "1 min 40 s"),
        (200.4, "03:20", "3 min 20 s"),
        (3599.7, "59:59", "1 h 0 min"),
        (7500, "2:05:00", "2 h 5 min"),
    ],
)
def test_times(seconds: float, clock: str, words: str) -> None:
    """A clock shows whole seconds; a duration has one decimal below 100 seconds."""
    assert clock_time(seconds) == clock
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (999.6, "1.0 kB"),
        (12_345_678, "12.3 MB"),
        (999_960_000, "1.0 GB"),
        (5e12, "5.0 TB"),
        (7e15, "7000.0 TB"),
    ],
)
def test_sizes(count: float, words: str) -> None:
    """Sizes use decimal units, never 1000.0 of the smaller unit."""
    assert size(count) == words


def test_plural() -> None:
    """The noun has an s except for one."""
    assert [plural(count, "step") for count in (0, 1, 2)] == ["0 steps", "1 step", "2 steps"]


def test_meter_shows_the_speed_of_the_last_seconds() -> None:
    """The speed of a stalled transfer falls to zero within the window; a restarted one is measured anew."""
    assert Meter("download").speed is None
    meter = Meter("download")
    for second in range(11):
        meter.update(second, second * 1_000_000, None)
    assert meter.brief() == "reading back 1.0 MB/s"
    assert meter.line() == "reading back 10.0 MB, 1.0 MB/s"
    for second in range(11, 15):
        meter.update(second, 10_000_000, None)
    assert meter.speed == 0
    meter.update(15, 200, 1000)
    assert meter.brief() == "reading back 200 B"
    assert meter.line() == "reading back 200 B of 1.0 kB"
    meter.update(16, 1000, 1000)
    assert meter.complete
    assert meter.line() == "read back 1.0 kB"
