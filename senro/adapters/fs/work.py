"""Blocking work in worker threads, in slices, so that all of it can be cancelled.

A piece of work is a generator that yields wherever it may be stopped: after each file, after each piece of a large
one. A slice of it runs in a worker thread for `SLICE` seconds, then the event loop has its say. A hop to a thread
costs about 0.1 ms, so a hop for each file would cost more than the files do.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import anyio
import anyio.to_thread

from senro.domain.errors import TreeError

if TYPE_CHECKING:
    from collections.abc import Generator

T = TypeVar("T")

SLICE = 0.05
"""Seconds that a thread works before a cancellation is seen. The bound on a single large read or write is PIECE."""

PIECE = 512 * 1024
"""Bytes moved at a time. With each, a thread and the event loop hand the interpreter to one another several times,
which costs more than the bytes do; four times as many at once are no faster."""


@dataclass(frozen=True, slots=True)
class _Done(Generic[T]):
    value: T


async def drive(work: Generator[None, None, T]) -> T:
    """Run the work to its end and return its value. Cancelled, it closes the generator first, in a thread, shielded.

    What the work has opened or begun it must undo in its own `finally`.
    """
    sliced = _Sliced(work)
    try:
        while True:
            done = await anyio.to_thread.run_sync(sliced.go_on)
            if done is not None:
                return done.value
    except BaseException:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(sliced.close)
        raise


class Naming:
    """As a context: an OSError becomes a `TreeError` (rule `io`) that names the path and has the system's words."""

    # A class, since a generator as a context costs three times as much, several times for each small file.
    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        """Nothing is to be done."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Exchange the error."""
        if isinstance(error, OSError):
            raise io_error(self._path, error) from error


def io_error(path: str, error: OSError) -> TreeError:
    """The `TreeError` (rule `io`) for what the operating system said about the path."""
    return TreeError(path, "io", error.strerror or str(error))


class _Sliced(Generic[T]):
    """The work, in one thread at a time.

    Ctrl-C cancels a task of asyncio itself, through every shield: `drive` then goes on to close the work while a thread
    is still in the middle of a slice.
    """

    def __init__(self, work: Generator[None, None, T]) -> None:
        self._work = work
        self._one = threading.Lock()

    def go_on(self) -> _Done[T] | None:
        end = time.monotonic() + SLICE
        with self._one:
            try:
                while True:
                    next(self._work)
                    if time.monotonic() >= end:
                        return None
            except StopIteration as stop:
                return _Done(stop.value)

    def close(self) -> None:
        with self._one:
            self._work.close()
