"""Which entry of a scratch cache is restored, and the records of stores."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.domain.caches.lookup import Candidate, ScratchEntry, ranked
from senro.domain.caches.record import FORMAT, ScratchRecord, decode_record, encode_record

START = datetime(2026, 1, 1, tzinfo=UTC)
KEYS = st.text(st.sampled_from("ab"), min_size=1, max_size=4)
CANDIDATES = st.builds(
    Candidate,
    st.builds(ScratchEntry, KEYS, st.integers(0, 3).map(lambda hours: START + timedelta(hours=hours))),
    st.sampled_from(["local", "remote"]),
)


@given(KEYS, st.lists(KEYS, max_size=3), st.lists(CANDIDATES, unique=True, max_size=8))
def test_the_best_comes_first(key: str, prefixes: list[str], candidates: list[Candidate]) -> None:
    """The entry of the key is first, else the newest one under the first prefix that has entries."""
    order = ranked(key, prefixes, candidates)
    exact = [one for one in candidates if one.entry.key == key]
    fitting = [
        one for one in candidates if one in exact or any(one.entry.key.startswith(prefix) for prefix in prefixes)
    ]
    assert sorted(order, key=repr) == sorted(fitting, key=repr)
    if exact:
        assert order[0].entry.key == key
        return
    for prefix in prefixes:
        under = [one for one in candidates if one.entry.key.startswith(prefix)]
        if under:
            assert order[0].entry.key == max((one.entry.created, one.entry.key) for one in under)[1]
            return
    assert order == ()


@given(KEYS, st.lists(KEYS, max_size=3), st.lists(CANDIDATES, unique=True, max_size=8), st.randoms())
def test_the_order_of_listing_does_not_matter(
    key: str, prefixes: list[str], candidates: list[Candidate], random_source: Random
) -> None:
    """Any order of the listing gives the same entry; of one key the local entry is first."""
    shuffled = list(candidates)
    random_source.shuffle(shuffled)
    keys = [(one.entry.key, one.where) for one in ranked(key, prefixes, candidates)]
    assert [(one.entry.key, one.where) for one in ranked(key, prefixes, shuffled)] == keys
    for of in {one for one, _ in keys}:
        places = [where for name, where in keys if name == of]
        assert places == sorted(places)


def test_the_newest_copy_dates_a_key() -> None:
    """A key is as new as its newest copy, and the local copy is restored."""
    old, new = ScratchEntry("a-1", START), ScratchEntry("a-2", START + timedelta(hours=1))
    copy = Candidate(ScratchEntry("a-1", START + timedelta(hours=2)), "remote")
    order = ranked("a-3", ["a-"], [Candidate(old, "local"), Candidate(new, "local"), copy])
    assert [(one.entry.key, one.where) for one in order] == [("a-1", "local"), ("a-1", "remote"), ("a-2", "local")]


@given(st.builds(ScratchRecord, format=st.just(FORMAT), cache=KEYS, key=KEYS, created=st.just(START), tree=KEYS))
def test_a_record_round_trip(record: ScratchRecord) -> None:
    """A record is decoded to itself, for its own cache and key only."""
    data = encode_record(record)
    assert decode_record(data, record.cache, record.key) == record
    assert decode_record(data, record.cache, None) == record
    assert decode_record(data, record.cache + "x", record.key) is None
    assert decode_record(data, record.cache, record.key + "x") is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b'{"format":"senro scratch 2","cache":"c","key":"k","created":"2026-01-01T00:00:00Z","tree":"t"}',
        b'{"format":"senro scratch 1","cache":"c","key":"k","created":"2026-01-01T00:00:00","tree":"t"}',
        b'{"format":"senro scratch 1","cache":"c","key":"k","created":7,"tree":"t"}',
    ],
)
def test_anything_else_is_no_record(data: bytes) -> None:
    """Damaged data, another format and a time without a zone are None and raise nothing."""
    assert decode_record(data, "c", "k") is None
