"""Pipes between the cluster and its processes: non-blocking on our side, read and written as readiness allows."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os

import anyio

_CAPACITY = 1_048_576


class ReadEnd:
    """Our end of a pipe that a process writes to."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.inode = os.fstat(descriptor).st_ino
        """What both ends of a pipe have in common."""

    async def receive(self, size: int) -> bytes:
        """Up to `size` bytes as soon as there are any; b"" at the end."""
        while self._descriptor >= 0:
            try:
                return os.read(self._descriptor, size)
            except BlockingIOError:
                await anyio.wait_readable(self._descriptor)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                return b""  # a terminal that nobody has open any more
        return b""

    def close(self) -> None:
        """Give it back; the process gets SIGPIPE when it writes."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class WriteEnd:
    """Our end of a pipe that a process reads from."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._closing = False
        self.stuck = False
        """Whether the process went away while a write waited for it to read."""
        self._scope: anyio.CancelScope | None = None

    @property
    def closed(self) -> bool:
        """Whether the process has its end of file."""
        return self._closing

    async def send(self, data: bytes | memoryview) -> bool:
        """Write it all, waiting for the process as long as it takes. False: nobody will ever read it."""
        left = memoryview(data)
        waited = False
        while left:
            if self._closing or self._descriptor < 0:
                return False
            try:
                left = left[os.write(self._descriptor, left) :]
            except BlockingIOError:
                waited = True
                await self._wait()
            except BrokenPipeError:
                self.stuck = waited
                return False
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                return False  # a terminal that nobody has open any more
        return True

    def close(self, *, reader_gone: bool = False) -> None:
        """Give the process its end of file; a write that waits returns False."""
        self._closing = True
        self.stuck |= reader_gone and self._scope is not None
        if self._scope is not None:
            self._scope.cancel()
        else:
            self._release()

    async def _wait(self) -> None:
        try:
            with anyio.CancelScope() as self._scope:
                await anyio.wait_writable(self._descriptor)
        finally:
            self._scope = None
            if self._closing:
                self._release()

    def _release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def output_pipe() -> tuple[ReadEnd, int]:
    """A pipe for a process' output: our end, and the descriptor to give to the process and then close."""
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)
    _enlarge(ours)
    return ReadEnd(ours), theirs


def input_pipe() -> tuple[WriteEnd, int]:
    """A pipe for a process' input: our end, and the descriptor to give to the process and then close."""
    theirs, ours = os.pipe()
    os.set_blocking(ours, False)
    _enlarge(ours)
    return WriteEnd(ours), theirs


def terminal_ends(ours: int) -> tuple[WriteEnd, ReadEnd]:
    """Our end of a pseudo terminal, for writing and for reading."""
    os.set_blocking(ours, False)
    return WriteEnd(os.dup(ours)), ReadEnd(ours)


def _enlarge(descriptor: int) -> None:
    # Only Linux can change the size of a pipe, and only up to a limit of the system's for an ordinary user.
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _CAPACITY)
