"""Joins small writes: whatever arrives while one write is under way is written by the next."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

LIMIT = 4 * 1024 * 1024
"""Bytes that may wait to be written before `put` waits too."""


class WriteBuffer:
    """Bytes between a task that receives and the task that writes them. Run `run` in a task and cancel it at the end.

    A container that prints many short lines sends each as a piece of its own, and each write costs a change of threads.
    """

    def __init__(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        self._write = write
        self._waiting = bytearray()
        self._idle = True
        self._changed = anyio.Event()

    async def put(self, data: bytes) -> None:
        """Add bytes; waits while more than `LIMIT` are waiting."""
        self._waiting += data
        self._notify()
        while len(self._waiting) > LIMIT:
            await self._changed.wait()

    async def flush(self) -> None:
        """Return once everything that was put is written."""
        while self._waiting or not self._idle:
            await self._changed.wait()

    async def run(self) -> None:
        """Write what is put, in order. Raises what `write` raises."""
        while True:
            while not self._waiting:
                await self._changed.wait()
            data = bytes(self._waiting)
            self._waiting.clear()
            self._idle = False
            await self._write(data)
            self._idle = True
            self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
