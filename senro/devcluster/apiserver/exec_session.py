"""One exec: frames to stdin, stdout and stderr to frames, with back pressure both ways."""

from __future__ import annotations

import fcntl
import json
import struct
import termios
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from senro.devcluster.apiserver.websocket import BINARY, CLOSE, PING, PONG, TEXT, BrokenFrameError, FrameReader
from senro.devcluster.apiserver.websocket import close_frame as _close_frame
from senro.devcluster.apiserver.websocket import frame as _frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.streams.tls import TLSStream

    from senro.devcluster.apiserver.subprotocols import Subprotocol
    from senro.devcluster.clock import Clock
    from senro.devcluster.containers.pipes import ReadEnd, WriteEnd
    from senro.devcluster.containers.process import Process
    from senro.devcluster.containers.runtime import Container
    from senro.devcluster.faults import Cut

_END_SECONDS = 0.05
"""How soon after the end of its output a command's own end is noticed."""

_OUTPUT_READ = 524_288
_READ = 262_144
_DATA = frozenset({0, TEXT, BINARY})
_STDIN, _STDOUT, _STDERR, _RESIZE, _CLOSE_SIGNAL = 0, 1, 2, 4, 255
_LOOK_SECONDS = (0.01, 0.03, 0.1, 0.25)
"""When a command is looked at that may have closed its output, after its start; then always after the last."""

_IDLE_SECONDS = 4 * 3600.0
"""The translator's idle timeout (docs/design/exec-protocol.md#idle-timeout-of-four-hours)."""

_STRAY = b"nsenter: "
_CONTAINER_END_SECONDS = 1.0
_KILLED = 137


@dataclass(frozen=True, slots=True)
class Wants:
    """What an exec's client asked for, and which faults it meets. `terminal` is our end of one, else None.

    `status_delay` is asked once the command has ended and its output is sent: seconds until the status may follow.
    """

    stdout: bool
    stderr: bool
    protocol: Subprotocol
    terminal: int | None
    cut: Cut | None
    keep_back: int
    status_delay: Callable[[], float]


