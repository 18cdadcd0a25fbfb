"""One embedded cluster: an apiserver and a kubelet in this process, on 127.0.0.1."""

from __future__ import annotations

import shutil
import tempfile
import threading
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import msgspec
from anyio.from_thread import BlockingPortal

from senro.devcluster.apiserver.access import RUNNER, Access
from senro.devcluster.apiserver.api import Api
from senro.devcluster.apiserver.certificates import serving_context, write_client_files, write_serving_files
from senro.devcluster.apiserver.http import History
from senro.devcluster.apiserver.resources import SERVICE_ACCOUNTS
from senro.devcluster.apiserver.serving import listen, serve
from senro.devcluster.apiserver.status import CLAIMS, EVENTS, LEASES, NAMESPACES, NODES, PODS, SECRETS
from senro.devcluster.apiserver.strategies import prepare
from senro.devcluster.clock import SystemClock, VirtualClock
from senro.devcluster.containers.log import LOG_LIMIT
from senro.devcluster.containers.memory import Cgroups
from senro.devcluster.containers.runtime_selection import choose_runtime
from senro.devcluster.containers.watchdog import Watchdog
from senro.devcluster.faults import Faults
from senro.devcluster.images import IMAGE
from senro.devcluster.kubelet.delays import DEFAULT_TIME_SCALE, Delays
from senro.devcluster.kubelet.disruptions import DISRUPTIONS
from senro.devcluster.kubelet.kubelet import Kubelet
from senro.devcluster.kubelet.node import Node, node_object
from senro.devcluster.kubelet.nodes import NodeControllers
from senro.devcluster.objects import NODE_NAME, key_of
from senro.devcluster.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from senro.devcluster.apiserver.http import Answer, Request
    from senro.devcluster.clock import Clock
    from senro.devcluster.objects import Object


