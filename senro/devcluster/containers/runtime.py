"""What the kubelet asks of a container runtime, whichever way it makes its containers."""

from __future__ import annotations

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

    `user` and `group` are what the pod asked for, None where the image's own (root) stands. `capabilities` are names
    without CAP_.
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


class StartError(Exception):
    """A container that could not be started; the words follow "unable to start container process: " in the status."""


class ExecError(Exception):
    """A command that could not be started in a container that runs; the words of the OCI runtime."""


class Container(Protocol):
    """A container that was started."""

    @property
    def process(self) -> Process:
        """Its process on the host; it ends when the container ends."""
        ...

    def terminate(self) -> None:
        """SIGTERM to PID 1, which may ignore it."""
        ...

    def kill(self) -> None:
        """SIGKILL to everything in it."""
        ...

    def release(self) -> None:
        """End what was started in it since, and give back what is held for it. The process has ended."""
        ...

    def exec(self, argv: Sequence[str], *, stdin: int, stdout: int, stderr: int) -> Process:
        """Start a command in it, with the container's environment and mounts; `ExecError` where that is impossible.

        It ends with the container, and not with whoever asked for it.
        """
        ...


class Runtime(Protocol):
    """A way to make containers."""

    @property
    def mode(self) -> str:
        """`bubblewrap` or `mapped`."""
        ...

    @property
    def reason(self) -> str:
        """Why this way, in a sentence for people."""
        ...

    async def start(self, config: ContainerConfig, *, stdout: int, stderr: int) -> Container:
        """Start a container and return once its command runs; `StartError` where it cannot."""
        ...
