"""What the embedded cluster carries: bytes through one exec each way, two hundred pods at once, fifty execs at once.

Run it as `python benchmarks/bench_devcluster.py`. The client of the transfers is a process of its own, so that what is
measured is the server: it sends frames of 128 KiB with a mask of zeroes, and looks at nothing that it receives.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlencode

from senro.devcluster import IMAGE, DevCluster, DevClusterThread

SIZE = 512 * 1024 * 1024
FRAME = 128 * 1024
ROUNDS = 5
WANTED = 200
"""MB/s, each way (issue B)."""


class Connection:
    """TLS over a socket. A frame's records go out in one write: `SSLSocket` makes a system call for every 16 KiB."""

    def __init__(self, context: ssl.SSLContext, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port))
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname=host)
        try:
            self._shake_hands()
        except BaseException:
            self._socket.close()
            raise

    def _shake_hands(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                data = self._socket.recv(65_536)
                if not data:
                    raise ConnectionError("the server closed the connection within the handshake") from None
                self._in.write(data)
            else:
                break
        self._flush()

    def sendall(self, data: bytes) -> None:
        """Send all of it."""
        self._tls.write(data)
        self._flush()

    def recv(self, size: int) -> bytes:
        """Some bytes; b"" at the end."""
        while True:
            try:
                return self._tls.read(size)
            except ssl.SSLWantReadError:
                data = self._socket.recv(256 * 1024)
                if not data:
                    return b""
                self._in.write(data)
            except ssl.SSLZeroReturnError:
                return b""

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _flush(self) -> None:
        if self._out.pending:
            self._socket.sendall(self._out.read())


class Api:
    """One identity against the cluster of the environment's variables."""

    def __init__(self, server: str, ca_file: str, token: str) -> None:
        self.server = server
        self.context = ssl.create_default_context(cafile=ca_file)
        self.token = token

    def call(self, method: str, path: str, document: object = None) -> dict[str, object]:
        """One request, its answer as JSON."""
        request = urllib.request.Request(  # the cluster's own address
            self.server + path,
            data=None if document is None else json.dumps(document).encode(),
            method=method,
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, context=self.context) as answer:
            found: dict[str, object] = json.load(answer)
            return found

    def exec(self, pod: str, command: list[str], protocol: str, *, stdin: bool) -> tuple[Connection, bytes]:
        """A connection behind its 101, and what came with that."""
        query = [("container", "step"), *(("command", word) for word in command), ("stdout", "1"), ("stderr", "1")]
        query += [("stdin", "1")] if stdin else []
        host, port = self.server.removeprefix("https://").split(":")
        lines = [
            f"GET /api/v1/namespaces/ci/pods/{pod}/exec?{urlencode(query)} HTTP/1.1",
            f"Host: {host}",
            f"Authorization: Bearer {self.token}",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
            f"Sec-WebSocket-Protocol: {protocol}",
        ]
        raw = Connection(self.context, host, int(port))
        raw.sendall("\r\n".join([*lines, "", ""]).encode())
        received = b""
        while b"\r\n\r\n" not in received:
            received += raw.recv(4096)
        head, _, rest = received.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 101"):
            raise RuntimeError(head.decode())
        return raw, rest


def frame_of(payload: bytes) -> bytes:
    """A client's frame, masked with zeroes."""
    size = len(payload)
    if size < 126:
        return struct.pack("!BB", 0x82, 0x80 | size) + bytes(4) + payload
    if size < 65_536:
        return struct.pack("!BBH", 0x82, 0xFE, size) + bytes(4) + payload
    return struct.pack("!BBQ", 0x82, 0xFF, size) + bytes(4) + payload


def receive_all(raw: Connection, received: int) -> tuple[int, bytes]:
    """How many bytes came up to the end, and the last of them."""
    end = b""
    while data := raw.recv(1024 * 1024):
        received += len(data)
        end = (end + data[-400:])[-400:]
    return received, end


def transfer(api: Api, way: str) -> float:
    """MB/s of one exec."""
    began = time.perf_counter()
    if way == "out":
        raw, rest = api.exec("bench", ["head", "-c", str(SIZE), "/dev/zero"], "v4.channel.k8s.io", stdin=False)
        received, end = receive_all(raw, len(rest))
        assert received > SIZE
    else:
        raw, _ = api.exec("bench", ["sh", "-c", "cat >/dev/null; echo"], "v5.channel.k8s.io", stdin=True)
        frame = frame_of(b"\x00" + bytes(FRAME))
        for _ in range(SIZE // FRAME):
            raw.sendall(frame)
        raw.sendall(frame_of(b"\xff\x00"))
        _, end = receive_all(raw, 0)
    assert b'"status":"Success"' in end, end
    raw.close()
    return SIZE / 1e6 / (time.perf_counter() - began)


def client(way: str) -> None:
    """The other process: print the rate."""
    api = Api(os.environ["SENRO_K8S_SERVER"], os.environ["SENRO_K8S_CA_FILE"], os.environ["BENCH_TOKEN"])
    print(transfer(api, way))


def manifest(name: str, command: list[str]) -> dict[str, object]:
    """A pod of one container."""
    step = {"name": "step", "image": IMAGE, "command": command}
    return {"metadata": {"name": name}, "spec": {"restartPolicy": "Never", "containers": [step]}}


def phase_of(cluster: DevCluster, prefix: str, phase: str) -> int:
    """How many pods of that prefix are in a phase."""
    return sum(
        pod["metadata"]["name"].startswith(prefix) and pod["status"]["phase"] == phase for pod in cluster.pods("ci")
    )


def wait_for(holds: Callable[[], bool], seconds: float) -> float:
    """Seconds until it holds."""
    began = time.perf_counter()
    while not holds():
        if time.perf_counter() - began > seconds:
            raise TimeoutError(f"not after {seconds} s")
        threading.Event().wait(0.02)
    return time.perf_counter() - began


def many_pods(api: Api, cluster: DevCluster, count: int) -> None:
    """So many pods at once, all running at the same moment."""
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


def many_execs(api: Api, count: int) -> None:
    """So many execs at once in one pod, each of which must come back with its own word."""
    together = threading.Barrier(count)

    def one(number: int) -> bool:
        raw, rest = api.exec("bench", ["sh", "-c", f"read line; echo {number}-$line"], "v5.channel.k8s.io", stdin=True)
        together.wait(60)
        raw.sendall(frame_of(b"\x00word\n"))
        told = rest
        while data := raw.recv(65_536):
            told += data
        return f"{number}-word\n".encode() in told and b'"status":"Success"' in told

    began = time.perf_counter()
    with ThreadPoolExecutor(count) as threads:
        right = sum(threads.map(one, range(count)))
    print(f"{count} execs at once: {right} right, {time.perf_counter() - began:.1f} s")
    assert right == count


def transfers(environment: dict[str, str], token: str, way: str) -> str:
    """Some rounds one way, in a sentence: what came through, and what the cluster's own processor time would allow."""
    busy = time.process_time()
    rates = sorted(
        float(
            subprocess.run(
                [sys.executable, __file__, "--client", way],
                env={**os.environ, **environment, "BENCH_TOKEN": token},
                check=True,
                capture_output=True,
            ).stdout
        )
        for _ in range(ROUNDS)
    )
    allowed = ROUNDS * SIZE / 1e6 / (time.process_time() - busy)
    median = rates[ROUNDS // 2]
    verdict = "" if median >= WANTED else f", less than {WANTED}"
    told = f"one exec, {way}: {rates[0]:.0f}/{median:.0f}/{rates[-1]:.0f} MB/s (min/median/max of {ROUNDS}){verdict}"
    return f"{told}; the cluster alone on one core: {allowed:.0f} MB/s"


def main() -> None:
    """Print every figure; the exit code says nothing of them."""
    with DevClusterThread() as cluster:
        environment = cluster.environment()
        token = Path(environment["SENRO_K8S_TOKEN_FILE"]).read_text()
        api = Api(environment["SENRO_K8S_SERVER"], environment["SENRO_K8S_CA_FILE"], token)
        api.call("POST", "/api/v1/namespaces/ci/pods", manifest("bench", ["sleep", "6000"]))
        wait_for(lambda: phase_of(cluster, "bench", "Running") == 1, 30)
        for way in ("out", "in"):
            print(transfers(environment, token, way))
        many_execs(api, 50)
        many_pods(api, cluster, 200)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--client"]:
        client(sys.argv[2])
    else:
        main()
