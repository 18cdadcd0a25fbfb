"""Replays a recorded scenario against the embedded cluster: the same requests in the same order, with their answers.

Names of pods are kept. Uids, resourceVersions, times, addresses and hexadecimal ids are replaced by words, and images
by those of the embedded cluster. The states of a pod are compared as a sequence, other answers one by one.
"""

from __future__ import annotations

import base64
import contextlib
import difflib
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from senro.devcluster import DevCluster, DevClusterThread
from senro.devcluster.clock import VirtualClock
from tests.lib.harness.devcluster import Client, Object, Socket, recording
from tests.lib.replay.surroundings import (
    OPTIONS,
    TIME_SCALE,
    World,
    identity_of,
    prepare,
    shorten,
    with_mapped_commands,
)

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_ID = re.compile(r"\b[0-9a-f]{64}\b")
_ADDRESS = re.compile(r"\b10\.\d+\.\d+\.\d+\b")
_NOT_COMPARED = frozenset({"managedFields", "image", "imageID"})
"""Fields of the recorder's client, and ids of images, which the embedded cluster replaces."""

_SETTLE = 4.0
"""Maximum seconds to wait for a recorded state. After that it is reported as missing."""


_ADVANCE_AFTER, _ADVANCE = 1.5, 0.5
"""Seconds after which each check advances the cluster's clock, and by how much: for back-offs and graces."""

_LOOK = 0.02
"""Seconds between two checks while no object changes."""


@dataclass
class Outcome:
    """The comparison of one exchange.

    `equal`: whether the answers were equal. The message of a failure shows both.
    """

    scenario: str
    position: int
    what: str
    expected: Any
    got: Any

    @property
    def key(self) -> tuple[str, int]:
        """The scenario and the position."""
        return self.scenario, self.position

    @property
    def equal(self) -> bool:
        return bool(self.expected == self.got)

    def __str__(self) -> str:
        expected = json.dumps(self.expected, indent=1, default=str, sort_keys=True).splitlines()
        got = json.dumps(self.got, indent=1, default=str, sort_keys=True).splitlines()
        lines = list(difflib.unified_diff(expected, got, "recorded", "embedded", lineterm="", n=2))[2:]
        shown = "\n".join(f"    {line[:260]}" for line in lines[:24])
        return f"({self.scenario!r}, {self.position}): {self.what}\n{shown}"


def normalise(value: Any, key: str = "") -> Any:
    """Returns a document without what differs between clusters."""
    if isinstance(value, dict):
        return {name: normalise(item, name) for name, item in value.items() if name not in _NOT_COMPARED}
    if isinstance(value, list):
        return [normalise(item) for item in value]
    if key == "resourceVersion" and value:
        return "VERSION"
    return shorten(normalise_text(value)) if isinstance(value, str) else value


def normalise_text(value: str) -> str:
    """Returns a text with its times, ids and addresses replaced."""
    value = _TIME.sub("TIME", value)
    value = _UID.sub("UID", value)
    return _ADDRESS.sub("ADDRESS", _ID.sub("ID", value))


def comparable_state(pod: Object | None) -> Any:
    """Returns what a sequence of pod states is compared by; None for a pod that is gone."""
    if pod is None or pod.get("kind") == "Status":
        return None
    meta, status = pod["metadata"], pod["status"]
    return normalise(
        {
            "phase": status["phase"],
            "reason": status.get("reason"),
            "message": status.get("message"),
            "deleting": meta.get("deletionGracePeriodSeconds"),
            "generation": meta.get("generation"),
            "conditions": [
                {key: item.get(key) for key in ("type", "status", "reason", "message", "observedGeneration")}
                for item in status.get("conditions", [])
            ],
            "init": [_container(item) for item in status.get("initContainerStatuses", [])],
            "containers": [_container(item) for item in status.get("containerStatuses", [])],
        }
    )


def _container(status: Object) -> Object:
    shown = {key: status.get(key) for key in ("name", "state", "lastState", "ready", "started", "restartCount")}
    shown["id"] = bool(status.get("containerID"))
    return {**shown, "volumeMounts": status.get("volumeMounts"), "user": status.get("user")}


