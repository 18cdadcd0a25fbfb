"""The kubelets of all nodes: a worker for every pod, found by the pod's uid, and how a pod is taken away."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio

from senro.devcluster.apiserver.status import PODS
from senro.devcluster.clock import now_text
from senro.devcluster.kubelet.claims import Claims
from senro.devcluster.kubelet.disruptions import DISRUPTIONS
from senro.devcluster.kubelet.events import Recorder
from senro.devcluster.kubelet.scheduler import Scheduler
from senro.devcluster.kubelet.services import Services
from senro.devcluster.kubelet.status import set_disruption
from senro.devcluster.kubelet.worker import PodWorker
from senro.domain.kube.names import RUN_LABEL, STEP_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from anyio.abc import TaskGroup

    from senro.devcluster.clock import Clock
    from senro.devcluster.containers.runtime import Runtime
    from senro.devcluster.kubelet.delays import Delays
    from senro.devcluster.kubelet.node import Node
    from senro.devcluster.objects import Object
    from senro.devcluster.storage import Storage

_LOG = logging.getLogger("senro.devcluster")


class Kubelet:
    """Runs pods. All methods belong to the cluster's event loop.

    `log_limit` is how many bytes of log are kept before the file is rotated (the kubelet's containerLogMaxSize).
    """

    def __init__(
        self,
        *,
        folder: Path,
        storage: Storage,
        runtime: Runtime,
        clock: Clock,
        delays: Delays,
        tasks: TaskGroup,
        nodes: Sequence[Node],
        version: str,
        log_limit: int,
    ) -> None:
        self._folder = folder
        self._storage = storage
        self.clock = clock
        self.version = version
        """The cluster's, as `1.36`: it decides where an exec's errors show."""
        self.tasks = tasks
        """Where what outlives a request runs: pods, and commands whose client is gone."""
        self.nodes = {node.name: node for node in nodes}
        recorder = Recorder(storage, clock)
        scheduler = Scheduler(storage, clock, delays, recorder)
        self.claims = Claims(storage, folder.parent / "claims")
        self.services = Services(
            storage=storage,
            runtime=runtime,
            clock=clock,
            delays=delays,
            recorder=recorder,
            scheduler=scheduler,
            claims=self.claims,
            log_limit=log_limit,
        )
        self.images = self.services.images
        tasks.start_soon(self.claims.run)
        self._workers: dict[str, PodWorker] = {}
        self._late: dict[str, float] = {}
        self._addresses = 0
        self.observe: Callable[[Object, str, str], None] = _observe_nothing
        """Called with the pod, a fault's point and the container, as the pod's life passes that point."""
        self.silence_node: Callable[[str], None] = _silence_nothing
        """Called with the name of a node that falls silent."""
        self.repeats: Callable[[Object], bool] = _never
        """Asked whether an init container of this pod that has just succeeded runs once more."""
        self.started: dict[tuple[str, str], dict[str, int]] = {}
        """How often each container's command was started, by namespace and name of the pod; kept for ever."""

    def add(self, pod: Object) -> None:
        """Take over a pod that was created."""
        self._addresses += 1
        address = f"10.85.{2 + self._addresses // 250}.{1 + self._addresses % 250}"
        uid = str(pod["metadata"]["uid"])
        worker = PodWorker(
            pod,
            folder=self._folder / uid,
            services=self.services,
            address=address,
            find_node=self.nodes.get,
            observe=self.observe,
            repeats=self.repeats,
        )
        self._workers[uid] = worker
        self.started[(worker.namespace, worker.name)] = worker.started
        self.tasks.start_soon(self._run, worker)

    def worker(self, pod: Object) -> PodWorker | None:
        """The worker of this very pod, or None once nothing of it runs and it is gone from the API."""
        return self._workers.get(str(pod["metadata"]["uid"]))

    def others_running(self, pod: Object, container: str) -> list[str]:
        """The other pods of the same run and step, by their labels, whose container of that name is alive now."""
        wanted = _run_and_step(pod["metadata"].get("labels") or {})
        return [
            worker.name
            for worker in self._workers.values()
            if worker.uid != pod["metadata"]["uid"]
            and all(wanted)
            and _run_and_step(worker.labels) == wanted
            and worker.runs(container)
        ]

    def unreachable(self, pod: Object) -> str:
        """The address of the pod's node where its kubelet cannot be reached, else ""."""
        node = self.nodes.get(pod["spec"].get("nodeName") or "")
        return node.address if node is not None and node.silent else ""

    def delete(self, namespace: str, name: str, grace_seconds: int) -> Object:
        """Begin a deletion (or end it at once, with 0); returns the pod as the answer shows it.

        A repeated deletion can only shorten the grace (docs/design/api-rules.md#grace-of-a-deletion).
        """
        self.observe(self._storage.get(PODS, namespace, name), "delete", "")
        return self._delete(namespace, name, grace_seconds)

    def _delete(self, namespace: str, name: str, grace_seconds: int) -> Object:
        pod = self._storage.get(PODS, namespace, name)
        if pod["status"].get("phase") in {"Succeeded", "Failed"} or not pod["spec"].get("nodeName"):
            grace_seconds = 0

        def change(document: Object) -> None:
            meta = document["metadata"]
            before = meta.get("deletionGracePeriodSeconds")
            if before is not None and before <= grace_seconds:
                return
            if before is None:
                meta["generation"] = meta.get("generation", 1) + 1
            meta["deletionTimestamp"] = now_text(self.clock, grace_seconds)
            meta["deletionGracePeriodSeconds"] = grace_seconds

        pod = self._storage.update(PODS, namespace, name, change)
        worker = self.worker(pod)
        if grace_seconds == 0:
            pod = self._storage.remove(PODS, namespace, name) or pod
        if worker is not None and worker.is_reachable():
            worker.stop(float(grace_seconds))
            worker.publish()
        elif worker is not None:
            # Its kubelet hears of it when it comes back, and gives the whole grace then (recording node-lost).
            self._late[worker.uid] = float(grace_seconds)
        return pod

    def disrupt(self, pod: Object, reason: str, grace_seconds: int | None = None) -> None:
        """Take a pod away as the cluster does; `reason` is a key of `DISRUPTIONS`. Nothing where it is gone already."""
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        current, worker = self._storage.find(PODS, namespace, name), self.worker(pod)
        if current is None or current["metadata"]["uid"] != pod["metadata"]["uid"]:
            return
        disruption = DISRUPTIONS[reason]
        grace = current["spec"].get("terminationGracePeriodSeconds", 30) if grace_seconds is None else grace_seconds
        if disruption.how == "node":
            self._lose_node(current)
        elif disruption.how == "memory" and worker is not None:
            worker.exceed_memory(_step_of(current))
        elif disruption.how == "kubelet" and worker is not None:
            worker.end_by_kubelet(
                disruption.reason, disruption.message, condition=disruption.condition, grace=grace_seconds
            )
        elif disruption.how == "api":
            if disruption.condition:
                self._set_disruption(current, disruption.reason, disruption.message)
            self._delete(namespace, name, int(disruption.grace if disruption.grace is not None else grace))

    def _set_disruption(self, pod: Object, reason: str, message: str) -> None:
        def change(document: Object) -> None:
            set_disruption(document, reason, message, document["metadata"]["generation"], now_text(self.clock))

        self._storage.update(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"], change)

    def _lose_node(self, pod: Object) -> None:
        name = pod["spec"].get("nodeName") or ""
        if name in self.nodes and not self.nodes[name].silent:
            self.silence_node(name)

    def evict(self, namespace: str, name: str, *, reason: str, grace_seconds: int | None = None) -> None:
        """`disrupt` by name; 404 where there is no such pod."""
        self.disrupt(self._storage.get(PODS, namespace, name), reason, grace_seconds)

    def trap_term(self, pod: Object) -> None:
        """Let the containers of a pod end with 0 at SIGTERM, as those that trap it."""
        worker = self.worker(pod)
        if worker is not None:
            worker.traps_term = True

    def vanish(self, namespace: str, name: str) -> None:
        """Take the object away and kill its processes at once, with no trace in between."""
        pod = self._storage.remove(PODS, namespace, name)
        worker = self.worker(pod) if pod is not None else None
        if worker is not None:
            worker.kill()
            worker.stop(0)

    def collect(self, pod: Object, reason: str, message: str) -> None:
        """What the pod garbage collector does: phase Failed and the condition, nothing else; then away with it."""
        meta = pod["metadata"]

        def fail(document: Object) -> None:
            document["status"]["phase"] = "Failed"
            set_disruption(document, reason, message, document["metadata"]["generation"], now_text(self.clock))

        self._storage.update(PODS, meta["namespace"], meta["name"], fail)
        self._delete(meta["namespace"], meta["name"], 0)

    def cut_off(self, node: str) -> None:
        """A node's kubelet is gone: what was open through it breaks."""
        for worker in self._workers.values():
            if worker.node is not None and worker.node.name == node:
                worker.cut_off()

    def catch_up(self, node: str) -> None:
        """A node's kubelet is back: it reports, and does what it was told meanwhile."""
        for worker in list(self._workers.values()):
            if worker.node is None or worker.node.name != node:
                continue
            found = self._storage.find(PODS, worker.namespace, worker.name)
            worker.publish()
            grace = self._late.pop(worker.uid, None)
            if found is None or found["metadata"]["uid"] != worker.uid:
                worker.kill()
                worker.stop(0)
            elif grace is not None:
                worker.stop(grace)

    async def _run(self, worker: PodWorker) -> None:
        try:
            await self._live(worker)
            while (pod := self._storage.find(PODS, worker.namespace, worker.name)) is not None:
                if pod["metadata"]["uid"] != worker.uid:
                    break
                await self._storage.changed()
        finally:
            with anyio.CancelScope(shield=True):
                await worker.forget()
            self._workers.pop(worker.uid, None)

    async def _live(self, worker: PodWorker) -> None:
        try:
            await worker.run()
        except Exception as error:  # noqa: BLE001 - one broken pod must not end the cluster; it is logged whole
            _LOG.exception("pod %s/%s failed", worker.namespace, worker.name)
            await worker.fail(_words(error))


def _words(error: Exception) -> str:
    """An error for people; of several the first."""
    if isinstance(error, ExceptionGroup):
        return _words(error.exceptions[0])
    return f"the embedded cluster failed: {type(error).__name__}: {error}"


def _run_and_step(labels: dict[str, str]) -> tuple[str, str]:
    return labels.get(RUN_LABEL, ""), labels.get(STEP_LABEL, "")


def _step_of(pod: Object) -> str:
    names = [container["name"] for container in pod["spec"]["containers"]]
    return "step" if "step" in names else str(names[0])


def _observe_nothing(pod: Object, point: str, container: str) -> None:
    """No fault is armed."""


def _silence_nothing(_name: str) -> None:
    """No controllers are there."""


def _never(pod: Object) -> bool:
    """No fault is armed."""
    del pod
    return False
