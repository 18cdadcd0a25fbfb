"""A coordinator runs without functions that only Linux has, as on macOS."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WITHOUT_LINUX = """\
import fcntl, os, sys

for name in ("fdatasync", "waitid", "pidfd_open", "copy_file_range", "posix_fadvise", "sendfile", "O_TMPFILE"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("F_SETPIPE_SZ", "F_GETPIPE_SZ"):
    if hasattr(fcntl, name):
        delattr(fcntl, name)

def hide_proc(event, arguments):
    if event in ("open", "os.listdir", "os.scandir") and str(arguments[0]).startswith("/proc"):
        raise FileNotFoundError(2, "No such file or directory", str(arguments[0]))

sys.addaudithook(hide_proc)
sys.argv = ["senro", *{words!r}]
from senro.cli.main import main
main(sys.argv[1:], prog_name="senro")
"""

PIPELINE = """\
import senro

p = senro.Pipeline("release")
src = senro.Workspace("src", path="project")
steps = p.workflow("w")
steps.step("make", ["sh", "-c", "echo made > made; (sleep 0.1; echo late) & echo early"],
           mounts=[src.at("/src")], workdir="/src")
steps.step("read", ["cat", "made"], needs=["make"], mounts=[src.at("/src", "ro")], workdir="/src")
"""


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs the command line in a Python without what macOS lacks, with pods as plain processes."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_LINUX.format(words=list(words))],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "SENRO_CACHE_DIR": str(folder / "cache"), "SENRO_DEVCLUSTER_MODE": "mapped"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_local_steps_run_without_the_functions_of_linux(tmp_path: Path) -> None:
    """Local steps, their workspaces and the ledger need no function that only Linux has."""
    (tmp_path / "project").mkdir()
    (tmp_path / "pipeline.py").write_text(PIPELINE)
    done = run(tmp_path, "run", "pipeline.py", "--plain")
    assert done.returncode == 0, done.stdout + done.stderr
    (ledger,) = tmp_path.glob(".senro/runs/*/events.jsonl")
    assert len(ledger.read_text().splitlines()) > 5
    (log,) = tmp_path.glob(".senro/runs/*/logs/w.read/1.log")
    assert log.read_text() == "made\n"


@pytest.mark.slow
def test_the_demo_runs_without_the_functions_of_linux(tmp_path: Path) -> None:
    """The embedded cluster does not either: the demo's pods run as plain processes, and the run succeeds."""
    done = run(tmp_path, "demo", "--plain")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "without isolation" in done.stdout
