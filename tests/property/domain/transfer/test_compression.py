from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from senro.domain.transfer.compression import (
    AGAIN_SECONDS,
    GAIN,
    KNOWN_SECONDS,
    PACKED,
    PROBE_TO,
    Coding,
    LinkRates,
    choose,
    choose_again,
    codings,
    could_pay,
    seconds,
)

contents = st.integers(1, 2**40)
ratios = st.floats(0.0, 1.2)
rates = st.floats(1e3, 1e10)
haves: st.SearchStrategy[list[Coding]] = st.lists(st.sampled_from(PACKED), unique=True)


@given(haves, contents, ratios, rates)
def test_a_coding_is_available_and_faster(has: list[Coding], content: int, ratio: float, rate: float) -> None:
    """Compression is chosen only if the image has the program and it takes clearly less time."""
    chosen = choose(has, ratio, rate)
    plain = seconds("plain", content, ratio, rate)
    if chosen == "plain":
        assert all(seconds(coding, content, ratio, rate) >= GAIN * plain for coding in has)
    else:
        assert chosen in has
        assert seconds(chosen, content, ratio, rate) < GAIN * plain
        assert could_pay(content, rate) == (content > PROBE_TO)


@given(haves, contents, st.floats(0, 1), ratios, rates)
def test_a_restart_must_pay(has: list[Coding], content: int, share: float, ratio: float, rate: float) -> None:
    """The remaining time is compared with the whole compressed transfer, including the restart."""
    done = int(content * share)
    chosen = choose_again(has, content, done, ratio, rate)
    left = seconds("plain", content - done, ratio, rate)
    if chosen != "plain":
        assert chosen in has
        assert AGAIN_SECONDS + seconds(chosen, content, ratio, rate) < GAIN * left
    elif choose(has, ratio, rate) != "plain" and done == 0:
        assert AGAIN_SECONDS + seconds(choose(has, ratio, rate), content, ratio, rate) >= GAIN * left


@given(contents, ratios, st.floats(300e6, 1e10))
def test_a_fast_link_is_never_compressed(content: int, ratio: float, rate: float) -> None:
    """From 300 MB/s on no program is fast enough, whatever the content is."""
    assert choose(PACKED, ratio, rate) == "plain"
    assert not could_pay(content, rate)


@given(st.floats(0.8, 1.2), rates)
def test_incompressible_content_is_never_compressed(ratio: float, rate: float) -> None:
    """Content that keeps most of its size is sent plain over any link."""
    assert choose(PACKED, ratio, rate) == "plain"


def test_the_codings_of_a_line() -> None:
    """The known programs count, the better one first; others are ignored."""
    assert codings(b"senro-has gzip zstd") == ("zstd", "gzip")
    assert codings(b"senro-has xz gzip lz4") == ("gzip",)
    assert codings(b"senro-has") == ()


@given(rates, st.floats(0, 1e6), st.floats(0, 2 * KNOWN_SECONDS))
def test_a_rate_is_known_for_two_minutes(rate: float, at: float, age: float) -> None:
    """It is known in its own direction only."""
    link = LinkRates()
    assert link.known("upload", at) is None
    link.measured("upload", rate, at)
    now = at + age
    assert link.known("upload", now) == (rate if now - at < KNOWN_SECONDS else None)
    assert link.known("download", now) is None
