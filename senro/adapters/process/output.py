"""The output of a command: from a pipe to the sink, to the last byte, at the sink's pace."""

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
"""Bytes read at once: what a Linux pipe holds."""

Stream = Literal["stdout", "stderr"]


class Delivery:
    """The sink, called by one pump at a time. Its first exception is kept and stops the run; the rest is dropped."""

    def __init__(self, output: OutputSink, stop: Callable[[], None]) -> None:
        self._output = output
        self._stop = stop
        self._turn = anyio.Lock()
        self.failure: Exception | None = None

    async def deliver(self, stream: Stream, data: bytes) -> None:
        """Hand one piece over; returns when the sink has it."""
        async with self._turn:
            if self.failure is not None:
                return
            try:
                await self._output(stream, data)
            except Exception as error:  # noqa: BLE001 - raised to the caller as it is, once the group has ended
                self.failure = error
                self._stop()


class Pump:
    """Moves one stream from the reading end `fd` of a pipe.

    The pipe is ours and not asyncio's: whether the process has ended must not depend on whether a grandchild still
    holds the other end, and nothing may be read that the sink has no room for. It goes on when the run is
    cancelled, so that a command that says goodbye does not block on a full pipe; `close` and `cancel` end it.
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
        """Move everything until the other end is closed by all who hold it, or `close` was called."""
        try:
            with self._scope:
                await self._copy()
        finally:
            self.done.set()

    def close(self) -> None:
        """Everybody who may write has ended: deliver what the pipe holds now, then stop."""
        held = array.array("i", [0])
        fcntl.ioctl(self._fd, termios.FIONREAD, held)
        self._remaining = held[0]
        self._wait_scope.cancel()

    def cancel(self) -> None:
        """Stop now, in the middle of a delivery if need be."""
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
