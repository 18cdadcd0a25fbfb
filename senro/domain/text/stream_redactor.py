"""Masks secrets in lines that arrive in pieces."""

from __future__ import annotations

from senro.domain.text.redactor import Redactor

HELD_LIMIT = 65_536
"""Bytes, beyond the longest value, that are buffered at most. Only a series of overlapping values needs more. It is
split at the end of one of them, so that the end of another may be visible, but no whole value."""


class PieceMask:
    """Masks one stream.

    A value may begin in one piece of a line and end in the next, so the end of an incomplete piece is buffered until it
    is known not to begin a value.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = b""

    def feed(self, piece: bytes, *, complete: bool) -> bytes:
        """Returns what of the line may be shown now; with `complete`, `piece` ends the line."""
        line = self._held + piece
        if complete:
            self._held = b""
            return self._redactor.apply(line)
        cut = self._redactor.safe_cut(line)
        if len(line) - cut > self._redactor.longest + HELD_LIMIT:
            cut = max(cut, self._redactor.last_end(line))
        self._held = line[cut:]
        return self._redactor.apply(line[:cut])

    def finish(self) -> bytes:
        """Returns what was buffered when the stream ended without a newline."""
        held, self._held = self._held, b""
        return self._redactor.apply(held)
