"""Waiting for a pod to change."""

from __future__ import annotations

from typing import Protocol

from senro.domain.kube.pod import Pod


class PodWatch(Protocol):
    """What is seen of one pod, one observation after the other.

    Today it is a gentle poll, since the identity may only `get`: 50 ms, backing off to 1 s, at once after `nudge`.
    """

    async def next(self) -> Pod | None:
        """Wait, then the pod as it is; None where it is gone, or another pod has its name.

        Never raises for a poll that fails in a way that may pass (see `Pods.read_pod`) until 15 minutes of unbroken
        failure; then raises the last `ClusterError`. Call it until the pod settled.
        """
        ...

    def nudge(self) -> None:
        """Something happened (a log or an exec ended): look at once, and often again."""
        ...
