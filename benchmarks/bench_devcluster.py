"""The throughput of the embedded cluster: bytes through an exec, two hundred pods and fifty execs at once.

    python benchmarks/bench_devcluster.py

The client of the execs is senro's, in a separate process.
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio

from senro.adapters.apiserver import connect, read_configuration
from senro.adapters.clock import SystemClock, SystemRandomness
from senro.devcluster import IMAGE, DevCluster, DevClusterThread
from senro.domain.kube.exec_protocol import Ended, ExitCode, Stdout
from senro.ports.cluster import Cluster, ExecSession

SIZE = 512 * 1024 * 1024
PIECE = 512 * 1024
ROUNDS = 5
EXECS = 50
WANTED = 200
"""The expected MB/s in each direction."""


class Api:
    """A client of the cluster with one identity."""

    def __init__(self, server: str, ca_file: str, token: str) -> None:
        self.server = server
        self.context = ssl.create_default_context(cafile=ca_file)
        self.token = token

    def call(self, method: str, path: str, document: object = None) -> dict[str, object]:
        """Sends a request. Returns its answer as JSON."""
        request = urllib.request.Request(  # the cluster's address
            self.server + path,
            data=None if document is None else json.dumps(document).encode(),
            method=method,
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, context=self.context) as answer:
            found: dict[str, object] = json.load(answer)
            return found


async def transfer(cluster: Cluster, way: str) -> float:
    """Returns the MB/s of one exec, counted at its receiving end."""
    began = time.perf_counter()
    if way == "out":
        command, got = ["head", "-c", str(SIZE), "/dev/zero"], 0
        async with cluster.exec("ci", "bench", "step", command, stdin=False, idle_seconds=60) as session:
            while isinstance(event := await session.receive(), Stdout):
                got += len(event.data)
    else:
        said = b""
        async with (
            cluster.exec("ci", "bench", "step", ["wc", "-c"], stdin=True, idle_seconds=60) as session,
            anyio.create_task_group() as group,
        ):
            group.start_soon(feed, session)
            while isinstance(event := await session.receive(), Stdout):
                said += event.data
        got = int(said)
    assert (got, event) == (SIZE, Ended(ExitCode(0)))
    return SIZE / 1e6 / (time.perf_counter() - began)


async def feed(session: ExecSession) -> None:
    """Sends SIZE bytes of stdin."""
    piece = bytes(PIECE)
    for _ in range(SIZE // PIECE):
        await session.send(piece)
    await session.close_stdin()


async def many_execs(cluster: Cluster, count: int) -> float:
    """Returns the seconds for `count` concurrent execs in one pod, each of which must print its own word."""
    open_now, all_open, right = 0, anyio.Event(), 0

    async def one(number: int) -> None:
        nonlocal open_now, right
        command, said = ["sh", "-c", f"read line; echo {number}-$line"], b""
        async with cluster.exec("ci", "bench", "step", command, stdin=True, idle_seconds=60) as session:
            open_now += 1
            if open_now == count:
                all_open.set()
            await all_open.wait()
            await session.send(b"word\n")
            while isinstance(event := await session.receive(), Stdout):
                said += event.data
        right += (said, event) == (f"{number}-word\n".encode(), Ended(ExitCode(0)))

    began = time.perf_counter()
    async with anyio.create_task_group() as group:
        for number in range(count):
            group.start_soon(one, number)
    assert right == count, f"{right} of {count} were right"
    return time.perf_counter() - began


async def client(what: str) -> None:
    """Runs in the client's process: prints a figure."""
    configuration = read_configuration(os.environ, now=SystemClock().now())
    async with connect(configuration, clock=SystemClock(), randomness=SystemRandomness()) as cluster:
        print(await (many_execs(cluster, EXECS) if what == "execs" else transfer(cluster, what)))


def manifest(name: str, command: list[str]) -> dict[str, object]:
    """Returns a pod with one container."""
    step = {"name": "step", "image": IMAGE, "command": command}
    return {"metadata": {"name": name}, "spec": {"restartPolicy": "Never", "containers": [step]}}


def phase_of(cluster: DevCluster, prefix: str, phase: str) -> int:
    """Returns how many pods with the prefix are in the phase."""
    return sum(
        pod["metadata"]["name"].startswith(prefix) and pod["status"]["phase"] == phase for pod in cluster.pods("ci")
    )


def wait_for(holds: Callable[[], bool], seconds: float) -> float:
    """Waits until `holds` is true. Returns the seconds."""
    began = time.perf_counter()
    while not holds():
        if time.perf_counter() - began > seconds:
            raise TimeoutError(f"not after {seconds} s")
        threading.Event().wait(0.02)
    return time.perf_counter() - began


def many_pods(api: Api, cluster: DevCluster, count: int) -> None:
    """Creates `count` pods at once, and waits until all run."""
    began = time.perf_counter()
    with ThreadPoolExecutor(8) as threads:
        names = [f"many-{number}" for number in range(count)]
        list(
            threads.map(
                lambda name: api.call("POST", "/api/v1/namespaces/ci/pods", manifest(name, ["sleep", "600"])), names
            )
        )
        wait_for(lambda: phase_of(cluster, "many-", "Running") == count, 120)
        print(f"{count} pods at once: all running after {time.perf_counter() - began:.1f} s")
        began = time.perf_counter()
        path = "/api/v1/namespaces/ci/pods/{}?gracePeriodSeconds=0"
        list(threads.map(lambda name: api.call("DELETE", path.format(name)), names))
    print(f"{count} pods deleted after {time.perf_counter() - began:.1f} s")


def from_client(environment: dict[str, str], what: str) -> float:
    """Returns the figure that a client in a separate process prints."""
    command = [sys.executable, __file__, "--client", what]
    return float(subprocess.run(command, env={**os.environ, **environment}, check=True, stdout=subprocess.PIPE).stdout)


def transfers(environment: dict[str, str], way: str) -> str:
    """Runs some rounds in one direction. Returns a sentence with the throughput and the server's CPU bound."""
    busy = time.process_time()
    rates = sorted(from_client(environment, way) for _ in range(ROUNDS))
    allowed = ROUNDS * SIZE / 1e6 / (time.process_time() - busy)
    median = rates[ROUNDS // 2]
    verdict = "" if median >= WANTED else f", less than {WANTED}"
    told = f"one exec, {way}: {rates[0]:.0f}/{median:.0f}/{rates[-1]:.0f} MB/s (min/median/max of {ROUNDS}){verdict}"
    return f"{told}; the cluster alone on one core: {allowed:.0f} MB/s"


def main() -> None:
    """Prints all figures."""
    with DevClusterThread() as cluster:
        environment = cluster.environment()
        token = Path(environment["SENRO_K8S_TOKEN_FILE"]).read_text()
        api = Api(environment["SENRO_K8S_SERVER"], environment["SENRO_K8S_CA_FILE"], token)
        api.call("POST", "/api/v1/namespaces/ci/pods", manifest("bench", ["sleep", "6000"]))
        wait_for(lambda: phase_of(cluster, "bench", "Running") == 1, 30)
        for way in ("out", "in"):
            print(transfers(environment, way))
        print(f"{EXECS} execs at once: {EXECS} right, {from_client(environment, 'execs'):.1f} s")
        many_pods(api, cluster, 200)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--client"]:
        anyio.run(client, sys.argv[2])
    else:
        main()
