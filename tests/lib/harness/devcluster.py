"""A client of the embedded cluster that shares no code with senro: httpx for REST, plain sockets for exec."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import httpx

from senro.devcluster import IMAGE, DevCluster

RECORDINGS = Path(__file__).parents[2] / "contract" / "recordings"
WAIT_SECONDS = 20.0

LOOK_SECONDS = 0.05
"""Seconds between two checks while no object changes, since some conditions depend on processes."""

V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"

Object = dict[str, Any]


def recording(name: str) -> Object:
    """Returns a recorded scenario."""
    document: Object = json.loads((RECORDINGS / f"{name}.json").read_text())
    return document


def pod_manifest(name: str, command: list[str], **spec: Any) -> Object:
    """Returns a pod with the container `step`. Keywords are fields of the spec; `step` has fields of the container."""
    container = {"name": "step", "image": IMAGE, "command": command, **spec.pop("step", {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ci", "labels": {"senro.dev/managed": "true"}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [container, *spec.pop("more", [])],
            **spec,
        },
    }


@dataclass
class ExecResult:
    """The result of an exec: the messages, each beginning with its channel, and the close code."""

    messages: list[bytes] = field(default_factory=list)
    close_code: int | None = None

    def channel(self, number: int) -> bytes:
        """Returns the payload of one channel."""
        return b"".join(message[1:] for message in self.messages if message[0] == number)

    @property
    def status(self) -> Object | None:
        """The status document; None if none was sent."""
        text = self.channel(3)
        return json.loads(text) if text else None

    @property
    def exit_code(self) -> int | None:
        """0 for Success, else the code of a NonZeroExitCode; None without a status."""
        status = self.status
        if status is None:
            return None
        if status["status"] == "Success":
            return 0
        return int(status["details"]["causes"][0]["message"])


class Socket:
    """The connection of an exec, frame by frame."""

    def __init__(self, raw: ssl.SSLSocket, head: bytes, rest: bytes) -> None:
        self.raw = raw
        lines = head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split(" ")[1])
        self.headers = {key.lower(): value for key, value in (line.split(": ", 1) for line in lines[1:])}
        self._buffer = bytearray(rest)

    def body(self) -> bytes:
        """Returns the rest of an answer that is no 101."""
        length = self.headers.get("content-length")
        while length is None or len(self._buffer) < int(length):
            if not self._more():
                break
        return bytes(self._buffer)

    def document(self) -> Object:
        """Returns the body as JSON."""
        found: Object = json.loads(self.body())
        return found

    def send(self, payload: bytes, opcode: int = 2, *, final: bool = True, masked: bool = True) -> None:
        """Sends one frame. The mask is zero, which RFC 6455 permits."""
        first = (0x80 if final else 0) | opcode
        bit = 0x80 if masked else 0
        size = len(payload)
        if size < 126:
            head = struct.pack("!BB", first, bit | size)
        elif size < 65_536:
            head = struct.pack("!BBH", first, bit | 126, size)
        else:
            head = struct.pack("!BBQ", first, bit | 127, size)
        self.raw.sendall(head + (bytes(4) if masked else b"") + payload)

    def stdin(self, data: bytes) -> None:
        """Sends one message of stdin."""
        self.send(b"\x00" + data)

    def close_stdin(self) -> None:
        """Sends v5's close signal."""
        self.send(b"\xff\x00")

    def frame(self) -> tuple[int, bytes] | None:
        """Returns opcode and payload of the next frame; None at the end of the stream."""
        if not self._need(2):
            return None
        opcode, size = self._buffer[0] & 0x0F, self._buffer[1] & 0x7F
        start = 2
        if size in {126, 127}:
            width = 2 if size == 126 else 8
            if not self._need(2 + width):
                return None
            size = int.from_bytes(self._buffer[2 : 2 + width], "big")
            start = 2 + width
        if not self._need(start + size):
            return None
        payload = bytes(self._buffer[start : start + size])
        del self._buffer[: start + size]
        return opcode, payload

    def finish(self) -> ExecResult:
        """Reads until the close frame or the end of the stream."""
        result = ExecResult()
        while (found := self.frame()) is not None:
            opcode, payload = found
            if opcode == 8:
                result.close_code = int.from_bytes(payload[:2], "big")
                break
            result.messages.append(payload)
        return result

    def _need(self, size: int) -> bool:
        while len(self._buffer) < size:
            if not self._more():
                return False
        return True

    def _more(self) -> bool:
        try:
            data = self.raw.recv(262_144)
        except (ConnectionResetError, ssl.SSLEOFError):
            return False
        self._buffer += data
        return bool(data)


