"""Waits for a pod to change."""

from __future__ import annotations

from typing import Protocol

from senro.domain.kube.pod import Pod


class PodWatch(Protocol):
    """Observes one pod. The implementation polls, since the identity may have no right but `get`.

    It polls at once after `nudge`, 50 ms after a poll that showed a change, and then more and more slowly, up to once a
    second.
    """

    async def next(self) -> Pod | None:
        """Wait, then return the pod as it is now; None if it is certainly gone, or if another pod has its name.

        A single 404 proves nothing (`senro.domain.requests.absence`). Polls that fail are repeated, for 15 minutes at
        most (`senro.domain.requests.poll_failures`); then the last `ClusterError` is raised, and the caller gives up.
        """

    def nudge(self) -> None:
        """Poll at once and then frequently, because something has happened: a log or an exec has ended."""
