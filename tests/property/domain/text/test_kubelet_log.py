from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.devcluster.clock import nanoseconds_text
from senro.devcluster.containers.log import LogFilter
from senro.domain.text.kubelet_log import LINE_LIMIT, LogLine, LogLines, LogPiece, LogTrouble
from tests.lib.harness.apiserver import body_of, recording

START = datetime(2026, 11, 29, 23, 15, 13, tzinfo=UTC)
T1, T2, T3 = (f"2026-11-29T23:15:13.84042673{digit}Z" for digit in "123")


def line(stamp: str, text: str) -> bytes:
    return f"{stamp} {text}\n".encode()


def texts(pieces: list[LogPiece]) -> list[str]:
    return [piece.text.decode() if isinstance(piece, LogLine) else f"!{piece.message}" for piece in pieces]


def test_the_recorded_log() -> None:
    """The recorded log gives its lines, the last one without a newline at the end."""
    exchange = next(
        e
        for e in recording("logs")["exchanges"]
        if e["request"]["query"] == [["container", "step"], ["timestamps", "true"]]
    )
    fold = LogLines()
    pieces = fold.feed(body_of(exchange["response"])) + fold.finish()
    assert texts(pieces)[:2] == ["err 1", "line 1"]
    assert texts(pieces)[-1] == "no newline at the end"
    lines = [piece for piece in pieces if isinstance(piece, LogLine)]
    assert [piece.complete for piece in lines] == [True] * (len(pieces) - 1) + [False]
    assert all(piece.timestamp.startswith("2026-11-29T23:15:1") for piece in lines)


def test_since() -> None:
    """A log is followed again from the second of the latest line, in UTC; before any line from its start."""
    assert LogLines().since is None
    fold = LogLines()
    fold.feed(line(T1, "a"))
    assert fold.since == "2026-11-29T23:15:13Z"
    fold.feed(line("2026-11-30T01:15:14.000000000+02:00", "b"))
    assert fold.since == "2026-11-29T23:15:14Z"


def test_equal_lines() -> None:
    """Lines with the same time and text are as many as the container wrote, whatever breaks there are."""
    fold = LogLines()
    assert texts(fold.feed(line(T1, "x") * 2)) == ["x", "x"]
    assert fold.broke_off() == []
    assert texts(fold.feed(line(T1, "x") * 3 + line(T2, "y"))) == ["x", "y"]


def test_a_line_that_a_break_cuts() -> None:
    """It is dropped, and returned when it comes again."""
    fold = LogLines()
    assert texts(fold.feed(line(T1, "a") + line(T2, "whole")[:-3])) == ["a"]
    assert fold.broke_off() == []
    assert texts(fold.feed(line(T1, "a") + line(T2, "whole"))) == ["whole"]
    assert fold.finish() == []


def test_a_rotated_file() -> None:
    """If the newest file no longer has the lines that were returned, all its lines are new."""
    fold = LogLines()
    fold.feed(line(T1, "a") + line(T1, "b"))
    fold.broke_off()
    assert texts(fold.feed(line(T2, "c") + line(T3, "d"))) == ["c", "d"]


def test_a_break_while_catching_up() -> None:
    """A second break while old lines still come changes nothing."""
    fold = LogLines()
    fold.feed(line(T1, "a") + line(T2, "b") + line(T2, "c"))
    fold.broke_off()
    assert fold.feed(line(T1, "a") + line(T2, "b")) == []
    fold.broke_off()
    assert texts(fold.feed(line(T1, "a") + line(T2, "b") + line(T2, "c") + line(T3, "d"))) == ["d"]


def test_lines_out_of_order() -> None:
    """An older line behind a newer one, of stdout and stderr, is returned once."""
    fold = LogLines()
    assert texts(fold.feed(line(T2, "b") + line(T1, "a"))) == ["b", "a"]
    fold.broke_off()
    assert texts(fold.feed(line(T2, "b") + line(T1, "a") + line(T1, "late") + line(T3, "c"))) == ["late", "c"]
    fold.broke_off()
    assert texts(fold.feed(line(T2, "b") + line(T1, "a") + line(T1, "late") + line(T3, "c"))) == []


def test_a_line_of_an_earlier_second() -> None:
    """It is returned, and not expected again."""
    fold = LogLines()
    older = "2026-11-29T23:15:12.999999999Z"
    assert texts(fold.feed(line(T1, "a") + line(older, "old"))) == ["a", "old"]
    fold.broke_off()
    assert texts(fold.feed(line(T1, "a") + line(T2, "b"))) == ["b"]


