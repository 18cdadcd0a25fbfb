"""Containers where bubblewrap cannot run: plain processes, with mount paths mapped to folders of their own.

What cannot work so: a path that is built at run time, processes that see each other, signals that PID 1 would ignore,
another user, a root file system that is read-only.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import signal
import subprocess
from typing import TYPE_CHECKING

from senro.devcluster.containers.memory import processes_of
from senro.devcluster.containers.process import Process
from senro.devcluster.containers.runtime import ExecError, StartError, system_words

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from senro.devcluster.containers.runtime import ContainerConfig
    from senro.devcluster.containers.watchdog import Watchdog

_TAKE_TERMINAL = 'exec "$@" <"$0" >"$0" 2>&1'
_PRIVATE = ("/tmp", "/run")  # noqa: S108 - names that are mapped away from the host's


class ProcessRuntime:
    """The runtime without namespaces."""

    mode = "mapped"

    def __init__(self, watchdog: Watchdog, why: str) -> None:
        self._watchdog = watchdog
        self.reason = (
            f"{why}; containers are plain processes, and mount paths in commands, arguments, environment and "
            "working directories are mapped to folders under a private one: paths built at run time are not"
        )

    async def start(self, config: ContainerConfig, *, stdout: int, stderr: int) -> MappedContainer:
        """Start a container; `StartError` where it cannot be."""
        paths = PathMap(config)
        workdir = paths.folder(config.workdir)
        env = {name: paths.map(value) for name, value in config.env.items()}
        argv = [paths.map(argument) for argument in config.argv]
        try:
            process = Process(
                argv,
                env,
                watchdog=self._watchdog,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=str(workdir),
            )
        except (OSError, ValueError) as error:
            raise StartError(_words(config.argv[0], argv[0], error)) from error
        return MappedContainer(process, self._watchdog, paths, env, workdir)


class MappedContainer:
    """A container that is a process group."""

    def __init__(
        self, process: Process, watchdog: Watchdog, paths: PathMap, env: dict[str, str], workdir: Path
    ) -> None:
        self.process = process
        self._watchdog = watchdog
        self._paths = paths
        self._env = env
        self._workdir = workdir
        self._entered: list[Process] = []

    @property
    def cgroup(self) -> Path | None:
        """None: a process group is not kept together by one."""
        return None

    @property
    def out_of_memory(self) -> bool:
        """Never known here: the kubelet's own watch says so."""
        return False

    def processes(self) -> list[int]:
        """The host's numbers of its processes."""
        return [pid for process in (self.process, *self._entered) for pid in processes_of(process.pid)]

    def terminate(self) -> None:
        """SIGTERM to the leader."""
        self.process.signal_leader(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to the container's group, and to what was started in it since."""
        self.process.signal_group(signal.SIGKILL)
        for process in self._entered:
            process.signal_group(signal.SIGKILL)

    def release(self) -> None:
        """End the container's group, and the commands that were started in it with all their children."""
        self.process.destroy()
        for process in self._entered:
            process.destroy()

    def holds(self, process: Process, inode: int) -> bool:  # noqa: ARG002 - the port's signature
        """Always true: there is no wrapper here, and the end of the pipe tells."""
        return True

    def terminal(self) -> tuple[int, int]:
        """A pseudo terminal of the host."""
        return os.openpty()

    def exec(self, argv: Sequence[str], *, stdin: int, stdout: int, stderr: int, terminal: bool = False) -> Process:
        """Start a command beside it, with the same mapping."""
        if not argv:
            raise ExecError("exec failed: args must not be empty")
        mapped = [self._paths.map(argument) for argument in argv]
        command, env = mapped, self._env
        if terminal:
            # Opened by the leader of a session that has none, the terminal becomes its controlling one.
            command = ["/bin/sh", "-c", _TAKE_TERMINAL, os.ttyname(stdin), *mapped]
            env = {**env, "TERM": "xterm"}
        try:
            process = Process(
                command,
                env,
                watchdog=self._watchdog,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                cwd=str(self._workdir),
            )
        except (OSError, ValueError) as error:
            raise ExecError(
                f"exec failed: unable to start container process: {_words(argv[0], mapped[0], error)}"
            ) from error
        # Not collected before the container ends: its children may outlive it, and are found by its number.
        process.kept = True
        self._entered.append(process)
        return process


class PathMap:
    """Mount paths of one container, and the host's folders that stand for them in any text."""

    def __init__(self, config: ContainerConfig) -> None:
        self._root = config.folder / "root"
        places = {mount.target.rstrip("/"): mount.source for mount in config.mounts}
        for private in _PRIVATE:
            if not any(place == private for place in places):
                (self._root / private.lstrip("/")).mkdir(parents=True, exist_ok=True)
                places[private] = self._root / private.lstrip("/")
        # Under the pod, not under the container: its containers share their volumes.
        _bring_together(places, config.folder.parent.parent / "shared")
        self._places = places
        longest_first = sorted(places, key=len, reverse=True)
        # A path begins where no letter of a longer path stands before it, and ends at a slash or where a word ends.
        self._pattern = re.compile(
            r"(?<![\w./-])(" + "|".join(re.escape(place) for place in longest_first) + r")(?![\w.-])"
        )

    def map(self, text: str) -> str:
        """The text with every mount path replaced by its folder."""
        return self._pattern.sub(lambda found: str(self._places[found.group(1)]), text)

    def folder(self, workdir: str) -> Path:
        """The working directory on the host, made where it is the container's own; `StartError` where it cannot be."""
        mapped = self.map(workdir)
        path = type(self._root)(mapped)
        if mapped == workdir and not path.is_dir():
            if any(parent.exists() and not parent.is_dir() for parent in (path, *path.parents)):
                blocker = next(parent for parent in (path, *path.parents) if parent.exists())
                raise StartError(f"error during container init: mkdir {blocker}: not a directory")
            path = self._root / workdir.lstrip("/")
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            words = os.strerror(error.errno or 0).lower()
            raise StartError(f"error during container init: mkdir {workdir}: {words}") from error
        return path


def _bring_together(places: dict[str, Path], shared: Path) -> None:
    """Give the folders above mount paths a place too, where the host has none of that name (`/senro/ws`).

    A command may go there and expect the volumes as folders below, and not as links: so the volume itself is moved
    there, and where it was stays a link to it.
    """
    mounted = dict(places)
    for target, source in mounted.items():
        parent = posixpath.dirname(target)
        below_another = any(target.startswith(place + "/") for place in mounted)
        if parent in {"", "/"} or below_another or os.path.lexists("/" + target.split("/")[1]):
            continue
        below = shared / target.lstrip("/")
        below.parent.mkdir(parents=True, exist_ok=True)
        if not os.path.lexists(below):
            if source.is_symlink() or shared.parent not in source.parents:
                below.symlink_to(source)
            else:
                source.rename(below)
                source.symlink_to(below)
        while parent != "/":
            places.setdefault(parent, shared / parent.lstrip("/"))
            parent = posixpath.dirname(parent)


def _words(shown: str, tried: str, error: OSError | ValueError) -> str:
    name = json.dumps(shown)
    if isinstance(error, FileNotFoundError):
        if "/" in tried:
            return f"exec: {name}: stat {shown}: no such file or directory"
        return f"exec: {name}: executable file not found in $PATH"
    return f"exec: {name}: {system_words(error)}"
