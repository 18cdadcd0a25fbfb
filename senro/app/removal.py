"""Putting away what an attempt created: on every path, by uid, within a bound, and never silently undone."""

from __future__ import annotations

from dataclasses import dataclass

import anyio

from senro.app.attempt import Attempt
from senro.app.objects import (
    UNSEEN_SECONDS,
    find_unseen,
    removal_command,
    remove_pod,
    remove_secret,
)
from senro.app.observer import PodObserver
from senro.domain.errors import ClusterError, Throttled, Unavailable, Unreachable
from senro.domain.events import PodDeleted
from senro.domain.pod import Pod
from senro.domain.podspec import Manifest, pod_target
from senro.ports.cluster import Cluster

CONFIRM_SECONDS = 45.0
"""What is waited for beyond the pod's own grace before its deletion counts as unconfirmed."""

CANCEL_GRACE = 3
"""The grace in seconds of a pod whose run is cancelled."""

ASK_SECONDS = 30.0
"""How long a deletion that a timeout asks for is repeated before the pod's own deadline has to do it."""


@dataclass(slots=True)
class Removal:
    """What an attempt has created so far. `manifest` is set before its create is sent, `pod` once it is known."""

    attempt: Attempt
    cluster: Cluster
    secret: Manifest | None = None
    manifest: Manifest | None = None
    pod: Pod | None = None
    observer: PodObserver | None = None

    async def run(self) -> bool:
        """Delete pod and Secret; True where the pod was seen gone, or there never was one. Shielded and bounded."""
        if self.manifest is None and self.secret is None:
            return True
        if self.observer is not None:
            self.observer.deletion_asked = True
        grace = pod_target(self.attempt.step).grace
        confirmed, words = False, ""
        with self.attempt.clean_ups.scope(grace + CONFIRM_SECONDS):
            async with anyio.create_task_group() as group:
                if self.secret is not None:
                    group.start_soon(self._remove_secret, self.secret)
                words = await self._remove_pod(grace)
            confirmed = not words
        await self._record(confirmed=confirmed, words=words)
        return confirmed

    async def ask(self, observer: PodObserver, *, grace_seconds: int | None) -> None:
        """Ask for the pod's deletion and go on: the observer sees what becomes of it."""
        if self.pod is None:
            return
        observer.deletion_asked = True
        metadata, clock = self.pod.metadata, self.attempt.services.clock
        deadline = clock.monotonic() + ASK_SECONDS
        while clock.monotonic() < deadline:
            try:
                await self.cluster.delete_pod(
                    metadata.namespace, metadata.name, uid=metadata.uid, grace_seconds=grace_seconds
                )
            except (Unreachable, Throttled, Unavailable):
                await clock.sleep(1.0)
                continue
            except ClusterError as error:
                await self.attempt.recorder.note(str(error), step=self.attempt.step.id)
            return

    async def _remove_pod(self, grace: int) -> str:
        """Empty once the pod is gone, else the words of what forbids it."""
        clock, clean_ups = self.attempt.services.clock, self.attempt.clean_ups
        try:
            if self.pod is None and self.manifest is not None:
                self.pod = await find_unseen(self.cluster, self.manifest, self.attempt.identity.nonce, clock)
            if self.pod is not None:
                shortened = min(grace, CANCEL_GRACE) if clean_ups.hurried else None
                await remove_pod(self.cluster, self.pod, clock, grace_seconds=shortened, force=lambda: clean_ups.force)
        except ClusterError as error:
            return str(error)
        return ""

    async def _remove_secret(self, secret: Manifest) -> None:
        namespace, name, clock = (
            secret["metadata"]["namespace"],
            secret["metadata"]["name"],
            self.attempt.services.clock,
        )
        await remove_secret(self.cluster, namespace, name, clock)
        if self.manifest is None:
            # Its create was given up: the apiserver may still be at it, and without a pod nothing else collects it.
            await clock.sleep(UNSEEN_SECONDS)
            await remove_secret(self.cluster, namespace, name, clock)

    async def _record(self, *, confirmed: bool, words: str) -> None:
        attempt, identity = self.attempt, self.attempt.identity
        namespace = pod_target(attempt.step).namespace or ""
        if confirmed and self.pod is None:
            return
        remedy = "" if confirmed else removal_command("pod", namespace, identity.name)
        await attempt.recorder.record(
            PodDeleted(
                at=attempt.recorder.now(),
                step=attempt.step.id,
                attempt=identity.attempt,
                namespace=namespace,
                pod=identity.name,
                confirmed=confirmed,
                remedy=remedy,
            )
        )
        if not confirmed:
            said = f" ({words})" if words else ""
            await attempt.recorder.note(
                f"the pod {namespace}/{identity.name} was not seen gone{said}; delete it with: {remedy}",
                step=attempt.step.id,
            )
