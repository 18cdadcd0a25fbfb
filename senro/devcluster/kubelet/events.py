"""Events: what the scheduler, the kubelet and the controllers say about a pod (docs/design/pod-states.md#events)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from senro.devcluster.apiserver.status import EVENTS
from senro.devcluster.clock import now_text

if TYPE_CHECKING:
    from senro.devcluster.clock import Clock
    from senro.devcluster.objects import Object
    from senro.devcluster.storage import Storage

SCHEDULER, TAINT_EVICTION, NODE_CONTROLLER = "default-scheduler", "taint-eviction-controller", "node-controller"
ATTACH_DETACH = "attachdetach-controller"
_KEPT = 2_000
"""Events that are kept in all; a real cluster keeps them for an hour."""


class Recorder:
    """Stores Events. One that says the same again counts up instead, as the client library's correlator has it."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock
        self._known: dict[tuple[str, ...], tuple[str, str]] = {}
        self._number = 0

    def normal(self, pod: Object, reason: str, message: str, *, by: str = "", container: str = "") -> None:
        """An Event of type Normal. `by` names a controller; without it the pod's own kubelet says it."""
        self._record(pod, ("Normal", reason, message), by, container)

    def warning(self, pod: Object, reason: str, message: str, *, by: str = "", container: str = "") -> None:
        """An Event of type Warning."""
        self._record(pod, ("Warning", reason, message), by, container)

    def _record(self, pod: Object, told: tuple[str, str, str], by: str, container: str) -> None:
        meta, (kind, reason, message) = pod["metadata"], told
        namespace, now = meta["namespace"], now_text(self._clock)
        key = (meta["uid"], *told, container)
        known = self._known.get(key)
        if known is not None and self._storage.find(EVENTS, *known) is not None:

            def again(event: Object) -> None:
                event["count"] += 1
                event["lastTimestamp"] = now

            self._storage.update(EVENTS, *known, again)
            return
        self._number += 1
        # client-go names an Event after its object and the moment, sixteen hexadecimal digits.
        name = f"{meta['name']}.{self._clock.nanoseconds() + self._number:016x}"
        involved = {
            "kind": "Pod",
            "namespace": namespace,
            "name": meta["name"],
            "uid": meta["uid"],
            "apiVersion": "v1",
            "resourceVersion": meta["resourceVersion"],
        }
        if container:
            involved["fieldPath"] = container
        node = pod["spec"].get("nodeName", "")
        source = {"component": by} if by else {"component": "kubelet", "host": node}
        self._storage.create(
            EVENTS,
            {
                "metadata": {"name": name, "namespace": namespace},
                "involvedObject": involved,
                "reason": reason,
                "message": message,
                "source": source,
                "firstTimestamp": now,
                "lastTimestamp": now,
                "count": 1,
                "type": kind,
                "eventTime": None,
                "reportingComponent": by or "kubelet",
                "reportingInstance": "" if by else node,
            },
        )
        self._known[key] = (namespace, name)
        while len(self._known) > _KEPT:
            self._storage.remove(EVENTS, *self._known.pop(next(iter(self._known))))
