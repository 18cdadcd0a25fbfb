"""Memory limits of containers: a cgroup where this process may make one, else a watch over what they use.

A cgroup (v2 or v1) is the kernel's own limit: it kills the process that grows, and counts that. Where none can be made
(an ordinary user without delegation, another system) the resident memory of the container's processes is looked at
every few milliseconds, and the largest is killed once they hold more than the limit together.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_FILESYSTEM = Path("/sys/fs/cgroup")
_WATCH_SECONDS = 0.005
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Cgroups:
    """Where this cluster's cgroups are made; `usable` is found out by making one and limiting it."""

    def __init__(self, name: str) -> None:
        self.folder: Path | None = None
        self._number = 0
        for parent in own_folders():
            folder = parent / name
            if _try(folder):
                self.folder = folder
                return

    def make(self, limit: int) -> Path | None:
        """A cgroup with that limit in bytes, or None where there are none."""
        if self.folder is None:
            return None
        self._number += 1
        made = self.folder / str(self._number)
        return made if _limit(made, limit) else None

    def close(self) -> None:
        """Remove what is empty."""
        if self.folder is not None:
            for made in [path for path in self.folder.iterdir() if path.is_dir()] if self.folder.exists() else []:
                remove(made)
            remove(self.folder)


def own_folders() -> Iterable[Path]:
    """The folders of this process' own cgroups that have a memory controller: v2's, then v1's."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            yield _FILESYSTEM / path.lstrip("/")
        elif "memory" in controllers.split(","):
            yield _FILESYSTEM / "memory" / path.lstrip("/")


def _try(folder: Path) -> bool:
    """Make the parent and a child with a limit; what was made is removed again where that does not work."""
    try:
        folder.mkdir()
        # In v2 a folder's children have a memory controller only if it says so.
        with contextlib.suppress(OSError):
            (folder / "cgroup.subtree_control").write_text("+memory")
    except OSError:
        return False
    child = folder / "0"
    works = _limit(child, 2**24)
    remove(child)
    if not works:
        remove(folder)
    return works


def _limit(folder: Path, limit: int) -> bool:
    try:
        folder.mkdir(exist_ok=True)
    except OSError:
        return False
    for name in ("memory.max", "memory.limit_in_bytes"):
        file = folder / name
        if file.exists():
            try:
                file.write_text(str(limit))
            except OSError:
                return False
            # Swap would only make it slow.
            for swap, value in (("memory.swap.max", "0"), ("memory.memsw.limit_in_bytes", str(limit))):
                with contextlib.suppress(OSError):
                    if (folder / swap).exists():
                        (folder / swap).write_text(value)
            return True
    return False


def kills(folder: Path) -> int:
    """How many processes the kernel has killed for this cgroup's limit."""
    for name in ("memory.events", "memory.oom_control"):
        with contextlib.suppress(OSError):
            for line in (folder / name).read_text().splitlines():
                key, _, value = line.partition(" ")
                if key == "oom_kill":
                    return int(value)
    return 0


def remove(folder: Path) -> None:
    """Remove an empty cgroup; one that a process is still leaving stays for `Cgroups.close` or the guardian."""
    with contextlib.suppress(OSError):
        folder.rmdir()


def joining(folder: Path, argv: list[str]) -> list[str]:
    """The command, as one that joins the cgroup first."""
    return ["/bin/sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(folder), *argv]


class MemoryWatch:
    """The limit without a cgroup."""

    def __init__(self, limit: int, processes: Callable[[], Iterable[int]]) -> None:
        self._limit = limit
        self._processes = processes
        self.killed = False

    async def run(self) -> None:
        """Look until cancelled; kill the largest process whenever all together are over the limit."""
        while True:
            used = {pid: resident(pid) for pid in self._processes()}
            if sum(used.values()) > self._limit:
                self.killed = True
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(max(used, key=lambda pid: used[pid]), signal.SIGKILL)
            await anyio.sleep(_WATCH_SECONDS)


def resident(pid: int) -> int:
    """Bytes of a process that are in memory; 0 where it is gone or cannot be asked."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0


def processes_of(leader: int) -> list[int]:
    """The processes in the pid namespace of a process, or, where that is our own, of its session."""
    namespace, ours = _namespace(leader), _namespace(os.getpid())
    apart = bool(namespace) and namespace != ours
    found: list[int] = []
    for entry in os.listdir("/proc") if Path("/proc").is_dir() else []:  # noqa: PTH208 - every 5 ms: names, not Paths
        if not entry.isdigit():
            continue
        pid = int(entry)
        if _namespace(pid) == namespace if apart else _session(pid) == leader:
            found.append(pid)
    return found


def _namespace(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")  # noqa: PTH115 - as above
    except OSError:
        return ""


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return 0
