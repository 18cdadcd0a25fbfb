"""GET pods/exec: what is refused before the 101, and the session behind it (recordings exec-basics, exec-forbidden)."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import anyio

from senro.devcluster.apiserver.exec_session import ExecSession, Wants
from senro.devcluster.apiserver.http import Response, Upgrade, json_response, text_response
from senro.devcluster.apiserver.logs import container_name
from senro.devcluster.apiserver.status import bad_request, failure
from senro.devcluster.apiserver.subprotocols import V5, Subprotocol, choose
from senro.devcluster.apiserver.websocket import accept_headers, close_frame
from senro.devcluster.containers.pipes import input_pipe, output_pipe, terminal_ends
from senro.devcluster.containers.runtime import ExecError
from senro.devcluster.kubelet.node import kubelet_translates

if TYPE_CHECKING:
    from anyio.streams.tls import TLSStream

    from senro.devcluster.apiserver.http import Answer, Request
    from senro.devcluster.containers.pipes import ReadEnd
    from senro.devcluster.containers.runtime import Container
    from senro.devcluster.faults import Faults
    from senro.devcluster.kubelet.kubelet import Kubelet
    from senro.devcluster.objects import Object

_FIRST_NODE = "10.85.0.1"


@dataclass(frozen=True, slots=True)
class Streams:
    """Which of the command's streams the client asked for."""

    stdin: bool
    stdout: bool
    stderr: bool
    terminal: bool = False

    @property
    def first_channel(self) -> int:
        """The channel of the empty first message (docs/design/exec-protocol.md#the-first-message-is-empty)."""
        if self.stdout:
            return 1
        return 2 if self.stderr else 3


def open_exec(request: Request, pod: Object, kubelet: Kubelet, faults: Faults) -> Answer:
    """Answer with the 101 and a session, or with what the apiserver or the kubelet says instead.

    Before 1.36 the apiserver itself speaks v5: its 101 is sent before anybody asks the kubelet, whose errors then come
    as a status (docs/design/exec-protocol.md#failures-after-the-upgrade).
    """
    asked_container = container_name(request, pod)
    if not pod["spec"].get("nodeName"):
        raise bad_request(f"pod {pod['metadata']['name']} does not have a host assigned")
    refusal = _refuse_handshake(request)
    if refusal is not None:
        return refusal
    terminal = request.flag("tty")
    streams = Streams(
        request.flag("stdin"), request.flag("stdout"), request.flag("stderr") and not terminal, terminal=terminal
    )
    offered = [word.strip() for word in request.headers.get("sec-websocket-protocol", "").split(",") if word.strip()]
    protocol = choose(offered)
    translated_before = V5.name in offered and not kubelet_translates(kubelet.version)
    if faults.refuses_handshake(pod, asked_container):
        answer: Container | _Failure = _unreachable(request, pod, asked_container, _FIRST_NODE)
    elif address := kubelet.unreachable(pod):
        answer = _unreachable(request, pod, asked_container, address)
    else:
        answer = _ask_kubelet(pod, asked_container, streams, kubelet)
    if isinstance(answer, _Failure):
        return _late_failure(request, streams, answer.late) if translated_before else answer.response
    if protocol is None:
        # An empty 403 from the WebSocket server itself: no Status, no RBAC (recording exec-basics).
        return Response(403, (("connection", "close"),), close=True)
    node = kubelet.nodes[pod["spec"]["nodeName"]]
    opened = _Exec(node.gone, answer, pod, asked_container, request.parameters("command"), streams, protocol)

    async def run(stream: TLSStream, first: bytes) -> None:
        await _run(opened, stream, first, kubelet, faults)

    return Upgrade(accept_headers(request.headers["sec-websocket-key"], protocol.name), run)


@dataclass(frozen=True, slots=True)
class _Failure:
    """What the kubelet said instead: as an answer, and as the words of a status that comes behind the 101."""

    response: Response
    late: str


def _unreachable(request: Request, pod: Object, container_name: str, address: str) -> _Failure:
    """A node that does not answer (recording node-lost)."""
    meta = pod["metadata"]
    refused = f"dial tcp {address}:10250: connect: connection refused"
    document: Object = failure(500, "", f"error dialing backend: {refused}")
    del document["reason"]
    names = (("command", "command"), ("stderr", "error"), ("stdin", "input"), ("stdout", "output"), ("tty", "tty"))
    pairs = [
        (theirs, value if ours == "command" else "1") for ours, theirs in names for value in request.parameters(ours)
    ]
    url = f"https://{address}:10250/exec/{meta['namespace']}/{meta['name']}/{container_name}?{urlencode(pairs)}"
    return _Failure(json_response(500, document), f'error sending request: Post "{url}": {refused}')


def _ask_kubelet(pod: Object, container_name: str, streams: Streams, kubelet: Kubelet) -> Container | _Failure:
    """The running container, or why the kubelet has none to enter."""
    if not (streams.stdin or streams.stdout or streams.stderr):
        return _upgrade_failure(400, "you must specify at least 1 of stdin, stdout, stderr")
    kubelet.observe(pod, "read-back", container_name)
    worker = kubelet.worker(pod)
    if worker is None:
        return _upgrade_failure(404, "pod does not exist")
    container = worker.container(container_name)
    return container or _upgrade_failure(500, f'container not found ("{container_name}")')


