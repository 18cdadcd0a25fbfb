"""Masks the values of secrets in text."""

from __future__ import annotations

import base64
from collections.abc import Iterable

MASK = b"***"
"""What replaces a value."""

SHORTEST = 4
"""Bytes. A shorter value, or line of a value, is not masked: that would make texts unreadable and hide nothing."""

BASE64_LINE = 76
"""Characters of a line that the `base64` of GNU and of busybox print."""


class Redactor:
    """Masks known values in lines of text. Its repr shows nothing.

    Of a value with several lines each line is masked, also without its indentation, since logs are split at newlines.
    The base64 of each value is masked too, whole and in lines as `base64` prints it. Blank values are not masked.
    """

    def __init__(self, values: Iterable[bytes]) -> None:
        known: set[bytes] = set()
        for value in values:
            for line in value.split(b"\n"):
                known.update((line.strip(b"\r"), line.strip()))
            encoded = base64.b64encode(value).rstrip(b"=")
            known.add(encoded)
            known.update(encoded[at : at + BASE64_LINE] for at in range(0, len(encoded), BASE64_LINE))
        self._known = sorted(value for value in known if len(value) >= SHORTEST and value.strip())

    def __repr__(self) -> str:
        return "<Redactor>"

    def apply(self, line: bytes) -> bytes:
        """Masks every known value in `line`. Values that overlap are masked as one, so that no end remains."""
        # A mask and its surroundings may be a value too. The line gets shorter each time.
        while spans := self._spans(line):
            line = _masked(line, spans)
        return line

    def text(self, line: str) -> str:
        """As `apply`, for text. The result can always be encoded as UTF-8."""
        try:
            data = line.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            data = line.encode("utf-8", "replace")
        return self.apply(data).decode("utf-8", "replace")

    @property
    def longest(self) -> int:
        """The length of the longest value in bytes, 1 if there is none."""
        return max((len(value) for value in self._known), default=1)

    def last_end(self, line: bytes) -> int:
        """The index at which the last known value in `line` ends, 0 if there is none."""
        return max((end for _, end in self._spans(line)), default=0)

    def safe_cut(self, line: bytes) -> int:
        """The index at which `line` may be split: whatever follows the line, no known value crosses it."""
        cut = max(0, len(line) - self.longest + 1)
        for start, end in reversed(self._spans(line)):
            if start < cut < end:
                cut = start
        return cut

    def _spans(self, line: bytes) -> list[tuple[int, int]]:
        spans = []
        for value in self._known:
            at = line.find(value)
            while at >= 0:
                spans.append((at, at + len(value)))
                at = line.find(value, at + 1)
        return sorted(spans)


def _masked(line: bytes, spans: list[tuple[int, int]]) -> bytes:
    """`line` with one mask for each group of overlapping spans; `spans` is sorted and not empty."""
    masked = bytearray()
    done, (start, end) = 0, spans[0]
    for following, its_end in spans[1:]:
        if following >= end:
            masked += line[done:start] + MASK
            done, start = end, following
        end = max(end, its_end)
    return bytes(masked + line[done:start] + MASK + line[end:])
