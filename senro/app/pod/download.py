"""Reading volumes back: one exec, one archive that is checked to its last block, folders swapped in whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from senro.app.attempt import Attempt
from senro.app.pod.compression import CompressionChoice, Probe, RestartCompressed
from senro.app.pod.transfer_failure import TransferFailure, end_words
from senro.app.pod.upload import IDLE_SECONDS, STDERR_LIMIT
from senro.domain.errors import ClusterError, SenroError, TreeError
from senro.domain.kube.exec_protocol import Ended, ExecResult, ExitCode, Stderr, Stdout
from senro.domain.kube.pod import Pod
from senro.domain.transfer.compression import PROBE_FROM, PROBE_TO, SAMPLE_BYTES, Coding
from senro.domain.transfer.retry_policy import LOCAL_RULES, PATIENCE_SECONDS, TRIES, Break, Pace, after_break
from senro.domain.transfer.scripts import IO_CONTAINER, FarCount, far_count, reading_command
from senro.domain.tree.content_rules import PLAIN, ContentRules
from senro.domain.tree.excludes import compile_excludes, far_excludes
from senro.domain.tree.tree import Tree
from senro.ports.cluster import Cluster, ExecSession
from senro.ports.trees import Trees, Unpacking

STDERR_HEAD = 512
"""Bytes of the beginning that are kept of a stderr that is longer than STDERR_LIMIT."""


class ReadBackLost(TransferFailure):
    """The files did not come back. The coordinator's copy is as it was.

    `repeatable` False: this machine or the identity's rights are at fault, another attempt ends the same.
    """

    def __init__(self, message: str, *, repeatable: bool = True) -> None:
        super().__init__(message)
        self.repeatable = repeatable


class ReadBackRefused(TransferFailure):
    """The files came, and must not be unpacked: what the step left is at fault. The coordinator's copy is as it was."""


