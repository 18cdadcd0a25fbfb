from __future__ import annotations

from fractions import Fraction

import pytest

from senro.domain.kube.quantities import parse_quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", Fraction(0)),
        ("1", Fraction(1)),
        ("+1", Fraction(1)),
        ("-1", Fraction(-1)),
        ("0.1", Fraction(1, 10)),
        (".5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("1n", Fraction(1, 10**9)),
        ("1u", Fraction(1, 10**6)),
        ("500m", Fraction(1, 2)),
        ("1k", Fraction(1000)),
        ("1M", Fraction(10**6)),
        ("1G", Fraction(10**9)),
        ("1T", Fraction(10**12)),
        ("1P", Fraction(10**15)),
        ("1E", Fraction(10**18)),
        ("1Ki", Fraction(2**10)),
        ("1.5Gi", Fraction(3 * 2**29)),
        ("1Ei", Fraction(2**60)),
        ("1e3", Fraction(1000)),
        ("1E3", Fraction(1000)),
        ("1e-3", Fraction(1, 1000)),
        ("12E+18", Fraction(12 * 10**18)),
    ],
)
def test_a_quantity_is_read_exactly(text: str, value: Fraction) -> None:
    """Suffixes and exponents have the apiserver's meaning, and nothing is rounded."""
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "1 ",
        "1\n",
        ".",
        "1.1.1",
        "--1",
        "1K",
        "1mi",
        "1ki",
        "1kb",
        "256Mb",
        "1GB",
        "1i",
        "1e",
        "1e+",
        "1k3",
        "1e19",
        "1e-19",
        "1e999999999",
        "0x10",
        "1_000",
        "NaN",
        "inf",
        "\u0663",
        "1" * 65,
    ],
)
def test_invalid_quantities(text: str) -> None:
    """What the apiserver refuses is None, and so is an exponent that would need too much memory."""
    assert parse_quantity(text) is None
