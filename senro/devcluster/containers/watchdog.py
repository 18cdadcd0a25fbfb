"""A watchman in a process of its own: should this process die without a word, it ends what this one had started."""

from __future__ import annotations

import contextlib
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# `kill -9 -N` is the one form that dash, bash and busybox agree on.
_SCRIPT = """
trap '' TERM INT HUP
groups=''
while read -r verb number; do
  case $verb in
    add) groups="$groups $number" ;;
    end) exit 0 ;;
    *)
      kept=''
      for group in $groups; do
        [ "$group" = "$number" ] || kept="$kept $group"
      done
      groups=$kept
      ;;
  esac
done
for group in $groups; do
  kill -9 "-$group" 2>/dev/null
done
rm -rf -- "$1"
[ -n "$2" ] || exit 0
for try in 1 2 3 4 5 6 7 8 9 10; do
  for cgroup in "$2"/*/; do rmdir "$cgroup" 2>/dev/null; done
  rmdir "$2" 2>/dev/null
  [ -d "$2" ] || exit 0
  sleep 0.1
done
"""
_END_SECONDS = 5.0


class Watchdog:
    """Knows the process groups that are alive, and the folders that have to go: the cluster's own, and its cgroups.

    It reads from a pipe that only this process holds, so that even SIGKILL here is an end of file there. Containers
    under bubblewrap die with their parent anyway; mapped ones and the folder do not.
    """

    def __init__(self, folder: Path, cgroups: Path | None = None) -> None:
        self._popen = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "sh", str(folder), str(cgroups or "")],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"PATH": "/usr/bin:/bin"},
            cwd="/",
            start_new_session=True,
            bufsize=0,
        )

    def add(self, group: int) -> None:
        """A process group was started."""
        self._tell(f"add {group}\n")

    def remove(self, group: int) -> None:
        """A process group's leader was collected: its number may soon be another's."""
        self._tell(f"remove {group}\n")

    def close(self) -> None:
        """Everything was cleaned up here: nothing is left to watch."""
        self._tell("end 0\n")
        if self._popen.stdin is not None:
            self._popen.stdin.close()
        try:
            self._popen.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()

    def _tell(self, line: str) -> None:
        if self._popen.stdin is not None and not self._popen.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self._popen.stdin.write(line.encode())