class DevCluster:
    """A cluster for as long as the `async with` block lasts; nothing of it is left behind.

    `port` 0 takes a free one. `namespaces` exist, and the runner's token has its rights in each. `time_scale`
    multiplies the time that a real kubelet takes for its own steps. `version` (1.30 to 1.36) decides what differs
    between them. `nodes` are the nodes' names, `capacity` what each has (`cpu`, `memory`, `pods`, ...; without it this
    machine's). `log_limit` is the kubelet's containerLogMaxSize in bytes: a longer log is rotated.
    """

    image = IMAGE

    def __init__(
        self,
        port: int = 0,
        *,
        namespaces: Sequence[str] = ("default", "ci"),
        faults: Faults | None = None,
        clock: Clock | None = None,
        time_scale: float = DEFAULT_TIME_SCALE,
        version: str = "1.36",
        nodes: Sequence[str] = (NODE_NAME,),
        capacity: Mapping[str, str] | None = None,
        log_limit: int = LOG_LIMIT,
        toleration_seconds: int = 300,
    ) -> None:
        self._toleration_seconds = toleration_seconds
        self._wanted_port = port
        self._namespaces = tuple(namespaces)
        self._clock: Clock = clock or SystemClock()
        self._delays = Delays(time_scale)
        self._version = version
        self._nodes = [Node(name, f"10.85.0.{number}") for number, name in enumerate(nodes, start=1)]
        self._capacity = dict(capacity or {})
        self._log_limit = log_limit
        self._history = History()
        self._doubled: list[tuple[str, str]] = []
        self._exit = AsyncExitStack()
        self.faults = faults if faults is not None else Faults()
        self.access = Access(self._namespaces)
        self.port = 0
        self.mode = ""
        """`bubblewrap` or `mapped`."""
        self.mode_reason = ""
        """Why, in a sentence."""

    async def __aenter__(self) -> Self:
        await self._exit.__aenter__()
        try:
            await self._start()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._exit.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._exit.__aexit__(kind, error, trace)

    async def _start(self) -> None:
        self.folder = Path(await anyio.to_thread.run_sync(_make_folder))
        self._exit.push_async_callback(_remove_folder, self.folder)
        cgroups = await anyio.to_thread.run_sync(Cgroups, self.folder.name)
        self._exit.callback(cgroups.close)
        watchdog = await anyio.to_thread.run_sync(Watchdog, self.folder, cgroups.folder)
        self._exit.callback(watchdog.close)
        runtime = await anyio.to_thread.run_sync(choose_runtime, watchdog, self.folder, cgroups)
        self.mode, self.mode_reason = runtime.mode, runtime.reason
        files = await anyio.to_thread.run_sync(write_serving_files, self.folder)
        self._files = files
        self._ca_file = files.authority
        self._token_file = self._private_file("token", self.access.runner_token)
        listener, self.port = await listen(self._wanted_port)
        self._exit.push_async_callback(listener.aclose)
        self._storage = Storage(self._clock)
        for name in dict.fromkeys((*self._namespaces, "default", "kube-system")):
            namespace: Object = {
                "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            }
            self._storage.create(NAMESPACES, namespace)
            self._storage.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": name}})
        self._storage.create(SERVICE_ACCOUNTS, {"metadata": {"name": RUNNER, "namespace": self.access.home}})
        self.access.bootstrap(self._storage)
        for node in self._nodes:
            described = node_object(self._clock, self.mode, node, version=self._version, capacity=self._capacity)
            self._storage.create(NODES, described)
        self._thread = threading.get_ident()
        self._portal = await self._exit.enter_async_context(BlockingPortal())
        tasks = anyio.create_task_group()
        await self._exit.enter_async_context(tasks)
        self._exit.callback(tasks.cancel_scope.cancel)
        self._kubelet = Kubelet(
            folder=self.folder / "pods",
            storage=self._storage,
            runtime=runtime,
            clock=self._clock,
            delays=self._delays,
            tasks=tasks,
            nodes=self._nodes,
            version=self._version,
            log_limit=self._log_limit,
        )
        self._controllers = NodeControllers(self._kubelet, self._kubelet.services)
        tasks.start_soon(self._controllers.run)
        self._kubelet.silence_node = self._controllers.silence
        self._kubelet.observe = self._observe
        self._kubelet.repeats = self.faults.repeats_stage
        self._api = Api(
            storage=self._storage,
            kubelet=self._kubelet,
            access=self.access,
            clock=self._clock,
            faults=self.faults,
            toleration_seconds=self._toleration_seconds,
        )
        tasks.start_soon(serve, listener, serving_context(files), self._handle, self.faults.admits_connection, tasks)

    @property
    def server(self) -> str:
        """The apiserver's address."""
        return f"https://127.0.0.1:{self.port}"

    def environment(self) -> dict[str, str]:
        """What senro is pointed at this cluster with."""
        return {
            "SENRO_K8S_SERVER": self.server,
            "SENRO_K8S_CA_FILE": str(self._ca_file),
            "SENRO_K8S_TOKEN_FILE": str(self._token_file),
        }

    def kubeconfig(self) -> Path:
        """A kubeconfig of an administrator, for kubectl; written on the first call into the cluster's folder."""
        path = self.folder / "kubeconfig"
        if not path.exists():
            config = {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "devcluster",
                "clusters": [
                    {
                        "name": "devcluster",
                        "cluster": {"server": self.server, "certificate-authority": str(self._ca_file)},
                    }
                ],
                "users": [{"name": "admin", "user": {"token": self.access.admin_token}}],
                "contexts": [
                    {
                        "name": "devcluster",
                        "context": {"cluster": "devcluster", "user": "admin", "namespace": self._namespaces[0]},
                    }
                ],
            }
            self._private_file("kubeconfig", msgspec.json.encode(config).decode())
        return path

    def client_certificate(self, user: str, groups: Sequence[str] = ()) -> tuple[Path, Path]:
        """A certificate and key, as PEM files, of a client of that name and groups; Roles say what it may."""
        folder = Path(tempfile.mkdtemp(prefix="client-", dir=self.folder))
        return write_client_files(self._files, folder, user, groups)

    def pods(self, namespace: str = "") -> list[Object]:
        """The pods there are now; a snapshot."""
        return self._storage.select(PODS, namespace)

    def states(self, namespace: str, name: str) -> list[Object]:
        """Every state that a pod of that name was ever stored in, in order; the last again where it was removed.

        A poller may miss some of them; this does not. Kept for the last 10,000 changes of the cluster.
        """
        return [
            change.document
            for change in self._storage.changes()
            if change.resource == PODS and key_of(change.document) == (namespace, name)
        ]

    def secrets(self, namespace: str = "") -> list[Object]:
        """The Secrets there are now; a snapshot."""
        return self._storage.select(SECRETS, namespace)

    def leases(self, namespace: str = "") -> list[Object]:
        """The Leases there are now; a snapshot."""
        return self._storage.select(LEASES, namespace)

    @property
    def history(self) -> list[tuple[str, str, int]]:
        """Every request that was answered so far: method, path, status (-1 where a fault closed the connection)."""
        return list(self._history.entries)

    @property
    def created_pods(self) -> list[Object]:
        """The manifest of every pod that was created, as it was sent."""
        return list(self._api.created_pods)

    def starts(self, namespace: str, name: str) -> dict[str, int]:
        """How often the command of each container of a pod was started, also after the pod is gone."""
        return dict(self._kubelet.started.get((namespace, name), {}))

    @property
    def doubled(self) -> list[tuple[str, str]]:
        """Pods of one run and step whose containers `step` ran at the same time: the earlier one's name, the later's.

        By the processes themselves, whatever the API said of the pods.
        """
        return list(self._doubled)

    def add_image(self, word: str, *, programs: Mapping[str, str] | None = None, absent: Sequence[str] = ()) -> str:
        """An image that has scripts, by name, in place of this machine's programs, and lacks some; its pinned name.

        `word` is a part of the name. A script finds the program whose place it takes in a folder of
        `/run/.senro-programs`. RuntimeError in a cluster that is mapped, where it would be without effect. From any
        thread.
        """
        if self.mode != "bubblewrap":
            words = "add_image needs bubblewrap, without which containers see this machine's programs: "
            raise RuntimeError(words + self.mode_reason)
        return self._kubelet.images.add(word, programs=programs or {}, absent_tools=frozenset(absent))

    def create_claim(
        self, namespace: str, name: str, *, access_mode: str = "ReadWriteOnce", storage: str = "1Gi"
    ) -> None:
        """Create a PersistentVolumeClaim of the class `standard`, bound when this returns. From any thread."""
        spec = {"accessModes": [access_mode], "resources": {"requests": {"storage": storage}}}
        claim = prepare(CLAIMS, {"metadata": {"namespace": namespace, "name": name}, "spec": spec})
        self._call(lambda: self._kubelet.claims.bind(self._storage.create(CLAIMS, claim)))

    def claim_folder(self, namespace: str, name: str) -> Path:
        """Where this machine keeps what a claim holds; LookupError where none of that name is bound."""
        found = self._kubelet.claims.folder(namespace)(name)
        if found is None:
            raise LookupError(f"no PersistentVolumeClaim {name} is bound in {namespace}")
        return found

    def evict(self, namespace: str, name: str, *, reason: str = "Evicted", grace_seconds: int | None = None) -> None:
        """Take a pod away as the cluster does; `reason` is a key of `DISRUPTIONS`. From any thread."""
        if reason not in DISRUPTIONS:
            raise ValueError(f"reason {reason!r} is none of {', '.join(DISRUPTIONS)}")
        self._call(lambda: self._kubelet.evict(namespace, name, reason=reason, grace_seconds=grace_seconds))

    def silence_node(self, name: str = NODE_NAME) -> None:
        """The kubelet of a node stops: it neither reports nor answers, and what runs there runs on. From any thread."""
        self._call(lambda: self._controllers.silence(name))

    def revive_node(self, name: str = NODE_NAME) -> None:
        """The kubelet of a silent node starts again. From any thread."""
        self._call(lambda: self._controllers.revive(name))

    def restart_kubelet(self, name: str = NODE_NAME, *, seconds: float | None = None) -> None:
        """The kubelet of a node restarts: logs and execs that are open through it break, containers run on.

        It is back after so many seconds of the cluster's clock, or after as long as one takes. From any thread.
        """
        self._call(lambda: self._controllers.restart(name, seconds))

    def remove_node(self, name: str = NODE_NAME) -> None:
        """Delete a node; its pods are collected after a while. From any thread."""
        self._call(lambda: self._controllers.remove(name))

    def label_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        """Set labels of a namespace, such as its Pod Security level. From any thread."""

        def label(namespace: Object) -> None:
            namespace["metadata"].setdefault("labels", {}).update(labels)

        self._call(lambda: self._storage.update(NAMESPACES, "", name, label))

    def taint_node(self, key: str, value: str = "", effect: str = "NoExecute", *, name: str = NODE_NAME) -> None:
        """Give a node a taint; NoExecute drives away the pods that do not tolerate it. From any thread."""

        def taint(node: Object) -> None:
            node["spec"]["taints"] = [
                *(node["spec"].get("taints") or []),
                {"key": key, "value": value, "effect": effect},
            ]

        self._call(lambda: self._storage.update(NODES, "", name, taint))

    def untaint_node(self, key: str, *, name: str = NODE_NAME) -> None:
        """Take the taints of that key off a node again. From any thread."""

        def untaint(node: Object) -> None:
            node["spec"]["taints"] = [taint for taint in node["spec"].get("taints") or [] if taint["key"] != key]

        self._call(lambda: self._storage.update(NODES, "", name, untaint))

    def events(self, namespace: str = "") -> list[Object]:
        """The Events there are now; a snapshot."""
        return self._storage.select(EVENTS, namespace)

    def advance(self, seconds: float) -> None:
        """Move the cluster's VirtualClock forward; what is due on the way happens in its order. From another thread."""
        if not isinstance(self._clock, VirtualClock):
            raise TypeError("only a cluster with a VirtualClock can be moved: DevCluster(clock=VirtualClock())")
        self._portal.call(self._clock.advance, seconds)

    @property
    def version(self) -> int:
        """The resourceVersion of the last change."""
        return self._storage.version

    def changed_since(self, version: int, *, within: float) -> bool:
        """Wait until something changes after that `version`, so many of this machine's seconds at most; whether it did.

        Who reads the version first, and then looks, misses nothing. From another thread.
        """

        async def wait() -> bool:
            with anyio.move_on_after(within):
                while self._storage.version == version:
                    await self._storage.changed()
            return self._storage.version != version

        return self._portal.call(wait)

    def _call(self, function: Callable[[], object]) -> None:
        if threading.get_ident() == self._thread:
            function()
        else:
            self._portal.call(function)

    async def _handle(self, request: Request) -> Answer:
        answer = await self._api.handle(request)
        self._history.add(request, answer)
        return answer

    def _observe(self, pod: Object, point: str, container: str) -> None:
        if point == "start" and container == "step":
            others = self._kubelet.others_running(pod, container)
            self._doubled += [(other, pod["metadata"]["name"]) for other in others]
        fault = self.faults.disruption(pod, point, container)
        if fault is None:
            return
        if not fault.reason:
            self._kubelet.vanish(pod["metadata"]["namespace"], pod["metadata"]["name"])
            return
        if fault.traps_term:
            self._kubelet.trap_term(pod)
        self._kubelet.disrupt(pod, fault.reason, fault.grace_seconds)

    def _private_file(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_text(text)
        return path


def _make_folder() -> str:
    return tempfile.mkdtemp(prefix="senro-devcluster-")


async def _remove_folder(folder: Path) -> None:
    with anyio.CancelScope(shield=True):
        await anyio.to_thread.run_sync(lambda: shutil.rmtree(folder, ignore_errors=True))
