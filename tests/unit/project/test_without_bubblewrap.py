"""Tests that need bubblewrap, on a machine without it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
NEEDS_IT = "tests/e2e/test_pipelines.py::test_a_read_only_mount_in_a_pod"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ci", "workers", "code", "told"),
    [("", "0", 0, "1 skipped"), ("true", "0", 1, "1 error"), ("true", "1", 1, "1 error")],
)
def test_a_test_that_needs_bubblewrap(ci: str, workers: str, code: int, told: str) -> None:
    """It is skipped with the reason; with CI set it fails, also in a worker of pytest-xdist."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", workers, "-p", "no:cacheprovider", NEEDS_IT],
        cwd=ROOT,
        env={**os.environ, "SENRO_DEVCLUSTER_MODE": "mapped", "CI": ci},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert told in done.stdout
    assert "bubblewrap cannot run: SENRO_DEVCLUSTER_MODE is mapped" in done.stdout
    assert (NEEDS_IT if code else "test_pipelines.py") in done.stdout
