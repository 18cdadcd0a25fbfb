"""Follows the log of a pod's step container from its first byte to its last, reopening a stream that breaks."""

from __future__ import annotations

from dataclasses import dataclass, field

import anyio

from senro.app.attempt import Attempt
from senro.app.pod.observer import PodObserver
from senro.app.pod.write_buffer import WriteBuffer
from senro.domain.errors import ClusterError, Forbidden, StreamBroken
from senro.domain.kube.pod import Pod
from senro.domain.requests.backoff import BackoffPolicy
from senro.domain.requests.idempotency import requested_delay
from senro.domain.run.events import LogEnded
from senro.domain.text.kubelet_log import LogLine, LogLines, LogPiece
from senro.domain.text.stream_redactor import PieceMask
from senro.domain.transfer.containers import STEP_CONTAINER
from senro.domain.verdict import Ending, Running
from senro.ports.cluster import Cluster
from senro.ports.ledger import StepLog

PAUSE_SECONDS = 0.5
"""The least number of seconds between two openings of the stream while the container runs, if the first brought no new
line."""

OPENINGS = BackoffPolicy(first=1.5 * PAUSE_SECONDS, longest=1.5 * PAUSE_SECONDS, jitter=1 / 3)
"""The wait between these openings."""

OPENINGS_AFTER_LINES = BackoffPolicy(first=0.02, longest=0.02)
"""The same after lines came: what the container prints meanwhile may be rotated away before it is read."""

HUNG_SECONDS = 3.0
"""How long a stream may stay silent once the pod shows that the container has ended. A kubelet checks for the end every
second, and then closes the stream itself."""

POD_GONE = "the pod was gone before the end of its log was read"


@dataclass(slots=True)
class LogFollower:
    """Writes the step's log to the run's folder and to the reporter. Run `run` in a task, then call `finish`.

    `reason`: why the log may be incomplete, empty if nothing is missing.
    """

    attempt: Attempt
    pod: Pod
    cluster: Cluster
    observer: PodObserver
    log: StepLog
    lines: LogLines = field(default_factory=LogLines)
    reason: str = ""
    _mask: PieceMask = field(init=False)
    _buffer: WriteBuffer = field(init=False)
    _stream: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _ended: anyio.Event = field(default_factory=anyio.Event)
    _received: int = 0
    _lines_written: int = 0

    def __post_init__(self) -> None:
        self._buffer = WriteBuffer(self._write_data)
        self._mask = PieceMask(self.attempt.recorder.redactor)

    async def run(self) -> None:
        """Follow until the container has ended and its log was read completely, or the pod is gone."""
        await self.observer.until(lambda observer: observer.seen_running)
        async with anyio.create_task_group() as group:
            group.start_soon(self._buffer.run)
            group.start_soon(self._cancel_hung_stream)
            await self._follow_to_the_end()
            group.cancel_scope.cancel()
        await self._write(self.lines.finish())
        await self._write_held()
        self._ended.set()

    async def finish(self, *, within: float) -> str:
        """Wait for the end of the log, until nothing arrives for `within` seconds, and record it. Returns `reason`.

        The answer of the pod is settled by now. A step that was never seen running has no log to wait for.
        """
        received = -1
        while self.observer.seen_running and not self._ended.is_set() and self._received != received:
            received = self._received
            with anyio.move_on_after(within):
                await self._ended.wait()
        if self.observer.seen_running and not self._ended.is_set():
            self.reason = "its end did not come within the bound"
        elif self.lines.gapped and not self.reason:
            self.reason = "it was rotated while its stream was cut, so lines in between may be missing"
        reason = self.reason
        await self.attempt.recorder.record(LogEnded(**self.attempt.event_fields, complete=not reason, reason=reason))
        return reason

    async def _follow_to_the_end(self) -> None:
        while self.observer.seen_running:
            written = self._lines_written
            failure: ClusterError | None = None
            try:
                await self._follow()
            except Forbidden as error:
                self.reason = str(error)
                break
            except ClusterError as error:
                # The stream broke; the kubelet is out of reach, does not know the pod yet (404) or does not regard the
                # container as started (400, recording `logs`). The pod alone shows whether to go on.
                failure = error
            await self._buffer.flush()
            await self._write(self.lines.broke_off())
            await self.observer.next_poll_from_now()
            if self.observer.pod is None:
                self.reason = POD_GONE
                break
            if _has_ended(self.observer):
                await self._read_rest()
                break
            await self._pause(OPENINGS if self._lines_written == written else OPENINGS_AFTER_LINES, failure)

    async def _follow(self) -> None:
        metadata = self.pod.metadata
        with anyio.CancelScope() as self._stream:
            async with self.cluster.follow_log(
                metadata.namespace, metadata.name, STEP_CONTAINER, since=self.lines.since
            ) as stream:
                async for data in stream:
                    self._received += len(data)
                    await self._buffer.put(data)
            await self._buffer.flush()

    async def _write_data(self, data: bytes) -> None:
        await self._write(self.lines.feed(data))

    async def _cancel_hung_stream(self) -> None:
        """Cancel a log stream that stays silent after its container ended."""
        await self.observer.until(_has_ended)
        received = -1
        while received != self._received:
            received = self._received
            await self.attempt.services.clock.sleep(HUNG_SECONDS)
        self._stream.cancel()

    async def _read_rest(self) -> None:
        """Read what follows the last line, without following: a stream may end early with an apiserver that restarts.

        The caller of `finish` bounds the time.
        """
        metadata = self.pod.metadata
        while True:
            try:
                rest = await self.cluster.read_log(
                    metadata.namespace, metadata.name, STEP_CONTAINER, since=self.lines.since
                )
            except StreamBroken:
                await self._pause(OPENINGS_AFTER_LINES)
            except Forbidden as error:
                self.reason = f"its end could not be read: {error}"
                return
            except ClusterError as error:
                # A kubelet that restarts answers 404, 400 or 500 for a moment; the log is there as long as its pod is.
                if self.observer.pod is None:
                    self.reason = f"its end could not be read: {error}"
                    return
                await self._pause(OPENINGS, error)
            else:
                # Everything after the last line is in this answer, whatever an earlier stream reported.
                self.reason = ""
                await self._write(self.lines.feed(rest))
                return

    async def _pause(self, policy: BackoffPolicy, error: ClusterError | None = None) -> None:
        """Wait before the log is requested again after `error`, for as long as the apiserver requests at least."""
        services = self.attempt.services
        wait = policy.wait(0, fraction=services.randomness.fraction(), requested=requested_delay(error))
        await services.clock.sleep(wait)

    async def _write(self, pieces: list[LogPiece]) -> None:
        """Write lines, masked, to the log and to the reporter; keep what a kubelet reported in place of lines."""
        written = bytearray()
        for piece in pieces:
            if isinstance(piece, LogLine):
                self._lines_written += 1
                text = self._mask.feed(piece.text, complete=piece.complete)
                written += self.attempt.report_line("stdout", text, ended=piece.complete)
            else:
                self.reason = piece.message
        if written:
            await self.log.write(bytes(written))

    async def _write_held(self) -> None:
        """Write the end of a last line without a newline, which the masking has held back."""
        if held := self._mask.finish():
            await self.log.write(self.attempt.report_line("stdout", held, ended=False))


def _has_ended(observer: PodObserver) -> bool:
    """Whether the pod does not show the container running any more."""
    return not isinstance(observer.answer, Running | Ending)