class Client:
    """A client of an embedded cluster, by default with the runner's identity."""

    def __init__(self, cluster: DevCluster, *, http2: bool = False, token: str | None = None) -> None:
        self.cluster = cluster
        environment = cluster.environment()
        self.ca_file = environment["SENRO_K8S_CA_FILE"]
        self.token = Path(environment["SENRO_K8S_TOKEN_FILE"]).read_text() if token is None else token
        headers = {"authorization": f"Bearer {self.token}"} if self.token else {}
        self.http = httpx.Client(
            base_url=cluster.server,
            verify=ssl.create_default_context(cafile=self.ca_file),
            headers=headers,
            http2=http2,
            timeout=WAIT_SECONDS,
            trust_env=False,
        )

    def close(self) -> None:
        self.http.close()

    def create(self, manifest: Object, **query: str) -> Object:
        """Creates a pod and returns it. Fails if the answer is not 201."""
        answer = self.http.post("/api/v1/namespaces/ci/pods", json=manifest, params=query)
        assert answer.status_code == 201, answer.text
        document: Object = answer.json()
        return document

    def pod(self, name: str) -> Object | None:
        answer = self.http.get(f"/api/v1/namespaces/ci/pods/{name}")
        if answer.status_code == 404:
            return None
        document: Object = answer.json()
        return document

    def until(self, name: str, holds: Callable[[Object | None], bool]) -> list[Object | None]:
        """Reads the pod after each change in the cluster until `holds` is true. Returns all states, in order."""
        seen: list[Object | None] = []
        version = ""
        end = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < end:
            stored = self.cluster.version
            pod = self.pod(name)
            now = pod["metadata"]["resourceVersion"] if pod is not None else "gone"
            if now != version:
                seen.append(pod)
                version = now
            if holds(pod):
                return seen
            self.cluster.changed_since(stored, within=LOOK_SECONDS)
        raise AssertionError(f"{name} did not reach the expected state; last: {seen[-1]}")

    def finished(self, name: str) -> Object:
        """Returns the pod once its phase is final."""
        last = self.until(name, lambda pod: pod is not None and pod["status"]["phase"] in {"Succeeded", "Failed"})[-1]
        assert last is not None
        return last

    def running(self, name: str, container: str = "step") -> Object:
        """Returns the pod once the container runs."""
        last = self.until(name, lambda pod: pod is not None and "running" in state_of(pod, container))[-1]
        assert last is not None
        return last

    def log(self, name: str, container: str = "step", **query: str) -> httpx.Response:
        return self.http.get(f"/api/v1/namespaces/ci/pods/{name}/log", params={"container": container, **query})

    def delete(self, name: str, **options: Any) -> httpx.Response:
        return self.http.request("DELETE", f"/api/v1/namespaces/ci/pods/{name}", json=options)

    @contextmanager
    def exec(
        self,
        name: str,
        command: list[str],
        *,
        container: str | None = "step",
        stdin: bool = False,
        stdout: bool = True,
        stderr: bool = True,
        tty: bool = False,
        protocol: str | None = V5,
        headers: dict[str, str] | None = None,
        namespace: str = "ci",
        method: str = "GET",
    ) -> Iterator[Socket]:
        """Opens an exec and yields its connection after the handshake, also if it was refused."""
        query = [("container", container)] if container else []
        query += [("command", word) for word in command]
        query += [
            (key, "true")
            for key, wanted in (("stdin", stdin), ("stdout", stdout), ("stderr", stderr), ("tty", tty))
            if wanted
        ]
        target = f"/api/v1/namespaces/{namespace}/pods/{quote(name)}/exec?{urlencode(query)}"
        fields = {
            "Host": "127.0.0.1",
            "Authorization": f"Bearer {self.token}",
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(),
            "Sec-WebSocket-Version": "13",
            **({"Sec-WebSocket-Protocol": protocol} if protocol else {}),
            **(headers or {}),
        }
        request = f"{method} {target} HTTP/1.1\r\n" + "".join(f"{key}: {value}\r\n" for key, value in fields.items())
        with self.connect() as raw:
            raw.sendall(request.encode() + b"\r\n")
            received = b""
            while b"\r\n\r\n" not in received:
                data = raw.recv(65_536)
                if not data:
                    raise ConnectionError("the connection ended before an answer")
                received += data
            head, _, rest = received.partition(b"\r\n\r\n")
            yield Socket(raw, head, rest)

    def connect(self) -> ssl.SSLSocket:
        """Returns a TLS connection for HTTP/1.1."""
        context = ssl.create_default_context(cafile=self.ca_file)
        raw = socket.create_connection(("127.0.0.1", self.cluster.port), timeout=WAIT_SECONDS)
        return context.wrap_socket(raw, server_hostname="127.0.0.1")

    def run(self, name: str, command: list[str], **options: Any) -> ExecResult:
        """Runs an exec to its end."""
        with self.exec(name, command, **options) as session:
            assert session.status == 101, session.body()
            return session.finish()


