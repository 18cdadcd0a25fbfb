"""Checks the laws of the verdict and the cluster model with new examples until the time is over.

    python tests/fuzz/fuzz_laws.py [--seconds N] [--least N] [--seed N]

It runs rounds of a thousand examples: at least one round, and `--least` examples of each law. A law that fails prints
its seed, for `--seed`. Each round also runs the cluster model a hundred times with hypothesis, which shrinks failures.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.lib.verdict.laws import LAWS
from tests.property.domain.verdict.test_machine import ClusterMachine, played

ROUND = 1_000

SETTINGS = settings(
    max_examples=ROUND // 10,
    stateful_step_count=30,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


def fuzz(seconds: float, least: int, seed: int) -> None:
    """Runs rounds. Raises the error of the first example that fails, with a note of its law and seed."""
    ends, rounds = time.monotonic() + seconds, 0
    while rounds * ROUND < max(least, 1) or time.monotonic() < ends:
        for law in (*LAWS, played):
            for number in range(seed, seed + ROUND):
                try:
                    law(random.Random(number).choice)
                except Exception as error:
                    error.add_note(f"law {law.__name__}, --seed {number}")
                    raise
        run_state_machine_as_test(ClusterMachine, settings=SETTINGS)
        seed += ROUND
        rounds += 1
    sys.stdout.write(f"laws: {rounds * ROUND:,} examples of each of {len(LAWS)}, and of the cluster (to seed {seed})\n")


def main() -> None:
    """Fails with the traceback of the first failure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--least", type=int, default=ROUND)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 48))
    arguments = parser.parse_args()
    fuzz(arguments.seconds, arguments.least, arguments.seed)


if __name__ == "__main__":
    main()
