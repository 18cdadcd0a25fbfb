"""Pipelines and faults drawn from seeds: a run reports the truth and leaves nothing, whatever fails.

`make test` uses a few fixed seeds. `make soak` sets SOAK_SECONDS and uses new ones until that time is over. A failure
prints its seed, and SOAK_SEED=<seed> repeats the run.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import senro
from senro.testing import Bench
from tests.soak.drawing import FAILURE, Draw, draw

pytestmark = [pytest.mark.slow, pytest.mark.bubblewrap]

SECONDS = float(os.environ.get("SOAK_SECONDS", "0"))
_ALWAYS = range(6)


def seeds() -> Iterator[int]:
    """Yields the seed of SOAK_SEED, or the fixed seeds, or new ones until the time is over."""
    if one := os.environ.get("SOAK_SEED"):
        yield int(one)
        return
    yield from _ALWAYS
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        yield random.SystemRandom().randrange(1_000_000_000)


@pytest.mark.timeout(SECONDS + 300)
def test_a_run_with_random_faults_reports_the_truth(
    senro_bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each step's work is in the workspace once, failures are those of commands, and nothing is left."""
    if senro_bench.cluster is not None and senro_bench.cluster.mode != "bubblewrap":
        pytest.skip(f"bubblewrap cannot run: {senro_bench.cluster.mode_reason}")
    done = 0
    for seed in seeds():
        drawn = draw(seed)
        bench = Bench.embedded(tmp_path / str(seed), senro_bench.cluster) if senro_bench.cluster else senro_bench
        bench.folder.mkdir()
        try:
            check(bench, drawn)
        except BaseException:
            with capsys.disabled():
                print(f"\nSOAK_SEED={seed} failed, after {done} that did not: {drawn}")  # noqa: T201 - the seed is what a failure is found again by
            raise
        done += 1
    if SECONDS:
        with capsys.disabled():
            print(f"\n{done} drawn runs told the truth")  # noqa: T201 - how much was tried is worth knowing


def check(bench: Bench, drawn: Draw) -> None:
    """Runs a draw and checks its result."""
    bench.faults.clear()
    drawn.arm(bench.faults)
    secrets = {"Token": senro.secret.value("made-up")} if drawn.secret else {}
    result = bench.run(drawn.pipeline(bench.pod()), secrets=secrets)
    bench.faults.clear()
    assert result.leftovers == ()
    assert result.ok is not bool(drawn.failing), result.steps
    told = bench.tree("source").get("done", b"").decode().split()
    assert told == drawn.expected
    if drawn.failing:
        failed = result.steps[drawn.failing].outcome
        assert failed is not None
        assert (failed.kind, failed.code) == ("failed", FAILURE)
    for name, step in result.steps.items():
        ran = name in drawn.expected or name == drawn.failing
        assert bool(step.attempts) is ran, name
    bench.check_nothing_is_left()
