"""Lines onto a text stream that may be narrow, ASCII only, or gone."""

from __future__ import annotations

import io
import os
from typing import TextIO

from senro.cli.reporters.text import cut


class SafeStream(io.TextIOBase):
    """A stream that never raises, since progress never ends a run.

    Characters that its encoding lacks are written as escapes. After its first failure (a closed pipe, a session that
    is gone, a full disk) it is not written to again.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._broken = False

    @property
    def encoding(self) -> str:  # type: ignore[override]  # typeshed declares a plain attribute
        """The stream's own, UTF-8 where it has none."""
        return getattr(self._stream, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        """Write what can be written, at once."""
        if not self._broken:
            try:
                self._stream.write(text.encode(self.encoding, "backslashreplace").decode(self.encoding))
                self._stream.flush()
            except (OSError, ValueError):  # ValueError: the stream was closed
                self._broken = True
        return len(text)

    def isatty(self) -> bool:
        """Whether it is a terminal; a closed stream is none."""
        try:
            return self._stream.isatty()
        except ValueError:
            return False

    def fileno(self) -> int:
        """The file descriptor behind it, for the terminal's size."""
        return self._stream.fileno()

    def columns(self) -> int | None:
        """The columns of the terminal; None where it is none or does not tell."""
        try:
            return os.get_terminal_size(self.fileno()).columns or None if self.isatty() else None
        except (OSError, ValueError):
            return None


class Lines:
    """Writes whole lines, cut at the columns of a terminal and nowhere else. `width` overrides what the stream says."""

    def __init__(self, stream: TextIO, *, width: int | None = None) -> None:
        self._stream = SafeStream(stream)
        self._width = width

    def write(self, line: str) -> None:
        """Write the line in one row of the terminal."""
        self.write_whole(cut(line, self._width or self._stream.columns()))

    def write_whole(self, *lines: str) -> None:
        """Write the lines uncut; a terminal wraps them."""
        self._stream.write("".join(line + "\n" for line in lines))
