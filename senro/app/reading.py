"""Reading volumes back: one exec, one archive that is checked to its last block, folders swapped in whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from senro.app.attempt import Attempt
from senro.app.staging import IDLE_SECONDS, STDERR_LIMIT, TRIES
from senro.app.transfer_failure import TransferFailure, end_words
from senro.domain.errors import ClusterError, TreeError
from senro.domain.events import TransferBroken, Transferred
from senro.domain.exec_protocol import Ended, ExecResult, ExitCode, Stderr, Stdout
from senro.domain.pod import Pod
from senro.domain.transfer import IO_CONTAINER, member_count, reading_command
from senro.domain.tree import Tree
from senro.ports.cluster import Cluster, ExecSession
from senro.ports.trees import Unpacking

STDERR_HEAD = 512
"""Bytes of the beginning that are kept of a stderr that is longer than STDERR_LIMIT."""

REFUSED_RULES = frozenset({"duplicate", "hardlink", "index", "limit", "link", "parent", "path", "size", "type"})
"""The rules of a `TreeError` by which the content itself is refused; all others say that the archive broke."""


class ReadBackLost(TransferFailure):
    """Three tries, or the end of the pod: the files did not come back. The coordinator's copy is as it was."""


class ReadBackRefused(TransferFailure):
    """The files came, and must not be unpacked: what the step left is at fault. The coordinator's copy is as it was."""


@dataclass(slots=True)
class Reading:
    """The read-back of one pod's read-write mounts. `folders` maps the index of each to the folder to replace."""

    attempt: Attempt
    pod: Pod
    cluster: Cluster
    folders: Mapping[int, str]
    received: int = 0

    async def run(self) -> Mapping[int, Tree]:
        """What came back, already in place. Raises `ReadBackLost`, `ReadBackRefused`."""
        attempt, clock = self.attempt, self.attempt.services.clock
        message = ""
        for number in range(1, TRIES + 1):
            began = clock.monotonic()
            try:
                trees = await self._once()
            except TreeError as error:
                if error.rule in REFUSED_RULES:
                    raise ReadBackRefused(f"a workspace was refused as the step left it: {error}") from error
                message = f"{error} ({self.received} bytes had come)"
            except (ClusterError, TransferFailure) as error:
                message = f"{error} ({self.received} bytes had come)"
            else:
                await self._record_done(number, clock.monotonic() - began)
                return trees
            await attempt.recorder.record(
                TransferBroken(
                    at=attempt.recorder.now(),
                    step=attempt.step.id,
                    attempt=attempt.identity.attempt,
                    direction="out",
                    tries=number,
                    message=message,
                )
            )
            if not await self._alive():
                raise ReadBackLost(f"the pod went away before its workspaces were read back: {message}")
            attempt.tell(f"reading back broke, try {number} of {TRIES}: {message}")
        raise ReadBackLost(f"the workspaces could not be read back in {TRIES} tries: {message}")

    async def _alive(self) -> bool:
        try:
            found = await self.cluster.read_pod(self.pod.metadata.namespace, self.pod.metadata.name)
        except ClusterError:
            return True  # a control plane in trouble says nothing of the pod; the next try finds out
        return found is not None and found.metadata.uid == self.pod.metadata.uid

    async def _once(self) -> Mapping[int, Tree]:
        trees, self.received = self.attempt.services.trees, 0
        async with trees.unpack(self.folders) as unpacking:
            async with self.cluster.exec(
                self.pod.metadata.namespace,
                self.pod.metadata.name,
                IO_CONTAINER,
                reading_command(tuple(sorted(self.folders))),
                stdin=False,
                idle_seconds=IDLE_SECONDS,
            ) as session:
                result, stderr = await self._receive(session, unpacking)
            if result != ExitCode(0):
                raise TransferFailure(end_words(result, stderr, ""))
            found = await unpacking.finish()
            counted = member_count(stderr)
            if counted != unpacking.members:
                raise TransferFailure(f"the far side counted {counted} members, {unpacking.members} came")
            await unpacking.replace()
        return found

    async def _receive(self, session: ExecSession, unpacking: Unpacking) -> tuple[ExecResult, bytes]:
        reporter, step, stderr = self.attempt.recorder.reporter, self.attempt.step.id, b""
        while True:
            match await session.receive():
                case Stdout(data=data):
                    await unpacking.write(data)
                    self.received += len(data)
                    reporter.transfer(step, "out", self.received, None)
                case Stderr(data=data):
                    stderr += data
                    if len(stderr) > STDERR_LIMIT:
                        # The count is the last line; what tar complained about is in the first.
                        stderr = stderr[:STDERR_HEAD] + stderr[STDERR_HEAD - STDERR_LIMIT :]
                case Ended(result=result):
                    return result, stderr

    async def _record_done(self, number: int, seconds: float) -> None:
        attempt = self.attempt
        attempt.recorder.reporter.transfer(attempt.step.id, "out", self.received, self.received)
        await attempt.recorder.record(
            Transferred(
                at=attempt.recorder.now(),
                step=attempt.step.id,
                attempt=attempt.identity.attempt,
                direction="out",
                bytes=self.received,
                seconds=round(seconds, 3),
                tries=number,
            )
        )
