"""Waiting for a pod to change."""

from __future__ import annotations

from typing import Protocol

from senro.domain.kube.pod import Pod


class PodWatch(Protocol):
    """What is seen of one pod, one observation after the other.

    Today it is a gentle poll, since the identity may only `get`: 50 ms, backing off to 1 s, at once after `nudge`.
    """

    async def next(self) -> Pod | None:
        """Wait, then return the pod as it is; None if it is proven gone, or another pod has its name.

        A single 404 proves nothing (`senro.domain.requests.absence`), and a poll that fails ends nothing before its
        failure has lasted (`senro.domain.requests.poll_failures`): then the last `ClusterError` is raised. Call it
        until the pod is settled.
        """
        ...

    def nudge(self) -> None:
        """Something happened (a log or an exec ended): look at once, and often again."""
        ...
