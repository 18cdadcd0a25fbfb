"""Processes of this machine, each in a session of its own, waited for without threads where the kernel allows it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_KILL_WAIT_SECONDS = 5.0


class Process:
    """A child that was started, and its whole process group."""

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        stdin: int,
        stdout: int,
        stderr: int,
        pass_fds: Sequence[int] = (),
        cwd: str | None = None,
    ) -> None:
        """Start it; OSError where it cannot be. The descriptors stay the caller's."""
        self._popen = subprocess.Popen(
            list(argv),
            env=dict(env),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=tuple(pass_fds),
            cwd=cwd,
            start_new_session=True,
        )
        self.pid = self._popen.pid
        self.exit_code: int | None = None
        self._ended = anyio.Event()

    async def reap(self) -> int:
        """Wait for the end and collect it; one task calls this. A signal n is the code 128+n, as a container's."""
        if self._popen.returncode is None:
            if hasattr(os, "pidfd_open"):
                descriptor = os.pidfd_open(self.pid)
                try:
                    await anyio.wait_readable(descriptor)
                finally:
                    os.close(descriptor)
            else:
                await anyio.to_thread.run_sync(self._popen.wait, abandon_on_cancel=True)
        return self._collect()

    async def wait(self) -> int:
        """Wait until `reap` has collected it."""
        await self._ended.wait()
        if self.exit_code is None:
            raise RuntimeError("a process ended without a code")
        return self.exit_code

    def signal_group(self, number: int) -> None:
        """Send a signal to the whole group, as long as its leader was not collected."""
        if self._popen.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def signal_leader(self, number: int) -> None:
        """Send a signal to the leader alone, as a kubelet does to PID 1."""
        if self._popen.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, number)

    def destroy(self) -> None:
        """Kill the group now and collect the leader; for the end of the cluster."""
        self.signal_group(signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(_KILL_WAIT_SECONDS)
            self._collect()

    def _collect(self) -> int:
        returncode = self._popen.wait()
        # What the leader left behind in its group ends with it, as everything in a container ends with PID 1. The
        # group's number cannot have been given to anyone else while it has members.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self.exit_code = returncode if returncode >= 0 else 128 - returncode
        self._ended.set()
        return self.exit_code
