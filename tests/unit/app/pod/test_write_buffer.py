from __future__ import annotations

import anyio
import pytest

from senro.app.pod.write_buffer import LIMIT, WriteBuffer
from tests.lib.harness.app import until

pytestmark = pytest.mark.anyio


class SlowFile:
    """Keeps what is written; each write lasts until it is released."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.released = anyio.Event()

    async def write(self, data: bytes) -> None:
        self.writes.append(data)
        await self.released.wait()


async def test_what_arrives_during_a_write_is_written_at_once() -> None:
    """A thousand small pieces that arrive while one write is under way are joined into the next, in order."""
    file = SlowFile()
    buffer = WriteBuffer(file.write)
    async with anyio.create_task_group() as group:
        group.start_soon(buffer.run)
        await buffer.put(b"first")
        await until(lambda: len(file.writes) == 1)
        for number in range(1000):
            await buffer.put(b"%d " % number)
        file.released.set()
        await buffer.flush()
        group.cancel_scope.cancel()
    assert file.writes == [b"first", b"".join(b"%d " % number for number in range(1000))]


async def test_flush_waits_for_the_write_that_is_under_way() -> None:
    """After `flush` nothing is left to be written, also if a write had begun before."""
    file = SlowFile()
    buffer = WriteBuffer(file.write)
    flushed = False

    async def flush() -> None:
        nonlocal flushed
        await buffer.flush()
        flushed = True

    async with anyio.create_task_group() as group:
        group.start_soon(buffer.run)
        await buffer.put(b"x")
        await until(lambda: len(file.writes) == 1)
        group.start_soon(flush)
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        assert not flushed
        file.released.set()
        await until(lambda: flushed)
        group.cancel_scope.cancel()


async def test_a_reader_waits_for_a_slow_file() -> None:
    """No more than the limit and one piece is kept in memory."""
    file = SlowFile()
    buffer = WriteBuffer(file.write)
    put = 0

    async def fill() -> None:
        nonlocal put
        for _ in range(12):
            await buffer.put(b"x" * (LIMIT // 4))
            put += 1

    async with anyio.create_task_group() as group:
        group.start_soon(buffer.run)
        await buffer.put(b"first")
        await until(lambda: len(file.writes) == 1)
        group.start_soon(fill)
        for _ in range(50):
            await anyio.lowlevel.checkpoint()
        assert put == 4
        file.released.set()
        await until(lambda: put == 12)
        await buffer.flush()
        group.cancel_scope.cancel()
    assert sum(map(len, file.writes)) == len(b"first") + 3 * LIMIT
