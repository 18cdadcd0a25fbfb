"""GET pods/exec: what is refused before the 101, and the session behind it (recordings exec-basics, exec-forbidden)."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
import msgspec

from senro.devcluster.apiserver.exec_session import ExecSession
from senro.devcluster.apiserver.http import Response, Upgrade, text_response
from senro.devcluster.apiserver.logs import container_name
from senro.devcluster.apiserver.status import bad_request
from senro.devcluster.apiserver.websocket import BINARY, accept_headers, close_frame, frame
from senro.devcluster.containers.pipes import input_pipe, output_pipe
from senro.devcluster.containers.runtime import ExecError

if TYPE_CHECKING:
    from anyio.streams.tls import TLSStream

    from senro.devcluster.apiserver.http import Answer, Request
    from senro.devcluster.containers.runtime import Container
    from senro.devcluster.faults import Faults
    from senro.devcluster.kubelet.kubelet import Kubelet
    from senro.devcluster.objects import Object

V5, V4, V1 = "v5.channel.k8s.io", "v4.channel.k8s.io", "channel.k8s.io"
_SERVED = (V5, V4, V1)


@dataclass(frozen=True, slots=True)
class Streams:
    """Which of the command's streams the client asked for."""

    stdin: bool
    stdout: bool
    stderr: bool

    @property
    def first_channel(self) -> int:
        """The channel of the empty first message (facts/exec-protocol.md section 5)."""
        if self.stdout:
            return 1
        return 2 if self.stderr else 3


def open_exec(request: Request, pod: Object, kubelet: Kubelet, faults: Faults) -> Answer:
    """Answer with the 101 and a session, or with what the apiserver or the kubelet says instead."""
    asked_container = container_name(request, pod)
    if not pod["spec"].get("nodeName"):
        raise bad_request(f"pod {pod['metadata']['name']} does not have a host assigned")
    if request.flag("tty"):
        raise bad_request("the embedded cluster gives no terminals: exec without tty")
    refusal = _refuse_handshake(request)
    if refusal is not None:
        return refusal
    if faults.refuses_handshake():
        return text_response(500, "error dialing backend: dial tcp 10.85.0.1:10250: connect: connection refused")
    streams = Streams(request.flag("stdin"), request.flag("stdout"), request.flag("stderr"))
    if not (streams.stdin or streams.stdout or streams.stderr):
        return text_response(400, "you must specify at least 1 of stdin, stdout, stderr")
    kubelet.observe(pod, "reading", asked_container)
    worker = kubelet.worker(pod)
    container = worker.container(asked_container) if worker is not None else None
    if container is None:
        return text_response(500, f'container not found ("{asked_container}")')
    offered = [word.strip() for word in request.headers.get("sec-websocket-protocol", "").split(",") if word.strip()]
    protocol = next((word for word in offered if word in _SERVED), "")
    if offered and not protocol:
        # An empty 403 from the WebSocket server itself: no Status, no RBAC (recording exec-basics).
        return Response(403, (("connection", "close"),), close=True)
    opened = _Exec(container, asked_container, request.parameters("command"), streams, protocol or V1)

    async def run(stream: TLSStream, first: bytes) -> None:
        await _run(opened, stream, first, kubelet, faults)

    return Upgrade(accept_headers(request.headers["sec-websocket-key"], protocol), run)


def _refuse_handshake(request: Request) -> Response | None:
    """What is wrong with the upgrade itself (facts/exec-protocol.md section 8); None where nothing is."""
    if request.headers.get("upgrade", "").lower() != "websocket" or request.http_version != "HTTP/1.1":
        raise bad_request("Upgrade request required")
    if request.headers.get("sec-websocket-version") != "13":
        return text_response(400, "missing or bad WebSocket Version", (("sec-websocket-version", "13"),))
    if not request.headers.get("sec-websocket-key"):
        return text_response(400, "mismatch challenge/response")
    return None


@dataclass(frozen=True, slots=True)
class _Exec:
    """An exec that was let in."""

    container: Container
    name: str
    command: list[str]
    streams: Streams
    protocol: str


async def _run(opened: _Exec, stream: TLSStream, first: bytes, kubelet: Kubelet, faults: Faults) -> None:
    name, streams, protocol = opened.name, opened.streams, opened.protocol
    await stream.send(frame(BINARY, bytes((streams.first_channel,))))
    out, their_out = output_pipe()
    err, their_err = output_pipe()
    inward, their_in = input_pipe()
    if not streams.stdin:
        inward.close()
    try:
        process = opened.container.exec(opened.command, stdin=their_in, stdout=their_out, stderr=their_err)
    except ExecError as error:
        for end in (out, err, inward):
            end.close()
        await stream.send(_status_frame(protocol, _internal_error(str(error))) + close_frame(1000))
        return
    finally:
        _close(their_in, their_out, their_err)
    session = ExecSession(
        stream,
        first,
        process=process,
        stdin=inward,
        stdout=out,
        stderr=err,
        wants_stdout=streams.stdout,
        wants_stderr=streams.stderr,
        half_close=protocol == V5,
        cut=faults.exec_cut(name),
        keep_back=faults.stdout_kept_back(name),
    )
    # The command outlives its client (facts/exec-protocol.md section 9): it belongs to the kubelet's tasks.
    kubelet.tasks.start_soon(session.attend)
    try:
        complete = await session.converse()
    finally:
        if process.exit_code is None:
            kubelet.tasks.start_soon(session.discard)
    if not complete:
        return
    if faults.drops_status(name):
        return
    status = _exit_status(process.exit_code or 0)
    await stream.send(_status_frame(protocol, status) + close_frame(1000))
    with anyio.move_on_after(1):
        # The client's close frame; the server does not insist on it.
        await stream.receive(64)


def _status_frame(protocol: str, status: Object) -> bytes:
    if protocol == V1:
        # The oldest protocol says nothing on success and plain text on failure.
        return b"" if status["status"] == "Success" else frame(BINARY, b"\x03" + str(status["message"]).encode())
    return frame(BINARY, b"\x03" + msgspec.json.encode(status))


def _exit_status(code: int) -> Object:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: command terminated with exit code {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def _internal_error(words: str) -> Object:
    identifier = uuid.uuid4().hex + uuid.uuid4().hex
    cause = (
        "Internal error occurred: error executing command in container: failed to exec in container: failed to start "
        f'exec "{identifier}": OCI runtime exec failed: {words}'
    )
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {cause}",
        "reason": "InternalError",
        "details": {"causes": [{"message": cause}]},
        "code": 500,
    }


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
