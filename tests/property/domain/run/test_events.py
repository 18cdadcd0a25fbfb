from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.domain.kube.pod import parse_time
from senro.domain.run.events import Event, Noted, decode_event, encode_event, timestamp
from tests.lib.builders.events import AT, EVENTS, events


@given(events())
def test_a_round_trip(event: Event) -> None:
    """Decoding an encoded event gives an equal event of the same type."""
    decoded = decode_event(encode_event(event))
    assert decoded == event
    assert type(decoded) is type(event)


@given(events())
def test_every_event_is_one_line(event: Event) -> None:
    """Whatever its fields are, an encoded event has no newline."""
    line = encode_event(event)
    assert b"\n" not in line
    assert b"\r" not in line
    assert json.loads(line)["event"] == type(event).__struct_config__.tag


@given(st.binary(max_size=60))
def test_bytes_that_are_no_event_are_refused(data: bytes) -> None:
    """Other bytes raise `ValueError` and nothing else."""
    with pytest.raises(ValueError, match=r"."):
        decode_event(data)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=6,
    )
)
def test_json_that_is_no_event_is_refused(value: Any) -> None:
    """JSON of another structure raises `ValueError`."""
    with pytest.raises(ValueError, match=r"."):
        decode_event(json.dumps(value).encode())


@given(events(), st.data())
def test_a_partial_event_is_refused(event: Event, data: st.DataObject) -> None:
    """No part of a line is an event."""
    line = encode_event(event)
    with pytest.raises(ValueError, match=r"."):
        decode_event(line[: data.draw(st.integers(0, len(line) - 1))])


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 100_000,
        b'{"event":"note"}',
        b'{"event":"note","at":1,"message":"x"}',
        b'{"event":"no.such","at":"x"}',
        b'{"event":"note","at":"x","message":"\\ud800"}',
        b'{"event":"step.ended","at":"x","step":"a.x","state":"gone","attempts":1}',
    ],
)
def test_an_invalid_event_is_refused(line: bytes) -> None:
    """A missing field, a wrong type, an unknown kind or value, or half a character raises `ValueError`."""
    with pytest.raises((ValueError, RecursionError)) as caught:
        decode_event(line)
    assert isinstance(caught.value, ValueError)


def test_fields_of_a_later_version_are_ignored() -> None:
    """A line with an additional field is decoded."""
    assert decode_event(b'{"event":"note","at":"x","message":"m","colour":"blue"}') == Noted(at="x", message="m")


def test_each_event_has_its_tag() -> None:
    """No two events have the same value of `event`."""
    tags = [kind.__struct_config__.tag for kind in EVENTS]
    assert len(set(tags)) == len(EVENTS)


def test_times() -> None:
    """They are in UTC with six decimals, and `parse_time` reads them."""
    moment = datetime(2026, 11, 30, 1, 13, 8, tzinfo=timezone(timedelta(hours=2)))
    assert timestamp(moment) == AT
    assert parse_time(timestamp(moment)) == moment.astimezone(UTC)
