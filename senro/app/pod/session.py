"""What one attempt owns in the cluster: claims, Secret and pod. All of it is deleted or released on every path."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup

from senro.app.attempt import Attempt
from senro.app.pod.claim_leases import Claims
from senro.app.pod.cleanup import PodCleanup
from senro.app.pod.creation import PodNotCreated, WriteRetries, create_pod, create_secret, own_secret
from senro.app.pod.observer import PodObserver
from senro.app.runtime.services import ClusterServices
from senro.domain.errors import ClusterError
from senro.domain.kube.pod import Pod
from senro.domain.manifests.pod import own_deadline, pod_manifest, secret_manifest
from senro.domain.pipeline.durations import seconds
from senro.domain.pipeline.step_mounts import pod_target
from senro.domain.run.deletion import Deletion
from senro.domain.run.events import PodCreated
from senro.domain.transfer.containers import STAGE_CONTAINER, STEP_CONTAINER
from senro.domain.verdict import Memory, Patience
from senro.ports.clock import Clock


class PodSession:
    """The objects of one attempt. Open it with `open_session`.

    `deletion`: how the deletion of the pod ended, once the session was left; None if a background task does it.
    """

    def __init__(self, attempt: Attempt, services: ClusterServices) -> None:
        self.attempt = attempt
        self.services = services
        self.claims = Claims(attempt, services)
        self.cleanup = PodCleanup(attempt, services.cluster, claims=self.claims)
        self.deletion: Deletion | None = None
        self._background: TaskGroup | None = None
        self._observer: PodObserver | None = None

    @property
    def polled_pod(self) -> Pod | None:
        """The pod of the latest poll, the created one before the first; None if there is none."""
        return self._observer.pod if self._observer is not None else self.cleanup.pod

    async def create(self, *, uploaded_bytes: int) -> Pod:
        """Create the Secret, if the step has secrets, and the pod; record the pod.

        `uploaded_bytes`: the length of the archive that the pod's own deadline has to allow for. Raises `ClusterError`
        if one of the two could not be created, `ClaimRefused` if the lease of a claim was lost before.
        """
        attempt, cluster, cleanup = self.attempt, self.services.cluster, self.cleanup
        retries = self._write_retries(attempt.report_phase)
        if attempt.step.secrets:
            cleanup.secret = secret_manifest(attempt.step, attempt.identity, attempt.secrets)
            await create_secret(cluster, cleanup.secret, retries)
        cleanup.may_exist = True
        cleanup.manifest = pod_manifest(attempt.step, attempt.identity, staged_bytes=uploaded_bytes)
        try:
            pod, adopted = await create_pod(
                cluster, cleanup.manifest, attempt.identity.nonce, retries, ready=self.claims.check
            )
        except PodNotCreated as failure:
            cleanup.may_exist = failure.may_exist
            raise failure.error from None
        cleanup.pod = pod
        metadata = pod.metadata
        await attempt.recorder.record(
            PodCreated(
                **attempt.event_fields,
                namespace=metadata.namespace,
                pod=metadata.name,
                uid=metadata.uid,
                adopted=adopted,
            )
        )
        return pod

    @asynccontextmanager
    async def observe(self, pod: Pod, *, uploaded_bytes: int) -> AsyncIterator[PodObserver]:
        """Poll the pod while the context is open."""
        target, metadata = pod_target(self.attempt.step), pod.metadata
        observer = self._observer = PodObserver(
            self.services.watch(metadata.namespace, metadata.name, metadata.uid),
            pod,
            Memory.start(
                uid=metadata.uid,
                step=STEP_CONTAINER,
                stage=STAGE_CONTAINER,
                own_deadline=own_deadline(self.attempt.step, uploaded_bytes),
            ),
            Patience(began=self._clock.monotonic(), start_timeout=seconds(target.start_timeout)),
            self._clock,
            list_events=lambda: self.services.cluster.list_events(metadata.namespace, uid=metadata.uid),
        )
        async with anyio.create_task_group() as group:
            group.start_soon(observer.run)
            yield observer
            group.cancel_scope.cancel()

    async def own_secret(self, pod: Pod) -> None:
        """Make the pod the owner of the Secret, so that the cluster deletes both if this coordinator is killed.

        The step runs meanwhile. A patch that fails is noted and does not matter to it: the Secret is deleted with the
        pod anyway.
        """
        attempt = self.attempt
        if not attempt.step.secrets:
            return
        retries, name = self._write_retries(attempt.report_note), attempt.identity.name
        try:
            await own_secret(self.services.cluster, name, pod, retries)
        except ClusterError as error:
            await attempt.recorder.note(
                f"the Secret {pod.metadata.namespace}/{name} was given no owner ({error}); it is deleted with its pod, "
                f"but would outlive a coordinator that is killed",
                step=attempt.step.id,
            )

    def delete_in_background(self, background: TaskGroup) -> None:
        """Let a task of `background` delete the pod, which has ended, after the session was left."""
        self._background = background

    async def close(self) -> None:
        """Delete what was created and release the claims, or start the task that does."""
        if self._background is not None:
            self._background.start_soon(self._delete_finished_pod)
        else:
            await self.delete()

    async def delete(self) -> None:
        """Delete what was created and release the claims now. Sets `deletion`."""
        self.deletion = await self.cleanup.run(self._observer)

    async def _delete_finished_pod(self) -> None:
        """Delete a finished pod while other steps run. A cancellation of the run shortens the time for it."""
        done = False

        async def shorten_when_cancelled() -> None:
            try:
                await anyio.sleep_forever()
            finally:
                if not done:
                    self.attempt.cleanup_scopes.shorten()

        async with anyio.create_task_group() as group:
            group.start_soon(shorten_when_cancelled)
            await self.cleanup.run(self._observer)
            done = True
            group.cancel_scope.cancel()

    @property
    def _clock(self) -> Clock:
        return self.attempt.services.clock

    def _write_retries(self, report: Callable[[str], None]) -> WriteRetries:
        services, target = self.attempt.services, pod_target(self.attempt.step)
        return WriteRetries(services.clock, services.randomness, seconds(target.start_timeout), report)


@asynccontextmanager
async def open_session(attempt: Attempt, services: ClusterServices) -> AsyncIterator[PodSession]:
    """A session whose objects are deleted when the context is left, also by a cancellation or an error."""
    session = PodSession(attempt, services)
    try:
        yield session
    except BaseException:
        # The run was cancelled or has failed: its caller waits for the end of this deletion.
        attempt.cleanup_scopes.shorten()
        await session.delete()
        raise
    await session.close()
