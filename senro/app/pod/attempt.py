"""Runs one attempt of a step as a pod: create, upload, follow the log, download, delete."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import anyio
from anyio.abc import TaskGroup

from senro.app.attempt import Attempt
from senro.app.pod.cache_download import download_caches
from senro.app.pod.claim_acquisition import ClaimRefused
from senro.app.pod.compression import CompressionChoice
from senro.app.pod.download import Download, DownloadFailed
from senro.app.pod.log_follower import LogFollower
from senro.app.pod.observer import PodObserver
from senro.app.pod.progress import report_progress
from senro.app.pod.session import PodSession, open_session
from senro.app.pod.step_timeout import enforce_timeout
from senro.app.pod.upload import Upload, Uploaded
from senro.app.runtime.services import ClusterServices
from senro.app.workspaces.mount_transfer import MountTransfer, returning_workspaces
from senro.domain.errors import ClusterError, TreeError
from senro.domain.kube.names import label_value
from senro.domain.kube.pod import Pod
from senro.domain.pipeline.step_mounts import claim_names
from senro.domain.run.conclusion import (
    DownloadFailure,
    Evidence,
    SettledAnswer,
    conclude,
    creation_failed,
    is_over,
    keeps_workspaces,
)
from senro.domain.run.outcome import Outcome
from senro.domain.transfer.scripts import sentinel_name
from senro.domain.verdict import Exited, Infra, Pending, PendingKind, TimedOut

LOG_DRAIN_SECONDS = 20.0
"""How long the end of the log is awaited after the answer is settled."""


@dataclass(slots=True)
class PodAttempt:
    """One attempt in a pod.

    `background`: the task group that deletes the pod of a success; None if `run` has to wait for the deletion.
    """

    attempt: Attempt
    services: ClusterServices
    background: TaskGroup | None = None
    _compression: CompressionChoice = field(init=False)
    _uploaded_bytes: int = field(init=False, default=0)
    """The length of the archive that is uploaded; 0 if nothing is mounted."""

    def __post_init__(self) -> None:
        self._compression = CompressionChoice(self.services.link, self.attempt.services.clock)

    async def run(self) -> tuple[Outcome, bool]:
        """Returns the outcome, and whether nothing of the attempt runs any more, so that it may be repeated."""
        async with open_session(self.attempt, self.services) as session:
            evidence = await self._with_claims(session)
            if self.background is not None and conclude(evidence).kind == "succeeded":
                session.delete_in_background(self.background)
        outcome = conclude(replace(evidence, deletion=session.deletion, pod=session.polled_pod))
        return outcome, is_over(outcome, session.deletion)

    async def _with_claims(self, session: PodSession) -> Evidence:
        """Hold the leases of the step's claims while the pod exists."""
        claims = session.claims
        async with claims.keep_renewed():
            try:
                await claims.acquire()
                evidence = await self._in_pod(session)
            except ClaimRefused as refusal:
                return Evidence(answer=refusal.answer)
        return replace(evidence, lease_lost=claims.lost)

    async def _in_pod(self, session: PodSession) -> Evidence:
        """Run the step in a pod, to the end of its log. Returns what it showed; the pod still exists."""
        attempt = self.attempt
        attempt.report_phase("creating")
        self._uploaded_bytes = await self._archive_length()
        try:
            pod = await session.create(uploaded_bytes=self._uploaded_bytes)
        except ClusterError as error:
            return Evidence(answer=creation_failed(error, may_exist=session.cleanup.may_exist))
        with session.claims.as_mounted():
            async with self._follow(session, pod) as (observer, log):
                uploaded = await self._upload(pod, observer)
                answer = uploaded.failure or await _wait_for_answer(observer)
                download = await self._download(pod, observer, answer)
                log_reason = await log.finish(within=LOG_DRAIN_SECONDS)
        return Evidence(
            answer=answer,
            node=observer.node,
            claims=claim_names(attempt.step),
            released=uploaded.fully_sent,
            download=download,
            log_reason=log_reason,
        )

    async def _archive_length(self) -> int:
        attempt = self.attempt
        if not attempt.mounts:
            return 0
        parts = [each.packed for each in attempt.mounts]
        async with attempt.services.trees.pack(parts, sentinel=sentinel_name(attempt.identity.nonce)) as archive:
            return archive.length

    @asynccontextmanager
    async def _follow(self, session: PodSession, pod: Pod) -> AsyncIterator[tuple[PodObserver, LogFollower]]:
        """Poll the pod, follow its log, report its progress and enforce the timeout while the context is open."""
        attempt = self.attempt
        async with (
            attempt.services.ledger.open_log(label_value(attempt.step.id), attempt.identity.attempt) as log_file,
            session.observe(pod, uploaded_bytes=self._uploaded_bytes) as observer,
            anyio.create_task_group() as tasks,
        ):
            log = LogFollower(attempt, pod, self.services.cluster, observer, log_file)
            tasks.start_soon(log.run)
            tasks.start_soon(session.own_secret, pod)
            tasks.start_soon(report_progress, attempt, observer)
            tasks.start_soon(enforce_timeout, attempt, observer, session.cleanup)
            yield observer, log
            tasks.cancel_scope.cancel()

    async def _upload(self, pod: Pod, observer: PodObserver) -> Uploaded:
        """Upload the mounts once `senro-stage` runs."""
        if not self.attempt.mounts:
            return Uploaded(fully_sent=True)
        await observer.until(_stage_runs)
        if observer.answer.settled:
            return Uploaded(fully_sent=False)
        self.attempt.report_phase("staging")
        mounts, cluster = self.attempt.mounts, self.services.cluster
        return await Upload(self.attempt, pod, cluster, mounts, self._compression, observer=observer).run()

    async def _download(self, pod: Pod, observer: PodObserver, answer: SettledAnswer) -> DownloadFailure | None:
        """Download the step's changes and take snapshots of them, if they are kept. Returns why that failed."""
        attempt = self.attempt
        if not any(each.returns for each in attempt.mounts) or not keeps_workspaces(answer, last=attempt.last):
            return None
        workspaces = returning_workspaces(attempt.mounts)
        try:
            if workspaces:
                attempt.report_phase("reading back")
                trees = await self._download_of(pod, observer, workspaces).run()
                snapshots = [(each.mount, trees[each.index]) for each in workspaces]
                await attempt.workspaces.take_snapshots(attempt.step, attempt.identity.attempt, snapshots)
        except DownloadFailed as error:
            return error.failure
        except TreeError as error:
            message = f"a workspace changed while its snapshot was taken: {error}"
            return DownloadFailure(message, repeatable=False)
        if isinstance(answer, Exited) and answer.code == 0:
            await download_caches(attempt, lambda mount, what: self._download_of(pod, observer, (mount,), what))
        return None

    def _download_of(
        self, pod: Pod, observer: PodObserver, mounts: tuple[MountTransfer, ...], what: str = "the workspaces"
    ) -> Download:
        return Download(
            self.attempt,
            pod,
            self.services.cluster,
            mounts,
            self._compression,
            pod_ended=observer.pod_ended,
            what=what,
            uploaded_bytes=self._uploaded_bytes,
        )


def _stage_runs(observer: PodObserver) -> bool:
    """Whether the pod waits for its upload."""
    answer = observer.answer
    return isinstance(answer, Pending) and answer.kind is PendingKind.STAGING


async def _wait_for_answer(observer: PodObserver) -> SettledAnswer:
    """Wait for the settled answer of the pod and return it."""
    await observer.until(lambda _: False)
    answer = observer.answer
    assert isinstance(answer, Exited | Infra | TimedOut)  # noqa: S101 - all answers that are settled
    return answer
