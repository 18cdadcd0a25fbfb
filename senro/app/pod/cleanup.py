"""Deletes an attempt's pod and Secret within a bound, releases its claims, and records what remains."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

import anyio

from senro.app.attempt import Attempt
from senro.app.pod.claim_leases import Claims
from senro.app.pod.deletion import (
    UNACKNOWLEDGED_SECONDS,
    find_unacknowledged_pod,
    removal_command,
    remove_pod,
    remove_secret,
    watch_until_gone,
)
from senro.app.pod.observer import PodObserver
from senro.domain.errors import ClusterError
from senro.domain.kube.pod import Pod
from senro.domain.manifests.containers import Manifest
from senro.domain.pipeline.step_mounts import pod_target
from senro.domain.run.deletion import Deletion, claims_are_unused
from senro.domain.run.events import PodDeleted
from senro.domain.transfer.containers import STEP_CONTAINER
from senro.ports.cluster import Cluster

CONFIRM_SECONDS = 45.0
"""How long the deletion may take beyond the pod's grace period before it counts as unconfirmed."""

CANCEL_GRACE = 3
"""The grace period in seconds of a pod whose run was cancelled."""


@dataclass(slots=True)
class PodCleanup:
    """What one attempt has created in the cluster, and how to delete it.

    `claims`: the claims to release after the deletion, None if there are none.
    `secret`, `manifest`: the manifests of Secret and pod, each set before its create is sent.
    `pod`: the created pod, once it is known.
    `may_exist`: whether a create of the pod was sent and may have stored it, as far as is known.
    """

    attempt: Attempt
    cluster: Cluster
    claims: Claims | None = None
    secret: Manifest | None = None
    manifest: Manifest | None = None
    pod: Pod | None = None
    may_exist: bool = False
    _timeout_accepted: bool = False
    """Whether the apiserver accepted the deletion that a timeout requested."""

    _last: Pod | None = None
    """The pod as it was last seen after that deletion."""

    async def run(self, observer: PodObserver | None = None) -> Deletion:
        """Delete pod and Secret, shielded from cancellation, and release the claims.

        `observer` is the pod's, None if it was never observed. The claims' leases are renewed meanwhile, and deleted
        only if it is certain that no process of the pod can use the claims any more.
        """
        deletion = await self._delete(observer)
        if self.claims is not None:
            answer = observer.answer if observer is not None else None
            await self.claims.release(gone=claims_are_unused(deletion, answer, self._last_seen(observer)))
        return deletion

    async def request_deletion(self, observer: PodObserver) -> None:
        """Request the deletion of a pod whose step timed out, and return once it was answered.

        The observer then sees what becomes of the pod. If the deletion fails, the pod's own deadline ends it.
        """
        pod = self.pod
        if pod is not None:
            await observer.delete(lambda: self._request_deletion(pod), timed_out=True)

    async def watch_until_gone(self) -> None:
        """Poll the pod until it is gone, if `request_deletion` was accepted; the caller cancels it."""
        if self.pod is not None and self._timeout_accepted:
            await watch_until_gone(self.cluster, self.pod, self.attempt.services.clock, seen=self._saw)

    def _saw(self, pod: Pod) -> None:
        self._last = pod

    async def _request_deletion(self, pod: Pod) -> None:
        metadata = pod.metadata
        try:
            gone = await self.cluster.delete_pod(metadata.namespace, metadata.name, uid=metadata.uid)
            self._timeout_accepted = not gone
        except ClusterError as error:
            await self.attempt.recorder.note(str(error), step=self.attempt.step.id)

    def _last_seen(self, observer: PodObserver | None) -> Pod | None:
        return self._last or (observer.last if observer is not None else self.pod)

    def _ended_by_timeout(self, observer: PodObserver | None) -> bool:
        """Whether a pod that is already gone ended as the timeout had requested.

        A kubelet shows that the step has ended before it removes the pod. A pod that was last seen running was removed
        without a grace period by another client.
        """
        pod = self._last_seen(observer)
        return self._timeout_accepted and pod is not None and not _runs(pod)

    async def _delete(self, observer: PodObserver | None) -> Deletion:
        if self.manifest is None and self.secret is None:
            return "deleted"
        grace = pod_target(self.attempt.step).grace
        pod, secret = _PodResult(), _SecretResult()
        with self.attempt.cleanup_scopes.scope(grace + CONFIRM_SECONDS):
            async with self._renewing(), anyio.create_task_group() as group:
                group.start_soon(self._remove_secret, secret)
                group.start_soon(self._remove_pod, grace, observer, pod)
        if self.pod is not None or pod.deletion == "unconfirmed":
            await self._record(confirmed=pod.deletion != "unconfirmed", error=pod.error)
        if self.secret is not None and not secret.deleted:
            await self._record_leftover("secret", secret.error)
        return pod.deletion

    def _renewing(self) -> AbstractAsyncContextManager[None]:
        return nullcontext() if self.claims is None else self.claims.keep_renewed()

    async def _remove_pod(self, grace: int, observer: PodObserver | None, result: _PodResult) -> None:
        clock, scopes = self.attempt.services.clock, self.attempt.cleanup_scopes
        try:
            if self.pod is None and self.manifest is not None and self.may_exist:
                nonce = self.attempt.identity.nonce
                self.pod = await find_unacknowledged_pod(self.cluster, self.manifest, nonce, clock)
            if self.pod is None:
                result.deletion = "deleted"
                return
            shortened = min(grace, CANCEL_GRACE) if scopes.shortened else None
            removal = await remove_pod(
                self.cluster, self.pod, clock, grace_seconds=shortened, force=lambda: scopes.force
            )
        except ClusterError as error:
            result.error = str(error)
        else:
            by_timeout = removal == "already_gone" and self._ended_by_timeout(observer)
            result.deletion = "deleted" if by_timeout else removal

    async def _remove_secret(self, result: _SecretResult) -> None:
        if self.secret is None:
            return
        metadata, services = self.secret["metadata"], self.attempt.services
        remove = partial(
            remove_secret, self.cluster, metadata["namespace"], metadata["name"], services.clock, services.randomness
        )
        try:
            await remove()
            if self.manifest is None:
                # Its create was given up. The apiserver may still carry it out, and no pod owns the Secret then.
                await services.clock.sleep(UNACKNOWLEDGED_SECONDS)
                await remove()
        except ClusterError as error:
            result.error = str(error)
        else:
            result.deleted = True

    async def _record(self, *, confirmed: bool, error: str) -> None:
        attempt, identity = self.attempt, self.attempt.identity
        namespace = pod_target(attempt.step).namespace or ""
        await attempt.recorder.record(
            PodDeleted(
                **attempt.event_fields,
                namespace=namespace,
                pod=identity.name,
                confirmed=confirmed,
                remedy="" if confirmed else removal_command("pod", namespace, identity.name),
            )
        )
        if not confirmed:
            await self._record_leftover("pod", error)

    async def _record_leftover(self, kind: str, error: str) -> None:
        attempt = self.attempt
        namespace, name = pod_target(attempt.step).namespace or "", attempt.identity.name
        reason = f" ({error})" if error else ""
        remedy = removal_command(kind, namespace, name)
        attempt.recorder.leftovers.append(remedy)
        await attempt.recorder.note(
            f"the {kind} {namespace}/{name} was not seen gone{reason}; delete it with: {remedy}", step=attempt.step.id
        )


def _runs(pod: Pod) -> bool:
    """Whether the pod shows the step's container running, which alone mounts the claims."""
    status = pod.container(STEP_CONTAINER)
    return status is not None and status.state.running is not None


@dataclass(slots=True)
class _PodResult:
    """How the deletion of the pod ended; a task that its bound cancels leaves it unchanged."""

    deletion: Deletion = "unconfirmed"
    error: str = ""


@dataclass(slots=True)
class _SecretResult:
    """The same of the Secret."""

    deleted: bool = False
    error: str = ""
