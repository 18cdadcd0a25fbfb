"""Uploads the files of all mounts into the volumes of a pod: one exec of `senro-stage`, one archive, one proof line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import anyio

from senro.app.attempt import Attempt
from senro.app.pod.compression import CompressionChoice, Probe
from senro.app.pod.observer import PodObserver
from senro.app.pod.stage_exec import ArchiveSender, StageReplies
from senro.app.pod.transfer import BrokenTry, Transfer
from senro.app.pod.transfer_failure import TransferFailure
from senro.app.workspaces.mount_transfer import MountTransfer
from senro.domain.errors import ClusterError, TreeError
from senro.domain.kube.pod import Pod
from senro.domain.pipeline.step_mounts import pod_target
from senro.domain.transfer.compression import PROBE_FROM, PROBE_TO, Coding, Direction
from senro.domain.transfer.containers import STAGE_CONTAINER
from senro.domain.transfer.retry_policy import TRIES
from senro.domain.transfer.scripts import sentinel_name, staging_command
from senro.domain.verdict import DidRun, Infra, InfraKind, Pending, PendingKind
from senro.domain.verdict.creation import infra_from_refused_access
from senro.ports.cluster import Cluster, ExecSession
from senro.ports.trees import Archive

SETTLE_SECONDS = 2.0
"""How long the pod is watched after a break that may have come after the release of the step."""

COMPRESSORS_SECONDS = 10.0
"""How long the remote script's list of compressors is awaited; without it the archive is sent uncompressed."""


@dataclass(frozen=True, slots=True)
class Uploaded:
    """How an upload ended.

    `fully_sent`: whether some try sent the whole archive; before that nothing can have released the step.
    `failure`: the answer that ends the attempt; None if every mount is filled, or if the pod's own answer is settled.
    """

    fully_sent: bool
    failure: Infra | None = None


class _Stopped(Exception):
    """The upload ends with this result, and is not recorded as a transfer."""

    def __init__(self, result: Uploaded) -> None:
        super().__init__(result)
        self.result = result


