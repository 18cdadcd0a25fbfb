"""Child processes of the coordinator: the commands of local steps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

OutputSink = Callable[[Literal["stdout", "stderr"], bytes], Awaitable[None]]
"""Awaited with each piece of output, one at a time and in the order of its stream. The process blocks meanwhile. An
exception that it raises ends the process group and is raised by `run`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command to run.

    argv: the program and its arguments.
    cwd: the working directory.
    env: variables that are added to the environment of the coordinator.
    timeout: seconds after which the process group gets SIGTERM; None for no limit.
    grace: seconds between SIGTERM and SIGKILL.
    """

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    timeout: float | None = None
    grace: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnd:
    """How a command ended.

    code: the exit code, 128+n for signal n; None if the command did not start.
    timed_out: whether the timeout ended it.
    error: why it did not start. With a code: which process of the group could not be ended, because it belongs to
        another user or is blocked in the kernel.
    """

    code: int | None
    timed_out: bool = False
    error: str = ""


class Processes(Protocol):
    """Runs child processes."""

    async def run(self, command: Command, output: OutputSink) -> ProcessEnd:
        """Run the command in its own process group, and pass all of its output to `output`.

        Raises nothing for what the command does: a program that is missing or may not be executed is an end without a
        code. The child gets no variable whose name starts with `SENRO_K8S_` or `SENRO_SECRET_`. If the call is
        cancelled, the group gets SIGTERM and, `grace` seconds later, SIGKILL, and has ended when the call returns. The
        output of a daemon that outlives the group is not waited for.
        """

    def kill_all(self) -> None:
        """Send SIGKILL to every running group, after a second interrupt by the user. Returns at once."""
