"""Runs blocking calls in daemon threads, for which the interpreter does not wait at exit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

import anyio
from anyio import RunFinishedError, from_thread
from anyio.lowlevel import current_token

T = TypeVar("T")


async def run_in_daemon_thread(work: Callable[[], T]) -> T:
    """Call `work` in a new thread, and return or raise what it does. On a cancellation the call continues alone.

    The worker threads of anyio are joined at exit: a store that does not answer would keep an interrupted process alive
    until its requests time out.
    """
    token, done, future = current_token(), anyio.Event(), Future[T]()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            future.set_exception(error)
        # The event loop may have ended, and then nobody waits for the result.
        with suppress(RunFinishedError, RuntimeError):
            from_thread.run_sync(done.set, token=token)

    threading.Thread(target=run, name="senro scratch store", daemon=True).start()
    await done.wait()
    return future.result()
