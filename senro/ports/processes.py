"""Steps that run on the coordinator itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

OutputSink = Callable[[Literal["stdout", "stderr"], bytes], Awaitable[None]]
"""Called with each piece of output, in order within a stream, never twice at once; the process waits while it does
not return. What it raises ends the whole group and is then raised by `run` as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command to run: its words, its folder, and what is added to the environment of the coordinator.

    `timeout` and `grace` are seconds: at `timeout` the whole process group gets SIGTERM, `grace` later SIGKILL.
    """

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    timeout: float | None = None
    grace: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnd:
    """How it ended. `code` is the exit code, 128+n for signal n, None where it never started (`error` says why).

    An `error` beside a code says that something of the group could not be ended: another user's process, or one
    that the kernel holds.
    """

    code: int | None
    timed_out: bool = False
    error: str = ""


class Processes(Protocol):
    """Child processes of the coordinator."""

    async def run(self, command: Command, output: OutputSink) -> ProcessEnd:
        """Run the command in a process group of its own and hand its output to `output`, to the last byte.

        Never raises for what the command does; a program that is missing or must not be run is an end without a
        code. No variable whose name starts with `SENRO_K8S_` or `SENRO_SECRET_` reaches the child. When cancelled,
        the whole group gets SIGTERM and, `grace` later, SIGKILL, and nothing of it is left when the call returns.
        Output that a daemon left in the background might still write is not waited for once the group has ended.
        """
        ...

    def kill_all(self) -> None:
        """Send SIGKILL to every group that runs now: somebody asked a second time. Returns at once; may be repeated."""
        ...
