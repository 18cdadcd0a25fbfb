"""What the kubelet asks of a container runtime, whichever way it makes its containers."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from senro.devcluster.containers.process import Process


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder (or file) of the host at a path of the container."""

    source: Path
    target: str
    read_only: bool


@dataclass(frozen=True, slots=True)
class ContainerConfig:
    """Everything a container is started with. `folder` is its own, on the host, for its root file system.

    `user` and `group` are what the pod or its image asked for, None for root. `capabilities` are names without CAP_.
    `memory_limit` is in bytes; `absent_tools` are programs that the image does not have, `programs` scripts by name
    that it has in place of the host's.
    """

    name: str
    folder: Path
    argv: tuple[str, ...]
    env: Mapping[str, str]
    workdir: str
    hostname: str
    mounts: tuple[Mount, ...] = ()
    user: int | None = None
    group: int | None = None
    read_only_root: bool = False
    capabilities: frozenset[str] = field(default_factory=frozenset)
    memory_limit: int | None = None
    absent_tools: frozenset[str] = field(default_factory=frozenset)
    programs: Mapping[str, str] = field(default_factory=dict)


class StartError(Exception):
    """A container that could not be started; the words follow "unable to start container process: " in the status."""


class ExecError(Exception):
    """A command that could not be started in a container that runs; the words of the OCI runtime."""


def system_words(error: OSError | ValueError) -> str:
    """What the kernel says, without the host's paths; Python itself refuses a NUL, as the kernel would."""
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number or errno.EINVAL).lower()


class Container(Protocol):
    """A container that was started."""

    @property
    def process(self) -> Process:
        """Its process on the host; it ends when the container ends."""

    @property
    def out_of_memory(self) -> bool:
        """Whether one of its processes was killed for its memory limit, the last or any before it."""

    def terminate(self) -> None:
        """SIGTERM to PID 1, which may ignore it."""

    def kill(self) -> None:
        """SIGKILL to everything in it."""

    def release(self) -> None:
        """End what was started in it since, and give back what is held for it. The process has ended."""

    @property
    def cgroup(self) -> Path | None:
        """Where the kernel keeps its memory limit; None where it has none, or where no cgroup could be made."""

    def processes(self) -> list[int]:
        """The host's numbers of its processes."""

    def holds(self, process: Process, inode: int) -> bool:
        """Whether a process of the container still has the pipe open that a command was given for its output."""

    def terminal(self) -> tuple[int, int]:
        """A new pseudo terminal of the container: our end's descriptor, and the one to give to `exec`."""

    def exec(self, argv: Sequence[str], *, stdin: int, stdout: int, stderr: int, terminal: bool = False) -> Process:
        """Start a command in it, with the container's environment and mounts; `ExecError` where that is impossible.

        It ends with the container, and not with whoever asked for it. With `terminal` the three descriptors are one
        terminal, which becomes the command's controlling one.
        """


class Runtime(Protocol):
    """A way to make containers."""

    @property
    def mode(self) -> str:
        """`bubblewrap` or `mapped`."""

    @property
    def reason(self) -> str:
        """Why this way, in a sentence for people."""

    async def start(self, config: ContainerConfig, *, stdout: int, stderr: int) -> Container:
        """Start a container and return once its command runs; `StartError` where it cannot."""
