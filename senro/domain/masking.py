"""Masking secrets in lines that come in pieces."""

from __future__ import annotations

from senro.domain.redaction import Redactor


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
        self._held = line[cut:]
        return self._redactor.apply(line[:cut])

    def finish(self) -> bytes:
        """What was held back, where the stream ended without a newline."""
        held, self._held = self._held, b""
        return self._redactor.apply(held)
