"""Ctrl-C during blocking work, in separate processes, since a signal reaches a whole process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

DRIVING = """
import asyncio, os, signal, threading, time, anyio
from senro.adapters.fs.work import run_in_slices

def work(task):
    loop = task.get_loop()
    try:
        yield
        os.kill(os.getpid(), signal.SIGINT)
        while not task.cancelling():
            # A signal that came just before the loop began to wait is seen when it wakes, and no sooner.
            loop.call_soon_threadsafe(lambda: None)
            time.sleep(0.001)
        time.sleep(0.2)  # it cannot stop at once: whoever closes it has to wait
        print("went on", flush=True)
        yield
        yield
        print("went too far", flush=True)
    finally:
        print("undone", flush=True)

async def main():
    await run_in_slices(work(asyncio.current_task()))

try:
    anyio.run(main)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""

COMMAND = """
import os, signal, sys, time
from senro.adapters.fs import cache
from senro.cli.main import main

def interrupted(*arguments, **options):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.2)
    yield
    raise AssertionError("it went on")

cache.acquire = interrupted
main(sys.argv[1:])
"""


def run(script: str, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs the script to its end."""
    environment = {"SENRO_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", script, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.slow
def test_work_is_undone_before_an_interrupt_is_raised(tmp_path: Path) -> None:
    """The thread completes its slice, the work undoes its changes, and then the interrupt is raised."""
    done = run(DRIVING, folder=tmp_path)
    assert (done.stderr, done.stdout.split("\n")) == ("", ["went on", "undone", "interrupted", ""])


@pytest.mark.slow
def test_an_interrupted_command(tmp_path: Path) -> None:
    """It exits with 130 and prints nothing."""
    done = run(COMMAND, "cache", "gc", folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
