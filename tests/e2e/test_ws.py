"""`senro ws` and `senro cache gc` after runs: a pod's files are listed, restored and compared."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import senro
from senro.testing import Bench

RUNS = ("--run-dir", "runs")


def building(bench: Bench, script: str) -> senro.Pipeline:
    """Returns a pipeline with a pod that runs the script in the workspace `src` of the folder `project`."""
    src = senro.Workspace("src", path="project")
    pipeline = senro.Pipeline("release")
    pipeline.workflow("build", on=bench.pod()).step(
        "make", ["sh", "-c", script], mounts=[src.at("/src")], workdir="/src"
    )
    return pipeline


def project(bench: Bench) -> None:
    (bench.folder / "project").mkdir()
    (bench.folder / "project" / "a").write_bytes(b"one")
    (bench.folder / "project" / "b").write_bytes(b"two")


def test_ws_ls_pull_and_diff(bench: Bench) -> None:
    """The files of a pod are in the store: listed, compared with another run, and restored."""
    project(bench)
    first = bench.run(building(bench, "echo made > dist"))
    threading.Event().wait(1.0)  # runs are ordered by their start, in seconds
    second = bench.run(building(bench, "echo made > dist; chmod +x a; rm b; ln -s a l; printf three > c"))
    listed = bench.cli("ws", "ls", *RUNS)
    assert listed.returncode == 0, listed.stderr
    assert [line.split()[0] for line in listed.stdout.splitlines()[1:]] == [first.run_id, second.run_id]
    of_run = bench.cli("ws", "ls", "latest", *RUNS).stdout
    assert "after build.make" in of_run
    assert second.workspaces["src"].digest[:19] in of_run
    entries = bench.cli("ws", "ls", "latest", "src", *RUNS).stdout
    assert second.workspaces["src"].digest in entries
    assert [line.split()[-1] for line in entries.splitlines()[1:]] == ["a", "c", "dist", "a"]
    differing = bench.cli("ws", "diff", first.run_id, "latest", "--json", *RUNS)
    assert differing.returncode == 1
    (src,) = json.loads(differing.stdout)["workspaces"]
    assert {change["path"]: change["what"] for change in src["changes"]} == {
        "a": ["mode"],
        "b": ["removed"],
        "c": ["added"],
        "l": ["added"],
    }
    assert bench.cli("ws", "diff", "latest", "latest", *RUNS).returncode == 0
    pulled = bench.cli("ws", "pull", first.run_id, "src", "mine", *RUNS)
    assert pulled.returncode == 0, pulled.stderr
    assert files(bench.folder / "mine") == bench.tree("src", first)
    assert bench.cli("ws", "pull", "latest", "src", "mine", *RUNS).returncode == 2
    assert files(bench.folder / "mine") == bench.tree("src", first)
    assert bench.cli("ws", "pull", "latest", "src", "mine", "--force", *RUNS).returncode == 0
    assert files(bench.folder / "mine") == bench.tree("src")


def test_gc_keeps_the_snapshots_of_a_failed_run(bench: Bench) -> None:
    """With the strictest bounds a failed run's workspace is kept as its pod left it; a successful run's is not."""
    project(bench)
    good = bench.run(building(bench, "echo good > dist"))
    failed = bench.run(building(bench, "echo half > dist; exit 3"))
    left = bench.tree("src")
    done = bench.cli("cache", "gc", "--max-age", "0", "--max-size", "0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("dropped 1 snapshot; freed ")
    assert f"{failed.run_id}  failed  " in done.stdout
    pulled = bench.cli("ws", "pull", failed.run_id, "src", "mine", *RUNS)
    assert pulled.returncode == 0, pulled.stderr
    assert files(bench.folder / "mine") == left
    gone = bench.cli("ws", "pull", good.run_id, "src", "other", *RUNS)
    assert (gone.returncode, (bench.folder / "other").exists()) == (2, False)
    again = bench.run(building(bench, "echo good > dist"))
    assert again.ok


def test_gc_during_a_run(bench: Bench) -> None:
    """It removes nothing that the run's next step, or its end, needs."""
    project(bench)
    src = senro.Workspace("src", path="project")
    own = senro.Workspace("own", path="project", scope="step")
    pipeline = senro.Pipeline("p")
    collect = ["sh", "-c", 'cd "$BASE" && "$PYTHON" -m senro cache gc --max-age 0 --max-size 0']
    env = {"BASE": str(bench.folder), "PYTHON": sys.executable}
    pipeline.workflow("a", on=bench.pod()).step("s", ["sh", "-c", "echo 1 > one"], mounts=[src.at("/s")], workdir="/s")
    pipeline.workflow("gc", needs=["a"]).step("s", collect, env=env)
    mounts = [src.at("/s"), own.at("/o")]
    after = pipeline.workflow("b", needs=["gc"], on=bench.pod())
    after.step("s", ["sh", "-c", "cat one /o/a"], mounts=mounts, workdir="/s")
    assert bench.run(pipeline).ok
    assert bench.log("b.s") == b"1\none"
    assert b"running" in bench.log("gc.s")


def test_a_run_without_workspaces_creates_no_cache(bench: Bench) -> None:
    """It is not registered, and no folder is created."""
    assert bench.one("true", on=senro.local()).ok
    assert not (bench.folder / "cache").exists()


def files(folder: Path) -> dict[str, bytes]:
    """Returns the files of a folder: content by path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
