"""Runs blocking calls in daemon threads, for which the interpreter does not wait at exit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

import anyio
from anyio import RunFinishedError, from_thread
from anyio.lowlevel import EventLoopToken, current_token

T = TypeVar("T")


async def run_in_daemon_thread(work: Callable[[], T]) -> T:
    """Call `work` in a new thread, and return or raise what it does. On a cancellation the call continues alone.

    The worker threads of anyio are joined at exit: a store that does not answer would keep an interrupted process alive
    until its requests time out.
    """
    call = _Call(work, current_token())
    threading.Thread(target=call.run, name="senro scratch store", daemon=True).start()
    await call.done.wait()
    return call.result()


class _Call(Generic[T]):
    def __init__(self, work: Callable[[], T], token: EventLoopToken) -> None:
        self._work = work
        self._token = token
        self._values: list[T] = []
        self._error: BaseException | None = None
        self.done = anyio.Event()

    def run(self) -> None:
        try:
            self._values.append(self._work())
        except BaseException as error:  # noqa: BLE001 - `result` raises it
            self._error = error
        # The event loop may have ended, and then nobody waits for the result.
        with suppress(RunFinishedError, RuntimeError):
            from_thread.run_sync(self.done.set, token=self._token)

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._values[0]
