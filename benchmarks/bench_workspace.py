"""Transfers a tree of 10,000 files and 60 MiB through a local step, two pods and a local step.

    python benchmarks/bench_workspace.py [files]

The embedded cluster runs in a separate process. Prints the coordinator's peak memory (VmHWM) above that after its
imports, and fails above 150 MiB.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import senro
from senro import k8s
from senro.adapters import apiserver, fs  # noqa: F401 - what a run imports counts as its start
from senro.devcluster.images import IMAGE

FILES = int(sys.argv[1]) if sys.argv[1:] and sys.argv[1].isdigit() else 10_000
LIMIT = 150 * 1024 * 1024
ROOT = Path(__file__).resolve().parents[1]


def make_tree(root: Path) -> int:
    """Creates Unicode and long names, links, empty files and directories, executables. Returns the bytes."""
    total, size = 0, 60 * 1024 * 1024 // FILES
    for number in range(FILES):
        folder = root / f"d{number // 100:03}-ü-{'n' * (200 if number % 1000 == 0 else 3)}"
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{number % 100:03}-{'ß' * (120 if number % 50 == 0 else 1)}.bin"
        content = b"" if number % 40 == 0 else os.urandom(size)
        path = folder / name
        path.write_bytes(content)
        total += len(content)
        if number % 100 == 0:
            path.chmod(0o755)
            (folder / "link").symlink_to(name)
            (folder / "empty").mkdir()
    return total


def peak() -> int:
    """Returns the peak resident set of the process in bytes."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def coordinate(folder: Path) -> None:
    """Runs the coordinator, alone in this process."""
    os.chdir(folder)
    src = senro.Workspace("src", path="project")
    pod = k8s.Pod(IMAGE, namespace="ci")
    pipeline = senro.Pipeline("bench")
    pipeline.workflow("a").step("local", ["true"], mounts=[src.at("/w")])
    pipeline.workflow("b", needs=["a"], on=pod).step("one", ["true"], mounts=[src.at("/w")])
    pipeline.workflow("c", needs=["b"], on=pod).step("two", ["true"], mounts=[src.at("/w")])
    pipeline.workflow("d", needs=["c"]).step("back", ["true"], mounts=[src.at("/w")])
    plan = pipeline.build()
    Path("/proc/self/clear_refs").write_text("5")
    before = peak()
    result = senro.run_sync(plan)
    above = peak() - before
    events = [json.loads(line) for line in Path(result.folder, "events.jsonl").read_text().splitlines()]
    digests = {event["digest"] for event in events if "digest" in event}
    for event in events:
        if event["event"] == "transfer.completed":
            rate = event["bytes"] / event["seconds"] / 1e6
            print(f"{event['step']} {event['direction']:>3}: {event['bytes'] / 1e6:.1f} MB, {rate:.0f} MB/s")
    print(f"state {result.state}, {len(digests)} digest, peak {above / 2**20:.1f} MiB above the start")
    if not (result.ok and len(digests) == 1 and above < LIMIT):
        sys.exit(1)


def main() -> None:
    """Serves a cluster and runs the coordinator in a separate process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        total = make_tree(folder / "project")
        print(f"{FILES} files, {total / 2**20:.1f} MiB")
        server = subprocess.Popen(
            [sys.executable, "-m", "senro", "devcluster"], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert server.stdout is not None
        environ = dict(os.environ, SENRO_CACHE_DIR=str(folder / "cache"), PYTHONPATH=str(ROOT))
        try:
            for line in server.stdout:
                if line.startswith("export "):
                    variable, _, value = line.removeprefix("export ").strip().partition("=")
                    environ[variable] = value.strip("'")
                if "Ctrl-C" in line:
                    break
            command = [sys.executable, __file__, "--coordinate", str(folder)]
            code = subprocess.run(command, env=environ, check=False).returncode
        finally:
            server.terminate()
            server.wait(30)
    sys.exit(code)


if __name__ == "__main__":
    if "--coordinate" in sys.argv:
        coordinate(Path(sys.argv[-1]))
    else:
        main()
