"""Who pays for obstore, and who does not."""

from __future__ import annotations

import subprocess
import sys
import threading
from datetime import timedelta

import anyio
import obstore
import pytest
from obstore.store import S3Store

from senro.adapters.bucket import open_scratch_store, read_location
from senro.adapters.bucket.threads import run_in_daemon_thread
from senro.adapters.fs import FolderTrees
from senro.domain.errors import ConfigurationError

pytestmark = pytest.mark.anyio


def test_obstore_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is asked for and not installed, the extra is named."""
    monkeypatch.setitem(sys.modules, "obstore", None)
    environ = {"SENRO_REMOTE_SCRATCH": "s3://bucket/prefix"}
    location = read_location(environ)
    assert location is not None
    with pytest.raises(ConfigurationError, match=r"SENRO_REMOTE_SCRATCH: needs obstore; install senro\[scratch\]"):
        open_scratch_store(location, environ, trees=FolderTrees(), token=str)


@pytest.mark.parametrize("given", [True, False])
def test_the_environment_of_the_process(monkeypatch: pytest.MonkeyPatch, given: bool) -> None:
    """What is given wins over the process's own variables; obstore takes the rest from there, as docs say."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "PROCESS")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    environ = {"SENRO_REMOTE_SCRATCH": "s3://bucket/prefix", "SENRO_REMOTE_SCRATCH_REGION": "eu-central-1"}
    environ |= {"AWS_ACCESS_KEY_ID": "GIVEN", "AWS_SECRET_ACCESS_KEY": "other"} if given else {}
    location = read_location(environ)
    assert location is not None
    store = open_scratch_store(location, environ, trees=FolderTrees(), token=str)
    opened = store._bucket._store
    assert isinstance(opened, S3Store)
    signed = obstore.sign(opened, "GET", "x", timedelta(minutes=1))
    assert f"Credential={'GIVEN' if given else 'PROCESS'}%2F" in signed


def test_it_is_loaded_when_it_is_used() -> None:
    """Neither `import senro` nor a run's own modules load it."""
    program = "import sys, senro.api.wiring, senro.adapters.bucket; sys.exit('obstore' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0


async def test_a_call_in_a_thread() -> None:
    """Its value and its error come to whoever waits."""
    assert await run_in_daemon_thread(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await run_in_daemon_thread(lambda: 1 // 0)


async def test_a_call_that_is_left_behind() -> None:
    """Whoever is cancelled goes at once; the call ends by itself, and nobody is told."""
    may_end, ended = threading.Event(), threading.Event()

    def call() -> None:
        may_end.wait(20)
        ended.set()

    with anyio.move_on_after(0.01) as scope:
        await run_in_daemon_thread(call)
    assert scope.cancelled_caught
    may_end.set()
    assert await anyio.to_thread.run_sync(ended.wait, 20)


def test_a_call_that_outlives_its_loop() -> None:
    """The loop that started it is over when it ends: nothing is raised anywhere."""
    may_end, threads = threading.Event(), []

    def call() -> None:
        threads.append(threading.current_thread())
        may_end.wait(20)

    async def leave() -> None:
        with anyio.move_on_after(0.05):
            await run_in_daemon_thread(call)

    anyio.run(leave)
    may_end.set()
    threads[0].join(20)
    assert not threads[0].is_alive()


def test_a_process_does_not_wait_for_it() -> None:
    """A call that hangs keeps no process from ending."""
    program = """
import anyio, threading
from senro.adapters.bucket.threads import run_in_daemon_thread

async def leave():
    with anyio.move_on_after(0.05):
        await run_in_daemon_thread(threading.Event().wait)

anyio.run(leave)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=30).returncode == 0