@dataclass
class Replay:
    """A scenario on a cluster of its own."""

    scenario: str
    cluster: DevCluster
    outcomes: list[Outcome] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.document = recording(self.scenario)
        self.world = World(self.cluster, self.scenario)
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._expected: dict[str, list[tuple[int, Any]]] = {}
        self._skipped: set[int] = set()

    def run(self) -> list[Outcome]:
        """Replays all exchanges in order. Returns the outcomes by position."""
        exchanges = self.document["exchanges"]
        prepare(self.world)
        items: list[tuple[float, int, Any]] = [(e["at"], n, e) for n, e in enumerate(exchanges)]
        items += [(note["at"], -1, note["note"]) for note in self.document["notes"]]
        items.sort(key=lambda item: item[0])
        try:
            for index, (_, position, item) in enumerate(items):
                if position < 0:
                    self._reach()
                    self.world.act(item)
                    continue
                following = items[index + 1][0] if index + 1 < len(items) else float("inf")
                overlaps = _end_of(item) > following or (self.scenario, position) == ("watch", 1)
                self._exchange(position, item, overlaps=overlaps)
            self._reach()
            for thread in self._threads:
                thread.join(30)
            for name, expected in self._expected.items():
                self._compare_states(name, expected)
        finally:
            self.world.close()
        return sorted(self.outcomes, key=lambda outcome: outcome.position)

    # --- one exchange ------------------------------------------------------------------------------------------

    def _exchange(self, position: int, exchange: Object, *, overlaps: bool) -> None:
        request = exchange["request"]
        if pod := _polled(exchange):
            self._expected.setdefault(pod, []).append((position, comparable_state(exchange["response"].get("json"))))
            return
        self._reach()
        identity = identity_of(self.scenario, position, self.world)
        client = self.world.client(identity)
        if request["path"].endswith("/exec") and "sec-websocket-protocol" in request["headers"]:
            perform: Callable[[threading.Event], Any] = lambda started: self._exec(client, exchange, started)  # noqa: E731 - chosen from three, called once
            expected = _exec_expected(exchange)
        elif "chunks" in exchange["response"] and "watch" in dict(request["query"]):
            perform = lambda started: self._watch(client, exchange, started)  # noqa: E731 - as above
            expected = _watch_expected(exchange)
        else:
            perform = lambda started: self._plain(client, exchange, started)  # noqa: E731 - as above
            expected = _plain_expected(exchange)
        what = f"{request['method']} {request['path']}"

        def record(started: threading.Event) -> None:
            try:
                got: Any = perform(started)
            except (httpx.HTTPError, OSError, AssertionError) as error:
                got = f"{type(error).__name__}: {error}"
            with self._lock:
                self.outcomes.append(Outcome(self.scenario, position, what, expected, got))

        started = threading.Event()
        if not overlaps:
            record(started)
            return
        thread = threading.Thread(target=record, args=(started,))
        thread.start()
        self._threads.append(thread)
        started.wait(_SETTLE)
        self.world.during(self.scenario, position)

    def _reach(self) -> None:
        """Waits until every pod is in its last recorded state, or gives up; the comparison reports the difference."""
        end = time.monotonic() + self.world.wait_seconds(_SETTLE)
        for name, expected in self._expected.items():
            position, last = expected[-1]
            times = sum(value == last for value in _without_repetitions(value for _, value in expected))
            begun = time.monotonic()
            version = self.cluster.version
            while self._states_so_far(name).count(last) < times and position not in self._skipped:
                if time.monotonic() > end:
                    self._skipped.add(position)
                if time.monotonic() - begun > _ADVANCE_AFTER:
                    self.cluster.advance(_ADVANCE)
                self.cluster.changed_since(version, within=_LOOK)
                version = self.cluster.version

    def _states_so_far(self, name: str) -> list[Any]:
        """Returns the states of the pod so far, with None at the end if it is gone."""
        seen = _without_repetitions(comparable_state(document) for document in self.cluster.states("ci", name))
        return seen if self.world.pod(name) is not None else [*seen, None]

    def _compare_states(self, name: str, expected: list[tuple[int, Any]]) -> None:
        stored = self._states_so_far(name)
        wanted = _without_repetitions(value for _, value in expected)
        matcher = difflib.SequenceMatcher(
            None, [json.dumps(value) for value in wanted], [json.dumps(value) for value in stored], autojunk=False
        )
        pairs: dict[int, Any] = {}
        last = -1
        for _, first, end, other, other_end in matcher.get_opcodes():
            for offset in range(end - first):
                there = other + offset
                if there < other_end:
                    last = there
                pairs[first + offset] = stored[there] if there < other_end else (stored[last] if last >= 0 else {})
        step = -1
        for number, (position, value) in enumerate(expected):
            if not number or expected[number - 1][1] != value:
                step += 1
            got = pairs[step]
            self.outcomes.append(Outcome(self.scenario, position, f"state {step} of {name}", value, got))

    # --- requests by kind --------------------------------------------------------------------------------------

    def _plain(self, client: Client, exchange: Object, started: threading.Event) -> Any:
        request = exchange["request"]
        body = self._body(request)
        headers = {key: value for key, value in request["headers"].items() if key.lower() != "sec-websocket-version"}
        query: list[tuple[str, Any]] = [(key, value) for key, value in request["query"]]
        with client.http.stream(request["method"], request["path"], params=query, content=body, headers=headers) as got:
            pieces = bytearray()
            with contextlib.suppress(httpx.RemoteProtocolError):
                for piece in got.iter_raw():
                    started.set()
                    pieces += piece
            started.set()
            return _shown(got.status_code, got.headers.get("content-type", ""), bytes(pieces))

    def _body(self, request: Object) -> bytes | None:
        if "base64" in request:
            return base64.b64decode(request["base64"])
        if "json" not in request:
            return None
        document = json.loads(json.dumps(request["json"]))
        return json.dumps(self.world.map_body(document)).encode()

    def _watch(self, client: Client, exchange: Object, started: threading.Event) -> Any:
        request = exchange["request"]
        query = {key: self.world.watch_parameter(key, value) for key, value in request["query"]}
        with client.http.stream("GET", request["path"], params=query) as answer:
            started.set()
            if answer.is_success:
                return {"status": answer.status_code, "events": _events(answer.iter_lines())}
            return _shown(answer.status_code, answer.headers.get("content-type", ""), answer.read())

    def _exec(self, client: Client, exchange: Object, started: threading.Event) -> Any:
        request = exchange["request"]
        query = request["query"]
        offered = {key: value for key, value in request["headers"].items() if key.lower() == "sec-websocket-protocol"}
        with _open_exec(client, request["method"], request["path"], query, offered) as session:
            if session.status != 101:
                started.set()
                return _shown(session.status, session.headers.get("content-type", ""), session.body())
            protocol = session.headers.get("sec-websocket-protocol", "")
            got = _Received(session)
            got.start()
            self._send_frames(session, exchange, got)
            started.set()
            how = _how_it_ended(exchange)
            if how == "hung up":
                got.wait_for(sum(_server_sizes(exchange)), 2.0)
                session.raw.shutdown(socket.SHUT_RDWR)
            elif how == "stood still":
                got.finished.wait(2.0)
                if not got.finished.is_set():
                    session.raw.shutdown(socket.SHUT_RDWR)
                    got.finished.wait(5)
            got.finished.wait(self.world.wait_seconds(15))
            return _exec_shown(protocol, how if got.close_code is None else f"closed {got.close_code}", got.messages)

    def _send_frames(self, session: Socket, exchange: Object, got: _Received) -> None:
        before = 0
        for frame in exchange["frames"]:
            if frame["from"] == "server":
                before += frame["len"] if frame["opcode"] == "binary" else 0
            elif frame["opcode"] == "binary":
                got.wait_for(before, 1.0)
                with contextlib.suppress(OSError, ssl.SSLError):
                    session.raw.settimeout(1.0)
                    session.send(_payload(frame))


