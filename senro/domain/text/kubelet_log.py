"""From the bytes of a followed log to its lines, each exactly once, however often the stream had to be reopened.

The kubelet puts an RFC 3339 time with nine digits and one blank before each line. After a break the log is followed
again from the last time, cut to whole seconds on the way, so lines come twice
(docs/design/api-rules.md#log-parameters). They are told apart by their time and by how many of that time were given
out: equal text is no sign, since commands repeat themselves. Memory does not grow with the log.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

LINE_LIMIT = 1_048_576
"""Bytes of one line, its time included, before it is given out in pieces. The cuts do not depend on how it arrived."""

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

    `timestamp` is the kubelet's, as it came, empty where there was none. `text` has no newline; `complete` is False
    for a piece that has no newline behind it: the next one goes on in the same line, or the log ended there.
    """

    timestamp: str
    text: bytes
    complete: bool = True


@dataclass(frozen=True, slots=True)
class LogTrouble:
    """The kubelet could not go on reading and said so inside the log, because its 200 was out already."""

    message: str


LogPiece = LogLine | LogTrouble
"""What comes out of a log."""


class LogLines:
    """The fold of one container's log. Feed it each stream in turn, and say how each ended."""

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
        """Whether lines may be missing: a rotation fell between the end of a stream and the beginning of the next."""

    @property
    def since(self) -> str | None:
        """Where to follow again: the newest time given out, in UTC and cut to a second; None before the first."""
        return f"{self._newest[:19].decode('ascii')}Z" if self._newest else None

    def feed(self, data: bytes) -> list[LogPiece]:
        """The pieces that `data`, cut anywhere, completes."""
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
        """The stream ended and the log will be followed again from `since`.

        A line without its end is dropped: it comes again, whole. What the kubelet said last is given out.
        """
        rest = bytes(self._buffer)
        self._forget_line()
        self._skip_newest = self._newest_count
        self._skip_stragglers = self._stragglers
        self._in_tail = bool(self._newest)
        trouble = _trouble(rest)
        return [] if trouble is None else [trouble]

    def finish(self) -> list[LogPiece]:
        """The log is over: the last line is given out even without a newline."""
        pieces: list[LogPiece] = []
        if self._buffer:
            self._take(bytes(self._buffer), pieces, complete=False)
        self._forget_line()
        # The newest line did not come again, and nothing newer: what was written behind it may have rotated away.
        self.gapped = self.gapped or self._skip_newest > 0
        return pieces

    def _cut(self, start: int, end: int, pieces: list[LogPiece]) -> int:
        # Every piece but a line's last has LINE_LIMIT bytes, so that a replay is cut at the same places.
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
        """What has no time: the kubelet's own words, or a line that nobody stamped.

        A long line is kept in parts, each with a time, of which the first alone is served. Where `since` falls between
        them, a stream begins with the rest of that line: it was given out, since the newest one stands behind it.
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
            # Past the mark, or it rotated away: nothing after this was seen before. Where the newest line did not come
            # again, what was written between it and this may have rotated away too (recording log-rotation).
            self.gapped = self.gapped or self._skip_newest > 0
            self._skip_newest = self._skip_stragglers = 0
        if moment > self._newest:
            self._newest, self._newest_count, self._stragglers = moment, 1, 0
        elif moment == self._newest:
            self._newest_count, self._stragglers = self._newest_count + 1, 0
        elif moment[:19] == self._newest[:19]:
            # stdout and stderr are stamped before they queue for the file, so neighbours can change places. Those of
            # an earlier second do not come again.
            self._stragglers += 1
        return True

    def _forget_line(self) -> None:
        self._buffer.clear()
        self._scanned = 0
        self._continued = None


def _trouble(raw: bytes) -> LogTrouble | None:
    return LogTrouble(raw.decode("utf-8", "replace")) if raw.startswith(_TROUBLES) else None


def _utc(stamp: bytes) -> bytes:
    """The moment in UTC with nine digits, so that moments compare as bytes."""
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
