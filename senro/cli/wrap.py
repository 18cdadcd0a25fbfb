"""Wraps text into lines of a readable width."""

from __future__ import annotations

import textwrap

from senro.domain.text.printable import printable

WIDTH = 100
"""The maximum width of a line, in columns."""


def wrap(text: str, indent: str, hanging: str | None = None) -> list[str]:
    """Returns `text` in lines of at most `WIDTH` columns, with control characters escaped.

    `indent` precedes the first line and `hanging`, by default `indent`, the others. A longer word is not broken.
    """
    return textwrap.wrap(
        printable(" ".join(text.split())),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent if hanging is None else hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
