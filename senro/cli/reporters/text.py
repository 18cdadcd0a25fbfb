"""Formats text for a terminal: without control sequences, cut to its width, with sizes and times in words."""

from __future__ import annotations

import re
import unicodedata
from itertools import accumulate

_SEQUENCES = re.compile(
    # ECMA-48 sections 5.4, 5.6 and 8.3: control sequences (colours, cursor), control strings (titles, links, images)
    # up to their terminator or the end of the text, and the escape sequences of two or more characters.
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[PX\]^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]"
)
_TAB = 4  # columns; a table has no room for eight


def printable(text: str) -> str:
    r"""Returns `text` as one line without anything that a terminal would interpret.

    Escape sequences are removed. Of a line with carriage returns, such as a progress bar, the last state remains.
    A tab becomes spaces, a newline one space. Other control characters, marks that reorder text (bidi) and lone
    surrogates are escaped as `\x1b`, `\u202e`.
    """
    if text.isprintable():
        return text.rstrip()
    text = _SEQUENCES.sub("", text)
    lines = [_last_state(line) for line in text.replace("\r\n", "\n").split("\n")]
    return "".join(_visible(character) for character in " ".join(lines).expandtabs(_TAB)).rstrip()


def _last_state(line: str) -> str:
    states = [state for state in line.split("\r") if state]
    return states[-1] if states else ""


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    category = unicodedata.category(character)
    if category == "Zs":  # spaces of other widths
        return " "
    if category == "Cf" and not _reorders(character):  # joiners, which emoji and several scripts need
        return character
    return (
        character.encode("ascii", "backslashreplace").decode() if ord(character) > 127 else f"\\x{ord(character):02x}"
    )


def _reorders(character: str) -> bool:
    """Whether the character is an explicit directional mark (Unicode UAX 9, section 2)."""
    return character in "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def display_width(text: str) -> int:
    """Returns the number of terminal columns of a printable text (Unicode UAX 11)."""
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, width: int | None) -> str:
    """Returns the text cut to `width` columns, the last one an ellipsis if something was cut; None is no limit."""
    if width is None or display_width(text) <= width:
        return text
    fitting = sum(used < width for used in accumulate(map(_columns, text)))
    return text[:fitting] + "…"


def clock_time(seconds: float) -> str:
    """Returns a time as a clock shows it: `00:07`, `12:40`, `1:02:03`."""
    minutes, rest = divmod(int(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"


def duration(seconds: float) -> str:
    """Returns a duration for a sentence: `0.4 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 99.95:
        return f"{max(0.0, seconds):.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def size(count: float) -> str:
    """Returns a number of bytes in decimal units: `812 B`, `12.3 MB`."""
    if count < 999.5:
        return f"{round(count)} B"
    for unit in ("kB", "MB", "GB"):
        count /= 1000
        if count < 999.95:
            return f"{count:.1f} {unit}"
    return f"{count / 1000:.1f} TB"


def plural(count: int, noun: str) -> str:
    """Returns `1 step`, `2 steps`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
