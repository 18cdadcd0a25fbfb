"""Persistent workspaces: shared by consecutive runs, used by one run at a time, evicted as a whole, never damaged."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

import senro
from senro.domain.pipeline.targets import local
from senro.domain.run.events import Noted, RunEnded, SnapshotTaken, WorkspaceEvicted, WorkspaceOpened
from senro.testing import Bench

DEPS: dict[str, Any] = {"scope": "persistent", "max_age": 86_400, "max_size": "1Mi"}

PIPELINE = """
import senro
deps = senro.Workspace("deps", path="project", scope="persistent", max_age=86400, max_size="1Mi")
p = senro.Pipeline("cli")
script = "echo half > half; echo $$ > ../../../../began; mv ../../../../began ../../../../started; exec sleep 60"
p.workflow("w").step("s", ["sh", "-c", script], mounts=[deps.at("/deps")], workdir="/deps")
"""


def project(bench: Bench) -> None:
    """The first content of the workspace."""
    (bench.folder / "project").mkdir()
    (bench.folder / "project" / "first").write_bytes(b"1")


def counting(bench: Bench, script: str = "echo x >> local", **options: Any) -> senro.Pipeline:
    """Returns a local step and a pod step, each of which adds a line to its own file of `deps`."""
    deps = senro.Workspace("deps", path="project", **{**DEPS, **options})
    pipeline = senro.Pipeline("counting")
    pipeline.workflow("here").step("s", ["sh", "-c", script], mounts=[deps.at("/deps")], workdir="/deps")
    pipeline.workflow("there", needs=["here"], on=bench.pod()).step(
        "s", ["sh", "-c", "echo x >> pod"], mounts=[deps.at("/deps")], workdir="/deps"
    )
    return pipeline


def test_a_second_run_continues_with_the_content(bench: Bench) -> None:
    """Local steps and pods get what the first run left, whose digest is computed before the first step."""
    project(bench)
    first = bench.run(counting(bench))
    (bench.folder / "project" / "second").write_bytes(b"2")
    second = bench.run(counting(bench))
    assert (first.ok, second.ok) == (True, True)
    assert bench.tree("deps") == {"first": b"1", "local": b"x\nx\n", "pod": b"x\nx\n"}
    (opened,) = bench.of(WorkspaceOpened)
    assert opened.reused
    assert opened.digest == bench.of(SnapshotTaken, first)[-1].digest
    assert [event.reused for event in bench.of(WorkspaceOpened, first)] == [False]
    assert second.workspaces["deps"].folder == str(bench.folder / "cache" / "persistent" / "deps" / "content")


def test_content_past_max_size_is_evicted(bench: Bench) -> None:
    """It is evicted after the last step, with bound and measured value, and the next run starts anew."""
    project(bench)
    result = bench.run(counting(bench, "head -c 2000 /dev/zero > large", max_size=1000))
    assert result.ok
    (evicted,) = bench.of(WorkspaceEvicted)
    assert (evicted.workspace, evicted.bound, evicted.limit, evicted.when) == ("deps", "max_size", 1000, "after_run")
    assert evicted.measured == 2003
    assert isinstance(bench.events()[-1], RunEnded)
    assert result.workspaces["deps"].folder == ""
    assert not (bench.folder / "cache" / "persistent" / "deps" / "content").exists()
    bench.run(counting(bench))
    assert bench.tree("deps") == {"first": b"1", "local": b"x\n", "pod": b"x\n"}
    assert [event.reused for event in bench.of(WorkspaceOpened)] == [False]


def test_content_past_max_age_is_evicted(bench: Bench) -> None:
    """It is evicted before the first step, which does not see it."""
    project(bench)
    bench.run(counting(bench))
    bench.run(counting(bench, "! test -e pod && echo x >> local", max_age=0.001))
    evicted = bench.of(WorkspaceEvicted)[0]
    assert (evicted.bound, evicted.when) == ("max_age", "before_run")
    assert bench.results[-1].ok


@pytest.mark.anyio
async def test_two_runs_in_one_process(bench: Bench) -> None:
    """The second run is refused at once and names the first one, before it creates anything."""
    project(bench)
    folder = bench.folder / "runs"
    waiting = counting(bench, f"until test -e {bench.folder}/go; do sleep 0.05; done").build()
    began, holders = anyio.Event(), list[str]()
    results: list[senro.Result] = []

    class Began(senro.Reporter):
        def run_started(self, run_id: str, *_: object, **__: object) -> None:
            holders.append(run_id)
            began.set()

    async def first() -> None:
        results.append(await senro.run(waiting, run_dir=str(folder), environ=bench.environ, reporter=Began()))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(first)
        await began.wait()
        with pytest.raises(senro.ConfigurationError) as caught:
            await senro.run(counting(bench).build(), run_dir=str(folder), environ=bench.environ)
        (bench.folder / "go").touch()
    assert f"workspace deps: the run {holders[0]} (process {os.getpid()} on " in str(caught.value)
    assert [result.ok for result in results] == [True]
    assert len(list(folder.iterdir())) == 1


def test_two_processes_and_a_killed_run(bench: Bench) -> None:
    """Another process is refused with exit code 2. After a run that was killed, the content is that before the step."""
    project(bench)
    bench.run(counting(bench))
    (bench.folder / "pipeline.py").write_text(PIPELINE)
    started = bench.folder / "started"
    command = [sys.executable, "-m", "senro", "run", "pipeline.py", "--quiet"]
    with subprocess.Popen(command, cwd=bench.folder, env=bench.environ) as running:
        try:
            wait_for(started)
            done = bench.cli("run", "pipeline.py")
            assert done.returncode == 2
            assert f"(process {running.pid} on " in done.stderr
        finally:
            running.kill()
            running.wait()
            os.kill(int(started.read_text()), signal.SIGKILL)  # the step outlives a killed coordinator
    content = bench.folder / "cache" / "persistent" / "deps" / "content"
    assert (content / "half").exists()
    bench.run(counting(bench))
    assert bench.tree("deps") == {"first": b"1", "local": b"x\nx\n", "pod": b"x\nx\n"}
    (note,) = [event.message for event in bench.of(Noted) if "killed" in event.message]
    assert "was killed while a step changed the workspace deps" in note


def wait_for(path: Path) -> None:
    """Waits until the file exists; the timeout of the test is the bound."""
    subprocess.run(["sh", "-c", f"until test -e '{path}'; do sleep 0.02; done"], check=True, timeout=60)


def test_local_steps_keep_a_persistent_workspace(bench: Bench) -> None:
    """A pipeline of local steps keeps one too, and so does a step that fails."""
    deps = senro.Workspace("deps", **DEPS)
    for _ in range(2):
        bench.one("sh", "-c", "echo x >> f; exit 1", on=local(), mounts=[deps.at("/deps")], workdir="/deps")
    assert not bench.results[-1].ok
    assert bench.tree("deps") == {"f": b"x\nx\n"}
