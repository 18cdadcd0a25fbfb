"""Ages as text: `30d`, `12h`, `1d12h`, `90` for seconds."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = {"w": 7 * 86_400, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_AGE: Final = re.compile(r"(?:(\d{1,9})w)?(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s?)?", re.ASCII)


def parse_age(text: str) -> int | None:
    """Parses an age into seconds; None if it is not valid. Units go from large to small, each at most once."""
    found = _AGE.fullmatch(text.strip())
    if found is None or not any(found.groups()):
        return None
    return sum(int(count or 0) * unit for count, unit in zip(found.groups(), _UNITS.values(), strict=True))


def age_text(seconds: float) -> str:
    """The age in its two largest units, without weeks: `3d 4h`, `12m 5s`, `0s`."""
    left = max(0, int(seconds))
    parts: list[str] = []
    for unit, size in _UNITS.items():
        if unit == "w":
            continue  # people count in days
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count}{unit}")
    shown = [part for part in parts[:2] if not part.startswith("0")]
    return " ".join(shown) or "0s"
