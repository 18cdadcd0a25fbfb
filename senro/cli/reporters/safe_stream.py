"""Writes lines to a text stream that may be narrow, ASCII only or closed."""

from __future__ import annotations

import io
import os
from typing import TextIO

from senro.cli.reporters.text import cut


class SafeStream(io.TextIOBase):
    """A stream whose writes never raise, since a failure to report progress must not end a run.

    Characters that the encoding lacks are written as escapes. After the first error (a closed pipe, a full disk)
    nothing more is written.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._broken = False

    @property
    def encoding(self) -> str:  # type: ignore[override]  # typeshed declares a plain attribute
        """The encoding of the stream; UTF-8 if it has none."""
        return getattr(self._stream, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        """Writes and flushes the text."""
        if not self._broken:
            try:
                self._stream.write(text.encode(self.encoding, "backslashreplace").decode(self.encoding))
                self._stream.flush()
            except (OSError, ValueError):  # ValueError: the stream was closed
                self._broken = True
        return len(text)

    def isatty(self) -> bool:
        """Whether the stream is a terminal; False for a closed one."""
        try:
            return self._stream.isatty()
        except ValueError:
            return False

    def fileno(self) -> int:
        """Returns the file descriptor of the stream."""
        return self._stream.fileno()

    def columns(self) -> int | None:
        """Returns the width of the terminal; None if the stream is no terminal, or the width is unknown."""
        try:
            return os.get_terminal_size(self.fileno()).columns or None if self.isatty() else None
        except (OSError, ValueError):
            return None


class Lines:
    """Writes lines, cut to the width of a terminal. `width` overrides the width of the stream."""

    def __init__(self, stream: TextIO, *, width: int | None = None) -> None:
        self._stream = SafeStream(stream)
        self._width = width

    def write(self, line: str) -> None:
        """Writes the line, cut to one row of the terminal."""
        self.write_whole(cut(line, self._width or self._stream.columns()))

    def write_whole(self, *lines: str) -> None:
        """Writes the lines uncut, so that a terminal wraps them."""
        self._stream.write("".join(line + "\n" for line in lines))
