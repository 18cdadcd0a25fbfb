"""Reads or writes pieces of a stream in a thread, a few pieces ahead of the event loop or behind it.

Reading and hashing a piece overlaps with encrypting and sending the previous one. A hop to a worker thread for each
piece would run them one after the other.
"""

from __future__ import annotations

import threading
from itertools import cycle
from queue import Empty, Full, Queue
from typing import TYPE_CHECKING, Generic, TypeVar

import anyio.lowlevel
import anyio.to_thread

from senro.adapters.fs.work import PIECE

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

T = TypeVar("T")

DEPTH = 2
"""Pieces that may wait between the thread and the event loop."""


class Buffers:
    """A ring of reusable buffers: `DEPTH` queued, one in use by the consumer, one being filled.

    Buffers are reused because fresh pages from the kernel cost as much as the work on a piece. A buffer is allocated
    when it is first needed, so a small transfer allocates few.
    """

    def __init__(self) -> None:
        self._all = _pieces()
        self._free = next(self._all)
        self.filled = 0

    @property
    def room(self) -> memoryview:
        """The unused rest of the current buffer. After writing to it, call `fill` with the number of bytes."""
        return self._free[self.filled :]

    def fill(self, count: int) -> None:
        """Count `count` bytes of `room` as written."""
        self.filled += count

    def put(self, data: bytes | memoryview) -> None:
        """Append bytes; they must fit into `room`."""
        self._free[self.filled : self.filled + len(data)] = data
        self.filled += len(data)

    def take(self) -> memoryview:
        """Return the filled part of the buffer and continue with the next buffer."""
        piece = self._free[: self.filled]
        self._free, self.filled = next(self._all), 0
        return piece


def _pieces() -> Iterator[memoryview]:
    made: list[memoryview] = []
    while len(made) < DEPTH + 2:
        made.append(memoryview(bytearray(PIECE)))
        yield made[-1]
    yield from cycle(made)


class ReadAhead(Generic[T]):
    """Runs a generator of pieces in a thread. The caller calls `close` on every path."""

    def __init__(self, pieces: Generator[T, None, None]) -> None:
        self._pieces = pieces
        self._queue: Queue[T | BaseException | None] = Queue(DEPTH)
        self._stopped = threading.Event()
        self._ended = False
        self._thread: threading.Thread | None = None

    async def next(self) -> T | None:
        """Return the next piece, None after the last one. Raises what the generator raised."""
        if self._ended:
            return None
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="senro read-ahead", daemon=True)
            self._thread.start()
        try:
            piece = self._queue.get_nowait()
        except Empty:
            piece = await anyio.to_thread.run_sync(self._queue.get)
        else:
            await anyio.lowlevel.checkpoint()
        self._ended = piece is None or isinstance(piece, BaseException)
        if isinstance(piece, BaseException):
            raise piece
        return piece

    async def close(self) -> None:
        """End the thread at its next piece and close the generator."""
        self._stopped.set()
        await anyio.to_thread.run_sync(self._end)

    def _work(self) -> None:
        try:
            for piece in self._pieces:
                if self._stopped.is_set():
                    return
                self._queue.put(piece)
            self._queue.put(None)
        except BaseException as error:  # noqa: BLE001 - `next` raises it
            self._queue.put(error)

    def _end(self) -> None:
        thread = self._thread
        while thread is not None and thread.is_alive():
            try:
                self._queue.get(timeout=0.01)
            except Empty:
                thread.join(0.01)
        self._pieces.close()


class WriteBehind:
    """Calls `take` with each piece, in order, in a thread. The caller calls `close` on every path."""

    def __init__(self, take: Callable[[memoryview], Generator[None, None, None]]) -> None:
        self._take = take
        self._queue: Queue[memoryview | None] = Queue(DEPTH)
        self._error: BaseException | None = None
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    async def put(self, piece: memoryview) -> None:
        """Queue the piece, waiting for room. Raises what `take` raised for an earlier piece."""
        self._raise()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="senro write-behind", daemon=True)
            self._thread.start()
        try:
            self._queue.put_nowait(piece)
        except Full:
            await anyio.to_thread.run_sync(self._queue.put, piece)
        else:
            await anyio.lowlevel.checkpoint()

    async def finish(self) -> None:
        """Wait until `take` has processed every piece. Raises what `take` raised."""
        await anyio.to_thread.run_sync(self._end)
        self._raise()

    async def close(self) -> None:
        """End the thread and drop the pieces that are still queued."""
        self._stopped.set()
        await anyio.to_thread.run_sync(self._end)

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        while (piece := self._queue.get()) is not None:
            if self._stopped.is_set() or self._error is not None:
                continue  # drain the queue, so that `put` does not block for ever
            work = self._take(piece)
            try:
                for _ in work:
                    if self._stopped.is_set():
                        break
            except BaseException as error:  # noqa: BLE001 - the next `put` or `finish` raises it
                self._error = error
            finally:
                work.close()

    def _end(self) -> None:
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None