@pytest.mark.parametrize(
    "words",
    [
        "unable to retrieve container logs for containerd://abc",
        'failed to try resolving symlinks in path "/var/log/pods/x": lstat: no such file or directory',
        'failed to open log file "/var/log/pods/x/0.log": permission denied',
    ],
)
def test_an_error_of_the_kubelet(words: str) -> None:
    """It is no line of the container, at the end or within the log."""
    fold = LogLines()
    fold.feed(line(T1, "a"))
    assert fold.feed(words.encode()) == []
    assert fold.broke_off() == [LogTrouble(words)]
    assert fold.feed(words.encode()) == []
    assert fold.finish() == [LogTrouble(words)]
    assert fold.feed(words.encode() + b"\n") == [LogTrouble(words)]


def test_the_same_text_of_a_container() -> None:
    """With a time before it, it is a line."""
    fold = LogLines()
    words = "unable to retrieve container logs for containerd://abc"
    assert texts(fold.feed(line(T1, words))) == [words]


def test_a_line_without_a_time() -> None:
    """It is returned, also while old lines come: twice is better than never."""
    fold = LogLines()
    assert fold.feed(b"bare\n") == [LogLine("", b"bare")]
    fold.broke_off()
    assert texts(fold.feed(b"bare\n")) == ["bare"]
    fold.feed(line(T1, "a"))
    fold.broke_off()
    assert texts(fold.feed(line(T1, "a") + b"bare\n" + line(T2, "b"))) == ["bare", "b"]


@pytest.mark.parametrize("size", [5, 2 * LINE_LIMIT + 5])
def test_the_rest_of_a_long_line(size: int) -> None:
    """A stream that resumes within a long line begins with parts without a time, which were returned before."""
    rest = b"x" * size + b"\n"
    fold = LogLines()
    fold.feed(f"{T1} ".encode() + rest + line(T2, "b"))
    fold.broke_off()
    assert fold.feed(rest[: size // 2]) == []
    assert fold.broke_off() == []
    assert texts(fold.feed(rest + line(T2, "b") + line(T3, "c"))) == ["c"]
    fold.broke_off()
    words = "failed to watch directory /var/log/pods/x"
    assert texts(fold.feed(f"{words}\n".encode() + line(T3, "c"))) == [f"!{words}"]


def test_a_gap() -> None:
    """If the latest line does not come again, lines may have been rotated away."""
    fold = LogLines()
    fold.feed(line(T1, "a"))
    fold.broke_off()
    fold.feed(line(T1, "a") + line(T2, "b"))
    assert (fold.finish(), fold.gapped) == ([], False)
    fold.broke_off()
    fold.feed(line(T3, "c"))
    assert fold.gapped
    empty = LogLines()
    empty.feed(line(T1, "a"))
    empty.broke_off()
    assert (empty.finish(), empty.gapped) == ([], True)
    assert LogLines().finish() == []


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 1, 300_000_000, 1_000_000_000]),
            st.sampled_from(["stdout", "stderr"]),
            st.sampled_from([b"F", b"F", b"P"]),
            st.text("ab", max_size=4),
        ),
        max_size=25,
    ),
    st.lists(st.integers(0, 10_000), max_size=6),
)
def test_lines_that_are_stored_in_parts(records: list[tuple[int, str, bytes, str]], breaks: list[int]) -> None:
    """Parts of long lines, of either stream and in any seconds, come once."""
    moment, kept = 1_700_000_000_000_000_000, b""
    for pause, stream, tag, text in [*records, (1, "stdout", b"F", "end")]:
        moment += pause + 1
        stamp = nanoseconds_text(moment)
        kept += f"{stamp} {stream} {tag.decode()} {text}\n".encode()
    whole = LogFilter(timestamps=False).apply(kept)
    fold = LogLines()
    got: list[LogPiece] = []
    for cut in [*breaks, None]:
        served = LogFilter(timestamps=True, since=(fold.since or "")[:19]).apply(kept)
        got += fold.feed(served if cut is None else served[: cut % (len(served) + 1)])
        got += fold.finish() if cut is None else fold.broke_off()
    assert b"".join(p.text + b"\n" for p in got if isinstance(p, LogLine)) == whole
    assert not fold.gapped


