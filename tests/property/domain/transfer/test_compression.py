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
def test_what_is_chosen_is_there_and_faster(has: list[Coding], content: int, ratio: float, rate: float) -> None:
    """Packing is chosen only where the far side can and where it takes clearly less time than plain; else plain."""
    chosen = choose(has, ratio, rate)
    plain = seconds("plain", content, ratio, rate)
    if chosen == "plain":
        assert all(seconds(coding, content, ratio, rate) >= GAIN * plain for coding in has)
    else:
        assert chosen in has
        assert seconds(chosen, content, ratio, rate) < GAIN * plain
        assert could_pay(content, rate) == (content > PROBE_TO)


@given(haves, contents, st.floats(0, 1), ratios, rates)
def test_a_transfer_is_begun_again_only_where_that_is_made_good(
    has: list[Coding], content: int, share: float, ratio: float, rate: float
) -> None:
    """The time that is left is compared with the whole of the other way, the beginning again included."""
    done = int(content * share)
    chosen = choose_again(has, content, done, ratio, rate)
    left = seconds("plain", content - done, ratio, rate)
    if chosen != "plain":
        assert chosen in has
        assert AGAIN_SECONDS + seconds(chosen, content, ratio, rate) < GAIN * left
    elif choose(has, ratio, rate) != "plain" and done == 0:
        assert AGAIN_SECONDS + seconds(choose(has, ratio, rate), content, ratio, rate) >= GAIN * left


@given(contents, ratios, st.floats(300e6, 1e10))
def test_a_fast_link_is_never_packed(content: int, ratio: float, rate: float) -> None:
    """From 300 MB/s on no program of the far side keeps up, whatever the content."""
    assert choose(PACKED, ratio, rate) == "plain"
    assert not could_pay(content, rate)


@given(st.floats(0.8, 1.2), rates)
def test_what_does_not_pack_is_never_packed(ratio: float, rate: float) -> None:
    """Content that keeps most of its size crosses as it is, over any link."""
    assert choose(PACKED, ratio, rate) == "plain"


def test_what_the_far_side_says_is_read_by_its_words() -> None:
    """The programs that are known here, the better first; whatever else it has says nothing."""
    assert codings(b"senro-has gzip zstd") == ("zstd", "gzip")
    assert codings(b"senro-has xz gzip lz4") == ("gzip",)
    assert codings(b"senro-has") == ()


@given(rates, st.floats(0, 1e6), st.floats(0, 2 * KNOWN_SECONDS))
def test_a_rate_is_known_for_two_minutes(rate: float, at: float, age: float) -> None:
    """In its own direction alone."""
    link = LinkRates()
    assert link.known("upload", at) is None
    link.measured("upload", rate, at)
    now = at + age
    assert link.known("upload", now) == (rate if now - at < KNOWN_SECONDS else None)
    assert link.known("download", now) is None
