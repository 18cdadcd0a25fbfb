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

    from senro.devcluster.containers.watchdog import Watchdog

_KILL_WAIT_SECONDS = 5.0


def _hear_interrupts() -> None:
    """Start with SIGINT as a container does.

    In the background of a script it is ignored, and children inherit that.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Process:
    """A child that was started, and its process group.

    `reap` notices the end; `collect` gives the number back to the system. In between the group's number is nobody
    else's, and signals to it are safe.
    """

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        watchdog: Watchdog,
        stdin: int,
        stdout: int,
        stderr: int,
        pass_fds: Sequence[int] = (),
        cwd: str | None = None,
    ) -> None:
        """Start it; OSError where it cannot be. The descriptors stay the caller's."""
        self._watchdog = watchdog
        self._popen = subprocess.Popen(
            list(argv),
            env=dict(env),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=tuple(pass_fds),
            cwd=cwd,
            start_new_session=True,
            # In the child alone, and only where it is needed: a fork with it is slower.
            preexec_fn=_hear_interrupts if signal.getsignal(signal.SIGINT) is signal.SIG_IGN else None,  # noqa: PLW1509 - it takes no lock
        )
        self.pid = self._popen.pid
        watchdog.add(self.pid)
        self.exit_code: int | None = None
        self.kept = False
        """Whether somebody collects it later, and `collect` leaves it for `destroy`."""
        self._ended = anyio.Event()

    async def reap(self) -> int:
        """Wait for the end; one task calls this, and then `collect`. A signal n is the code 128+n, as a container's."""
        if hasattr(os, "pidfd_open"):
            descriptor = os.pidfd_open(self.pid)
            try:
                await anyio.wait_readable(descriptor)
            finally:
                os.close(descriptor)
        else:
            wait = self._wait_without_collecting if hasattr(os, "waitid") else self._popen.wait
            await anyio.to_thread.run_sync(wait, abandon_on_cancel=True)
        return self._note_end()

    async def wait(self) -> int:
        """Wait until `reap` has noticed the end."""
        await self._ended.wait()
        return self._note_end()

    def has_exited(self) -> bool:
        """Whether it has ended, noticed or not."""
        if self.exit_code is not None or self._popen.returncode is not None:
            return True
        if not hasattr(os, "waitid"):
            return self._popen.poll() is not None
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def signal_group(self, number: int) -> None:
        """Send a signal to the whole group, as long as it was not collected."""
        if self._popen.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def signal_leader(self, number: int) -> None:
        """Send a signal to the leader alone, as a kubelet does to PID 1."""
        if self._popen.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, number)

    def collect(self) -> None:
        """Give back the number of a process that has ended, unless it is kept for `destroy`."""
        if not self.kept:
            self._collect()

    def _collect(self) -> None:
        if self._popen.returncode is None:
            self._popen.wait()
            self._watchdog.remove(self.pid)

    def destroy(self) -> None:
        """Kill the whole group now, wait for its leader and collect it."""
        if self._popen.returncode is not None:
            return
        self.signal_group(signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self.exit_code is None:
                code = self._popen.wait(_KILL_WAIT_SECONDS)
                self._end_with(code if code >= 0 else 128 - code)
                self._watchdog.remove(self.pid)
            else:
                self._collect()

    def _wait_without_collecting(self) -> None:
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)

    def _note_end(self) -> int:
        if self.exit_code is None:
            if hasattr(os, "waitid"):
                ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
                if ended is None:
                    raise RuntimeError(f"process {self.pid} has not ended")
                self._end_with(ended.si_status if ended.si_code == os.CLD_EXITED else 128 + ended.si_status)
            else:
                self._collect_at_end()
        return self.exit_code if self.exit_code is not None else 0

    def _collect_at_end(self) -> None:
        """Collect the ended process: macOS before Python 3.13 cannot look at one without that.

        The rest of the group ends with its leader, as in a container: no later call could signal it safely.
        """
        code = self._popen.wait()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._watchdog.remove(self.pid)
        self._end_with(code if code >= 0 else 128 - code)

    def _end_with(self, code: int) -> None:
        self.exit_code = code
        self._ended.set()
