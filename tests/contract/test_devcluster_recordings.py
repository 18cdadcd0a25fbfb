"""Replays every recording against the embedded cluster: the same requests in the same order get the same answers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from senro.devcluster import DevClusterThread
from tests.contract.devcluster_differences import DIFFERENCES, SOMETIMES
from tests.lib.harness.devcluster import RECORDINGS, recording
from tests.lib.replay.replay import replay

SCENARIOS = sorted(path.stem for path in RECORDINGS.glob("*.json") if path.stem != "expected")
_AT_ONCE = 8
"""Number of scenarios that are replayed at the same time. They spend most of their time in sleeps of commands."""


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_every_recorded_exchange_has_the_recorded_answer(record_property: Callable[[str, object], None]) -> None:
    """Status codes, reasons, messages, bodies and sequences of pod states are as recorded, or in the table."""
    with DevClusterThread() as cluster:
        if cluster.mode != "bubblewrap":
            pytest.skip(f"bubblewrap cannot run: {cluster.mode_reason}")
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        outcomes = {outcome.key: outcome for found in threads.map(replay, SCENARIOS) for outcome in found}
    every = {(name, number) for name in SCENARIOS for number in range(len(recording(name)["exchanges"]))}
    differing = {key for key, outcome in outcomes.items() if not outcome.equal}
    record_property(
        "summary", f"recorded exchanges equal on the embedded cluster: {len(every - differing)} of {len(every)}"
    )
    assert outcomes.keys() == every
    unexpected = sorted(differing - DIFFERENCES.keys() - SOMETIMES.keys())
    assert not unexpected, "\n" + "\n".join(str(outcomes[key]) for key in unexpected)
    assert sorted(DIFFERENCES.keys() - differing) == [], "these no longer differ: take them out of the table"


def test_the_table_of_differences_is_consistent() -> None:
    """Each entry is an exchange of a recording, and in one of the two tables."""
    named = [*DIFFERENCES, *SOMETIMES]
    assert all(number < len(recording(name)["exchanges"]) for name, number in named)
    assert len(set(named)) == len(named)
