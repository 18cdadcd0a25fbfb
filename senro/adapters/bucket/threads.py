"""Blocking calls that nobody can stop, in threads that nobody waits for."""

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
    """What `work` returns or raises. Cancelled, it leaves the call behind, which may take as long as it likes.

    anyio's own worker threads are joined when the interpreter ends: a store that says nothing would keep a process
    that was interrupted for as long as its requests may take.
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
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits, whatever it is
            self._error = error
        # The loop may be over, and with it everybody who waited.
        with suppress(RunFinishedError, RuntimeError):
            from_thread.run_sync(self.done.set, token=self._token)

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._values[0]