class ExecSession:
    """A running command and its client.

    `cut_off` is set when the kubelet between them goes: the connection breaks, and the command goes on.

    `attend` belongs to the cluster and lives as long as the command; `converse` belongs to the connection. When the
    client goes first, the command's stdin ends, and its output is read and thrown away.
    """

    def __init__(
        self,
        stream: TLSStream,
        first: bytes,
        *,
        container: Container,
        process: Process,
        clock: Clock,
        cut_off: anyio.Event,
        stdin: WriteEnd,
        stdout: ReadEnd,
        stderr: ReadEnd | None,
        wants: Wants,
    ) -> None:
        self._stream = stream
        self._reader = FrameReader(first)
        self._container = container
        self._process = process
        self._clock = clock
        self._cut_off = cut_off
        self._stdin = stdin
        self._outputs = {_STDOUT: stdout}
        if stderr is not None:
            self._outputs[_STDERR] = stderr
        self._wanted = {_STDOUT: wants.stdout, _STDERR: wants.stderr}
        self._protocol = wants.protocol
        self._terminal = wants.terminal
        self._resized = 0
        self._cut = wants.cut
        self._keep_back = wants.keep_back
        self._status_delay = wants.status_delay
        self._kept = b""
        self._stray = False
        self._last_moved = clock.seconds()
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
                tasks.start_soon(self._watch_idleness, tasks.cancel_scope)
                tasks.start_soon(_cancel_after, self._cut_off, tasks.cancel_scope)
                for channel in self._outputs if self._terminal is None else ():
                    tasks.start_soon(self._watch_closing, channel)
                async with anyio.create_task_group() as pumps:
                    for channel in self._outputs:
                        pumps.start_soon(self._pump, channel, tasks.cancel_scope)
                await self._process.wait()
                if self._stdin.stuck:
                    await anyio.sleep_forever()
                if delay := self._status_delay():
                    await self._clock.sleep(delay)
                finished = True
                tasks.cancel_scope.cancel()
        finally:
            self._stdin.close()
            if self._process.exit_code is not None:
                self._close_outputs()
        return finished

    async def exit_code(self) -> int:
        """The command's code once it has ended; 137 where its container took it along before it could begin."""
        if self._stray:
            with anyio.move_on_after(_CONTAINER_END_SECONDS):
                await self._container.process.wait()
            return _KILLED
        return self._process.exit_code or 0

    def kept_back(self) -> bytes:
        """The messages of the end of stdout that were kept back."""
        return self._protocol.messages(_STDOUT, self._kept)

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
                        # The status is lost when the client closes first
                        # (docs/design/exec-protocol.md#order-of-the-end).
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
        channel, data = self._protocol.parse(payload)
        if channel == _CLOSE_SIGNAL and self._protocol.half_close:
            if len(data) != 1 or data[0] >= 5:
                return False
            if data[0] == _STDIN and self._terminal is None:
                self._stdin.close()
            return True
        if channel == _RESIZE:
            await self._resize(bytes(data))
            return True
        if channel != _STDIN:
            return True  # data for a stream that was not asked for is dropped
        self._last_moved = self._clock.seconds()
        if self._cut is not None and self._cut.direction == "stdin":
            allowed = self._cut.take(len(data))
            await self._stdin.send(data[:allowed])
            return not self._cut.done
        if not await self._stdin.send(data) and self._stdin.stuck:
            await anyio.sleep_forever()
        return True

    async def _resize(self, text: bytes) -> None:
        self._resized += 1
        if self._terminal is None:
            if self._resized > 1:
                # Nobody takes the sizes of a terminal that is none: the second blocks the one loop there is
                # (docs/design/exec-protocol.md#resize).
                await anyio.sleep_forever()
            return
        for width, height in terminal_sizes(text):
            if width >= 1 and height >= 1:
                fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    async def _watch_idleness(self, scope: anyio.CancelScope) -> None:
        """End without a status once nothing has moved for hours."""
        while (left := self._last_moved + _IDLE_SECONDS - self._clock.seconds()) > 0:
            await self._clock.sleep(left)
        scope.cancel()

    async def _watch_closing(self, channel: int) -> None:
        """Close the stdin of a command that closed its stdout or stderr, whoever else holds the pipe.

        See docs/design/measurements.md#a-closed-output-closes-stdin.
        """
        looks = 0
        while self._process.exit_code is None and not self._stdin.closed:
            await anyio.sleep(_LOOK_SECONDS[min(looks, len(_LOOK_SECONDS) - 1)])
            looks += 1
            if not self._container.holds(self._process, self._outputs[channel].inode):
                self._stdin.close()

    async def _pump(self, channel: int, scope: anyio.CancelScope) -> None:
        try:
            await self._pump_until_end(channel, scope)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            scope.cancel()

    async def _pump_until_end(self, channel: int, scope: anyio.CancelScope) -> None:
        output, wanted = self._outputs[channel], self._wanted[channel]
        cut = self._cut if self._cut is not None and channel == _STDOUT and self._cut.direction == "stdout" else None
        began = False
        while data := await output.receive(_OUTPUT_READ):
            if not began and channel == _STDERR and data.startswith(_STRAY) and await self._is_stray():
                return
            began = True
            if not wanted:
                continue
            if channel == _STDOUT and self._keep_back:
                held = self._kept + data
                data, self._kept = held[: -self._keep_back], held[-self._keep_back :]
            if cut is not None:
                data = data[: cut.take(len(data))]
            if data:
                await self._send(self._protocol.messages(channel, data))
            if cut is not None and cut.done:
                scope.cancel()
                return
        # A command that closes stdout or stderr loses its stdin; one that has ended closed both.
        # See docs/design/measurements.md#a-closed-output-closes-stdin.
        with anyio.move_on_after(_END_SECONDS):
            await self._process.wait()
        if self._process.exit_code is None:
            self._stdin.close()

    async def _is_stray(self) -> bool:
        """Whether these are the wrapper's own words: the container ended before the command could begin in it."""
        with anyio.move_on_after(_CONTAINER_END_SECONDS):
            await self._container.process.wait()
        self._stray = self._container.process.has_exited()
        return self._stray

    async def _send(self, data: bytes) -> None:
        async with self._sending:
            await self._stream.send(data)
        self._last_moved = self._clock.seconds()


def terminal_sizes(text: bytes) -> list[tuple[int, int]]:
    """Widths and heights of a resize message: JSON objects one after the other, keys in any case."""
    decoder = json.JSONDecoder()
    sizes: list[tuple[int, int]] = []
    left = text.decode("utf-8", "replace").strip()
    while left:
        try:
            found, end = decoder.raw_decode(left)
        except ValueError:
            break
        left = left[end:].lstrip()
        if isinstance(found, dict):
            named = {str(key).lower(): value for key, value in found.items()}
            width, height = named.get("width", 0), named.get("height", 0)
            if isinstance(width, int) and isinstance(height, int) and max(width, height) < 65_536:
                sizes.append((width, height))
    return sizes


async def _cancel_after(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


async def _drain(output: ReadEnd) -> None:
    while await output.receive(_READ):
        pass
