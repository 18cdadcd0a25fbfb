"""Filling the volumes of a pod: one exec, one archive, one proof line; repeated while the pod lives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import anyio

from senro.app.attempt import Attempt
from senro.app.observer import PodObserver
from senro.app.transfer_failure import TransferFailure, end_words
from senro.domain.creation import refused
from senro.domain.errors import ClusterError, SenroError, TreeError
from senro.domain.exec_protocol import Ended, ExitCode, Stderr, Stdout
from senro.domain.pod import Pod
from senro.domain.transfer import MISSING_PROGRAM, STAGE_CONTAINER, StagingProof, sentinel_name, staging_command
from senro.domain.transfer_policy import TRIES, Pace, after_break
from senro.domain.verdict import DidRun, Infra, InfraKind, Pending, PendingKind
from senro.ports.cluster import Cluster, ExecSession
from senro.ports.trees import Archive, Packed

IDLE_SECONDS = 300.0
"""Silence in both directions that ends an exec: a slow disk may need minutes for what it has buffered."""

SETTLE_SECONDS = 2.0
"""How long a pod is watched after a break that may have come after the release."""

STATUS_SECONDS = 5.0
"""How long the status is awaited after the proof line, which needs none: the connection is only let end in order."""

STDERR_LIMIT = 8192
"""Bytes of the far side's stderr that are kept for a message."""


@dataclass(slots=True)
class Staging:
    """The staging of one pod. `run` returns None once every mount is filled, or the Infra that ends the attempt."""

    attempt: Attempt
    pod: Pod
    cluster: Cluster
    observer: PodObserver
    parts: Sequence[Packed]
    sent: int = 0
    length: int = 0
    fed: bool = False
    """Whether a try has sent all of its archive: before that, nothing can have released the step."""

    async def run(self) -> Infra | None:
        """Stage, up to three times. An answer that the observer settles meanwhile is the caller's to read."""
        clock, pace = self.attempt.services.clock, Pace()
        while True:
            began = clock.monotonic()
            try:
                await self._once()
            except TreeError as error:
                # The files changed under the pack: they are the coordinator's own, another try packs the same.
                return Infra(InfraKind.TRANSFER, DidRun.NO, message=f"a workspace could not be packed: {error}")
            except (ClusterError, TransferFailure) as error:
                broken = error
            else:
                await self._done(pace.tries + 1, clock.monotonic() - began)
                return None
            wait = pace.pause(after_break(broken), clock.monotonic())
            await self.attempt.transfer_broke("in", pace.tries, self._how_far(broken))
            await self._look_at_pod()
            if self._released():
                await self._done(max(pace.tries, 1), clock.monotonic() - began)
                return None
            if self.observer.answer.settled:
                return None
            if wait is None or (isinstance(broken, TransferFailure) and broken.permanent):
                return self._given_up(broken, pace.tries)
            self.attempt.tell(f"staging broke ({pace.tries} of {TRIES} tries): {self._how_far(broken)}")
            await clock.sleep(wait)

    def _how_far(self, error: SenroError) -> str:
        return f"{error} ({self.sent} of {self.length} bytes were sent)"

    def _given_up(self, error: ClusterError | TransferFailure, tries: int) -> Infra:
        """What ends the attempt: an image that lacks a program, a right that is missing, or too many breaks."""
        ran = DidRun.MAYBE if self.fed else DidRun.NO
        if isinstance(error, TransferFailure) and error.permanent:
            return Infra(InfraKind.CONFIG, DidRun.NO, message=str(error))
        if tries < TRIES and isinstance(error, ClusterError):
            return refused(error, did_run=ran, node=self.observer.node)
        words = f"the workspaces could not be staged in {TRIES} tries: {self._how_far(error)}"
        return Infra(InfraKind.TRANSFER, ran, message=words, node=self.observer.node)

    async def _look_at_pod(self) -> None:
        # A pod that is being taken away breaks its streams first; what it comes to is the better answer. The kubelet
        # tells once a second what has ended (facts/measured.md), so a step that was released shows only then; without
        # all of its archive nothing can have been released, and the next try need not wait so long.
        await self.observer.fresh()
        if self.fed:
            with anyio.move_on_after(SETTLE_SECONDS):
                await self.observer.until(lambda _: self._released())
        await self.observer.until(lambda observer: isinstance(observer.answer, Pending) or observer.seen_running)

    def _released(self) -> bool:
        """Whether the volumes are known to be whole without the proof line.

        Only the script ends `senro-stage` with 0, by the fifo, after it has checked for the sentinel: where the
        line was lost on its way, this says the same.
        """
        answer = self.observer.answer
        return not (isinstance(answer, Pending) and answer.kind is PendingKind.STAGING) and _ended_well(
            self.observer.pod
        )

    async def _done(self, number: int, seconds: float) -> None:
        await self.attempt.transferred("in", self.length, seconds, number)
        self.observer.nudge()

    async def _once(self) -> None:
        attempt = self.attempt
        nonce = attempt.identity.nonce
        self.sent = 0
        async with attempt.services.trees.pack(self.parts, sentinel=sentinel_name(nonce)) as archive:
            self.length = archive.length
            async with self.cluster.exec(
                self.pod.metadata.namespace,
                self.pod.metadata.name,
                STAGE_CONTAINER,
                staging_command(len(self.parts), nonce),
                stdin=True,
                idle_seconds=IDLE_SECONDS,
            ) as session:
                await self._transfer(archive, session)

    async def _transfer(self, archive: Archive, session: ExecSession) -> None:
        feed = _Feed(self, archive, session)
        failure: ClusterError | TransferFailure | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(feed.run, group.cancel_scope)
            # What is raised inside a task group comes out of it wrapped.
            try:
                await _receive_proof(session, self.attempt.identity.nonce)
            except (ClusterError, TransferFailure) as error:
                failure = error
            group.cancel_scope.cancel()
        # A feed that failed cancelled the scope, and with it the reader.
        if feed.error is not None:
            raise feed.error
        if failure is not None:
            raise failure


