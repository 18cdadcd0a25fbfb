"""A pod's log, followed from its first byte to its last, however often the stream has to be opened again."""

from __future__ import annotations

from dataclasses import dataclass, field

import anyio

from senro.app.attempt import Attempt
from senro.app.pod.observer import PodObserver
from senro.domain.errors import (
    ClusterError,
    Forbidden,
    NotFound,
    Rejected,
    StreamBroken,
    Throttled,
    Unavailable,
    Unreachable,
)
from senro.domain.kube.pod import Pod
from senro.domain.run.events import LogEnded
from senro.domain.text.kubelet_log import LogLine, LogLines, LogPiece
from senro.domain.text.stream_redactor import PieceMask
from senro.domain.transfer.scripts import STEP_CONTAINER
from senro.domain.verdict import Ending, Running
from senro.ports.cluster import Cluster
from senro.ports.ledger import StepLog

PAUSE_SECONDS = 0.5
"""Between two openings of a stream that ended although the container runs, the first of which brought nothing new."""

SHORT_PAUSE_SECONDS = 0.02
"""The same where it did: what the container prints meanwhile may rotate away before it is read."""

HUNG_SECONDS = 3.0
"""How long a stream may bring nothing once the pod says that the container has ended. A kubelet that lives looks every
second whether it has (docs/design/api-rules.md#end-of-a-followed-log), and then ends the stream itself."""


@dataclass(slots=True)
class LogFollower:
    """Writes the step's log to the run's folder and to the reporter. Start `run` beside the observer."""

    attempt: Attempt
    pod: Pod
    cluster: Cluster
    observer: PodObserver
    log: StepLog
    lines: LogLines = field(default_factory=LogLines)
    reason: str = ""
    _mask: PieceMask = field(init=False)
    _stream: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _received: int = 0
    _lines_written: int = 0

    def __post_init__(self) -> None:
        self._mask = PieceMask(self.attempt.recorder.redactor)

    async def run(self) -> None:
        """Follow until the container has ended and its log was read to the end, or the pod is gone."""
        await self.observer.until(lambda observer: observer.seen_running)
        async with anyio.create_task_group() as group:
            group.start_soon(self._let_go)
            await self._follow_to_the_end()
            group.cancel_scope.cancel()
        await self._write(self.lines.finish())
        await self._write_held()

    async def _follow_to_the_end(self) -> None:
        while self.observer.seen_running:
            written = self._lines_written
            try:
                await self._follow()
            except NotFound:
                self.reason = "the pod was gone before the end of its log was read"
                break
            except Forbidden as error:
                self.reason = str(error)
                break
            except Rejected:
                pass  # 400: the container has not started as far as its kubelet knows (recording `logs`)
            except ClusterError:
                pass  # broken, or the kubelet is out of reach: the pod says whether there is more to come
            await self._write(self.lines.broke_off())
            await self.observer.next_poll_from_now()
            if _has_ended(self.observer):
                await self._read_rest()
                break
            pause = PAUSE_SECONDS if self._lines_written == written else SHORT_PAUSE_SECONDS
            await self.attempt.services.clock.sleep(pause)

    async def end(self, *, drained: bool) -> None:
        """Record how the log ended; `drained` False where the bound for its last bytes was reached."""
        if not drained:
            self.reason = "its end did not come within the bound"
        elif self.lines.gapped and not self.reason:
            self.reason = "it was rotated while its stream was cut, so lines in between may be missing"
        await self.attempt.recorder.record(
            LogEnded(
                at=self.attempt.recorder.now(),
                step=self.attempt.step.id,
                attempt=self.attempt.identity.attempt,
                complete=not self.reason,
                reason=self.reason,
            )
        )

    async def _follow(self) -> None:
        metadata = self.pod.metadata
        with anyio.CancelScope() as self._stream:
            async with self.cluster.follow_log(
                metadata.namespace, metadata.name, STEP_CONTAINER, since=self.lines.since
            ) as stream:
                async for data in stream:
                    self._received += len(data)
                    await self._write(self.lines.feed(data))

    async def _let_go(self) -> None:
        """End a stream that hangs although the container has ended: the pod knows better."""
        await self.observer.until(_has_ended)
        received = -1
        while received != self._received:
            received = self._received
            await self.attempt.services.clock.sleep(HUNG_SECONDS)
        self._stream.cancel()

    async def _read_rest(self) -> None:
        # A stream that ends in order may still have been ended by an apiserver that restarts. Whoever runs this bounds
        # it: after the verdict, the end of a log is not waited for for ever.
        metadata = self.pod.metadata
        while True:
            try:
                rest = await self.cluster.read_log(
                    metadata.namespace, metadata.name, STEP_CONTAINER, since=self.lines.since
                )
            except StreamBroken:
                await self.attempt.services.clock.sleep(SHORT_PAUSE_SECONDS)
            except (Unreachable, Throttled, Unavailable):
                await self.attempt.services.clock.sleep(PAUSE_SECONDS)
            except ClusterError as error:
                self.reason = f"its end could not be read: {error}"
                return
            else:
                # Whatever a kubelet said in between: all that came after the last line it gave out is here.
                self.reason = ""
                await self._write(self.lines.feed(rest))
                return

    async def _write(self, pieces: list[LogPiece]) -> None:
        written = bytearray()
        for piece in pieces:
            if isinstance(piece, LogLine):
                self._lines_written += 1
                text = self._mask.feed(piece.text, complete=piece.complete)
                written += self._shown(text, ended=piece.complete)
            else:
                self.reason = piece.message
        if written:
            await self.log.write(bytes(written))

    async def _write_held(self) -> None:
        """The end of a last line without a newline."""
        if held := self._mask.finish():
            await self.log.write(self._shown(held, ended=False))

    def _shown(self, text: bytes, *, ended: bool) -> bytes:
        if text or ended:
            reporter = self.attempt.recorder.reporter
            reporter.log_line(self.attempt.step.id, "stdout", text.decode("utf-8", "replace"))
        return text + (b"\n" if ended else b"")


def _has_ended(observer: PodObserver) -> bool:
    """Whether the container runs no more, as far as its pod tells."""
    return not isinstance(observer.answer, Running | Ending)
