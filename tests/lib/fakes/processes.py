"""Scripted child processes: no process is started, and the same argv always does the same.

A script is the list of actions of a command. A `Handler` sets its actions on SIGTERM; without one SIGTERM ends it with
143. A program without a script is not installed.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import anyio

from senro.ports.processes import Command, OutputSink, ProcessEnd


@dataclass(frozen=True, slots=True)
class Out:
    """Writes to a stream."""

    stream: Literal["stdout", "stderr"]
    data: bytes


@dataclass(frozen=True, slots=True)
class Env:
    """Writes the value of a variable of the environment to stdout, or `unset`."""

    name: str


@dataclass(frozen=True, slots=True)
class Hang:
    """Runs until it is ended."""


@dataclass(frozen=True, slots=True)
class Handler:
    """Sets the actions on SIGTERM. An empty one ignores SIGTERM."""

    actions: tuple[Out | Exit, ...] = ()


@dataclass(frozen=True, slots=True)
class Exit:
    """Ends with this code; 128+n for signal n."""

    code: int


Action = Out | Env | Hang | Handler | Exit
_WITHHELD = ("SENRO_K8S_", "SENRO_SECRET_")


class FakeProcesses:
    """A `Processes` with scripts by argv.

    `started`: every command that was started.
    `running`: the number of commands that have not ended.
    """

    def __init__(
        self, scripts: Mapping[tuple[str, ...], Sequence[Action]], environ: Mapping[str, str] | None = None
    ) -> None:
        self.scripts = dict(scripts)
        self.environ = dict(environ or {})
        self.started: list[Command] = []
        self.running = 0
        self._killed: set[anyio.Event] = set()

    async def run(self, command: Command, output: OutputSink) -> ProcessEnd:
        await anyio.lowlevel.checkpoint()
        script = self.scripts.get(tuple(command.argv))
        if script is None:
            return ProcessEnd(code=None, error=f"cannot run {command.argv[0]!r}: there is no such program in PATH")
        self.started.append(command)
        self.running += 1
        killed = anyio.Event()
        self._killed.add(killed)
        try:
            return await _Play(command, output, {**self.environ, **command.env}, killed).run(script)
        finally:
            self.running -= 1
            self._killed.discard(killed)

    def kill_all(self) -> None:
        for killed in self._killed:
            killed.set()


class _Play:
    def __init__(self, command: Command, output: OutputSink, environ: Mapping[str, str], killed: anyio.Event) -> None:
        self._killed = killed
        self._command = command
        self._output = output
        self._environ = environ
        self._handler: Handler | None = None

    async def run(self, script: Sequence[Action]) -> ProcessEnd:
        try:
            with anyio.move_on_after(self._command.timeout):
                return ProcessEnd(code=await self._unless_killed(self._act(script)))
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._terminate()
            raise
        with anyio.CancelScope(shield=True):
            code = await self._terminate()
        return ProcessEnd(code=code, timed_out=True)

    async def _act(self, script: Sequence[Action]) -> int:
        for action in script:
            match action:
                case Out(stream, data):
                    await self._output(stream, data)
                case Env(name):
                    value = None if name.startswith(_WITHHELD) else self._environ.get(name)
                    await self._output("stdout", (value or "unset").encode() + b"\n")
                case Handler():
                    self._handler = action
                case Hang():
                    await anyio.sleep_forever()
                case Exit(code):
                    return code
        return 0

    async def _unless_killed(self, acting: Coroutine[Any, Any, int]) -> int:
        """Returns the exit code of `acting`, or 137 if `kill_all` comes first."""
        code, failure = 137, None

        async def act() -> None:
            nonlocal code, failure
            try:
                code = await acting
            except Exception as error:  # noqa: BLE001 - raised again below, not wrapped in a group
                failure = error
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(act)
            await self._killed.wait()
            group.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return code

    async def _terminate(self) -> int:
        return await self._unless_killed(self._handle_sigterm())

    async def _handle_sigterm(self) -> int:
        if self._handler is None:
            return 143
        with anyio.move_on_after(self._command.grace):
            for action in self._handler.actions:
                if isinstance(action, Exit):
                    return action.code
                await self._output(action.stream, action.data)
            await anyio.sleep_forever()
        return 137
