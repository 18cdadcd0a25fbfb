"""A coordinator that is killed at any moment leaves its persistent workspace complete or evicted."""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from tests.lib.archives.files import names
from tests.lib.harness.killed_run import make_project, run

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
MOMENTS = 500
"""Changes of files and folders, of the hundred and more that each run makes: an evicted one is among those runs."""

BOUND = 60
"""Seconds after which a process that was to be killed hangs."""

KILLS = 60 if os.environ.get("SENRO_TEST_PROFILE") == "soak" else 4


async def test_killed_run_leaves_one_state(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """Whenever the process is killed, the next run finds all files of one state, and no leftovers."""
    make_project(tmp_path)
    randomness = random.Random(20261129)
    found = []
    for _ in range(KILLS):
        moment = randomness.randint(1, MOMENTS)
        command = [sys.executable, "-m", "tests.lib.harness.killed_run", str(tmp_path), str(moment)]
        with anyio.fail_after(BOUND):
            done = await anyio.run_process(command, cwd=ROOT, check=False, stderr=None)
        assert done.returncode == -signal.SIGKILL
        states = await run(tmp_path, None)
        assert len(states) == 1
        found.append(states.pop())
        assert names(tmp_path / "cache" / "persistent" / "deps") == ["content", "holder.json", "lock", "record.json"]
    assert set(found) != {b"0"}
    record_property("summary", f"persistent workspaces: killed {KILLS} times, whole {KILLS} times")
