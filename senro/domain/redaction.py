"""Keeping the values of secrets out of what is written down and shown."""

from __future__ import annotations

import base64
from collections.abc import Iterable

MASK = b"***"
"""What stands in a value's place."""

SHORTEST = 4
"""Bytes. A shorter value, or line of one, is not masked: it would make every text unreadable and hide nothing."""


class Redactor:
    """Masks known values in lines of text.

    A value of several lines is known by each of its lines, since a log is cut at newlines; each value is known in its
    base64 form too, since that is how Secrets are printed. Its repr tells nothing.
    """

    def __init__(self, values: Iterable[bytes]) -> None:
        known: set[bytes] = set()
        for value in values:
            known.update(line.strip(b"\r") for line in value.split(b"\n"))
            known.add(base64.b64encode(value).rstrip(b"="))
        # The longest first: a value that begins with another one must not leave its end behind.
        self._known = sorted((value for value in known if len(value) >= SHORTEST), key=lambda one: (-len(one), one))

    def __repr__(self) -> str:
        return "<Redactor>"

    def apply(self, line: bytes) -> bytes:
        """`line` with every known value masked."""
        for value in self._known:
            if value in line:
                line = line.replace(value, MASK)
        return line

    def text(self, line: str) -> str:
        """As `apply`, for text."""
        if not self._known:
            return line
        return self.apply(line.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")