class _Received(threading.Thread):
    """Reads the frames of an exec while others are sent."""

    def __init__(self, session: Socket) -> None:
        super().__init__(daemon=True)
        self._session = session
        self._changed = threading.Condition()
        self._bytes = 0
        self.messages: list[bytes] = []
        self.close_code: int | None = None
        self.finished = threading.Event()

    def run(self) -> None:
        with contextlib.suppress(OSError, ssl.SSLError):
            while (found := self._frame()) is not None:
                opcode, payload = found
                if opcode == 8:
                    self.close_code = int.from_bytes(payload[:2], "big")
                    break
                with self._changed:
                    self.messages.append(payload)
                    self._bytes += len(payload)
                    self._changed.notify_all()
        self.finished.set()
        with self._changed:
            self._changed.notify_all()

    def _frame(self) -> tuple[int, bytes] | None:
        while True:
            try:
                return self._session.frame()
            except TimeoutError:
                continue

    def wait_for(self, size: int, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._bytes >= size or self.finished.is_set(), seconds)


@contextlib.contextmanager
def _open_exec(
    client: Client, method: str, path: str, query: list[list[str]], headers: dict[str, str]
) -> Iterator[Socket]:
    target = path + "?" + str(httpx.QueryParams([(key, value) for key, value in query]))
    fields = {
        "Host": "127.0.0.1",
        "Authorization": f"Bearer {client.token}",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(),
        "Sec-WebSocket-Version": "13",
        **headers,
    }
    lines = "".join(f"{key}: {value}\r\n" for key, value in fields.items())
    with client.connect() as raw:
        raw.sendall(f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode())
        received = b""
        while b"\r\n\r\n" not in received:
            data = raw.recv(65_536)
            if not data:
                raise ConnectionError("the connection ended before an answer")
            received += data
        head, _, rest = received.partition(b"\r\n\r\n")
        yield Socket(raw, head, rest)


