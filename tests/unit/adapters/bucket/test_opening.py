"""Opens stores with obstore, and calls them in threads."""

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


def test_missing_obstore_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """If obstore is needed and not installed, the refusal names the extra."""
    monkeypatch.setitem(sys.modules, "obstore", None)
    environ = {"SENRO_REMOTE_SCRATCH": "s3://bucket/prefix"}
    location = read_location(environ)
    assert location is not None
    with pytest.raises(ConfigurationError, match=r"SENRO_REMOTE_SCRATCH: needs obstore; install senro\[scratch\]"):
        open_scratch_store(location, environ, trees=FolderTrees(), token=str)


@pytest.mark.parametrize("given", [True, False])
def test_given_variables_override_the_process_environment(monkeypatch: pytest.MonkeyPatch, given: bool) -> None:
    """Variables that are passed take precedence; obstore takes the others from the process, as documented."""
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


def test_obstore_is_imported_lazily() -> None:
    """Neither `import senro` nor the modules of a run import obstore."""
    program = "import sys, senro.api.wiring, senro.adapters.bucket; sys.exit('obstore' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0


async def test_thread_returns_and_raises() -> None:
    """The caller gets the value or the error of the call."""
    assert await run_in_daemon_thread(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await run_in_daemon_thread(lambda: 1 // 0)


async def test_cancelled_call_continues_alone() -> None:
    """A cancelled caller returns at once; the call ends by itself and its result is dropped."""
    may_end, ended = threading.Event(), threading.Event()

    def call() -> None:
        may_end.wait(20)
        ended.set()

    with anyio.move_on_after(0.01) as scope:
        await run_in_daemon_thread(call)
    assert scope.cancelled_caught
    may_end.set()
    assert await anyio.to_thread.run_sync(ended.wait, 20)


def test_call_may_outlive_the_event_loop() -> None:
    """A call that ends after its event loop raises nothing."""
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


def test_process_exits_during_a_call() -> None:
    """A call that hangs does not keep the process alive."""
    program = """
import anyio, threading
from senro.adapters.bucket.threads import run_in_daemon_thread

async def leave():
    with anyio.move_on_after(0.05):
        await run_in_daemon_thread(threading.Event().wait)

anyio.run(leave)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=30).returncode == 0
