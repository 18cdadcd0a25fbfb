"""A process group: tells whether a process of it is alive, and terminates it."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import anyio
from anyio.abc import Process

from senro.domain.requests.backoff import BackoffPolicy

KILL_SECONDS = 10.0
"""How long a group may take to end after SIGKILL; only a process in uninterruptible sleep takes longer."""

_PROC = Path("/proc")

_POLLS = BackoffPolicy(first=0.005, longest=0.1, jitter=0.0)
"""The schedule of the polls that wait until every process of a group has ended."""


class ProcessGroup:
    """The group of `process`, which was started in a session of its own and leads the group.

    A process that created its own session or group (a daemon, a job of a shell under `set -m`) is not part of it and
    lives on.

    `id`: the id of the group, as in `pgrep -g <id>`.
    """

    def __init__(self, process: Process) -> None:
        self._leader = process
        self.id = process.pid

    def is_gone(self) -> bool:
        """Whether the leader was reaped and no process of the group is alive."""
        return self._leader.returncode is not None and not _is_alive(self.id)

    async def wait(self, timeout: float | None, linger: float) -> bool:
        """Wait up to `timeout` seconds for the leader, then up to `linger` for the others. False at the timeout."""
        with anyio.move_on_after(timeout):
            await self._leader.wait()
        if self._leader.returncode is None:
            return False
        with anyio.move_on_after(linger):
            await self._wait_gone()
        return True

    async def terminate(self, grace: float) -> bool:
        """Send SIGTERM, wait `grace` seconds, send SIGKILL. Returns whether the group is gone.

        Takes at most `grace` + `KILL_SECONDS`. Call it shielded from cancellation.
        """
        for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, KILL_SECONDS)):
            if self.is_gone():
                break
            # The group has ended, or belongs to another user (sudo); `is_gone` distinguishes them.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.id, number)
            with anyio.move_on_after(patience):
                await self._wait_gone()
        return self.is_gone()

    def kill(self) -> None:
        """Send SIGKILL at once."""
        if not self.is_gone():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.id, signal.SIGKILL)

    async def _wait_gone(self) -> None:
        await self._leader.wait()
        for wait in _POLLS.waits():
            if not _is_alive(self.id):
                return
            await anyio.sleep(wait)


def _is_alive(group: int) -> bool:
    """Whether a process of the group is alive. Zombies do not count: a container's PID 1 may never reap them."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        signalled = False  # another user's; without /proc it counts as gone, since it cannot be signalled
    else:
        signalled = True
    try:
        pids = [entry.name for entry in _PROC.iterdir() if entry.name.isdigit()]
    except OSError:
        return signalled
    if str(os.getpid()) not in pids:  # /proc shows another PID namespace
        return signalled
    return any(_is_member(pid, group) for pid in pids)


def _is_member(pid: str, group: int) -> bool:
    try:
        stat = (_PROC / pid / "stat").read_bytes()
    except OSError:  # the process has ended
        return False
    # proc_pid_stat(5): the name in parentheses may contain any character; after it: state, ppid, pgrp, ...
    state, _, pgrp = stat.rpartition(b")")[2].split()[:3]
    return int(pgrp) == group and state not in (b"Z", b"X")