class Upload(Transfer[Uploaded]):
    """The upload of one pod. Call `run` once, while `senro-stage` runs and the observer does."""

    direction: ClassVar[Direction] = "upload"
    name: ClassVar[str] = "staging"

    def __init__(
        self,
        attempt: Attempt,
        pod: Pod,
        cluster: Cluster,
        mounts: Sequence[MountTransfer],
        compression: CompressionChoice,
        *,
        observer: PodObserver,
    ) -> None:
        super().__init__(attempt, pod, cluster, compression)
        self.observer = observer
        self.parts = [each.packed for each in mounts]
        self.archive_bytes = 0
        """The length of the uncompressed archive."""

        self.total_wire_bytes = 0
        """Bytes on the wire of the whole archive, once a try has sent all of it; 0 before."""

    @property
    def fully_sent(self) -> bool:
        """Whether a try has sent the whole archive."""
        return self.total_wire_bytes > 0

    async def run(self) -> Uploaded:
        """Upload. Never raises for a failure of the cluster: the result says how it ended."""
        try:
            return await self.repeat()
        except _Stopped as stopped:
            return stopped.result

    async def _record(self, tries: int, seconds: float) -> None:
        await super()._record(tries, seconds)
        self.observer.nudge()

    def _size(self) -> tuple[int, int]:
        return self.archive_bytes, self.total_wire_bytes

    def _progress(self) -> str:
        return f"{self.content_bytes} of {self.archive_bytes} bytes were sent"

    def _failure(self, broken: BrokenTry) -> Exception:
        """An image that lacks a program, a right that is missing, or too many tries."""
        error, ran = broken.error, DidRun.MAYBE if self.fully_sent else DidRun.NO
        if isinstance(error, TransferFailure) and error.permanent:
            return self._stopped(Infra(InfraKind.CONFIG, DidRun.NO, message=str(error)))
        if broken.tries < TRIES and isinstance(error, ClusterError):
            return self._stopped(
                infra_from_refused_access(error, otherwise=InfraKind.TRANSFER, did_run=ran, node=self.observer.node)
            )
        words = f"the workspaces could not be staged in {TRIES} tries: {broken.message}"
        return self._stopped(Infra(InfraKind.TRANSFER, ran, message=words, node=self.observer.node))

    def _stopped(self, failure: Infra | None) -> _Stopped:
        return _Stopped(Uploaded(self.fully_sent, failure))

    async def _check_pod(self, broken: BrokenTry) -> Uploaded | None:  # noqa: ARG002 - the pod alone decides
        # The streams of a pod that is being deleted break first; the pod's own answer says more. A kubelet publishes
        # once a second which containers have ended, so a released step shows only then. Without the whole archive
        # nothing can have been released, and the next try need not wait for that.
        await self.observer.next_poll_from_now()
        if self.fully_sent:
            with anyio.move_on_after(SETTLE_SECONDS):
                await self.observer.until(lambda _: self._released())
        await self.observer.until(lambda observer: isinstance(observer.answer, Pending) or observer.seen_running)
        if self._released():
            return Uploaded(fully_sent=True)
        if self.observer.answer.settled:
            raise self._stopped(None)
        return None

    def _released(self) -> bool:
        """Whether the volumes are known to be complete without the proof line.

        `senro-stage` ends with 0 only after the script has found the sentinel and written to the fifo, so its end
        proves as much as a proof line that was lost on its way.
        """
        answer = self.observer.answer
        waits = isinstance(answer, Pending) and answer.kind is PendingKind.STAGING
        return not waits and _ended_well(self.observer.pod)

    async def _wait_for_end_of_pod(self) -> None:
        await self.observer.until(lambda _: False)

    async def _try_once(self) -> Uploaded:
        attempt, target = self.attempt, pod_target(self.attempt.step)
        self.content_bytes = self.wire_bytes = 0
        command = staging_command(len(self.parts), attempt.identity.nonce)
        try:
            async with self._exec(STAGE_CONTAINER, command, stdin=True) as session:
                image = target.helper or target.image
                replies = StageReplies(
                    attempt.identity.nonce, session, self.compression, image, note_event=self.note_event
                )
                coding = self.coding = self.coding or await self._choose(replies)
                async with attempt.services.trees.pack(
                    self.parts,
                    sentinel=sentinel_name(attempt.identity.nonce),
                    coding=coding,
                    open_to_all=target.helper is not None and target.user is None,
                ) as archive:
                    self.archive_bytes = archive.length
                    await self._transfer(archive, session, replies, coding)
        except TreeError as error:
            # The files changed while they were read. They are the coordinator's own: another try would read the same.
            words = f"a workspace could not be packed: {error}"
            raise self._stopped(Infra(InfraKind.TRANSFER, DidRun.NO, message=words)) from error
        return Uploaded(fully_sent=True)

    async def _choose(self, replies: StageReplies) -> Coding:
        """The coding of the first try. The script's compressors are awaited only if they could make a difference."""
        content = sum(part.tree.size for part in self.parts)
        if not self.compression.could_pay("upload", content):
            return "plain"
        with anyio.move_on_after(COMPRESSORS_SECONDS):
            await replies.wait_for_compressors()
        await self._sample()
        return self.compression.first("upload")

    async def _sample(self) -> None:
        if self.compression.ratio is None:
            self.compression.ratio = await self.attempt.services.trees.ratio(self.parts)

    async def _transfer(self, archive: Archive, session: ExecSession, replies: StageReplies, coding: Coding) -> None:
        """Send the archive and wait for the proof line. Raises the error of whichever failed first."""
        sender = ArchiveSender(archive, session, coding, lambda content, wire: self._sent(archive, content, wire))
        failure: ClusterError | TransferFailure | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(sender.run, group.cancel_scope)
            if coding == "plain" and archive.length > PROBE_TO:
                group.start_soon(self._measure, session, sender, group.cancel_scope)
            # An exception that leaves a task group is wrapped in an ExceptionGroup.
            try:
                await replies.wait_for_proof()
            except (ClusterError, TransferFailure) as error:
                failure = error
            group.cancel_scope.cancel()
        if sender.complete:
            self.total_wire_bytes = sender.wire_bytes
        # A sender that failed has cancelled the scope, and with it the reading of the replies.
        if sender.error is not None:
            raise sender.error
        if failure is not None:
            raise failure

    def _sent(self, archive: Archive, content: int, wire: int) -> None:
        self.content_bytes, self.wire_bytes = content, wire
        self.attempt.recorder.reporter.transfer(
            self.attempt.step.id, "upload", content, archive.length, archive.members
        )

    async def _measure(self, session: ExecSession, sender: ArchiveSender, scope: anyio.CancelScope) -> None:
        """Measure the link's rate while the archive is sent, and stop it where it is faster to restart compressed."""
        probe = Probe(self.compression, "upload")
        try:
            for threshold in (PROBE_FROM, PROBE_TO):
                await sender.passed[threshold].wait()
                count = sender.wire_bytes
                await session.wait_until_received()
                probe.mark(count)
        except ClusterError:
            return  # the reading task raises it
        if not self.compression.could_pay("upload", self.archive_bytes) or not self.compression.has:
            return
        await self._sample()
        sender.error = self.compression.again("upload", self.archive_bytes, sender.content_bytes)
        if sender.error is not None:
            scope.cancel()


def _ended_well(pod: Pod | None) -> bool:
    """Whether the pod shows that `senro-stage` ran and ended with 0."""
    stage = pod.init_container(STAGE_CONTAINER) if pod is not None else None
    ended = stage.state.terminated if stage is not None else None
    return ended is not None and ended.exit_code == 0 and ended.reason == "Completed" and ended.started_at is not None
