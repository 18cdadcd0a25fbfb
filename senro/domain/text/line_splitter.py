"""Splits a stream of output into lines."""

from __future__ import annotations

LINE_LIMIT = 1_048_576
"""Bytes of a line that are buffered until its end; a longer line is returned in pieces."""


class LineCutter:
    """Splits one stream; lines keep their newline."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Returns the lines that `data` completes."""
        *whole, rest = (self._rest + data).split(b"\n")
        lines = [line + b"\n" for line in whole]
        self._rest = rest
        if len(rest) >= LINE_LIMIT:
            lines.append(rest)
            self._rest = b""
        return lines

    def finish(self) -> list[bytes]:
        """Returns the last line if it has no newline."""
        rest, self._rest = self._rest, b""
        return [rest] if rest else []
