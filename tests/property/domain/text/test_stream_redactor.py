from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from senro.domain.text.redactor import SHORTEST, Redactor
from senro.domain.text.stream_redactor import HELD_LIMIT, PieceMask

values = st.lists(st.text("ab\n ", min_size=1, max_size=12).map(str.encode), max_size=4)
"""Values of few letters, so that they overlap and begin alike."""

starred = st.lists(st.text("ab*", min_size=1, max_size=8).map(str.encode), max_size=4)
"""Values that hold the mask's own sign."""

pieces = st.text("abc* ", max_size=8).map(str.encode)


@st.composite
def streams(draw: st.DrawFn, values: st.SearchStrategy[list[bytes]] = values) -> tuple[list[bytes], list[list[bytes]]]:
    """Values, and lines in pieces that are split at random, with whole and partial values in them."""
    secret = draw(values)
    lines = []
    for _ in range(draw(st.integers(1, 3))):
        parts = [line for value in secret for line in value.split(b"\n")]
        bits = draw(st.lists(st.sampled_from(parts) | pieces if parts else pieces, max_size=5))
        text = b"".join(bits)
        cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=6)))
        ends = [*cuts, len(text)]
        lines.append([text[start:end] for start, end in zip([0, *cuts], ends, strict=True)])
    return secret, lines


def masked(secret: list[bytes], lines: list[list[bytes]], *, ended: bool = True) -> list[list[bytes]]:
    """What is shown of each line, in pieces; the last line has no newline unless `ended`."""
    mask, shown = PieceMask(Redactor(secret)), []
    for number, line in enumerate(lines):
        last = number == len(lines) - 1
        out = [mask.feed(piece, complete=False) for piece in line[:-1]]
        if last and not ended:
            out += [mask.feed(line[-1], complete=False), mask.finish()]
        else:
            out += [mask.feed(line[-1], complete=True)]
        shown.append(out)
    assert mask.finish() == b""
    return shown


def known(secret: list[bytes]) -> list[bytes]:
    """The values, line by line, that are long enough to be masked."""
    lines = {part for value in secret for line in value.split(b"\n") for part in (line, line.strip())}
    return [line for line in lines if len(line) >= SHORTEST and line.strip()]


@given(streams(), st.booleans())
@example(([b"aaaa"], [[b"aaa", b"a"]]), True)
@example(([b"aaaab", b"abba"], [[b"aaaa", b"bba"]]), False)
def test_no_value_is_ever_shown(stream: tuple[list[bytes], list[list[bytes]]], ended: bool) -> None:
    """However a line is split, no value is shown in a piece or across pieces."""
    secret, lines = stream
    for out in masked(secret, lines, ended=ended):
        for value in known(secret):
            assert value not in b"".join(out)


@given(streams(), st.booleans())
def test_any_split_gives_the_same_text(stream: tuple[list[bytes], list[list[bytes]]], ended: bool) -> None:
    """A line in pieces is shown like the whole line."""
    secret, lines = stream
    whole = [Redactor(secret).apply(b"".join(line)) for line in lines]
    assert [b"".join(out) for out in masked(secret, lines, ended=ended)] == whole


@given(streams(starred))
def test_values_with_asterisks(stream: tuple[list[bytes], list[list[bytes]]]) -> None:
    """A mask and its surroundings may look like such a value; nothing of a real one is shown."""
    secret, lines = stream
    for line, out in zip(lines, masked(secret, lines), strict=True):
        text = b"".join(line)
        covered = {
            at
            for value in known(secret)
            for start in range(len(text))
            if text.startswith(value, start)
            for at in range(start, start + len(value))
        }
        allowed = iter(byte for at, byte in enumerate(text) if at not in covered)
        # Each letter that is shown stands, in order, where no value stood.
        assert all(byte in allowed for byte in b"".join(out) if byte != ord("*"))


@given(streams())
def test_what_is_buffered(stream: tuple[list[bytes], list[list[bytes]]]) -> None:
    """It is shorter than the longest value, so a line without an end is not kept for ever."""
    secret, lines = stream
    redactor = Redactor(secret)
    mask, came = PieceMask(redactor), b""
    shown = 0
    for piece in lines[0]:
        came += piece
        shown += len(mask.feed(piece, complete=False))
        if not any(value in came for value in known(secret)):
            longest = max((len(value) for value in redactor._known), default=1)
            assert len(came) - shown < longest


def test_without_secrets_everything_is_shown_at_once() -> None:
    """Without values nothing is buffered."""
    mask = PieceMask(Redactor([]))
    assert mask.feed(b"no new", complete=False) == b"no new"
    assert mask.feed(b"line", complete=True) == b"line"
    assert mask.finish() == b""


@given(values, st.lists(pieces, max_size=4))
def test_a_newline_ends_the_buffer(secret: list[bytes], parts: list[bytes]) -> None:
    """The next line is masked like the first."""
    mask = PieceMask(Redactor(secret))
    mask.feed(b"aab", complete=False)
    mask.feed(b"", complete=True)
    fresh = PieceMask(Redactor(secret))
    assert [mask.feed(part, complete=False) for part in parts] == [fresh.feed(part, complete=False) for part in parts]


@pytest.mark.parametrize("value", [b"0000", b"abab", b"aab" * 40])
def test_a_value_that_repeats_for_ever(value: bytes) -> None:
    """A line of it is shown as it comes, without a whole value."""
    mask = PieceMask(Redactor([value]))
    stream = value * (3 * HELD_LIMIT // len(value))
    given_out = [mask.feed(stream[at : at + 10_000], complete=False) for at in range(0, len(stream), 10_000)]
    assert any(given_out)
    assert value not in b"".join((*given_out, mask.finish()))
