"""Polls a pod until it changes, since the identity may have no right to watch it."""

from __future__ import annotations

import anyio

from senro.adapters.apiserver.waiting import wait_at_most
from senro.domain.errors import ClusterError
from senro.domain.kube.pod import Pod
from senro.domain.requests.absence import Absence
from senro.domain.requests.backoff import BackoffPolicy
from senro.domain.requests.idempotency import requested_delay
from senro.domain.requests.poll_failures import FAILING_SECONDS, PollFailures
from senro.ports.clock import Clock
from senro.ports.cluster import Pods
from senro.ports.pod_watch import PodWatch

POLLS = BackoffPolicy(first=0.05, longest=1.0, factor=1.5, jitter=0.0)
"""The schedule of quiet polls, which reaches its longest wait after 8 polls, 2.4 s. The kubelet itself looks once a
second; a first wait of 50 ms costs a step about 30 ms more than one of 10 ms
(docs/design/measurements.md#polling)."""


def watch_pod(pods: Pods, namespace: str, name: str, *, uid: str, clock: Clock) -> PodWatch:
    """Returns a watch of the pod with this uid."""
    return PollingWatch(pods, namespace, name, uid=uid, clock=clock)


class PollingWatch:
    """Implements `senro.ports.pod_watch.PodWatch`."""

    def __init__(self, pods: Pods, namespace: str, name: str, *, uid: str, clock: Clock) -> None:
        self._pods = pods
        self._namespace = namespace
        self._name = name
        self._uid = uid
        self._clock = clock
        self._quiet_polls = 0
        self._version = ""
        self._nudged = anyio.Event()
        self._nudged.set()
        self._failures = PollFailures()
        self._absence = Absence()

    async def next(self) -> Pod | None:
        """See the port."""
        while True:
            await self._wait()
            try:
                pod = await self._pods.read_pod(self._namespace, self._name)
            except ClusterError as error:
                now = self._clock.monotonic()
                self._failures = self._failures.after(error, now)
                if self._failures.ends_the_step(now):
                    raise
                await self._clock.sleep(min(requested_delay(error), FAILING_SECONDS))
                continue
            self._failures = PollFailures()
            if pod is None:
                now = self._clock.monotonic()
                self._absence = self._absence.after_404(now)
                if self._absence.is_proof(now):
                    return None
                continue
            if pod.uid != self._uid:
                return None
            self._absence = self._absence.after_pod()
            if pod.metadata.resource_version != self._version:
                # A pod that has changed often changes again soon.
                self._version, self._quiet_polls = pod.metadata.resource_version, 0
            return pod

    def nudge(self) -> None:
        """See the port."""
        self._nudged.set()

    async def _wait(self) -> None:
        if self._nudged.is_set() or await wait_at_most(self._nudged, POLLS.wait(self._quiet_polls), self._clock):
            self._nudged, self._quiet_polls = anyio.Event(), 0
        else:
            self._quiet_polls += 1
