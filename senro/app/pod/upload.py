"""Filling the volumes of a pod: one exec, one archive, one proof line; repeated while the pod lives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import anyio

from senro.app.attempt import Attempt
from senro.app.pod.compression import CompressionChoice, Probe, RestartCompressed
from senro.app.pod.observer import PodObserver
from senro.app.pod.transfer_failure import TransferFailure, end_words
from senro.domain.errors import ClusterError, SenroError, TreeError
from senro.domain.kube.exec_protocol import Ended, ExitCode, Stderr, Stdout
from senro.domain.kube.pod import Pod
from senro.domain.manifests.pod import pod_target
from senro.domain.transfer.compression import PROBE_FROM, PROBE_TO, Coding
from senro.domain.transfer.retry_policy import TRIES, Pace, after_break
from senro.domain.transfer.scripts import (
    MISSING_PROGRAM,
    STAGE_CONTAINER,
    StagingProof,
    coding_line,
    lacks,
    missing_program,
    sentinel_name,
    staging_command,
)
from senro.domain.verdict import DidRun, Infra, InfraKind, Pending, PendingKind
from senro.domain.verdict.creation import infra_from_error
from senro.ports.cluster import Cluster, ExecSession
from senro.ports.trees import Archive, Packed

IDLE_SECONDS = 300.0
"""Silence in both directions that ends an exec: a slow disk may need minutes for what it has buffered."""

SETTLE_SECONDS = 2.0
"""How long a pod is watched after a break that may have come after the release."""

STATUS_SECONDS = 5.0
"""How long the status is awaited after the proof line, which needs none: the connection is only let end in order."""

HAS_SECONDS = 10.0
"""How long the far side is waited for to say what it has, where that matters; one that does not gets it plain."""

STDERR_LIMIT = 8192
"""Bytes of the far side's stderr that are kept for a message."""


@dataclass(slots=True)
class Upload:
    """The staging of one pod. `run` returns None once every mount is filled, or the Infra that ends the attempt."""

    attempt: Attempt
    pod: Pod
    cluster: Cluster
    observer: PodObserver
    parts: Sequence[Packed]
    packing: CompressionChoice
    coding: Coding | None = None
    """How the archive crosses; None until that was decided."""

    sent: int = 0
    """Bytes of the archive that were sent, counted before they were packed."""

    crossed: int = 0
    """Bytes that they took on their way."""

    length: int = 0
    whole: int = 0
    """What the whole archive took on its way, once a try has sent all of it."""

    @property
    def fed(self) -> bool:
        """Whether a try has sent all of its archive: before that, nothing can have released the step."""
        return self.whole > 0

    async def run(self) -> Infra | None:
        """Stage, up to three times. An answer that the observer settles meanwhile is the caller's to read."""
        clock, pace = self.attempt.services.clock, Pace()
        began = clock.monotonic()
        while True:
            try:
                await self._once()
            except RestartCompressed as again:
                self.coding = again.coding
                self.attempt.tell(str(again))
                continue
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
            began = clock.monotonic()

    def _how_far(self, error: SenroError) -> str:
        return f"{error} ({self.sent} of {self.length} bytes were sent)"

    def _given_up(self, error: ClusterError | TransferFailure, tries: int) -> Infra:
        """What ends the attempt: an image that lacks a program, a right that is missing, or too many breaks."""
        ran = DidRun.MAYBE if self.fed else DidRun.NO
        if isinstance(error, TransferFailure) and error.permanent:
            return Infra(InfraKind.CONFIG, DidRun.NO, message=str(error))
        if tries < TRIES and isinstance(error, ClusterError):
            return infra_from_error(error, did_run=ran, node=self.observer.node)
        words = f"the workspaces could not be staged in {TRIES} tries: {self._how_far(error)}"
        return Infra(InfraKind.TRANSFER, ran, message=words, node=self.observer.node)

    async def _look_at_pod(self) -> None:
        # A pod that is being taken away breaks its streams first; what it comes to is the better answer. The kubelet
        # tells once a second what has ended (facts/measured.md), so a step that was released shows only then; without
        # all of its archive nothing can have been released, and the next try need not wait so long.
        await self.observer.next_poll_from_now()
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
        await self.attempt.transferred(
            "in", self.length, seconds, number, coding=self.coding or "plain", crossed=self.whole
        )
        self.observer.nudge()

    async def _once(self) -> None:
        attempt, target = self.attempt, pod_target(self.attempt.step)
        self.sent = self.crossed = 0
        async with self.cluster.exec(
            self.pod.metadata.namespace,
            self.pod.metadata.name,
            STAGE_CONTAINER,
            staging_command(len(self.parts), attempt.identity.nonce),
            stdin=True,
            idle_seconds=IDLE_SECONDS,
        ) as session:
            answer = _Answer(attempt.identity.nonce, session, self.packing, lacks_image=target.helper or target.image)
            if self.coding is None:
                self.coding = await self._choose(answer)
            async with attempt.services.trees.pack(
                self.parts,
                sentinel=sentinel_name(attempt.identity.nonce),
                coding=self.coding,
                open_to_all=target.helper is not None and target.user is None,
            ) as archive:
                self.length = archive.length
                await self._transfer(archive, session, answer)

    async def _choose(self, answer: _Answer) -> Coding:
        """How to begin. The far side is waited for only where its programs could make a difference."""
        content = sum(part.tree.size for part in self.parts)
        if not self.packing.could_pay("in", content):
            return "plain"
        with anyio.move_on_after(HAS_SECONDS):
            await answer.until(lambda proof: proof.has is not None)
        await self._sample()
        return self.packing.first("in")

    async def _sample(self) -> None:
        if self.packing.ratio is None:
            self.packing.ratio = await self.attempt.services.trees.ratio(self.parts)

    async def _transfer(self, archive: Archive, session: ExecSession, answer: _Answer) -> None:
        probe = Probe(self.packing, "in") if self.coding == "plain" and archive.length > PROBE_TO else None
        feed = _Feed(self, archive, session)
        failure: ClusterError | TransferFailure | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(feed.run, group.cancel_scope)
            if probe is not None:
                group.start_soon(self._measure, probe, session, feed, group.cancel_scope)
            # What is raised inside a task group comes out of it wrapped.
            try:
                await answer.proven()
            except (ClusterError, TransferFailure) as error:
                failure = error
            group.cancel_scope.cancel()
        # A feed that failed cancelled the scope, and with it the reader.
        if feed.error is not None:
            raise feed.error
        if failure is not None:
            raise failure

    async def _measure(self, probe: Probe, session: ExecSession, feed: _Feed, scope: anyio.CancelScope) -> None:
        """Measure the link beside the feed, and end it where another coding is worth beginning again."""
        try:
            for place in (PROBE_FROM, PROBE_TO):
                await feed.passed[place].wait()
                count = self.crossed
                await session.arrived()
                probe.mark(count)
        except ClusterError:
            return  # the reader tells what broke
        if not self.packing.could_pay("in", self.length) or not self.packing.has:
            return
        await self._sample()
        feed.error = self.packing.again("in", self.length, self.sent)
        if feed.error is not None:
            scope.cancel()


