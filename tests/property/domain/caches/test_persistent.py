"""When the content of a persistent workspace is evicted."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.domain.caches.persistent import Eviction, PersistentRecord, at_lease, exceeded
from senro.domain.pipeline.workspace import Workspace
from senro.domain.plan.pipeline import Pipeline
from tests.lib.builders.plans import RUNNER

DIGEST = "sha256:" + "0" * 64

ages = st.floats(0.001, 1e6)
sizes = st.integers(1, 10**6)
records = st.builds(
    PersistentRecord,
    name=st.just("deps"),
    made=st.floats(0, 1e6),
    max_age=ages,
    max_size=sizes,
    run=st.just("r"),
    digest=st.sampled_from(["", DIGEST]),
    changing=st.booleans(),
    released=st.booleans(),
)
moments = st.floats(0, 2e6)


@given(records, moments, sizes)
def test_a_bound_and_its_measurement(record: PersistentRecord, now: float, size: int) -> None:
    """Content is evicted exactly if its age or size exceeds the bound, with both values."""
    found = exceeded(record, now=now, size=size)
    too_old, too_large = now - record.made > record.max_age, size > record.max_size
    assert (found is not None) == (too_old or too_large)
    if found is not None:
        assert found.measured > found.limit
        assert found.limit == (record.max_age if too_old else record.max_size)
        assert found.bound == ("max_age" if too_old else "max_size")


@given(records, ages, sizes, moments, sizes)
def test_at_lease(record: PersistentRecord, age: float, bytes_: int, now: float, size: int) -> None:
    """Content that exceeds the bounds of the run, or of a run that was killed, is evicted before a run uses it."""
    found = at_lease(record, (age, bytes_), now=now, size=size)
    if not record.digest:
        assert found == Eviction("unfinished")
        return
    own = now - record.made > age or size > bytes_
    killed = not record.released and exceeded(record, now=now, size=size) is not None
    assert (found is not None) == (own or killed)


@given(ages, sizes, moments, sizes)
def test_content_without_a_record(age: float, bytes_: int, now: float, size: int) -> None:
    """It is unfinished, whatever its size."""
    assert at_lease(None, (age, bytes_), now=now, size=size) == Eviction("unfinished")


@given(records)
def test_a_record_round_trip(record: PersistentRecord) -> None:
    """A record is decoded to itself."""
    assert msgspec.json.decode(msgspec.json.encode(record), type=PersistentRecord) == record


def test_a_clock_that_was_set_back() -> None:
    """Content from the future is new."""
    record = PersistentRecord(name="deps", made=1e6, max_age=1, max_size=1, run="r", digest=DIGEST)
    assert exceeded(record, now=0, size=1) is None


@pytest.mark.parametrize(
    ("eviction", "words"),
    [
        (Eviction("max_age", 86_400, 90_000), "it is 1d 1h old, and max_age is 1d"),
        (Eviction("max_size", 1e10, 10_000_000_001), "it holds 10000000001 bytes, and max_size is 10000000000"),
        (Eviction("unfinished"), "a run was killed while a step changed it"),
    ],
)
def test_the_reason_as_text(eviction: Eviction, words: str) -> None:
    """It has the bound and the measurement."""
    assert str(eviction) == words


def test_the_persistent_workspaces_of_a_plan() -> None:
    """Each is there once, sorted by name, and no other workspace."""
    pipeline = Pipeline("p")
    kept = [Workspace(name, scope="persistent", max_age=1, max_size=1) for name in "zab"]
    workflow = pipeline.workflow("w", on=RUNNER)
    workflow.step("one", ["true"], mounts=[kept[0].at("/z"), kept[2].at("/b"), Workspace("run").at("/r")])
    plan = pipeline.build()
    assert [workspace.name for workspace in plan.persistent_workspaces] == ["b", "z"]
