"""Runs of a persistent workspace, in a process that is killed at some moment.

The step of each run writes the run's number to every file of the workspace, one after the other, so two files that
differ show an incomplete state. `python -m tests.lib.harness.killed_run FOLDER MOMENT` kills itself before the change
of a file or folder with that number.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from pathlib import Path

import anyio

from senro.adapters.fs import FolderPersistentStore
from senro.domain.pipeline.targets import local
from senro.domain.pipeline.workspace import Workspace
from senro.domain.plan.plan import Plan
from tests.lib.archives.files import names
from tests.lib.harness.app import App, pod_plan

FILES = 12
CHANGES = frozenset({"open", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink"})
"""The audit events of the interpreter before which the process may be killed."""


def plan_of(max_size: int = 10**6) -> Plan:
    """Returns a plan with a local step that mounts `deps`, whose first content is the folder `project`."""
    deps = Workspace("deps", path="project", scope="persistent", max_age=1e9, max_size=max_size)
    return pod_plan(mounts=[deps.at("/deps")], on=local(), workdir="/deps")


def make_project(folder: Path) -> None:
    """Writes the first content: every file has the number 0."""
    (folder / "project").mkdir()
    for number in range(FILES):
        (folder / "project" / str(number)).write_bytes(b"0")


async def run(folder: Path, generation: int | None, *, max_size: int = 10**6) -> set[bytes]:
    """Runs once. The step writes `generation` unless it is None. Returns the contents of the files at its start."""
    plan = plan_of(max_size)
    app = App(folder, plan)
    step = plan.steps[0].step
    async with FolderPersistentStore(str(folder / "cache")).lock("deps", since="now") as lock:
        object.__setattr__(app.services, "persistent", {"deps": lock})
        await app.workspaces.open(plan)
        await app.workspaces.prepare(step, again=False)
        files = [Path(lock.folder) / str(number) for number in range(FILES)]
        found = {path.read_bytes() for path in files}
        assert names(Path(lock.folder)) == sorted(path.name for path in files)
        if generation is not None:
            for path in files:
                path.write_bytes(str(generation).encode())
                await anyio.lowlevel.checkpoint()
        await app.workspaces.keep(step, 1)
        await app.workspaces.release()
    return found


def kill_at(moment: int) -> None:
    """Kills this process before the change with that number from now, whatever its other threads are doing."""
    left = itertools.count(moment - 1, -1)

    def count(event: str, _: object) -> None:
        if event in CHANGES and next(left) == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


async def main(folder: Path, moment: int) -> None:
    """Runs until that moment. Every third run exceeds its bound and is evicted."""
    kill_at(moment)
    for generation in itertools.count(1):
        await run(folder, generation, max_size=1 if generation % 3 == 0 else 10**6)


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), int(sys.argv[2]))