@dataclass(slots=True)
class _Feed:
    """Sends the archive while the other task reads. A torn archive ends both; a broken stream is for the reader."""

    staging: Staging
    archive: Archive
    session: ExecSession
    error: TreeError | None = None

    async def run(self, scope: anyio.CancelScope) -> None:
        """Send to the end, then close stdin."""
        staging = self.staging
        reporter, step = staging.attempt.recorder.reporter, staging.attempt.step.id
        try:
            while data := await self.archive.read():
                await self.session.send(data)
                staging.sent += len(data)
                reporter.transfer(step, "in", staging.sent, staging.length)
            staging.fed = True
            await self.session.close_stdin()
        except TreeError as error:
            self.error = error
            scope.cancel()
        except ClusterError:
            return


async def _receive_proof(session: ExecSession, nonce: str) -> None:
    proof, stderr = StagingProof(nonce), b""
    while not proof.proven:
        match await session.receive():
            case Stdout(data=data):
                proof = proof.receive(data)
            case Stderr(data=data):
                stderr = (stderr + data)[:STDERR_LIMIT]
            case Ended(result=result):
                missing = isinstance(result, ExitCode) and result.code == MISSING_PROGRAM and b"senro: " in stderr
                raise TransferFailure(end_words(result, stderr, "no proof line came"), permanent=missing)
    with anyio.move_on_after(STATUS_SECONDS):
        try:
            while not isinstance(await session.receive(), Ended):
                pass
        except ClusterError:
            return  # the container ends with the proof, and may take the exec with it


def _ended_well(pod: Pod | None) -> bool:
    stage = pod.init_container(STAGE_CONTAINER) if pod is not None else None
    ended = stage.state.terminated if stage is not None else None
    return ended is not None and ended.exit_code == 0 and ended.reason == "Completed" and ended.started_at is not None
