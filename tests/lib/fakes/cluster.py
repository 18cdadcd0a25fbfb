"""A cluster in memory, without a kubelet: the test sets the status of a pod, or gives its course in advance.

Each method has a queue of faults: `fail("create_pod", error)` makes the next call raise, with `effect=True` after it
took effect (a lost answer); `hang("create_pod")` makes the next call wait forever. The test also sets the commands of
execs, and where a followed log ends.

More than 500 lines: the fake of one port, whose pods, logs, execs and leases share their faults and their calls.
"""

from __future__ import annotations

import copy
import itertools
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import anyio

from senro.domain.claims.lease import Lease, decode_lease
from senro.domain.errors import ApiError, ClusterError, ErrorResponse, StreamBroken
from senro.domain.kube.event import ClusterEvent
from senro.domain.kube.exec_protocol import Ended, ExecEvent, ExecFailure, ExecResult, Stderr, Stdout
from senro.domain.kube.pod import Pod, pod_from
from senro.domain.kube.status import api_error
from senro.ports.clock import Clock
from senro.ports.cluster import Manifest

T = TypeVar("T")
Key = tuple[str, str]
Course = Callable[[Manifest], Sequence[Mapping[str, Any]]]
"""The statuses of a pod, one for each read; the last one remains."""

RUNNING = {"running": {"startedAt": "2026-11-29T10:00:00Z"}}
CONTAINER_FIELDS = {
    *("name", "image", "imagePullPolicy", "command", "args", "env", "workingDir", "volumeMounts", "resources"),
    *("securityContext", "terminationMessagePolicy"),
}


def waiting(reason: str = "ContainerCreating") -> dict[str, Any]:
    """Returns the status of a pod whose step waits."""
    return {"phase": "Pending", "containerStatuses": [{"name": "step", "state": {"waiting": {"reason": reason}}}]}


def running() -> dict[str, Any]:
    """Returns the status of a pod whose step runs."""
    return {"phase": "Running", "containerStatuses": [{"name": "step", "state": RUNNING}]}


def ended(code: int = 0) -> dict[str, Any]:
    """Returns the status of a pod whose step has ended."""
    end = {
        "exitCode": code,
        "reason": "Completed" if code == 0 else "Error",
        "startedAt": "2026-11-29T10:00:00Z",
        "finishedAt": "2026-11-29T10:00:10Z",
    }
    return {
        "phase": "Failed" if code else "Succeeded",
        "containerStatuses": [{"name": "step", "state": {"terminated": end}}],
    }


def refusal(
    operation: str, code: int, reason: str = "", message: str = "", retry_after: float | None = None
) -> ApiError:
    """Returns the error of an adapter for such an answer."""
    return api_error(operation, ErrorResponse(code, reason, message, retry_after=retry_after))


@dataclass
class Fault:
    """What happens at the next call.

    `error`: is raised; None means that the call waits forever.
    `effect`: whether the call takes effect first.
    """

    error: ClusterError | None
    effect: bool


