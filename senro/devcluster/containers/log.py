"""A container's log: files in the runtime's format, one record a line, of which the newest alone is read.

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
LOG_LIMIT = 10 * 1024 * 1024
"""Bytes: the kubelet's containerLogMaxSize."""

_TIME_LENGTH = 30
"""Characters of a record's time."""


class CutOffError(Exception):
    """The kubelet that a log was followed through is gone; the log itself goes on."""


class _LogFile:
    """One file of a log. It is closed when nobody holds it any more: neither the log, nor a reader."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self.size = 0
        self.successor: _LogFile | None = None

    @property
    def closed(self) -> bool:
        """Whether it was given back."""
        return self._descriptor < 0

    def append(self, data: bytes) -> None:
        """Write at the end."""
        left = memoryview(data)
        while left:
            left = left[os.write(self._descriptor, left) :]
        self.size += len(data)

    def read(self, size: int, position: int) -> bytes:
        """Up to so many bytes from there; nothing once it is closed."""
        return os.pread(self._descriptor, size, position) if self._descriptor >= 0 else b""

    def close(self) -> None:
        """Give it back."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.close()


class ContainerLog:
    """The log of one container, written by its pumps and read by any number of readers.

    Past `limit` bytes a new file begins (recording log-rotation): who reads from then on sees the new one alone, and
    who follows goes on from one to the next without a gap.
    """

    def __init__(self, path: Path, clock: Clock, *, limit: int = LOG_LIMIT) -> None:
        self._path = path
        self._clock = clock
        self._limit = limit
        self._newest = _LogFile(path)
        self._pending: dict[str, bytes] = {}
        self._last = 0
        self._second = -1
        self._second_text = b""
        self._changed = anyio.Event()
        self._cuts = 0
        self.ended = False
        self.container_id = ""
        """Whose it is, as `containerd://...`."""
        self.lost = False
        """The runtime no longer knows the container: its log cannot be read."""

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

    def cut_off(self) -> None:
        """Everybody who follows it now gets `CutOffError`."""
        self._cuts += 1
        self._notify()

    def close(self) -> None:
        """Give the files back; the log has no readers any more."""
        self._newest.close()
        self.end()

    def read_all(self) -> bytes:
        """Every whole record of the newest file."""
        return self._newest.read(self._newest.size, 0)

    def records(self, *, follow: bool, position: int = 0) -> AsyncIterator[bytes]:
        """Whole records, many at a time, from that byte of the newest file; with `follow` until the end.

        `CutOffError` where the kubelet goes meanwhile.
        """
        return self._records_from(self._newest, position, follow=follow)

    async def _records_from(self, file: _LogFile, position: int, *, follow: bool) -> AsyncIterator[bytes]:
        kept, cuts = b"", self._cuts
        while True:
            if self._cuts != cuts:
                raise CutOffError
            changed, ended = self._changed, self.ended
            data = file.read(_READ, position)
            if data:
                position += len(data)
                whole, newline, kept = (kept + data).rpartition(b"\n")
                if newline:
                    yield whole + newline
            elif follow and file.successor is not None:
                file, position = file.successor, 0
            elif ended or not follow:
                return
            else:
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
        if records and not self._newest.closed:
            if self._newest.size >= self._limit:
                self._rotate()
            self._newest.append(b"".join(records))
            self._notify()

    def _rotate(self) -> None:
        """Begin a new file; the old one lasts as long as somebody reads it."""
        old = self._newest
        self._path.unlink(missing_ok=True)
        self._newest = old.successor = _LogFile(self._path)

    def _notify(self) -> None:
        happened, self._changed = self._changed, anyio.Event()
        happened.set()


class LogFilter:
    """Turns records into what a client asked for: times or none, since a second, at most so many bytes."""

    def __init__(self, *, timestamps: bool, since: str = "", limit: int | None = None) -> None:
        self._timestamps = timestamps
        self._since = since.encode()
        self._left = limit
        self._line_open = False
        self.passed = 0
        """The place in the log as it is served: bytes that went out so far, and those that `since` left out."""

    @property
    def full(self) -> bool:
        """Whether the byte limit is reached: nothing more will come."""
        return self._left == 0

    def apply(self, records: bytes) -> bytes:
        """The bytes that go out for these whole records."""
        out, left_out = bytearray(), 0
        for record in records.split(b"\n")[:-1]:
            stamp = record[:_TIME_LENGTH]
            _stream, tag, text = record[_TIME_LENGTH + 1 :].split(b" ", 2)
            # After a part the next record, of whichever stream, is no beginning of a line
            # (docs/design/api-rules.md#log-timestamps): the kubelet remembers the last record's tag, not whose it was,
            # nor whether it went out.
            prefix = stamp + b" " if self._timestamps and not self._line_open else b""
            end = b"\n" if tag == b"F" else b""
            self._line_open = tag == b"P"
            if stamp >= self._since:
                out += prefix + text + end
            else:
                left_out += len(prefix) + len(text) + len(end)
        if self._left is not None:
            del out[self._left :]
            self._left -= len(out)
        self.passed += left_out + len(out)
        return bytes(out)


def tail(records: bytes, count: int) -> bytes:
    """The last `count` records; parts of a long line count one by one.

    See docs/design/api-rules.md#taillines-and-limitbytes.
    """
    if count == 0:
        return b""
    lines = records.split(b"\n")[:-1]
    kept = lines[-count:]
    return b"\n".join(kept) + b"\n" if kept else b""