@dataclass(slots=True)
class Download:
    """The read-back of one pod's read-write mounts.

    `folders` maps the index of each to the folder to replace, `rules` to what of it may come back.
    """

    attempt: Attempt
    pod: Pod
    cluster: Cluster
    folders: Mapping[int, str]
    packing: CompressionChoice
    what: str = "the workspaces"
    """What comes back, for messages."""

    staged: int = 0
    """Bytes of the archive that was sent in: about as many are expected to come back."""

    coding: Coding | None = None
    received: int = 0
    """Bytes that came, as they crossed."""

    unpacked: int = 0
    """Bytes of the archive that they stood for."""

    members: int = 0
    """Entries that they brought."""

    rules: Mapping[int, ContentRules] = field(default_factory=dict, kw_only=True)

    async def run(self) -> Mapping[int, Tree]:
        """What came back, already in place. Raises `ReadBackLost`, `ReadBackRefused`."""
        clock, pace = self.attempt.services.clock, Pace()
        began = clock.monotonic()
        while True:
            try:
                trees = await self._once()
            except RestartCompressed as again:
                self.coding = again.coding
                self.attempt.tell(str(again))
                continue
            except (ClusterError, TransferFailure, TreeError) as error:
                broken = error
            else:
                self.attempt.recorder.reporter.transfer(
                    self.attempt.step.id, "out", self.unpacked, self.unpacked, self.members
                )
                await self.attempt.transferred(
                    "out",
                    self.unpacked,
                    clock.monotonic() - began,
                    pace.tries + 1,
                    coding=self.coding or "plain",
                    crossed=self.received,
                )
                return trees
            taken = after_break(broken)
            wait = pace.pause(taken, clock.monotonic())
            message = f"{broken} ({self.received} bytes had come)"
            await self.attempt.transfer_broke("out", pace.tries, message)
            if isinstance(broken, TreeError) and taken.move == "end" and broken.rule not in LOCAL_RULES:
                raise ReadBackRefused(f"a workspace was refused as the step left it: {broken}") from broken
            if not await self._alive():
                raise ReadBackLost(f"the pod went away before {self.what} were read back: {message}")
            if wait is None:
                raise self._given_up(broken, taken, message) from broken
            self.attempt.tell(f"reading back broke ({pace.tries} of {TRIES} tries): {message}")
            await clock.sleep(wait)
            began = clock.monotonic()

    def _given_up(self, error: SenroError, taken: Break, message: str) -> ReadBackLost:
        if isinstance(error, TreeError) and taken.move == "end":
            return ReadBackLost(f"{self.what} could not be written on this machine: {error}", repeatable=False)
        if taken.move == "end":
            return ReadBackLost(f"{self.what} could not be read back: {error}", repeatable=False)
        if taken.move == "wait":
            minutes = PATIENCE_SECONDS / 60
            return ReadBackLost(f"{self.what} could not be read back for {minutes:.0f} minutes: {message}")
        return ReadBackLost(f"{self.what} could not be read back in {TRIES} tries: {message}")

    async def _alive(self) -> bool:
        """Whether `senro-io` can still be asked. A control plane in trouble says nothing: the next try finds out."""
        try:
            found = await self.cluster.read_pod(self.pod.metadata.namespace, self.pod.metadata.name)
        except ClusterError:
            return True
        if found is None or found.metadata.uid != self.pod.metadata.uid:
            return False
        status = found.container(IO_CONTAINER)
        return status is None or status.state.terminated is None

    async def _once(self) -> Mapping[int, Tree]:
        self.received = self.unpacked = 0
        found: Mapping[int, Tree] | None = None
        try:
            async with self.attempt.services.trees.unpack(self.folders, rules=self.rules) as unpacking:
                found = await self._unpack(unpacking)
        except TreeError as error:
            if found is None or error.rule != "leftover":
                raise
            # The new tree is in place; only the old one could not be removed.
            self.attempt.tell(str(error))
        return found

    async def _unpack(self, unpacking: Unpacking) -> Mapping[int, Tree]:
        if self.coding is None:
            self.coding = self.packing.first("out")
        async with self.cluster.exec(
            self.pod.metadata.namespace,
            self.pod.metadata.name,
            IO_CONTAINER,
            reading_command(tuple(sorted(self.folders)), coding=self.coding, excludes=self._told()),
            stdin=False,
            idle_seconds=IDLE_SECONDS,
        ) as session:
            result, stderr = await self._receive(session, unpacking)
        if result != ExitCode(0):
            raise TransferFailure(end_words(result, stderr, ""))
        found = await unpacking.finish()
        self.unpacked, self.members = unpacking.unpacked, unpacking.members
        counted = far_count(stderr)
        if counted is None or counted.members != unpacking.members:
            number = "no" if counted is None else counted.members
            raise TransferFailure(f"the far side counted {number} members, {unpacking.members} came")
        await unpacking.replace()
        return self._with_sockets(found, counted)

    def _told(self) -> tuple[str, ...]:
        """What the far tar can leave out; all of the rules are kept again where it comes in."""
        excludes = [self._rules_of(index).exclude for index in self.folders]
        return far_excludes(excludes, [str(index) for index in self.folders])

    def _with_sockets(self, trees: Mapping[int, Tree], counted: FarCount) -> Mapping[int, Tree]:
        """The trees, with the sockets that the far side saw among what they left out.

        Excluded ones are nobody's business. Those that it only counted stand in the first tree, together.
        """
        left_out: dict[int, list[tuple[str, str]]] = {index: [] for index in sorted(trees)}
        for name in counted.named:
            number, _, path = name.partition("/")
            index = int(number) if number in map(str, left_out) else None
            if index is not None and not compile_excludes(self._rules_of(index).exclude).matches(path, directory=False):
                left_out[index].append((path, "a socket"))
        if left_out and counted.sockets > len(counted.named):
            unnamed = f"({counted.sockets - len(counted.named)} more)"
            next(iter(left_out.values())).append((unnamed, "sockets"))
        return {
            index: replace(tree, left_out=tuple(sorted((*tree.left_out, *left_out[index]))))
            if left_out[index]
            else tree
            for index, tree in trees.items()
        }

    def _rules_of(self, index: int) -> ContentRules:
        return self.rules.get(index, PLAIN)

    async def _receive(self, session: ExecSession, unpacking: Unpacking) -> tuple[ExecResult, bytes]:
        reporter, step, stderr = self.attempt.recorder.reporter, self.attempt.step.id, b""
        measuring = _Measuring(self.packing, self.attempt.services.trees) if self.coding == "plain" else None
        while True:
            match await session.receive():
                case Stdout(data=data):
                    await unpacking.write(data)
                    self.received += len(data)
                    self.unpacked = unpacking.unpacked
                    self.members = unpacking.members
                    done = self.received if self.coding == "plain" else self.unpacked
                    reporter.transfer(step, "out", done, None, self.members)
                    if measuring is not None:
                        await measuring.take(data, self.received, self.staged)
                case Stderr(data=data):
                    stderr += data
                    if len(stderr) > STDERR_LIMIT:
                        # The count is the last line; what tar complained about is in the first.
                        stderr = stderr[:STDERR_HEAD] + stderr[STDERR_HEAD - STDERR_LIMIT :]
                case Ended(result=result):
                    return result, stderr


class _Measuring:
    """Measures what comes in plain, and says when it is worth having it packed."""

    def __init__(self, packing: CompressionChoice, trees: Trees) -> None:
        self._packing = packing
        self._trees = trees
        self._probe = Probe(packing, "out")
        self._sample = bytearray()
        self._next = PROBE_FROM

    async def take(self, data: bytes, received: int, staged: int) -> None:
        """`data` came, `received` bytes in all. Raises `RestartCompressed`."""
        if received >= PROBE_FROM and len(self._sample) < SAMPLE_BYTES:
            self._sample += data
        if received < self._next:
            return
        if not self._probe.mark(received):
            self._next = PROBE_TO
            return
        # How much will come is not known: as much again as came, or what had been sent in. So it is asked again later.
        self._next = 4 * received
        expected = max(staged, 2 * received)
        if self._packing.has and self._packing.could_pay("out", expected):
            self._packing.ratio = await self._trees.ratio_of(bytes(self._sample))
            self._sample.clear()  # what comes later may pack otherwise
            again = self._packing.again("out", expected, received)
            if again is not None:
                raise again
