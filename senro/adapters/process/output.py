"""Delivers the output of a command from a pipe to the sink, completely and no faster than the sink accepts it."""

from __future__ import annotations

import array
import fcntl
import os
import termios
from collections.abc import Callable
from typing import Literal

import anyio

from senro.ports.processes import OutputSink

PIECE = 64 * 1024
"""Bytes read at once: the capacity of a Linux pipe."""

Stream = Literal["stdout", "stderr"]


class Delivery:
    """Calls the sink for one pump at a time. Its first exception is kept and stops the run; later output is dropped.

    `failure`: that exception, None before.
    """

    def __init__(self, output: OutputSink, stop: Callable[[], None]) -> None:
        self._output = output
        self._stop = stop
        self._turn = anyio.Lock()
        self.failure: Exception | None = None

    async def deliver(self, stream: Stream, data: bytes) -> None:
        """Call the sink with one piece and return when it has taken it."""
        async with self._turn:
            if self.failure is not None:
                return
            try:
                await self._output(stream, data)
            except Exception as error:  # noqa: BLE001 - `run` raises it once the group has ended
                self.failure = error
                self._stop()


class Pump:
    """Copies one stream from the reading end `fd` of a pipe to the sink.

    The pipe is not asyncio's: the end of the process must not depend on whether a grandchild still holds the other end,
    and no more may be read than the sink accepts. The pump continues when the run is cancelled, so that the last output
    of a command that handles SIGTERM does not block on a full pipe; `close` and `cancel` end it.

    `done`: set when the pump has ended.
    """

    def __init__(self, stream: Stream, fd: int, delivery: Delivery) -> None:
        self._stream = stream
        self._fd = fd
        self._delivery = delivery
        self._scope = anyio.CancelScope(shield=True)
        self._wait_scope = anyio.CancelScope()
        self._remaining: int | None = None
        self.done = anyio.Event()

    async def run(self) -> None:
        """Copy until all writers have closed the other end, or `close` was called."""
        try:
            with self._scope:
                await self._copy()
        finally:
            self.done.set()

    def close(self) -> None:
        """Deliver what the pipe contains now, then stop. Call it when all writers have ended."""
        held = array.array("i", [0])
        fcntl.ioctl(self._fd, termios.FIONREAD, held)
        self._remaining = held[0]
        self._wait_scope.cancel()

    def cancel(self) -> None:
        """Stop now, also during a delivery."""
        self._scope.cancel()

    async def _copy(self) -> None:
        while self._remaining is None or self._remaining > 0:
            try:
                data = os.read(self._fd, PIECE)
            except BlockingIOError:
                with anyio.CancelScope() as self._wait_scope:
                    await anyio.wait_readable(self._fd)
                continue
            if not data:
                return
            if self._remaining is not None:
                self._remaining -= len(data)
            await self._delivery.deliver(self._stream, data)
