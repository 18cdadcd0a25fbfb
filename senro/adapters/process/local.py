"""The adapter: start, pump, wait, and leave nothing behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from subprocess import DEVNULL

import anyio
from anyio.abc import Process

from senro.adapters.process.environment import child_environment
from senro.adapters.process.group import ProcessGroup
from senro.adapters.process.output import Delivery, Pump
from senro.adapters.process.start_errors import start_error_message
from senro.ports.processes import Command, OutputSink, ProcessEnd

LINGER_SECONDS = 2.0
"""How long what a command left in its group may go on by itself: enough for the `tee` behind a shell's `>(tee log)`
to write out what it holds, which the shell does not wait for."""

DRAIN_SECONDS = 5.0
"""How long the sink may take, in a run that was cancelled, for what a dead command left in its pipes."""


class LocalProcesses:
    """`senro.ports.processes.Processes` by child processes of this one.

    A command has a session and a process group of its own, so a terminal's Ctrl-C does not reach it: the coordinator
    ends it. Its stdin is empty. What it leaves running in its group may go on for `linger` seconds and is then
    ended too, as a container's processes are when the first one ends; a daemon that made a group of its own lives on.

    `environ` stands for the coordinator's environment, read at each start; None means `os.environ`.
    """

    def __init__(self, environ: Mapping[str, str] | None = None, *, linger: float = LINGER_SECONDS) -> None:
        self._environ = os.environ if environ is None else environ
        self._linger = linger
        self._groups: set[ProcessGroup] = set()

    async def run(self, command: Command, output: OutputSink) -> ProcessEnd:
        """Run the command; see the port. Takes at most `grace` + 15 s once it is cancelled."""
        with ExitStack() as reading:
            try:
                with ExitStack() as writing:
                    stdout, stdout_end = _pipe(reading, writing)
                    stderr, stderr_end = _pipe(reading, writing)
                    process = await self._start(command, stdout_end, stderr_end)
            except (OSError, ValueError) as error:
                return ProcessEnd(code=None, error=start_error_message(command, error))
            stop = anyio.CancelScope()
            delivery = Delivery(output, stop.cancel)
            pumps = (Pump("stdout", stdout, delivery), Pump("stderr", stderr, delivery))
            end = await self._supervise(command, process, pumps, stop)
        if delivery.failure is not None:
            raise delivery.failure
        return end

    def kill_all(self) -> None:
        """See the port."""
        for group in self._groups:
            group.kill()

    async def _start(  # type: ignore[return]  # a scope that nobody cancels swallows nothing
        self, command: Command, stdout: int, stderr: int
    ) -> Process:
        if not command.argv:
            raise ValueError("the command is empty")
        # Shielded, because a process that was started and not yet returned could not be ended with its group. It
        # is bounded: fork and exec are one synchronous call, and with pipes of our own nothing is waited for.
        with anyio.CancelScope(shield=True):
            return await anyio.open_process(
                list(command.argv),
                stdin=DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=command.cwd,
                env=child_environment(self._environ, command.env),
                start_new_session=True,
            )

    async def _supervise(
        self, command: Command, process: Process, pumps: Sequence[Pump], stop: anyio.CancelScope
    ) -> ProcessEnd:
        """Wait for the command and end what is left of it, on every path; the last output first, then the answer."""
        group = ProcessGroup(process)
        self._groups.add(group)
        finished, gone = True, False
        async with anyio.create_task_group() as tasks:
            for pump in pumps:
                tasks.start_soon(pump.run)
            try:
                try:
                    with stop:
                        finished = await group.wait(command.timeout, self._linger)
                finally:
                    with anyio.CancelScope(shield=True):
                        gone = await group.terminate(command.grace)
                    for pump in pumps:
                        pump.close()
                await _wait_until_done(pumps)
            finally:
                with anyio.move_on_after(DRAIN_SECONDS, shield=True):
                    await _wait_until_done(pumps)
                for pump in pumps:
                    pump.cancel()
                self._groups.discard(group)
        return ProcessEnd(
            code=_exit_code(process.returncode),
            timed_out=not finished,
            error=""
            if gone
            else f"something of its process group {group.id} outlives SIGKILL; "
            f"look for it with 'pgrep -l -g {group.id}' and end it by hand",
        )


def _pipe(reading: ExitStack, writing: ExitStack) -> tuple[int, int]:
    """A pipe, its ends closed by the two stacks; the reading end never blocks."""
    ours, theirs = os.pipe()
    reading.callback(os.close, ours)
    writing.callback(os.close, theirs)
    os.set_blocking(ours, False)
    return ours, theirs


async def _wait_until_done(pumps: Sequence[Pump]) -> None:
    for pump in pumps:
        await pump.done.wait()


def _exit_code(returncode: int | None) -> int:
    """As a shell counts it: 128+n for signal n; a process that not even SIGKILL ended counts as killed by it."""
    if returncode is None:
        return 128 + signal.SIGKILL
    return returncode if returncode >= 0 else 128 - returncode