@pytest.mark.parametrize(
    ("stamp", "since"),
    [
        ("2026-11-29T23:15:13Z", "2026-11-29T23:15:13Z"),
        ("2026-11-29T23:15:13.5Z", "2026-11-29T23:15:13Z"),
        ("2026-11-29T23:15:13.5-01:30", "2026-11-30T00:45:13Z"),
        ("2026-11-29T23:15:13+01:00", "2026-11-29T22:15:13Z"),
        ("2026-13-41T23:15:13+01:00", "2026-13-41T23:15:13Z"),
        ("0001-01-01T00:00:00+01:00", "0001-01-01T00:00:00Z"),
    ],
)
def test_unusual_times(stamp: str, since: str) -> None:
    """Times with fewer digits, in another zone, or beyond the calendar are used as far as possible."""
    fold = LogLines()
    assert fold.feed(line(stamp, "a")) == [LogLine(stamp, b"a")]
    assert fold.since == since
    fold.broke_off()
    assert fold.feed(line(stamp, "a")) == []


def test_long_lines() -> None:
    """A long line is returned in pieces of fixed length, and a break does not repeat them."""
    size = 2 * LINE_LIMIT + 10
    whole = f"{T1} ".encode() + b"x" * size + b"\n"
    fold = LogLines()
    first = fold.feed(whole[:LINE_LIMIT]) + fold.feed(whole[LINE_LIMIT : LINE_LIMIT + 1])
    assert [(len(p.text), p.complete) for p in first if isinstance(p, LogLine)] == [(LINE_LIMIT - 31, False)]
    fold.broke_off()
    rest = fold.feed(whole) + fold.feed(line(T2, "next"))
    assert [(len(p.text), p.complete) for p in rest if isinstance(p, LogLine)] == [
        (LINE_LIMIT, False),
        (41, True),
        (4, True),
    ]
    assert all(isinstance(p, LogLine) and p.timestamp in (T1, T2) for p in rest)


def test_a_long_line_without_a_time() -> None:
    """It is returned in pieces without a time."""
    fold = LogLines()
    pieces = fold.feed(b"x" * (LINE_LIMIT + 5)) + fold.feed(b"\n") + fold.feed(line(T1, "a"))
    assert [(p.timestamp, len(p.text)) for p in pieces if isinstance(p, LogLine)] == [
        ("", LINE_LIMIT),
        ("", 5),
        (T1, 1),
    ]


@st.composite
def logs(draw: st.DrawFn) -> list[tuple[str, str]]:
    """A log whose times mostly grow, sometimes repeat, and sometimes go back a little."""
    moment, written = 0, []
    for text in draw(st.lists(st.text("ab \u00fc", max_size=6), max_size=30)):
        moment = max(0, moment + draw(st.sampled_from([0, 0, 1, 1, 7, 400_000, 1_000_000])))
        stamp = START + timedelta(microseconds=moment)
        written.append((stamp.strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z", text))
    return written


@given(logs(), st.lists(st.integers(0, 10_000), max_size=8))
def test_any_split_gives_the_same_lines(written: list[tuple[str, str]], cuts: list[int]) -> None:
    """However the bytes are split, the lines are the same."""
    data = b"".join(line(stamp, text) for stamp, text in written)
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    fold = LogLines()
    pieces = [piece for start, end in pairwise(edges) for piece in fold.feed(data[start:end])]
    assert [(p.timestamp, p.text.decode()) for p in pieces if isinstance(p, LogLine)] == written
    assert fold.finish() == []


@given(logs(), st.lists(st.integers(0, 10_000), max_size=6))
def test_breaks_lose_nothing_and_repeat_nothing(written: list[tuple[str, str]], breaks: list[int]) -> None:
    """A log that is followed again from `since` after each break gives every line once, in order."""
    fold = LogLines()
    got: list[LogPiece] = []
    for cut in [*breaks, None]:
        # What the kubelet serves: the lines whose time is not before `since`.
        served = [pair for pair in written if fold.since is None or pair[0][:19] >= fold.since[:19]]
        data = b"".join(line(stamp, text) for stamp, text in served)
        got += fold.feed(data if cut is None else data[: cut % (len(data) + 1)])
        got += fold.finish() if cut is None else fold.broke_off()
    assert [(p.timestamp, p.text.decode()) for p in got if isinstance(p, LogLine)] == written


@given(st.lists(st.binary(max_size=60), max_size=6), st.booleans())
def test_any_bytes(pieces: list[bytes], broken: bool) -> None:
    """Any bytes raise nothing, and without breaks nothing is lost."""
    fold = LogLines()
    got = [piece for data in pieces for piece in fold.feed(data) + (fold.broke_off() if broken else [])]
    got += fold.finish()
    if not broken and not any(isinstance(piece, LogTrouble) for piece in got):
        text = b"".join(
            (p.timestamp.encode() + b" " if p.timestamp else b"") + p.text + (b"\n" if p.complete else b"")
            for p in got
            if isinstance(p, LogLine)
        )
        assert text == b"".join(pieces)
