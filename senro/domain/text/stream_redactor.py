"""Masking secrets in lines that come in pieces."""

from __future__ import annotations

from senro.domain.text.redactor import Redactor

HELD_LIMIT = 65_536
"""Bytes beyond the longest value that are held back at most. Only values that overlap themselves on and on hold more;
their run is cut at the end of one, after which the end of another may show, never the whole."""


class PieceMask:
    """Masks one stream.

    A value may begin in one piece of a line and end in the next, so the end of a piece that has no newline behind it is
    held back until it is known not to begin one.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = b""

    def feed(self, piece: bytes, *, complete: bool) -> bytes:
        """What of the line may be shown now; with `complete`, `piece` ends it."""
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
        """What was held back, where the stream ended without a newline."""
        held, self._held = self._held, b""
        return self._redactor.apply(held)