def _without_repetitions(values: Iterable[Any]) -> list[Any]:
    """Returns each value that differs from the previous one."""
    found: list[Any] = []
    for value in values:
        if not found or found[-1] != value:
            found.append(value)
    return found


# --- recorded answers, in the form that is compared ----------------------------------------------------------


def _polled(exchange: Object) -> str:
    """Returns the name of the pod whose state this exchange polls, or ""."""
    request, answer = exchange["request"], exchange["response"]
    parts = request["path"].split("/")
    if request["method"] != "GET" or len(parts) != 7 or parts[5] != "pods" or parts[4] != "ci":
        return ""
    gone = answer["status"] == 404 and parts[6].startswith("r-")
    return parts[6] if answer["status"] == 200 or gone else ""


def _end_of(exchange: Object) -> float:
    ends = [exchange["response"].get("at", 0)]
    ends += [part["at"] for part in (exchange["response"].get("ended"), exchange.get("ended")) if part]
    return float(max(ends))


def _body_of(answer: Object) -> bytes:
    if "json" in answer:
        return json.dumps(answer["json"]).encode()
    if "base64" in answer:
        return base64.b64decode(answer["base64"])
    return b"".join(base64.b64decode(chunk["base64"]) for chunk in answer.get("chunks", []))


def _plain_expected(exchange: Object) -> Any:
    answer = exchange["response"]
    if "json" in answer:
        answer = {**answer, "json": with_mapped_commands(answer["json"])}
    return _shown(answer["status"], answer["headers"].get("content-type", ""), _body_of(answer))


def _shown(status: int, content_type: str, body: bytes) -> Any:
    kind = content_type.partition(";")[0]
    if kind == "application/json" and body:
        return {"status": status, "type": kind, "body": normalise(json.loads(body))}
    return {"status": status, "type": kind, "body": normalise_text(body.decode("utf-8", "replace"))}


def _events(lines: Iterable[str | bytes]) -> list[Any]:
    """The events of a watch without its bookmarks, which are optional: the embedded cluster sends none."""
    return [_event(event) for event in map(json.loads, lines) if event["type"] != "BOOKMARK"]


def _event(event: Object) -> Any:
    document = event["object"]
    if document.get("kind") == "Pod":
        return [event["type"], comparable_state(document)]
    shown = normalise(document)
    if event["type"] == "ERROR":
        shown["message"] = re.sub(r"\d+", "N", shown["message"])
    return [event["type"], shown]


def _watch_expected(exchange: Object) -> Any:
    return {"status": exchange["response"]["status"], "events": _events(_body_of(exchange["response"]).splitlines())}


def _payload(frame: Object) -> bytes:
    return base64.b64decode(frame.get("base64") or frame["head_base64"]).ljust(frame["len"], b"\0")


def _server_sizes(exchange: Object) -> list[int]:
    return [f["len"] for f in exchange["frames"] if f["from"] == "server" and f["opcode"] == "binary"]


def _how_it_ended(exchange: Object) -> str:
    how = exchange["ended"]["how"]
    if how == "close frame":
        return "closed 1000"
    return "hung up" if "without a close frame" in how else "stood still"


def _exec_expected(exchange: Object) -> Any:
    answer = exchange["response"]
    if answer["status"] != 101:
        return _plain_expected(exchange)
    frames = exchange["frames"]
    messages = [_payload(f) for f in frames if f["from"] == "server" and f["opcode"] == "binary"]
    protocol = answer["headers"].get("sec-websocket-protocol", "")
    return _exec_shown(protocol, _how_it_ended(exchange), messages)


def _exec_shown(protocol: str, how: str, messages: list[bytes]) -> Any:
    channels = {
        number: b"".join(message[1:] for message in messages if message[:1] == bytes((number,))) for number in (1, 2, 3)
    }
    status = normalise(json.loads(channels[3])) if channels[3] else None
    # A tar contains times and owners, so only its size is compared.
    shown = [
        f"{len(data)} bytes" if len(data) > 2000 else normalise_text(data.decode("utf-8", "replace"))
        for data in (channels[1], channels[2])
    ]
    first = messages[0].hex() if messages else ""
    return {"protocol": protocol, "first": first, "stdout": shown[0], "stderr": shown[1], "status": status, "end": how}


def replay(scenario: str) -> list[Outcome]:
    """Replays a scenario on a cluster of its own."""
    with DevClusterThread(namespaces=("ci",), time_scale=TIME_SCALE, clock=VirtualClock(), **OPTIONS) as cluster:
        return Replay(scenario, cluster).run()
