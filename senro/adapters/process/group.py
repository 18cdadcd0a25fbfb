"""A process group: whether anything of it lives, and how it is ended."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import anyio
from anyio.abc import Process

KILL_SECONDS = 10.0
"""How long a group may take to vanish after SIGKILL; only a process that sleeps in the kernel takes longer."""

_PROC = Path("/proc")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.1  # seconds between two looks at the group, doubling


class ProcessGroup:
    """The group that `process`, started with a session of its own, leads.

    Not part of it is a process that made a session or group of its own (a daemon; a job of a shell under `set -m`):
    it lives on, and nobody here can know of it.
    """

    def __init__(self, process: Process) -> None:
        self._leader = process
        self._id = process.pid

    @property
    def id(self) -> int:
        """The number to look for: `pgrep -g <id>`."""
        return self._id

    def is_gone(self) -> bool:
        """Whether the leader was reaped and nothing of the group runs any more."""
        return self._leader.returncode is not None and not _is_alive(self._id)

    async def wait(self, timeout: float | None, linger: float) -> bool:
        """Wait for the leader, at most `timeout` seconds, then `linger` for the rest. False at the timeout."""
        with anyio.move_on_after(timeout):
            await self._leader.wait()
        if self._leader.returncode is None:
            return False
        with anyio.move_on_after(linger):
            await self._wait_gone()
        return True

    async def terminate(self, grace: float) -> bool:
        """SIGTERM, `grace` seconds, SIGKILL; nothing where it is gone already. False if something is still there.

        Takes at most `grace` + `KILL_SECONDS`. Call it shielded: half of it is worse than none.
        """
        for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, KILL_SECONDS)):
            if self.is_gone():
                break
            # Gone meanwhile, or run by another user (sudo): the look after it tells them apart.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._id, number)
            with anyio.move_on_after(patience):
                await self._wait_gone()
        return self.is_gone()

    def kill(self) -> None:
        """SIGKILL, now; `terminate` then finds it gone."""
        if not self.is_gone():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._id, signal.SIGKILL)

    async def _wait_gone(self) -> None:
        await self._leader.wait()
        pause = _FIRST_PAUSE
        while _is_alive(self._id):
            await anyio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


def _is_alive(group: int) -> bool:
    """Whether a process of the group runs. Zombies do not count: a container's PID 1 may never reap them."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        signalled = False  # of another user; without /proc as good as gone, since nothing can be done to it
    else:
        signalled = True
    try:
        pids = [entry.name for entry in _PROC.iterdir() if entry.name.isdigit()]
    except OSError:
        return signalled
    if str(os.getpid()) not in pids:  # no /proc of ours
        return signalled
    return any(_is_member(pid, group) for pid in pids)


def _is_member(pid: str, group: int) -> bool:
    try:
        stat = (_PROC / pid / "stat").read_bytes()
    except OSError:  # ended meanwhile
        return False
    # proc_pid_stat(5): after the name in parentheses, which may hold anything: state, ppid, pgrp, ...
    state, _, pgrp = stat.rpartition(b")")[2].split()[:3]
    return int(pgrp) == group and state not in (b"Z", b"X")
