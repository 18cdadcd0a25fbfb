"""Ages as people write them on a command line: `30d`, `12h`, `1d12h`, `90` for seconds; and back."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = {"w": 7 * 86_400, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_AGE: Final = re.compile(r"(?:(\d{1,9})w)?(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s?)?", re.ASCII)


def parse_age(text: str) -> int | None:
    """Seconds; None for what is no age. Units go from the largest to the smallest, each at most once."""
    found = _AGE.fullmatch(text.strip())
    if found is None or not any(found.groups()):
        return None
    return sum(int(count or 0) * unit for count, unit in zip(found.groups(), _UNITS.values(), strict=True))


def age_text(seconds: float) -> str:
    """The age in its two largest units: `3d 4h`, `12m 5s`, `0s`. A second is the smallest."""
    left = max(0, int(seconds))
    parts: list[str] = []
    for unit, size in _UNITS.items():
        if unit == "w":
            continue  # days are what people count in
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count}{unit}")
    shown = [part for part in parts[:2] if not part.startswith("0")]
    return " ".join(shown) or "0s"