def statuses(pod: Object) -> dict[str, Object]:
    """Returns the status of each container by name."""
    status = pod["status"]
    return {
        entry["name"]: entry
        for entry in [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    }


def state_of(pod: Object, container: str) -> Object:
    """Returns a container's `state`; {} if it has none yet."""
    state: Object = statuses(pod).get(container, {}).get("state", {})
    return state


def summary(pod: Object | None) -> Any:
    """Returns what must agree with a recording: no times, ids, addresses or image names."""
    if pod is None:
        return None
    meta, status = pod["metadata"], pod["status"]
    conditions = {
        condition["type"]: (condition["status"], condition.get("reason"), condition.get("message"))
        for condition in status.get("conditions", [])
    }
    return {
        "phase": status["phase"],
        "reason": status.get("reason"),
        "deleting": meta.get("deletionGracePeriodSeconds"),
        "conditions": conditions,
        "init": [_container(entry) for entry in status.get("initContainerStatuses", [])],
        "containers": [_container(entry) for entry in status.get("containerStatuses", [])],
    }


def _container(entry: Object) -> Any:
    ((kind, state),) = entry["state"].items()
    known = {key: state.get(key) for key in ("reason", "exitCode") if key in state}
    if kind == "terminated" and state["reason"] == "StartError":
        known["startedAt"] = state["startedAt"]
        known["message"] = state["message"].rpartition("unable to start container process: ")[2]
    return entry["name"], kind, known, entry["ready"], entry["started"], bool(entry.get("containerID"))


def recorded_states(name: str, pod: str) -> list[Any]:
    """Returns the summaries of a recorded pod's GETs, without repetitions."""
    found: list[Any] = []
    for exchange in recording(name)["exchanges"]:
        request, document = exchange["request"], exchange["response"].get("json")
        if request["method"] == "GET" and request["path"].endswith(f"/pods/{pod}"):
            state = summary(document) if document is not None and document["kind"] == "Pod" else None
            if not found or found[-1] != state:
                found.append(state)
    return found
