from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from senro.domain.text.line_splitter import LINE_LIMIT, LineCutter

texts = st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\n\n", b"\r\n", b"\xff", b""]), max_size=20)


def feed(pieces: list[bytes]) -> list[bytes]:
    cutter = LineCutter()
    lines = [line for piece in pieces for line in cutter.feed(piece)]
    lines += cutter.finish()
    assert cutter.finish() == []
    return lines


@given(texts)
def test_any_split_gives_the_same_lines(pieces: list[bytes]) -> None:
    """The lines have their newlines, and the last one may have none."""
    text = b"".join(pieces)
    assert (
        feed(pieces)
        == feed([text])
        == [line + b"\n" for line in text.split(b"\n")[:-1]] + [line for line in [text.split(b"\n")[-1]] if line]
    )


@given(st.lists(st.integers(1, LINE_LIMIT), min_size=1, max_size=6))
@example([LINE_LIMIT - 1, 1])
def test_a_long_line(sizes: list[int]) -> None:
    """It is returned in pieces, of which none is lost; less than the limit is buffered."""
    cutter, held = LineCutter(), 0
    for size in sizes:
        lines = cutter.feed(b"x" * size)
        held += size - sum(map(len, lines))
        assert held < LINE_LIMIT
    assert sum(map(len, cutter.finish())) == held
