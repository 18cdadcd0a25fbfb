"""The kubelet of the one node: a worker for every pod, found by the pod's uid."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from senro.devcluster.apiserver.status import PODS
from senro.devcluster.clock import now_text
from senro.devcluster.kubelet.status import disruption
from senro.devcluster.kubelet.worker import PodWorker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from anyio.abc import TaskGroup

    from senro.devcluster.clock import Clock
    from senro.devcluster.containers.runtime import Runtime
    from senro.devcluster.kubelet.delays import Delays
    from senro.devcluster.objects import Object
    from senro.devcluster.storage import Storage


class Kubelet:
    """Runs pods. All methods belong to the cluster's event loop."""

    def __init__(
        self, *, folder: Path, storage: Storage, runtime: Runtime, clock: Clock, delays: Delays, tasks: TaskGroup
    ) -> None:
        self._folder = folder
        self._storage = storage
        self._runtime = runtime
        self._clock = clock
        self._delays = delays
        self.tasks = tasks
        """Where what outlives a request runs: pods, and commands whose client is gone."""
        self._workers: dict[str, PodWorker] = {}
        self._addresses = 0
        self.observe: Callable[[Object, str, str], None] = _observe_nothing
        """Called with the pod, a fault's point and the container: its status was published, or an exec begins."""
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
            storage=self._storage,
            runtime=self._runtime,
            clock=self._clock,
            delays=self._delays,
            address=address,
            observe=self.observe,
        )
        self._workers[uid] = worker
        self.started[(worker.namespace, worker.name)] = worker.started
        self.tasks.start_soon(self._run, worker)

    def worker(self, pod: Object) -> PodWorker | None:
        """The worker of this very pod, or None once nothing of it runs and it is gone from the API."""
        return self._workers.get(str(pod["metadata"]["uid"]))

    def delete(self, namespace: str, name: str, grace_seconds: int) -> Object:
        """Begin a deletion (or end it at once, with 0); returns the pod as the answer shows it.

        A repeated deletion can only shorten the grace (facts/api-rules.md section 9).
        """
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
            meta["deletionTimestamp"] = now_text(self._clock, grace_seconds)
            meta["deletionGracePeriodSeconds"] = grace_seconds

        pod = self._storage.update(PODS, namespace, name, change)
        worker = self.worker(pod)
        if grace_seconds == 0:
            pod = self._storage.remove(PODS, namespace, name) or pod
        if worker is not None:
            worker.stop(float(grace_seconds))
            worker.publish()
        return pod

    def evict(self, namespace: str, name: str, *, reason: str, message: str, grace_seconds: int | None = None) -> None:
        """Take a pod away as the cluster does: DisruptionTarget, then deletion (recording evicted-api-trap-zero)."""
        pod = self._storage.get(PODS, namespace, name)

        def change(document: Object) -> None:
            conditions = [
                condition
                for condition in document["status"].get("conditions") or []
                if condition["type"] != "DisruptionTarget"
            ]
            generation = document["metadata"]["generation"] + 1
            conditions.append(disruption(reason, message, generation, now_text(self._clock)))
            document["status"]["conditions"] = conditions

        self._storage.update(PODS, namespace, name, change)
        grace = pod["spec"].get("terminationGracePeriodSeconds", 30) if grace_seconds is None else grace_seconds
        self.delete(namespace, name, int(grace))

    def vanish(self, namespace: str, name: str) -> None:
        """Take the object away and kill its processes at once, with no trace in between."""
        pod = self._storage.remove(PODS, namespace, name)
        worker = self.worker(pod) if pod is not None else None
        if worker is not None:
            worker.kill()
            worker.stop(0)

    async def _run(self, worker: PodWorker) -> None:
        try:
            await worker.run()
            while (pod := self._storage.find(PODS, worker.namespace, worker.name)) is not None:
                if pod["metadata"]["uid"] != worker.uid:
                    break
                await self._storage.changed()
        finally:
            with anyio.CancelScope(shield=True):
                await worker.forget()
            self._workers.pop(worker.uid, None)


def _observe_nothing(pod: Object, point: str, container: str) -> None:
    """No fault is armed."""
