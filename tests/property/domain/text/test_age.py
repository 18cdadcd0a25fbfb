"""Ages of a command line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.domain.text.age import age_text, parse_age


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("90", 90),
        ("90s", 90),
        ("2m", 120),
        ("12h", 43_200),
        ("30d", 2_592_000),
        ("1w", 604_800),
        ("1d12h", 129_600),
        (" 1w2d3h4m5s ", 604_800 + 2 * 86_400 + 3 * 3_600 + 4 * 60 + 5),
        ("", None),
        ("d", None),
        ("12h1d", None),
        ("1d1d", None),
        ("-1d", None),
        ("1.5d", None),
        ("1y", None),
        ("forever", None),
        ("٣d", None),
        ("9999999999d", None),
    ],
)
def test_each_form(text: str, seconds: int | None) -> None:
    """Units from large to small, each once; a bare number is seconds; other text is None."""
    assert parse_age(text) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (-5, "0s"),
        (0.9, "0s"),
        (59, "59s"),
        (60, "1m"),
        (725, "12m 5s"),
        (86_400, "1d"),
        (86_460, "1d"),
        (90_000, "1d 1h"),
        (30 * 86_400 + 3_599, "30d"),
    ],
)
def test_each_age_as_text(seconds: float, text: str) -> None:
    """The two largest units, the second one unless it is 0."""
    assert age_text(seconds) == text


@given(st.integers(0, 10**9))
def test_the_text_is_parsed_back(seconds: int) -> None:
    """It is a valid age, and below the original by less than its last unit."""
    read = parse_age(age_text(seconds).replace(" ", ""))
    assert read is not None
    assert read <= seconds
    assert seconds - read < (60 if seconds < 86_400 and seconds >= 3_600 else 3_600 if seconds >= 86_400 else 1)


@given(st.text(max_size=12))
def test_any_text(text: str) -> None:
    """It is None or at least 0, and raises nothing."""
    seconds = parse_age(text)
    assert seconds is None or seconds >= 0
