"""Makes foreign text safe for a terminal, a log and JSON."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""The text with everything that is not printable as an escape: `\x1b`, `\n`, `\udcff`.

    A pod chooses the names in its archive. Control sequences must not reach a terminal, and bytes that are not UTF-8
    cannot be written as JSON.
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
