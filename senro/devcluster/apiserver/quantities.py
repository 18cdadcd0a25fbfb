"""Kubernetes' quantities: read exactly, compared numerically (docs/design/api-rules.md#quantities)."""

from __future__ import annotations

import re
from fractions import Fraction

PATTERN = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
"""The expression that the apiserver quotes when it refuses one."""

_NUMBER = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))([A-Za-z]*)([+-]?[0-9]*)")
_MOST_DIGITS = 100
_LARGEST_EXPONENT = 100
"""An apiserver caps what is larger than 2**63-1 without computing it; here it is no quantity, and as quickly."""
_SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{name: Fraction(1000**power) for power, name in enumerate(("k", "M", "G", "T", "P", "E"), start=1)},
    **{name: Fraction(1024**power) for power, name in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)},
}


def parse_quantity(value: object) -> Fraction | None:
    """The number, or None where it is none. JSON numbers are taken as well as strings.

    One of more than 100 digits, or with an exponent beyond 100, is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, int) and abs(value) >= 10**_MOST_DIGITS:
        return None
    found = _NUMBER.fullmatch(str(value))
    if found is None:
        return None
    number, suffix, exponent = found.groups()
    if len(number.strip("+-").replace(".", "")) > _MOST_DIGITS:
        return None
    if suffix in {"e", "E"} and exponent.strip("+-"):
        power = int(exponent) if len(exponent) <= _MOST_DIGITS else _LARGEST_EXPONENT + 1
        return Fraction(number) * Fraction(10) ** power if abs(power) <= _LARGEST_EXPONENT else None
    if exponent or suffix not in _SUFFIXES:
        return None
    return Fraction(number) * _SUFFIXES[suffix]
