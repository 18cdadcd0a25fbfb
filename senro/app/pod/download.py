"""Downloads volumes of a pod: one exec of `senro-io`, one archive that is verified completely before folders change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import anyio

from senro.app.attempt import Attempt
from senro.app.pod.compression import CompressionChoice, DownloadProbe
from senro.app.pod.transfer import STDERR_LIMIT, BrokenTry, Transfer
from senro.app.pod.transfer_failure import TransferFailure, end_words
from senro.app.workspaces.mount_transfer import MountTransfer
from senro.domain.errors import ClusterError, SenroError, TreeError
from senro.domain.kube.exec_protocol import Ended, ExecResult, ExitCode, Stderr, Stdout
from senro.domain.kube.pod import Pod
from senro.domain.run.conclusion import DownloadFailure
from senro.domain.transfer.compression import Direction
from senro.domain.transfer.containers import IO_CONTAINER
from senro.domain.transfer.replies import RemoteCount, remote_count
from senro.domain.transfer.retry_policy import LOCAL_RULES, PATIENCE_SECONDS, TRIES
from senro.domain.transfer.scripts import reading_command
from senro.domain.tree.excludes import compile_excludes, remote_excludes
from senro.domain.tree.tree import Tree
from senro.ports.cluster import Cluster, ExecSession
from senro.ports.trees import Unpacking

STDERR_HEAD = 512
"""How many bytes of its beginning are kept of a stderr that is longer than STDERR_LIMIT."""


class DownloadFailed(SenroError):
    """The files were not downloaded. The coordinator's copy is as it was. `failure` says why."""

    def __init__(self, message: str, *, refused: bool = False, repeatable: bool = True) -> None:
        super().__init__(message)
        self.failure = DownloadFailure(message, refused=refused, repeatable=repeatable)

    def __str__(self) -> str:
        return self.failure.message


