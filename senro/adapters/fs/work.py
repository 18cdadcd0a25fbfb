"""Runs blocking work in worker threads, in slices, so that it can be cancelled.

The work is a generator that yields wherever it may stop: after each file and after each piece of a large file. A
worker thread runs it for `SLICE` seconds, then control returns to the event loop. A hop to a thread costs about
0.1 ms, so a hop for each file would cost more than the file itself.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import anyio
import anyio.to_thread

from senro.domain.errors import StoreError, TreeError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

T = TypeVar("T")

SLICE = 0.05
"""Seconds for which a thread works before it can notice a cancellation. One read or write moves at most `PIECE`."""

PIECE = 512 * 1024
"""Bytes moved at a time. Each piece makes a thread and the event loop exchange the interpreter lock several times,
which costs more than copying the bytes; pieces four times as large were no faster."""


@dataclass(frozen=True, slots=True)
class _Done(Generic[T]):
    value: T


async def run_in_slices(work: Generator[None, None, T]) -> T:
    """Run the generator to its end in worker threads and return its value.

    If the caller is cancelled, the generator is closed in a thread, shielded, before the cancellation continues. The
    generator must release what it opened in its own `finally`.
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


class _TreeErrors:
    """A context manager that raises `TreeError` (rule `io`) with the path and the system's message for an OSError."""

    # A class: `contextlib.contextmanager` costs three times as much, several times for each small file.
    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Raise the translated error."""
        if isinstance(error, OSError):
            raise io_error(self._path, error) from error


tree_errors = _TreeErrors


def io_error(path: str, error: OSError) -> TreeError:
    """The `TreeError` (rule `io`) for what the operating system said about the path."""
    return TreeError(path, "io", error.strerror or str(error))


@contextmanager
def store_errors(path: str | Path, message: str, *, name_file: bool = False) -> Iterator[None]:
    """Raise a `StoreError` about `path` for an OSError; `{}` in `message` stands for the system's message.

    With `name_file` the error is about the file that the OSError names, if it names one.
    """
    try:
        yield
    except OSError as error:
        named = (name_file and error.filename) or path
        raise StoreError(str(named), message.format(error.strerror)) from error


class _Sliced(Generic[T]):
    """Runs the generator in one thread at a time.

    Ctrl-C cancels a task of asyncio itself, in spite of every shield: `run_in_slices` may then close the generator
    while a thread is still inside a slice. The lock makes `close` wait for that slice.
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