@dataclass(slots=True)
class _Feed:
    """Sends the archive while the other task reads. A torn archive ends both; a broken stream is for the reader."""

    staging: Upload
    archive: Archive
    session: ExecSession
    error: TreeError | RestartCompressed | None = None
    passed: Mapping[int, anyio.Event] = field(
        default_factory=lambda: {PROBE_FROM: anyio.Event(), PROBE_TO: anyio.Event()}
    )
    """Set once so many bytes have crossed."""

    async def run(self, scope: anyio.CancelScope) -> None:
        """Send to the end, then close stdin."""
        staging = self.staging
        reporter, step = staging.attempt.recorder.reporter, staging.attempt.step.id
        try:
            await self.session.send(coding_line(staging.coding or "plain"))
            while data := await self.archive.read():
                await self.session.send(data)
                staging.crossed += len(data)
                staging.sent = self.archive.taken
                reporter.transfer(step, "in", staging.sent, staging.length, self.archive.members)
                for place, passed in self.passed.items():
                    if staging.crossed >= place:
                        passed.set()
            staging.whole = staging.crossed
            await self.session.close_stdin()
        except TreeError as error:
            self.error = error
            scope.cancel()
        except ClusterError:
            return


@dataclass(slots=True)
class _Answer:
    """What the far side says: what it has, and in the end that every mount is filled."""

    nonce: str
    session: ExecSession
    packing: CompressionChoice
    lacks_image: str
    proof: StagingProof = field(init=False)
    stderr: bytes = b""

    def __post_init__(self) -> None:
        self.proof = StagingProof(self.nonce)

    async def until(self, enough: Callable[[StagingProof], bool]) -> None:
        """Receive until the proof is enough. Raises `TransferFailure` where the far side ended before."""
        while not enough(self.proof):
            match await self.session.receive():
                case Stdout(data=data):
                    self.proof = self.proof.receive(data)
                    if self.proof.has is not None:
                        self.packing.has = self.proof.has
                case Stderr(data=data):
                    self.stderr = (self.stderr + data)[:STDERR_LIMIT]
                case Ended(result=result):
                    program = missing_program(self.stderr) if result == ExitCode(MISSING_PROGRAM) else None
                    if program is not None:
                        raise TransferFailure(lacks(self.lacks_image, program), permanent=True)
                    raise TransferFailure(end_words(result, self.stderr, "no proof line came"))

    async def proven(self) -> None:
        """Receive the proof line, and let the connection end in order."""
        await self.until(lambda proof: proof.proven)
        with anyio.move_on_after(STATUS_SECONDS):
            try:
                while not isinstance(await self.session.receive(), Ended):
                    pass
            except ClusterError:
                return  # the container ends with the proof, and may take the exec with it


def _ended_well(pod: Pod | None) -> bool:
    stage = pod.init_container(STAGE_CONTAINER) if pod is not None else None
    ended = stage.state.terminated if stage is not None else None
    return ended is not None and ended.exit_code == 0 and ended.reason == "Completed" and ended.started_at is not None
