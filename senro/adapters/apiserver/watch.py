"""Waiting for a pod to change: a gentle poll, since the identity may only `get`."""

from __future__ import annotations

import anyio

from senro.adapters.apiserver.waiting import wait_at_most
from senro.domain.errors import ClusterError, Forbidden, Rejected
from senro.domain.kube.pod import Pod
from senro.ports.clock import Clock
from senro.ports.cluster import Pods
from senro.ports.pod_watch import PodWatch

SHORTEST, LONGEST = 0.05, 1.0
"""Seconds between polls. The kubelet itself looks once a second; 50 ms costs a step about 30
(docs/design/measurements.md#polling)."""

GROWTH = 1.5
"""Each quiet poll waits so much longer than the one before: from the shortest to the longest in 8 polls, 2.4 s."""

PATIENCE_SECONDS = 900.0
"""Unbroken failure that is put down to an upgrade of the control plane (docs/design/verdicts.md#failing-polls)."""


def watch_pod(pods: Pods, namespace: str, name: str, *, uid: str, clock: Clock) -> PodWatch:
    """Watch the pod of this very uid."""
    return PollingWatch(pods, namespace, name, uid=uid, clock=clock)


class PollingWatch:
    """`senro.ports.pod_watch.PodWatch`."""

    def __init__(self, pods: Pods, namespace: str, name: str, *, uid: str, clock: Clock) -> None:
        self._pods = pods
        self._namespace = namespace
        self._name = name
        self._uid = uid
        self._clock = clock
        self._pause = 0.0
        self._version = ""
        self._nudged = anyio.Event()
        self._failing_since: float | None = None

    async def next(self) -> Pod | None:
        """The next observation."""
        while True:
            await self._wait()
            try:
                pod = await self._pods.read_pod(self._namespace, self._name)
            except ClusterError as error:
                self._raise_if_final(error)
                continue
            self._failing_since = None
            if pod is None or pod.uid != self._uid:
                return None
            if pod.metadata.resource_version != self._version:
                # What has just changed often changes again soon.
                self._version, self._pause = pod.metadata.resource_version, SHORTEST
            return pod

    def nudge(self) -> None:
        """Look at once."""
        self._pause = 0.0
        self._nudged.set()

    async def _wait(self) -> None:
        pause, nudged = self._pause, self._nudged
        self._pause = min(max(pause * GROWTH, SHORTEST), LONGEST)
        if pause > 0 and not nudged.is_set():
            await wait_at_most(nudged, pause, self._clock)
        if nudged.is_set():
            self._nudged = anyio.Event()
            self._pause = SHORTEST

    def _raise_if_final(self, error: ClusterError) -> None:
        if isinstance(error, (Forbidden, Rejected)):
            raise error
        now = self._clock.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        elif now - self._failing_since >= PATIENCE_SECONDS:
            raise error
