"""Lines of a width that people can read, whatever is in them."""

from __future__ import annotations

import textwrap

from senro.domain.text.printable import printable

WIDTH = 100
"""Columns: what a terminal beside an editor has."""


def wrapped(text: str, indent: str, hanging: str | None = None) -> list[str]:
    """The text in lines of at most `WIDTH`, control sequences written out; a word longer than that stays whole."""
    return textwrap.wrap(
        printable(" ".join(text.split())),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent if hanging is None else hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