def _upgrade_failure(code: int, words: str) -> _Failure:
    return _Failure(text_response(code, words), f"unable to upgrade connection: {words}")


def _late_failure(request: Request, streams: Streams, words: str) -> Upgrade:
    """The 101, and then the failure as a status on channel 3."""
    status: Object = {
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {words}",
        "reason": "InternalError",
        "details": {"causes": [{"message": words}]},
        "code": 500,
    }

    async def run(stream: TLSStream, _first: bytes) -> None:
        await stream.send(V5.first(streams.first_channel))
        await stream.send(V5.status(status) + close_frame(1000))

    return Upgrade(accept_headers(request.headers["sec-websocket-key"], V5.name), run)


def _refuse_handshake(request: Request) -> Response | None:
    """What is wrong with the upgrade itself; None where nothing is.

    See docs/design/exec-protocol.md#failures-before-the-upgrade.
    """
    if request.headers.get("upgrade", "").lower() != "websocket" or request.http_version != "HTTP/1.1":
        raise bad_request("Upgrade request required")
    if request.headers.get("sec-websocket-version") != "13":
        return text_response(400, "missing or bad WebSocket Version", (("sec-websocket-version", "13"),))
    if not request.headers.get("sec-websocket-key"):
        return text_response(400, "mismatch challenge/response")
    return None


@dataclass(frozen=True, slots=True)
class _Exec:
    """An exec that was let in. `node_gone` is set when the node's kubelet goes."""

    node_gone: anyio.Event
    container: Container
    pod: Object
    name: str
    command: list[str]
    streams: Streams
    protocol: Subprotocol


async def _run(opened: _Exec, stream: TLSStream, first: bytes, kubelet: Kubelet, faults: Faults) -> None:
    pod, name, streams, protocol = opened.pod, opened.name, opened.streams, opened.protocol
    lost = faults.stdout_kept_back(pod, name)
    # Of two faults of one exec the one that would change nothing any more waits for another exec.
    late = 0 if lost else faults.stdout_after_status(pod, name)
    dropped = False

    def status_delay() -> float:
        nonlocal dropped
        dropped = faults.drops_status(pod, name)
        return 0.0 if dropped else faults.status_delay(pod, name)

    await stream.send(protocol.first(streams.first_channel))
    ends = _Ends(opened.container, streams)
    try:
        process = opened.container.exec(
            opened.command,
            stdin=ends.theirs[0],
            stdout=ends.theirs[1],
            stderr=ends.theirs[2],
            terminal=streams.terminal,
        )
    except ExecError as error:
        ends.close()
        await stream.send(protocol.status(_internal_error(str(error))) + close_frame(1000))
        return
    finally:
        ends.give_away()
    session = ExecSession(
        stream,
        first,
        container=opened.container,
        process=process,
        clock=kubelet.clock,
        cut_off=opened.node_gone,
        stdin=ends.stdin,
        stdout=ends.stdout,
        stderr=ends.stderr,
        wants=Wants(
            stdout=streams.stdout,
            stderr=streams.stderr,
            protocol=protocol,
            terminal=ends.terminal,
            cut=faults.exec_cut(pod, name),
            keep_back=lost or late,
            status_delay=status_delay,
        ),
    )
    # The command outlives its client (docs/design/exec-protocol.md#the-command-outlives-its-client): it belongs to the
    # kubelet's tasks.
    kubelet.tasks.start_soon(session.attend)
    try:
        complete = await session.converse()
    finally:
        if process.exit_code is None:
            kubelet.tasks.start_soon(session.discard)
    if not complete or dropped:
        return
    status = _exit_status(await session.exit_code())
    last = session.kept_back() if late else b""
    await stream.send(protocol.status(status) + last + close_frame(1000))
    with anyio.move_on_after(1):
        # The client's close frame; the server does not insist on it.
        await stream.receive(64)


class _Ends:
    """The descriptors between an exec and its command: three pipes, or one terminal."""

    def __init__(self, container: Container, streams: Streams) -> None:
        self.terminal: int | None = None
        self.stderr: ReadEnd | None = None
        if streams.terminal:
            self.terminal, theirs = container.terminal()
            self.stdin, self.stdout = terminal_ends(self.terminal)
            self.theirs = (theirs, theirs, theirs)
            return
        self.stdout, out = output_pipe()
        self.stderr, err = output_pipe()
        self.stdin, into = input_pipe()
        self.theirs = (into, out, err)
        if not streams.stdin:
            self.stdin.close()

    def give_away(self) -> None:
        """The command has its ends: ours of them are closed."""
        for descriptor in set(self.theirs):
            os.close(descriptor)

    def close(self) -> None:
        """There is no command: our ends are closed."""
        self.stdin.close()
        self.stdout.close()
        if self.stderr is not None:
            self.stderr.close()


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
