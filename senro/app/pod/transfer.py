"""What an upload and a download have in common: they are repeated while the pod lives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

import anyio

from senro.app.attempt import Attempt
from senro.app.pod.compression import CompressionChoice, RestartCompressed
from senro.app.pod.transfer_failure import TransferFailure
from senro.domain.errors import ClusterError, StreamBroken, TreeError
from senro.domain.kube.exec_protocol import Ended, ExecEvent, ExitCode
from senro.domain.kube.pod import Pod
from senro.domain.run.events import TransferCompleted, TransferTryFailed
from senro.domain.transfer.compression import Coding, Direction
from senro.domain.transfer.retry_policy import TRIES, RetryDecision, TransferBackoff, decide_retry
from senro.ports.cluster import Cluster, ExecSession

T = TypeVar("T")

IDLE_SECONDS = 300.0
"""Seconds without a byte in either direction that end an exec: a slow disk may need minutes to write its buffers."""

STANDSTILL_SECONDS = 4.0
"""Seconds without a byte after which a stream is given up whose pod has ended: a frozen connection says nothing."""

STDERR_LIMIT = 8192
"""How many bytes of the remote command's stderr are kept for a message."""


@dataclass(frozen=True, slots=True)
class BrokenTry:
    """A try, or the opening of its exec, that failed.

    `error`: what failed it.
    `decision`: what the retry policy says about it.
    `tries`: how many tries have counted so far.
    `message`: the error and how far the try came.
    """

    error: ClusterError | TransferFailure | TreeError
    decision: RetryDecision
    tries: int
    message: str


class Transfer(ABC, Generic[T]):
    """One transfer between the coordinator and a pod. A subclass does a try and judges what broke it."""

    direction: ClassVar[Direction]
    name: ClassVar[str]
    """What messages call the transfer, such as "staging"."""

    def __init__(self, attempt: Attempt, pod: Pod, cluster: Cluster, compression: CompressionChoice) -> None:
        self.attempt = attempt
        self.pod = pod
        self.cluster = cluster
        self.compression = compression
        self.coding: Coding | None = None
        """How the archive is compressed on the wire; None before the first try has decided."""

        self.content_bytes = 0
        """Bytes of the uncompressed archive that the present try has transferred."""

        self.wire_bytes = 0
        """Bytes of the stream, compressed or not, that the present try has transferred."""

        self._begun = False

    async def repeat(self) -> T:
        """Returns what the first successful try returned, after recording the transfer.

        Opens the exec again after a pause while the policy of `senro.domain.transfer.retry_policy` allows it. Raises
        what `_check_pod` or `_failure` make of the error that ended it.
        """
        services, backoff = self.attempt.services, TransferBackoff()
        clock = services.clock
        began = clock.monotonic()
        while True:
            try:
                self._begun = False
                result = await self._try_while_pod_lives()
            except RestartCompressed as restart:
                self.coding = restart.coding
                self.attempt.report_note(str(restart))
                continue
            except (ClusterError, TransferFailure, TreeError) as error:
                failed = error
            else:
                await self._record(backoff.tries + 1, clock.monotonic() - began)
                return result
            decision = decide_retry(failed, begun=self._begun)
            wait = backoff.next_wait(decision, clock.monotonic(), services.randomness.fraction())
            broken = BrokenTry(failed, decision, backoff.tries, f"{failed} ({self._progress()})")
            await self.attempt.recorder.record(
                TransferTryFailed(
                    **self.attempt.event_fields,
                    direction=self.direction,
                    tries=broken.tries,
                    message=broken.message,
                )
            )
            finished = await self._check_pod(broken)
            if finished is not None:
                await self._record(max(backoff.tries, 1), clock.monotonic() - began)
                return finished
            if wait is None or (isinstance(failed, TransferFailure) and failed.permanent):
                raise self._failure(broken) from failed
            self.attempt.report_note(f"{self.name} broke ({backoff.tries} of {TRIES} tries): {broken.message}")
            await clock.sleep(wait)
            began = clock.monotonic()

    def note_event(self, event: ExecEvent) -> None:
        """Note what the exec returned: output, or an exit code, means that the remote command has begun."""
        self._begun = self._begun or not isinstance(event, Ended) or isinstance(event.result, ExitCode)

    async def _try_while_pod_lives(self) -> T:
        """Try once. A stream that stands still after the pod has ended is given up: `StreamBroken`."""
        result: list[T] = []
        failure: Exception | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(self._cancel_after_pod, group.cancel_scope)
            # An exception that leaves a task group is wrapped in an ExceptionGroup.
            try:
                result.append(await self._try_once())
            except Exception as error:  # noqa: BLE001 - raised again below
                failure = error
            group.cancel_scope.cancel()
        if failure is not None:
            raise failure
        if not result:
            raise StreamBroken(f"exec in pod {self.pod.name}", cause="the pod ended while the stream stood still")
        return result[0]

    async def _cancel_after_pod(self, scope: anyio.CancelScope) -> None:
        await self._wait_for_end_of_pod()
        moved = -1
        while moved != self.wire_bytes:
            moved = self.wire_bytes
            await self.attempt.services.clock.sleep(STANDSTILL_SECONDS)
        scope.cancel()

    @abstractmethod
    async def _wait_for_end_of_pod(self) -> None:
        """Return once the pod is known not to serve the exec any more."""

    @abstractmethod
    async def _try_once(self) -> T:
        """Transfer everything in one exec.

        Raises `ClusterError`, `TransferFailure`, `TreeError` or `RestartCompressed`.
        """

    @abstractmethod
    async def _check_pod(self, broken: BrokenTry) -> T | None:
        """Look at the pod after a try broke. Returns a result if the transfer turns out to be complete.

        Raises if another try cannot help.
        """

    @abstractmethod
    def _failure(self, broken: BrokenTry) -> Exception:
        """The exception that ends the transfer."""

    @abstractmethod
    def _progress(self) -> str:
        """How far the present try came, for messages."""

    @abstractmethod
    def _size(self) -> tuple[int, int]:
        """The bytes of the whole archive, uncompressed and on the wire."""

    async def _record(self, tries: int, seconds: float) -> None:
        content, wire = self._size()
        await self.attempt.recorder.record(
            TransferCompleted(
                **self.attempt.event_fields,
                direction=self.direction,
                bytes=content,
                seconds=round(seconds, 3),
                tries=tries,
                coding=self.coding or "plain",
                wire_bytes=wire,
            )
        )

    def _exec(self, container: str, command: Sequence[str], *, stdin: bool) -> AbstractAsyncContextManager[ExecSession]:
        metadata = self.pod.metadata
        return self.cluster.exec(
            metadata.namespace, metadata.name, container, command, stdin=stdin, idle_seconds=IDLE_SECONDS
        )
