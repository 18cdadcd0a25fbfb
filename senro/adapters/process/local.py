"""`ports.processes.Processes`: runs a command, delivers its output and ends its process group."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from subprocess import DEVNULL

import anyio
from anyio.abc import Process

from senro.adapters.process.group import ProcessGroup
from senro.adapters.process.output import Delivery, Pump
from senro.adapters.process.start_errors import start_error_message
from senro.ports.processes import Command, OutputSink, ProcessEnd

LINGER_SECONDS = 2.0
"""How long the rest of a group may continue after the command ended: enough for the `tee` of a shell's `>(tee log)` to
write its buffer, for which the shell does not wait."""

DRAIN_SECONDS = 5.0
"""How long the sink may take, after a cancellation, for the output that a command left in its pipes."""


WITHHELD = ("SENRO_K8S_", "SENRO_SECRET_", "SENRO_REMOTE_SCRATCH")
"""Prefixes of variables that a child does not inherit: the cluster and its credentials, the values of secrets, the
location of the shared scratch store."""


class LocalProcesses:
    """Runs commands as child processes.

    A command has a session and a process group of its own, so a terminal's Ctrl-C does not reach it: the coordinator
    terminates it. Its stdin is empty. Processes that it leaves in its group have `linger` seconds and are then
    terminated, as those of a container are when its first process ends. A daemon with a group of its own lives on.

    `environ`: the environment to inherit, read at each start; None stands for `os.environ`.
    """

    def __init__(self, environ: Mapping[str, str] | None = None, *, linger: float = LINGER_SECONDS) -> None:
        self._environ = os.environ if environ is None else environ
        self._linger = linger
        self._groups: set[ProcessGroup] = set()

    async def run(self, command: Command, output: OutputSink) -> ProcessEnd:
        """See `ports.processes.Processes.run`. Takes at most `grace` + 15 s after a cancellation."""
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
        """See `ports.processes.Processes.kill_all`."""
        for group in self._groups:
            group.kill()

    async def _start(  # type: ignore[return]  # the scope is never cancelled
        self, command: Command, stdout: int, stderr: int
    ) -> Process:
        if not command.argv:
            raise ValueError("the command is empty")
        # Shielded: a process that was started but not returned could not be terminated. The call is bounded, since
        # fork and exec are one synchronous call, and there are no pipes to connect.
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
        """Wait for the command, end its group on every path, and return after its last output was delivered."""
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
            else f"a process of its group {group.id} survived SIGKILL; "
            f"look for it with 'pgrep -l -g {group.id}' and end it by hand",
        )


def child_environment(own: Mapping[str, str], added: Mapping[str, str]) -> dict[str, str]:
    """The variables of `own`, overridden by `added`, without those that start with a `WITHHELD` prefix."""
    return {name: value for name, value in {**own, **added}.items() if not name.startswith(WITHHELD)}


def _pipe(reading: ExitStack, writing: ExitStack) -> tuple[int, int]:
    """A pipe whose ends the two stacks close. Its reading end is non-blocking."""
    ours, theirs = os.pipe()
    reading.callback(os.close, ours)
    writing.callback(os.close, theirs)
    os.set_blocking(ours, False)
    return ours, theirs


async def _wait_until_done(pumps: Sequence[Pump]) -> None:
    for pump in pumps:
        await pump.done.wait()


def _exit_code(returncode: int | None) -> int:
    """The code as a shell reports it: 128+n for signal n. A process that survived SIGKILL counts as killed by it."""
    if returncode is None:
        return 128 + signal.SIGKILL
    return returncode if returncode >= 0 else 128 - returncode