@dataclass
class Log:
    """The log of a container, whole lines with their times. Followers get what is added."""

    content: bytes = b""
    ended: bool = False
    changed: anyio.Event = field(default_factory=anyio.Event)

    def add(self, data: bytes) -> None:
        self.content += data
        self._wake()

    def end(self) -> None:
        self.ended = True
        self._wake()

    def _wake(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()

    def place(self, since: str | None) -> int:
        """Returns the offset of the first line of `since`, which has whole seconds."""
        at = 0
        for line in self.content.splitlines(keepends=True):
            if since is None or line[:19].decode() >= since[:19]:
                break
            at += len(line)
        return at


@dataclass
class Cut:
    """Ends the next followed log after `after` bytes, with `error`, or normally if it is None."""

    after: int
    error: ClusterError | None


class RemoteSide:
    """An exec, as its command sees it."""

    def __init__(self, container: str, command: Sequence[str], *, stdin: bool) -> None:
        self.container = container
        self.command = tuple(command)
        self._input, self.received = anyio.create_memory_object_stream[bytes](4)
        self.events, self._output = anyio.create_memory_object_stream[ExecEvent](4)[::-1]
        self.stdin = stdin
        self.moved = anyio.Event()
        self.sent = self.taken = 0
        """The messages of stdin that were sent and read."""

    def wake(self) -> None:
        self.moved.set()
        self.moved = anyio.Event()

    async def read(self) -> bytes:
        """Returns the next message of stdin; b"" at its end."""
        try:
            piece = await self.received.receive()
        except anyio.EndOfStream:
            return b""
        self.taken += 1
        self.wake()
        return piece

    async def stdout(self, data: bytes) -> None:
        await self._output.send(Stdout(data))

    async def stderr(self, data: bytes) -> None:
        await self._output.send(Stderr(data))


Command = Callable[[RemoteSide], Awaitable[ExecResult]]
"""The behaviour of a command. It returns its result, or raises the `ClusterError` that breaks the stream."""


async def _missing(far: RemoteSide) -> ExecResult:
    return ExecFailure("InternalError", f"{far.command[0]}: executable file not found in $PATH")


def _decoded(stored: Mapping[str, Any]) -> Lease:
    return decode_lease(json.dumps(stored).encode())


class FakeExec:
    """An `ExecSession` on a `RemoteSide`."""

    def __init__(self, operation: str, far: RemoteSide) -> None:
        self._operation = operation
        self._far = far
        self.broken: ClusterError | None = None
        self.over = anyio.Event()

    async def send(self, data: bytes | memoryview) -> None:
        if self.over.is_set():
            raise StreamBroken(self._operation, cause="the stream has ended")
        try:
            await self._far._input.send(bytes(data))
            self._far.sent += 1
        except anyio.BrokenResourceError:
            raise StreamBroken(self._operation, cause="nobody reads") from None

    async def close_stdin(self) -> None:
        self._far._input.close()

    async def wait_until_received(self) -> None:
        if self.over.is_set():
            raise StreamBroken(self._operation, cause="the stream has ended")
        before = self._far.sent
        while self._far.taken < before and not self.over.is_set():
            await self._far.moved.wait()
        if self.over.is_set():
            raise StreamBroken(self._operation, cause="the stream has ended")

    async def receive(self) -> ExecEvent:
        try:
            return await self._far.events.receive()
        except anyio.EndOfStream:
            raise self.broken or StreamBroken(self._operation, cause="cut") from None


class FakeCluster:
    """A `Cluster` in memory.

    `calls`: the names of the called methods, in order.
    `pods`, `secrets`, `leases`: the objects, as JSON.
    """

    def __init__(
        self, clock: Clock, *, course: Course = lambda _: [waiting()], namespaces: Sequence[str] = ("ci",)
    ) -> None:
        self._clock = clock
        self._course = course
        self._namespaces = namespaces
        self._count = itertools.count(1)
        self._faults: dict[str, deque[Fault]] = {}
        self._courses: dict[str, deque[Mapping[str, Any]]] = {}
        self._due: dict[Key, float] = {}
        self.calls: list[str] = []
        self.graces: list[int | None] = []
        self.pods: dict[Key, dict[str, Any]] = {}
        self.secrets: dict[Key, dict[str, Any]] = {}
        self.leases: dict[Key, dict[str, Any]] = {}
        self.stubborn = False
        """Whether processes ignore SIGTERM, so that a deleted pod exists until the end of its grace period."""
        self.shows_ends = False
        """Whether a pod shows for 0.8 s that its deletion ended the step, before it is removed, as by a kubelet."""
        self.logs: dict[tuple[str, str, str], Log] = {}
        self.cuts: deque[Cut] = deque()
        self.openings: list[str | None] = []
        self.piece = 7
        """The size of the pieces of a followed log."""
        self.commands: deque[Command] = deque()
        self.command: Command = _missing
        """The command of an exec for which `commands` has none."""
        self.execs: list[RemoteSide] = []
        self.open_streams = 0
        self.events: dict[Key, tuple[ClusterEvent, ...]] | None = None
        """The Events by namespace and uid; None if the identity may not list them."""

    @property
    def address(self) -> str:
        return "https://fake.invalid:6443"

    async def version(self) -> str:
        await anyio.lowlevel.checkpoint()
        return "v1.36.2"

    def fail(self, method: str, error: ClusterError, *, effect: bool = False) -> None:
        """Makes the next call of `method` raise `error`."""
        self._faults.setdefault(method, deque()).append(Fault(error, effect))

    def hang(self, method: str, *, effect: bool = False) -> None:
        """Makes the next call of `method` wait until it is cancelled."""
        self._faults.setdefault(method, deque()).append(Fault(None, effect))

    def heal(self, method: str) -> None:
        """Removes the queued faults of `method`."""
        self._faults.pop(method, None)

    def show(self, pod: Pod, status: Mapping[str, Any]) -> None:
        """Sets the status of the pod."""
        self._courses[pod.uid] = deque([status])

    def vanish(self, pod: Pod) -> None:
        """Removes the pod, as the removal of its node does."""
        self._remove((pod.namespace, pod.name))

    def log(self, pod: Pod, container: str = "step") -> Log:
        return self.logs.setdefault((pod.namespace, pod.name, container), Log())

    async def create_pod(self, manifest: Manifest) -> Pod:
        return await self._call("create_pod", lambda: self._create_pod(manifest))

    async def read_pod(self, namespace: str, name: str) -> Pod | None:
        return await self._call("read_pod", lambda: self._read(namespace, name))

    async def delete_pod(self, namespace: str, name: str, *, uid: str, grace_seconds: int | None = None) -> bool:
        return await self._call("delete_pod", lambda: self._delete_pod((namespace, name), uid, grace_seconds))

    async def create_secret(self, manifest: Manifest) -> str:
        return await self._call("create_secret", lambda: self._create(self.secrets, manifest)["metadata"]["uid"])

    async def own_secret(self, namespace: str, name: str, *, owner: Pod) -> None:
        await self._call("own_secret", lambda: self._own((namespace, name), owner))

    async def delete_secret(self, namespace: str, name: str) -> None:
        await self._call("delete_secret", lambda: self.secrets.pop((namespace, name), None))

    async def list_events(self, namespace: str, *, uid: str) -> tuple[ClusterEvent, ...] | None:
        def held() -> tuple[ClusterEvent, ...] | None:
            return None if self.events is None else self.events.get((namespace, uid), ())

        return await self._call("list_events", held)

    async def read_lease(self, namespace: str, name: str) -> Lease | None:
        return await self._call("read_lease", lambda: self._lease((namespace, name)))

    async def create_lease(self, manifest: Manifest) -> Lease:
        return await self._call("create_lease", lambda: _decoded(self._create(self.leases, manifest)))

    async def replace_lease(self, manifest: Manifest) -> Lease:
        return await self._call("replace_lease", lambda: self._replace_lease(manifest))

    async def delete_lease(self, namespace: str, name: str, *, uid: str, version: str) -> None:
        await self._call("delete_lease", lambda: self._delete_lease((namespace, name), uid, version))

    async def read_log(self, namespace: str, name: str, container: str, *, since: str | None = None) -> bytes:
        return await self._call("read_log", lambda: self._started(namespace, name, container, since)[0])

    @asynccontextmanager
    async def follow_log(
        self, namespace: str, name: str, container: str, *, since: str | None = None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        _, log = await self._call("follow_log", lambda: self._started(namespace, name, container, since))
        self.openings.append(since)
        self.open_streams += 1
        try:
            yield self._pieces(log, log.place(since), self.cuts.popleft() if self.cuts else None)
        finally:
            self.open_streams -= 1

    @asynccontextmanager
    async def exec(
        self, namespace: str, name: str, container: str, command: Sequence[str], *, stdin: bool, idle_seconds: float
    ) -> AsyncIterator[FakeExec]:
        operation = f"exec in {container} of pod {namespace}/{name}"
        assert idle_seconds > 0
        await self._call("exec", lambda: self._found(operation, namespace, name))
        far = RemoteSide(container, command, stdin=stdin)
        session = FakeExec(operation, far)
        carry_out = self.commands.popleft() if self.commands else self.command
        self.execs.append(far)
        self.open_streams += 1

        async def run() -> None:
            try:
                result = await carry_out(far)
                await far._output.send(Ended(result))
            except ClusterError as error:
                session.broken = error
            finally:
                session.over.set()
                far.wake()
                far._output.close()
                far.received.close()

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(run)
                failure: BaseException | None = None
                try:
                    yield session
                except Exception as error:  # noqa: BLE001 - raised again below, not wrapped in a group
                    failure = error
                group.cancel_scope.cancel()
            if failure is not None:
                raise failure
        finally:
            self.open_streams -= 1
            for stream in (far._input, far.received, far.events, far._output):
                stream.close()

    async def _call(self, method: str, effect: Callable[[], T]) -> T:
        self.calls.append(method)
        await anyio.lowlevel.checkpoint()
        self._sweep()
        queue = self._faults.get(method)
        if not queue:
            return effect()
        fault = queue.popleft()
        if fault.effect:
            with suppress(ApiError):  # the answer of a refusal is lost too
                effect()
        if fault.error is not None:
            raise fault.error
        await anyio.sleep_forever()
        raise AssertionError("unreachable")

    def _create_pod(self, manifest: Manifest) -> Pod:
        for container in manifest["spec"]["containers"]:
            for name in container.keys() - CONTAINER_FIELDS:
                message = f'strict decoding error: unknown field "spec.containers[0].{name}"'
                raise refusal(f"create pod {manifest['metadata']['name']}", 400, "BadRequest", message)
        stored = self._create(self.pods, manifest)
        self._courses[stored["metadata"]["uid"]] = deque(self._course(manifest))
        return pod_from(stored)

    def _create(self, objects: dict[Key, dict[str, Any]], manifest: Manifest) -> dict[str, Any]:
        key = (manifest["metadata"]["namespace"], manifest["metadata"]["name"])
        operation = f"create {manifest['kind'].lower()} {key[0]}/{key[1]}"
        self._may("create", key[0], operation)
        if key in objects:
            raise refusal(operation, 409, "AlreadyExists", f'{manifest["kind"].lower()}s "{key[1]}" already exists')
        stored = copy.deepcopy(dict(manifest))
        stored["metadata"] |= {"uid": f"uid-{next(self._count)}", "resourceVersion": str(next(self._count))}
        objects[key] = stored
        return stored

    def _may(self, verb: str, namespace: str, operation: str) -> None:
        if namespace not in self._namespaces:
            message = f'pods is forbidden: cannot {verb} resource "pods" in the namespace "{namespace}"'
            raise refusal(operation, 403, "Forbidden", message)

    def _read(self, namespace: str, name: str) -> Pod | None:
        self._may("get", namespace, f"read pod {namespace}/{name}")
        stored = self.pods.get((namespace, name))
        if stored is None:
            return None
        course = self._courses[stored["metadata"]["uid"]]
        status = course[0]
        if len(course) > 1:
            course.popleft()
        if stored.get("status") != status:
            stored["status"] = status
            stored["metadata"]["resourceVersion"] = str(next(self._count))
        return pod_from(stored)

    def _lease(self, key: Key) -> Lease | None:
        self._may("get", key[0], f"read lease {key[0]}/{key[1]}")
        stored = self.leases.get(key)
        return None if stored is None else _decoded(stored)

    def _replace_lease(self, manifest: Manifest) -> Lease:
        meta = manifest["metadata"]
        key = (meta["namespace"], meta["name"])
        operation = f"update lease {key[0]}/{key[1]}"
        self._may("update", key[0], operation)
        stored = self.leases.get(key)
        if stored is None:
            raise refusal(operation, 404, "NotFound", f'leases "{key[1]}" not found')
        self._hold(operation, stored, meta["uid"], meta["resourceVersion"])
        changed = copy.deepcopy(dict(manifest))
        changed["metadata"]["resourceVersion"] = str(next(self._count))
        self.leases[key] = changed
        return _decoded(changed)

    def _delete_lease(self, key: Key, uid: str, version: str) -> None:
        operation = f"delete lease {key[0]}/{key[1]}"
        self._may("delete", key[0], operation)
        stored = self.leases.get(key)
        if stored is not None:
            self._hold(operation, stored, uid, version)
            del self.leases[key]

    def _hold(self, operation: str, stored: Mapping[str, Any], uid: str, version: str) -> None:
        """Checks the preconditions of a write."""
        if (stored["metadata"]["uid"], stored["metadata"]["resourceVersion"]) != (uid, version):
            raise refusal(operation, 409, "Conflict", "the object has been modified")

    def _found(self, operation: str, namespace: str, name: str) -> Pod:
        pod = self._read(namespace, name)
        if pod is None:
            raise refusal(operation, 404, "NotFound", f'pods "{name}" not found')
        return pod

    def _delete_pod(self, key: Key, uid: str, grace_seconds: int | None) -> bool:
        stored = self.pods.get(key)
        self.graces.append(grace_seconds)
        if stored is None or stored["metadata"]["uid"] != uid:
            return True
        grace = stored["spec"].get("terminationGracePeriodSeconds", 30) if grace_seconds is None else grace_seconds
        moment = self._clock.now() + timedelta(seconds=grace)
        stored["metadata"]["deletionTimestamp"] = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
        due = self._clock.monotonic() + (grace if self.stubborn else 0.8 if self.shows_ends else 0)
        if self.shows_ends and not self.stubborn:
            self._courses[uid] = deque([ended(143)])
        self._due[key] = min(due, self._due.get(key, due))
        if grace == 0:
            self._remove(key)
        return False

    def _sweep(self) -> None:
        for key in [key for key, due in self._due.items() if due <= self._clock.monotonic()]:
            self._remove(key)

    def _remove(self, key: Key) -> None:
        self._due.pop(key, None)
        stored = self.pods.pop(key, None)
        uid = stored["metadata"]["uid"] if stored is not None else ""
        for name, secret in list(self.secrets.items()):
            if any(owner["uid"] == uid for owner in secret["metadata"].get("ownerReferences", ())):
                del self.secrets[name]

    def _own(self, key: Key, owner: Pod) -> None:
        secret = self.secrets.get(key)
        if secret is None:
            raise refusal(f"give secret {key[0]}/{key[1]} to pod {owner.name}", 404, "NotFound", "not found")
        reference = {"apiVersion": "v1", "kind": "Pod", "name": owner.name, "uid": owner.uid}
        secret["metadata"]["ownerReferences"] = [reference]

    def _started(self, namespace: str, name: str, container: str, since: str | None) -> tuple[bytes, Log]:
        operation = f"read the log of {container} in pod {namespace}/{name}"
        status = self._found(operation, namespace, name).container(container)
        if status is None or not (status.state.running or status.state.terminated):
            message = f'container "{container}" in pod "{name}" is waiting to start: ContainerCreating'
            raise refusal(operation, 400, "BadRequest", message)
        log = self.logs.setdefault((namespace, name, container), Log())
        return log.content[log.place(since) :], log

    async def _pieces(self, log: Log, at: int, cut: Cut | None) -> AsyncIterator[bytes]:
        limit = None if cut is None else at + cut.after
        while True:
            piece = log.content[at : limit if limit is None else max(at, limit)]
            at += len(piece)
            # Cut anywhere: a piece need not be a line.
            for start in range(0, len(piece), self.piece):
                await anyio.lowlevel.checkpoint()
                yield piece[start : start + self.piece]
            if cut is not None and limit is not None and at >= limit:
                if cut.error is not None:
                    raise cut.error
                return
            if log.ended:
                return
            if at == len(log.content):
                await log.changed.wait()
