"""Parses a followed log into lines, each exactly once, however often the stream is reopened.

Before each line the kubelet puts an RFC 3339 time with nine digits and a space. After a break, the log is followed
again from the last time, which the apiserver cuts to whole seconds, so lines come twice
(docs/design/api-rules.md#log-parameters). They are recognized by their time and by the number of earlier lines with
that time, since a command may repeat a text. Memory does not grow with the log.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

LINE_LIMIT = 1_048_576
"""Bytes of a line, its time included, after which it is returned in pieces, whatever chunks it arrived in."""

_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,9})?(Z|[+-]\d\d:\d\d) ")

_TROUBLES = (
    b"unable to retrieve container logs for ",
    b"failed to try resolving symlinks in path ",
    b"failed to open log file ",
    b"failed to create fsnotify watcher",
    b"failed to watch directory ",
)


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line, or a piece of one.

    `timestamp`: the kubelet's time, empty if there is none.
    `text`: the content, without a newline.
    `complete`: False if no newline follows: the next piece continues the line, or the log ended.
    """

    timestamp: str
    text: bytes
    complete: bool = True


@dataclass(frozen=True, slots=True)
class LogTrouble:
    """An error of the kubelet in the log: it could not read on after it had answered 200."""

    message: str


LogPiece = LogLine | LogTrouble
"""What a log consists of."""


class LogLines:
    """Parses the log of one container. Call `feed` with each stream, then `broke_off` or `finish`."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._scanned = 0
        self._continued: bytes | None = None
        self._newest = b""
        self._newest_count = 0
        self._stragglers = 0
        self._skip_newest = 0
        self._skip_stragglers = 0
        self._in_tail = False
        self.gapped = False
        """Whether lines may be missing: the log was rotated between two streams."""

    @property
    def since(self) -> str | None:
        """The time to follow from: the latest time of a line, in UTC and whole seconds; None before the first."""
        return f"{self._newest[:19].decode('ascii')}Z" if self._newest else None

    def feed(self, data: bytes) -> list[LogPiece]:
        """Returns the pieces that `data` completes."""
        pieces: list[LogPiece] = []
        self._buffer += data
        start = 0
        while (end := self._buffer.find(b"\n", max(start, self._scanned))) >= 0:
            start = self._cut(start, end, pieces)
            self._take(bytes(self._buffer[start:end]), pieces, complete=True)
            start = end + 1
        start = self._cut(start, len(self._buffer), pieces)
        del self._buffer[:start]
        self._scanned = len(self._buffer)
        return pieces

    def broke_off(self) -> list[LogPiece]:
        """Ends a stream after which the log is followed again from `since`; returns an error of the kubelet, if any.

        A line without its end is dropped, since it comes again.
        """
        rest = bytes(self._buffer)
        self._forget_line()
        self._skip_newest = self._newest_count
        self._skip_stragglers = self._stragglers
        self._in_tail = bool(self._newest)
        trouble = _trouble(rest)
        return [] if trouble is None else [trouble]

    def finish(self) -> list[LogPiece]:
        """Ends the log; returns the last line if it has no newline."""
        pieces: list[LogPiece] = []
        if self._buffer:
            self._take(bytes(self._buffer), pieces, complete=False)
        self._forget_line()
        # Neither the latest line came again nor a later one: what followed it may have been rotated away.
        self.gapped = self.gapped or self._skip_newest > 0
        return pieces

    def _cut(self, start: int, end: int, pieces: list[LogPiece]) -> int:
        # All pieces of a line but its last have LINE_LIMIT bytes, so that a replay has the same pieces.
        while end - start > LINE_LIMIT:
            self._take(bytes(self._buffer[start : start + LINE_LIMIT]), pieces, complete=False)
            start += LINE_LIMIT
        return start

    def _take(self, raw: bytes, pieces: list[LogPiece], *, complete: bool) -> None:
        stamp, text = self._continued, raw
        if stamp is None:
            match = _STAMP.match(raw)
            if match is None:
                self._take_bare(raw, pieces, complete=complete)
                return
            self._in_tail = False
            stamp, text = match.group()[:-1], raw[match.end() :]
        self._continued = None if complete else stamp
        if not stamp or self._is_new(_utc(stamp)):
            pieces.append(LogLine(stamp.decode("ascii"), text, complete))

    def _take_bare(self, raw: bytes, pieces: list[LogPiece], *, complete: bool) -> None:
        """Takes what has no time: an error of the kubelet, or a line without a time.

        The runtime stores a long line in parts with a time each, and the kubelet sends the first of these times. If
        `since` falls between the parts, a stream begins with the rest of the line, which was returned before.
        """
        trouble = _trouble(raw)
        if trouble is not None or not self._in_tail:
            pieces.append(trouble or LogLine("", raw, complete))
            self._continued = None if complete else b""
        elif complete:
            self._in_tail = False

    def _is_new(self, moment: bytes) -> bool:
        if self._skip_newest or self._skip_stragglers:
            if moment == self._newest and self._skip_newest:
                self._skip_newest -= 1
                return False
            if moment < self._newest and self._skip_newest:
                return False
            if moment < self._newest:
                self._skip_stragglers -= 1
                return False
            # The line is after the latest one: nothing from here on was returned before. If the latest one did not come
            # again, what was written between the two may have been rotated away (recording log-rotation).
            self.gapped = self.gapped or self._skip_newest > 0
            self._skip_newest = self._skip_stragglers = 0
        if moment > self._newest:
            self._newest, self._newest_count, self._stragglers = moment, 1, 0
        elif moment == self._newest:
            self._newest_count, self._stragglers = self._newest_count + 1, 0
        elif moment[:19] == self._newest[:19]:
            # The runtime stamps stdout and stderr before it writes them to the file, so lines can be out of order.
            # Those of an earlier second do not come again.
            self._stragglers += 1
        return True

    def _forget_line(self) -> None:
        self._buffer.clear()
        self._scanned = 0
        self._continued = None


def _trouble(raw: bytes) -> LogTrouble | None:
    return LogTrouble(raw.decode("utf-8", "replace")) if raw.startswith(_TROUBLES) else None


def _utc(stamp: bytes) -> bytes:
    """The time in UTC with nine digits, so that times compare as bytes."""
    seconds, _, rest = stamp.partition(b".")
    if rest.endswith(b"Z") and len(rest) == 10:
        return stamp
    zone = seconds[19:] or rest.lstrip(b"0123456789")
    digits = rest.removesuffix(zone).ljust(9, b"0")
    if zone == b"Z":
        return seconds[:19] + b"." + digits + b"Z"
    try:
        local = datetime.fromisoformat((seconds[:19] + zone).decode("ascii"))
        universal = local.astimezone(UTC)
    except (ValueError, OverflowError):
        return seconds[:19] + b"." + digits + b"Z"
    return universal.isoformat()[:19].encode("ascii") + b"." + digits + b"Z"