class Download(Transfer[Mapping[int, Tree]]):
    """The download of some mounts of one pod.

    `pod_ended`: is set once no exec in the pod can go on.
    `what`: what is downloaded, for messages.
    `uploaded_bytes`: the length of the archive that was uploaded; about as much is expected to come back.
    """

    direction: ClassVar[Direction] = "download"
    name: ClassVar[str] = "reading back"

    def __init__(
        self,
        attempt: Attempt,
        pod: Pod,
        cluster: Cluster,
        mounts: Sequence[MountTransfer],
        compression: CompressionChoice,
        *,
        pod_ended: anyio.Event,
        what: str = "the workspaces",
        uploaded_bytes: int = 0,
    ) -> None:
        super().__init__(attempt, pod, cluster, compression)
        self.pod_ended = pod_ended
        self.mounts = {each.index: each for each in mounts}
        self.what = what
        self.uploaded_bytes = uploaded_bytes
        self.members = 0
        """How many entries of the archive arrived."""

    async def run(self) -> Mapping[int, Tree]:
        """Returns the content of each mount by its index; the folders have it already. Raises `DownloadFailed`."""
        return await self.repeat()

    async def _record(self, tries: int, seconds: float) -> None:
        size, step = self.content_bytes, self.attempt.step.id
        self.attempt.recorder.reporter.transfer(step, "download", size, size, self.members)
        await super()._record(tries, seconds)

    def _size(self) -> tuple[int, int]:
        return self.content_bytes, self.wire_bytes

    def _progress(self) -> str:
        return f"{self.wire_bytes} bytes had arrived"

    async def _check_pod(self, broken: BrokenTry) -> None:
        error = broken.error
        if isinstance(error, TreeError) and broken.decision.move == "end" and error.rule not in LOCAL_RULES:
            raise DownloadFailed(f"a workspace was refused as the step left it: {error}", refused=True) from error
        if not await self._alive():
            raise DownloadFailed(f"the pod went away before {self.what} were read back: {broken.message}")

    def _failure(self, broken: BrokenTry) -> Exception:
        error, move = broken.error, broken.decision.move
        if isinstance(error, TreeError) and move == "end":
            return DownloadFailed(f"{self.what} could not be written on this machine: {error}", repeatable=False)
        if move == "end":
            return DownloadFailed(f"{self.what} could not be read back: {error}", repeatable=False)
        if move == "wait":
            minutes = PATIENCE_SECONDS / 60
            return DownloadFailed(f"{self.what} could not be read back for {minutes:.0f} minutes: {broken.message}")
        return DownloadFailed(f"{self.what} could not be read back in {TRIES} tries: {broken.message}")

    async def _alive(self) -> bool:
        """Whether `senro-io` may still run. True if the apiserver does not answer: the next try finds out."""
        try:
            found = await self.cluster.read_pod(self.pod.metadata.namespace, self.pod.metadata.name)
        except ClusterError:
            return True
        if found is None or found.metadata.uid != self.pod.metadata.uid:
            return False
        status = found.container(IO_CONTAINER)
        return status is None or status.state.terminated is None

    async def _wait_for_end_of_pod(self) -> None:
        await self.pod_ended.wait()

    async def _try_once(self) -> Mapping[int, Tree]:
        self.wire_bytes = self.content_bytes = 0
        folders = {index: each.folder for index, each in self.mounts.items()}
        rules = {index: each.rules for index, each in self.mounts.items()}
        found: Mapping[int, Tree] | None = None
        try:
            async with self.attempt.services.trees.unpack(folders, rules=rules) as unpacking:
                found = await self._unpack(unpacking)
        except TreeError as error:
            if found is None or error.rule != "leftover":
                raise
            # The new content is in place; only the old content could not be removed completely.
            self.attempt.report_note(str(error))
        return found

    async def _unpack(self, unpacking: Unpacking) -> Mapping[int, Tree]:
        """Receive one archive and put its content in place, once everything about it was verified."""
        if self.coding is None:
            self.coding = self.compression.first("download")
        command = reading_command(tuple(sorted(self.mounts)), coding=self.coding, excludes=self._remote_excludes())
        async with self._exec(IO_CONTAINER, command, stdin=False) as session:
            result, stderr = await self._receive(session, unpacking)
        if result != ExitCode(0):
            raise TransferFailure(end_words(result, stderr, ""))
        found = await unpacking.finish()
        self.content_bytes, self.members = unpacking.unpacked, unpacking.members
        counted = remote_count(stderr)
        if counted is None or counted.members != unpacking.members:
            number = "no" if counted is None else counted.members
            raise TransferFailure(f"the remote script counted {number} members, but {unpacking.members} arrived")
        await unpacking.replace()
        return self._with_sockets(found, counted)

    def _remote_excludes(self) -> tuple[str, ...]:
        """The patterns that the remote tar can apply; all rules are applied again to what arrives."""
        excludes = [each.rules.exclude for each in self.mounts.values()]
        return remote_excludes(excludes, [str(index) for index in self.mounts])

    def _with_sockets(self, trees: Mapping[int, Tree], counted: RemoteCount) -> Mapping[int, Tree]:
        """The trees, with the sockets that the remote script reported among what they left out.

        Excluded ones are not listed. Sockets that the script counted without naming them are listed with the first
        tree, as one entry.
        """
        omitted: dict[int, list[tuple[str, str]]] = {index: [] for index in sorted(trees)}
        for name in counted.named:
            number, _, path = name.partition("/")
            index = int(number) if number in map(str, omitted) else None
            if index is None:
                continue
            if not compile_excludes(self.mounts[index].rules.exclude).matches(path, directory=False):
                omitted[index].append((path, "a socket"))
        if omitted and counted.sockets > len(counted.named):
            unnamed = f"({counted.sockets - len(counted.named)} more)"
            next(iter(omitted.values())).append((unnamed, "sockets"))
        return {
            index: replace(tree, omitted=tuple(sorted((*tree.omitted, *omitted[index])))) if omitted[index] else tree
            for index, tree in trees.items()
        }

    async def _receive(self, session: ExecSession, unpacking: Unpacking) -> tuple[ExecResult, bytes]:
        """Feed what arrives to `unpacking`. Returns how the remote command ended, and its stderr."""
        reporter, step, stderr = self.attempt.recorder.reporter, self.attempt.step.id, b""
        plain = self.coding == "plain"
        probe = DownloadProbe(self.compression, self.attempt.services.trees) if plain else None
        while True:
            event = await session.receive()
            self.note_event(event)
            match event:
                case Stdout(data=data):
                    await unpacking.write(data)
                    self.wire_bytes += len(data)
                    self.content_bytes = unpacking.unpacked
                    self.members = unpacking.members
                    done = self.wire_bytes if plain else self.content_bytes
                    reporter.transfer(step, "download", done, None, self.members)
                    if probe is not None:
                        await probe.take(data, self.wire_bytes, self.uploaded_bytes)
                case Stderr(data=data):
                    stderr += data
                    if len(stderr) > STDERR_LIMIT:
                        # The count is in the last line, and tar's first complaint in the first.
                        stderr = stderr[:STDERR_HEAD] + stderr[STDERR_HEAD - STDERR_LIMIT :]
                case Ended(result=result):
                    return result, stderr
