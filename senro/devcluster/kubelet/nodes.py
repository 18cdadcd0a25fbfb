"""What the node controllers do: nodes that fall silent and come back, taints that drive pods away, nodes that go.

Recordings node-lost and tainted-trap-zero; docs/design/pod-states.md#row-167-node-partition and
docs/design/pod-states.md#row-158-pod-garbage-collection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from senro.devcluster.apiserver.status import NODES, PODS, Refused
from senro.devcluster.clock import now_text
from senro.devcluster.kubelet.events import NODE_CONTROLLER, TAINT_EVICTION
from senro.devcluster.kubelet.node import PRESSURES, READY
from senro.devcluster.kubelet.scheduler import patience

if TYPE_CHECKING:
    from collections.abc import Callable

    from senro.devcluster.kubelet.kubelet import Kubelet
    from senro.devcluster.kubelet.services import Services
    from senro.devcluster.objects import Object

_UNREACHABLE = "node.kubernetes.io/unreachable"
_STOPPED = ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
ORPHANED = ("DeletionByPodGC", "PodGC: node no longer exists")


class NodeControllers:
    """The node lifecycle, the taint eviction and the pod garbage collector of one cluster."""

    def __init__(self, kubelet: Kubelet, services: Services) -> None:
        self._kubelet = kubelet
        self._storage = services.storage
        self._clock = services.clock
        self._delays = services.delays
        self._recorder = services.recorder
        self._leaving: dict[str, anyio.CancelScope] = {}

    async def run(self) -> None:
        """Watch nodes and pods for NoExecute taints, for ever."""
        async with anyio.create_task_group() as tasks:
            while True:
                seen = self._storage.version
                self._look_at_taints(tasks)
                while self._storage.version == seen:
                    await self._storage.changed()

    def silence(self, name: str) -> None:
        """The kubelet of a node is heard of no more."""
        self._kubelet.nodes[name].fall_silent()
        self._kubelet.cut_off(name)
        self._kubelet.tasks.start_soon(self._notice_silence, name)

    async def _notice_silence(self, name: str) -> None:
        node = self._kubelet.nodes[name]
        with anyio.move_on_after(None):
            async with anyio.create_task_group() as race:
                race.start_soon(_cancel_after, node.back, race.cancel_scope)
                await self._clock.sleep(self._delays.node_grace())
                race.cancel_scope.cancel()
        if not node.silent:
            return

        def unknown(document: Object) -> None:
            self._set_conditions(document, _STOPPED, every=True)
            taints = document["spec"].setdefault("taints", [])
            now = now_text(self._clock)
            taints += [
                {"key": _UNREACHABLE, "effect": effect, "timeAdded": now} for effect in ("NoSchedule", "NoExecute")
            ]

        self._update_node(name, unknown)
        for pod in self._pods_on(name):
            self._recorder.warning(pod, "NodeNotReady", "Node is not ready", by=NODE_CONTROLLER)
            self._mark_not_ready(pod)

    def revive(self, name: str) -> None:
        """The kubelet of a node starts again."""
        self._kubelet.tasks.start_soon(self._come_back, name, self._delays.node_return())

    def restart(self, name: str, seconds: float | None) -> None:
        """The kubelet of a node stops and starts again, so soon that nobody misses it; what runs there runs on."""
        self.silence(name)
        back = self._delays.node_return() if seconds is None else seconds
        self._kubelet.tasks.start_soon(self._come_back, name, back)

    async def _come_back(self, name: str, seconds: float) -> None:
        await self._clock.sleep(seconds)

        def ready(document: Object) -> None:
            self._set_conditions(document, READY, every=False)
            taints = [taint for taint in document["spec"].get("taints") or [] if taint["key"] != _UNREACHABLE]
            document["spec"]["taints"] = taints
            if not taints:
                del document["spec"]["taints"]

        self._update_node(name, ready)
        self._kubelet.nodes[name].come_back()
        self._kubelet.catch_up(name)

    def remove(self, name: str) -> None:
        """The node is gone from the cluster; its pods are collected after a while (pod GC)."""
        self._kubelet.nodes[name].fall_silent()
        self._kubelet.cut_off(name)
        self._storage.remove(NODES, "", name)
        self._kubelet.tasks.start_soon(self._collect_orphans, name)

    async def _collect_orphans(self, name: str) -> None:
        await self._clock.sleep(self._delays.orphan())
        if self._storage.find(NODES, "", name) is not None:
            return
        for pod in self._pods_on(name):
            self._kubelet.collect(pod, *ORPHANED)

    def _look_at_taints(self, tasks: anyio.abc.TaskGroup) -> None:
        taints = {
            node["metadata"]["name"]: [
                taint for taint in node["spec"].get("taints") or [] if taint["effect"] == "NoExecute"
            ]
            for node in self._storage.select(NODES)
        }
        if not any(taints.values()):
            for scope in self._leaving.values():
                scope.cancel()
            self._leaving.clear()
            return
        for pod in self._storage.select(PODS):
            uid, meta = pod["metadata"]["uid"], pod["metadata"]
            here = taints.get(pod["spec"].get("nodeName") or "") or []
            over = "deletionTimestamp" in meta or pod["status"].get("phase") in {"Succeeded", "Failed"}
            seconds = patience(pod["spec"].get("tolerations") or [], here) if here and not over else None
            if seconds is None:
                if uid in self._leaving:
                    self._leaving.pop(uid).cancel()
            elif uid not in self._leaving:
                scope = self._leaving[uid] = anyio.CancelScope()
                tasks.start_soon(self._drive_away, pod, seconds, scope)

    async def _drive_away(self, pod: Object, seconds: float, scope: anyio.CancelScope) -> None:
        with scope:
            await self._clock.sleep(seconds)
            meta = pod["metadata"]
            found = self._storage.find(PODS, meta["namespace"], meta["name"])
            if found is None or found["metadata"]["uid"] != meta["uid"]:
                return
            message = f"Marking for deletion Pod {meta['namespace']}/{meta['name']}"
            self._recorder.normal(found, "TaintManagerEviction", message, by=TAINT_EVICTION)
            self._kubelet.disrupt(found, "Tainted")

    def _mark_not_ready(self, pod: Object) -> None:
        """Ready False without a reason, while ContainersReady stays as it is (recording node-lost)."""

        def not_ready(document: Object) -> None:
            for condition in document["status"].get("conditions") or []:
                if condition["type"] == "Ready" and condition["status"] == "True":
                    condition["status"] = "False"
                    condition["lastTransitionTime"] = now_text(self._clock)

        try:
            self._storage.update(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"], not_ready)
        except Refused:
            return

    def _set_conditions(self, node: Object, told: tuple[str, str, str], *, every: bool) -> None:
        now = now_text(self._clock)
        for condition in node["status"]["conditions"]:
            if every or condition["type"] == "Ready":
                condition["status"], condition["reason"], condition["message"] = told
            elif condition["status"] == "Unknown":
                told_again = {kind: (reason, message) for kind, reason, message in PRESSURES}[condition["type"]]
                condition["status"] = "False"
                condition["reason"], condition["message"] = told_again
            condition["lastTransitionTime"] = now

    def _update_node(self, name: str, change: Callable[[Object], None]) -> None:
        try:
            self._storage.update(NODES, "", name, change)
        except Refused:
            return

    def _pods_on(self, name: str) -> list[Object]:
        return [
            pod
            for pod in self._storage.select(PODS)
            if pod["spec"].get("nodeName") == name and pod["status"].get("phase") not in {"Succeeded", "Failed"}
        ]


async def _cancel_after(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
