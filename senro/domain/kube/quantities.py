"""Kubernetes quantities as exact fractions: `500m`, `1.5Gi`, `1e3` (docs/design/api-rules.md#quantities)."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

_QUANTITY: Final = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))([a-zA-Z]*)([+-]?[0-9]*)")

_SUFFIXES: Final = {
    **{suffix: Fraction(10) ** power for suffix, power in zip("num", (-9, -6, -3), strict=True)},
    "": Fraction(1),
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Fraction(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}

_LONGEST: Final = 64
"""Characters. The apiserver has no limit of its own, but no sensible quantity is longer."""

_LARGEST_EXPONENT: Final = 18  # beyond it every value is capped at 2**63-1 or rounded up to 1e-9


def parse_quantity(text: str) -> Fraction | None:
    """The value; None if the apiserver would refuse `text`, or its exponent is not from -18 to 18."""
    found = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None:
        return None
    number, suffix, exponent = found.groups()
    if suffix in {"e", "E"} and exponent.lstrip("+-"):
        power = int(exponent)
        return Fraction(number) * Fraction(10) ** power if abs(power) <= _LARGEST_EXPONENT else None
    if exponent or suffix not in _SUFFIXES:
        return None
    return Fraction(number) * _SUFFIXES[suffix]
