"""Keeping the values of secrets out of what is written down and shown."""

from __future__ import annotations

import base64
from collections.abc import Iterable

MASK = b"***"
"""What stands in a value's place."""

SHORTEST = 4
"""Bytes. A shorter value, or line of one, is not masked: it would make every text unreadable and hide nothing."""


BASE64_LINE = 76
"""Characters after which `base64` of GNU and of busybox begins a new line."""


class Redactor:
    """Masks known values in lines of text.

    A value of several lines is known by each of its lines, as it stands and without its indentation, since a log is
    cut at newlines; each value is known in its base64 form too, whole and cut as `base64` cuts it, since that is how
    Secrets are printed. What is blank is not masked. Its repr tells nothing.
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
        """`line` with every known value masked; values that overlap are masked as one, so that no end stays behind."""
        while spans := self._spans(line):
            line = _masked(line, spans)
        # Again until nothing is found: a mask and what stands beside it may be a value too. Each turn is shorter.
        return line

    def text(self, line: str) -> str:
        """As `apply`, for text. The result can be written as UTF-8, whatever file name or pod the text quotes."""
        try:
            data = line.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            data = line.encode("utf-8", "replace")
        return self.apply(data).decode("utf-8", "replace")

    @property
    def longest(self) -> int:
        """The bytes of the longest value, 1 where none is known."""
        return max((len(value) for value in self._known), default=1)

    def last_end(self, line: bytes) -> int:
        """Where the last known value in `line` ends; 0 where there is none."""
        return max((end for _, end in self._spans(line)), default=0)

    def safe_cut(self, line: bytes) -> int:
        """Where `line`, which goes on, may be cut: no known value crosses it, whatever comes after."""
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
    """`line` with a mask for each run of spans that overlap; `spans` is sorted and not empty."""
    masked = bytearray()
    done, (start, end) = 0, spans[0]
    for following, its_end in spans[1:]:
        if following >= end:
            masked += line[done:start] + MASK
            done, start = end, following
        end = max(end, its_end)
    return bytes(masked + line[done:start] + MASK + line[end:])
