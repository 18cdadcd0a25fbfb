"""One exec: frames to stdin, stdout and stderr to frames, with back pressure both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from senro.devcluster.apiserver.websocket import BINARY, CLOSE, PING, PONG, TEXT, BrokenFrameError, FrameReader
from senro.devcluster.apiserver.websocket import close_frame as _close_frame
from senro.devcluster.apiserver.websocket import frame as _frame

if TYPE_CHECKING:
    from anyio.streams.tls import TLSStream

    from senro.devcluster.containers.pipes import ReadEnd, WriteEnd
    from senro.devcluster.containers.process import Process
    from senro.devcluster.faults import Cut

_CHUNK = 32_768
"""Bytes of output in one message at most, as a real server sends them (facts/measured.md)."""

_END_SECONDS = 0.05
"""How soon after the end of its output a command's own end is noticed."""

_OUTPUT_READ = 131_072
_READ = 262_144
_DATA = frozenset({0, TEXT, BINARY})
_STDIN, _STDOUT, _STDERR, _CLOSE_SIGNAL = 0, 1, 2, 255


class ExecSession:
    """A running command and its client.

    `attend` belongs to the cluster and lives as long as the command; `converse` belongs to the connection. When the
    client goes first, the command's stdin ends, and its output is read and thrown away.
    """

    def __init__(
        self,
        stream: TLSStream,
        first: bytes,
        *,
        process: Process,
        stdin: WriteEnd,
        stdout: ReadEnd,
        stderr: ReadEnd,
        wants_stdout: bool,
        wants_stderr: bool,
        half_close: bool,
        cut: Cut | None,
        keep_back: int,
    ) -> None:
        self._stream = stream
        self._reader = FrameReader(first)
        self._process = process
        self._stdin = stdin
        self._outputs = {_STDOUT: stdout, _STDERR: stderr}
        self._wanted = {_STDOUT: wants_stdout, _STDERR: wants_stderr}
        self._half_close = half_close
        self._cut = cut
        self._keep_back = keep_back
        self._sending = anyio.Lock()

    async def attend(self) -> None:
        """Wait for the command, whoever still listens."""
        try:
            await self._process.reap()
        finally:
            if self._process.exit_code is None:
                self._process.destroy()  # the cluster ends, and everything with it
            self._process.collect()
            # Nobody reads the far stdin any more: what waits to be written there makes the loop stand still for ever
            # (recording transfers-broken).
            self._stdin.close(reader_gone=True)

    async def converse(self) -> bool:
        """Move bytes until the command has ended and its output is sent; True where a status may follow."""
        finished = False
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._listen, tasks.cancel_scope)
                async with anyio.create_task_group() as pumps:
                    pumps.start_soon(self._pump, _STDOUT, tasks.cancel_scope)
                    pumps.start_soon(self._pump, _STDERR, tasks.cancel_scope)
                await self._process.wait()
                if self._stdin.stuck:
                    await anyio.sleep_forever()
                finished = True
                tasks.cancel_scope.cancel()
        finally:
            self._stdin.close()
            if self._process.exit_code is not None:
                self._close_outputs()
        return finished

    async def discard(self) -> None:
        """Read what the command still writes, so that it can end, and throw it away."""
        try:
            async with anyio.create_task_group() as tasks:
                for output in self._outputs.values():
                    tasks.start_soon(_drain, output)
        finally:
            self._close_outputs()

    def _close_outputs(self) -> None:
        for output in self._outputs.values():
            output.close()

    async def _listen(self, scope: anyio.CancelScope) -> None:
        """The demultiplexer: one loop, which a command that does not read stops, pings and all."""
        try:
            while True:
                while (message := self._reader.next()) is not None:
                    if message.opcode == CLOSE:
                        # The status is lost when the client closes first (facts/exec-protocol.md section 9).
                        self._stdin.close()
                        await self._send(_close_frame(1000))
                        scope.cancel()
                        return
                    if message.opcode == PING:
                        await self._send(_frame(PONG, message.payload))
                    elif message.opcode in _DATA and message.payload and not await self._take(message.payload):
                        scope.cancel()
                        return
                self._reader.feed(await self._stream.receive(_READ))
        except BrokenFrameError as error:
            if error.code:
                await self._send(_close_frame(error.code))
            scope.cancel()
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            scope.cancel()

    async def _take(self, payload: bytes) -> bool:
        """One message of the client. False: the connection is over."""
        channel = payload[0]
        if channel == _CLOSE_SIGNAL and self._half_close:
            if len(payload) != 2 or payload[1] >= 5:
                return False
            if payload[1] == _STDIN:
                self._stdin.close()
            return True
        if channel != _STDIN:
            return True  # data for a stream that was not asked for is dropped
        data = memoryview(payload)[1:]
        if self._cut is not None and self._cut.direction == "stdin":
            allowed = self._cut.take(len(data))
            await self._stdin.send(data[:allowed])
            return not self._cut.done
        if not await self._stdin.send(data) and self._stdin.stuck:
            await anyio.sleep_forever()
        return True

    async def _pump(self, channel: int, scope: anyio.CancelScope) -> None:
        try:
            await self._pump_until_end(channel, scope)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            scope.cancel()

    async def _pump_until_end(self, channel: int, scope: anyio.CancelScope) -> None:
        output, wanted = self._outputs[channel], self._wanted[channel]
        kept = b""
        prefix = bytes((channel,))
        cut = self._cut if self._cut is not None and channel == _STDOUT and self._cut.direction == "stdout" else None
        while data := await output.receive(_OUTPUT_READ):
            if not wanted:
                continue
            if channel == _STDOUT and self._keep_back:
                data, kept = (kept + data)[: -self._keep_back], (kept + data)[-self._keep_back :]
            if cut is not None:
                data = data[: cut.take(len(data))]
            # Several messages in one write: one encryption, one system call.
            frames = [_frame(BINARY, prefix + data[at : at + _CHUNK]) for at in range(0, len(data), _CHUNK)]
            if frames:
                await self._send(b"".join(frames))
            if cut is not None and cut.done:
                scope.cancel()
                return
        # A command that closes stdout or stderr loses its stdin (facts/measured.md); one that has ended closed both.
        with anyio.move_on_after(_END_SECONDS):
            await self._process.wait()
        if self._process.exit_code is None:
            self._stdin.close()

    async def _send(self, data: bytes) -> None:
        async with self._sending:
            await self._stream.send(data)


async def _drain(output: ReadEnd) -> None:
    while await output.receive(_READ):
        pass
