"""A container's log: a file in the runtime's format, one record a line.

`<time> <stdout|stderr> <F|P> <text>`: F is a whole line, P a part of one that was cut at 16 KiB or that the container
left without its newline (recording logs: "no newline at the end" is served without one).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import anyio

from senro.devcluster.clock import seconds_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from senro.devcluster.clock import Clock

_PART = 16_384
"""Where the runtime cuts a long line into parts."""

_READ = 262_144
_TIME_LENGTH = 30
"""Characters of a record's time."""


class ContainerLog:
    """The log of one container, written by its pumps and read by any number of readers."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._clock = clock
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._pending: dict[str, bytes] = {}
        self._last = 0
        self._second = -1
        self._second_text = b""
        self._size = 0
        self._changed = anyio.Event()
        self.ended = False

    def write(self, stream: str, data: bytes) -> None:
        """Take output of `stdout` or `stderr`; what follows the last newline waits for the rest of its line."""
        lines = (self._pending.pop(stream, b"") + data).split(b"\n")
        rest = lines.pop()
        self._last = max(self._last, self._clock.nanoseconds())
        records: list[bytes] = []
        name = stream.encode()
        for line in lines:
            self._record(records, name, line, b"F")
        while len(rest) >= _PART:
            self._record(records, name, rest[:_PART], b"P")
            rest = rest[_PART:]
        if rest:
            self._pending[stream] = rest
        self._flush(records)

    def end_stream(self, stream: str) -> None:
        """Write what was left without a newline."""
        records: list[bytes] = []
        self._last = max(self._last, self._clock.nanoseconds())
        if rest := self._pending.pop(stream, b""):
            self._record(records, stream.encode(), rest, b"P")
        self._flush(records)

    def end(self) -> None:
        """Say that the container has ended and all its output is here: followers end."""
        self.ended = True
        self._notify()

    def close(self) -> None:
        """Give the file back; the log has no readers any more."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        self.end()

    def read_all(self) -> bytes:
        """Every whole record there is now."""
        return os.pread(self._descriptor, self._size, 0) if self._descriptor >= 0 else b""

    async def records(self, *, follow: bool, position: int = 0) -> AsyncIterator[bytes]:
        """Whole records, many at a time, from that byte on; with `follow` until the container has ended."""
        kept = b""
        while True:
            changed, ended = self._changed, self.ended
            data = os.pread(self._descriptor, _READ, position) if self._descriptor >= 0 else b""
            if data:
                position += len(data)
                whole, newline, kept = (kept + data).rpartition(b"\n")
                if newline:
                    yield whole + newline
                continue
            if ended or not follow:
                return
            await changed.wait()

    def _record(self, records: list[bytes], stream: bytes, line: bytes, tag: bytes) -> None:
        while len(line) > _PART:
            records.append(b"%b %b P %b\n" % (self._stamp(), stream, line[:_PART]))
            line = line[_PART:]
        records.append(b"%b %b %b %b\n" % (self._stamp(), stream, tag, line))

    def _stamp(self) -> bytes:
        """The next record's time. No two records share one: who resumes a log tells them apart by it."""
        self._last += 1
        seconds, fraction = divmod(self._last, 1_000_000_000)
        if seconds != self._second:
            self._second = seconds
            self._second_text = seconds_text(seconds)[:-1].encode()
        return b"%b.%09dZ" % (self._second_text, fraction)

    def _flush(self, records: list[bytes]) -> None:
        if records and self._descriptor >= 0:
            data = b"".join(records)
            os.write(self._descriptor, data)
            self._size += len(data)
            self._notify()

    def _notify(self) -> None:
        happened, self._changed = self._changed, anyio.Event()
        happened.set()


class LogFilter:
    """Turns records into what a client asked for: times or none, since a second, at most so many bytes."""

    def __init__(self, *, timestamps: bool, since: str = "", limit: int | None = None) -> None:
        self._timestamps = timestamps
        self._since = since.encode()
        self._left = limit
        self._line_open = {b"stdout": False, b"stderr": False}

    @property
    def full(self) -> bool:
        """Whether the byte limit is reached: nothing more will come."""
        return self._left == 0

    def apply(self, records: bytes) -> bytes:
        """The bytes that go out for these whole records."""
        out = bytearray()
        for record in records.split(b"\n")[:-1]:
            stamp = record[:_TIME_LENGTH]
            if stamp < self._since:
                continue
            stream, tag, text = record[_TIME_LENGTH + 1 :].split(b" ", 2)
            # The time stands at true beginnings of lines only (facts/api-rules.md section 10).
            if self._timestamps and not self._line_open[stream]:
                out += stamp + b" "
            out += text
            self._line_open[stream] = tag == b"P"
            if tag == b"F":
                out += b"\n"
        if self._left is not None:
            del out[self._left :]
            self._left -= len(out)
        return bytes(out)


def tail(records: bytes, count: int) -> bytes:
    """The last `count` records; parts of a long line count one by one (facts/api-rules.md section 10)."""
    if count == 0:
        return b""
    lines = records.split(b"\n")[:-1]
    kept = lines[-count:]
    return b"\n".join(kept) + b"\n" if kept else b""
