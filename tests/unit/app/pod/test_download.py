from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest

from senro.adapters.fs import FolderTrees
from senro.app.pod.compression import CompressionChoice
from senro.app.pod.download import Download, DownloadFailed
from senro.app.workspaces.mount_transfer import MountTransfer
from senro.domain.errors import ClusterError, StreamBroken, TreeError, Unreachable
from senro.domain.kube.exec_protocol import ExecFailure, ExecResult, ExitCode, StatusLost
from senro.domain.kube.pod import Pod
from senro.domain.pipeline.workspace import Workspace
from senro.domain.run.events import Event, TransferCompleted, TransferTryFailed
from senro.domain.transfer.compression import LinkRates
from senro.domain.transfer.retry_policy import BROKEN_RULES, LOCAL_RULES, PATIENCE_SECONDS, TRIES
from senro.domain.transfer.scripts import reading_command
from senro.domain.tree.content_rules import DEFAULT_RULES, ContentRules
from senro.domain.tree.tree import Tree
from tests.lib.archives.files import archive, directory, file, make_folder, members, names, read_folder, tar_member
from tests.lib.fakes.clock import pass_time
from tests.lib.fakes.cluster import Command, FakeCluster, RemoteSide, refusal
from tests.lib.harness.app import App, pod_plan

pytestmark = pytest.mark.anyio

ASKED = "exec in senro-io of pod ci/make-1"
OLD = Tree((file("old", b"old"),))
NEW = Tree((directory("d"), file("d/new", b"new" * 40_000)))
OTHER = Tree((file("only", b"1"),))
DATA = members(NEW, {"d/new": b"new" * 40_000}, 0) + archive(OTHER, {"only": b"1"}, 2)
COUNT = b"senro-members 3 0\n"
SUCCESS = ExitCode(0)
MANIFEST = {"kind": "Pod", "metadata": {"name": "make-1", "namespace": "ci"}, "spec": {"containers": []}}


def sends(
    data: bytes = DATA, err: bytes = COUNT, end: ExecResult | StreamBroken = SUCCESS, *, piece: int = 50_000
) -> Command:
    """The remote side writes the archive in pieces, then stderr, and ends with this result."""

    async def run(far: RemoteSide) -> ExecResult:
        for at in range(0, len(data), piece):
            await far.stdout(data[at : at + piece])
        for at in range(0, len(err), 100):
            await far.stderr(err[at : at + 100])
        if isinstance(end, StreamBroken):
            raise end
        return end

    return run


UNOPENED: list[ClusterError] = [
    refusal(ASKED, 500, message="error dialing backend"),
    refusal(ASKED, 503, message="etcd has no leader"),
    refusal(ASKED, 429, "TooManyRequests", "slow down", retry_after=3),
    Unreachable(ASKED, cause="ConnectError: refused", sent=False),
]
"""What an apiserver or a kubelet that restarts says to an exec."""


@contextmanager
def fails(match: str, *, refused: bool = False) -> Iterator[pytest.ExceptionInfo[DownloadFailed]]:
    """The download fails with this message, and blames the step only if `refused`."""
    with pytest.raises(DownloadFailed, match=match) as caught:
        yield caught
    assert caught.value.failure.refused == refused


class _Failing:
    """An `Unpacking` that fails at its first byte."""

    def __init__(self, error: TreeError) -> None:
        self._error = error

    async def write(self, data: bytes) -> None:
        assert data
        raise self._error


class _Trees(FolderTrees):
    """Real folders; the first unpacking fails at its first byte, or on leaving after the swap."""

    def __init__(self, error: TreeError, when: Literal["write", "leave"]) -> None:
        super().__init__()
        self._error: TreeError | None = error
        self._when = when

    @asynccontextmanager
    async def unpack(
        self, destinations: Mapping[int, str], *, rules: Mapping[int, ContentRules] | None = None
    ) -> AsyncIterator[Any]:
        error, self._error = self._error, None
        async with super().unpack(destinations, rules=rules) as unpacking:
            yield _Failing(error) if error is not None and self._when == "write" else unpacking
        if error is not None:
            raise error


class Scene:
    """A pod whose step has ended, and two folders of the coordinator with old content."""

    def __init__(self, folder: Path) -> None:
        self.app = App(folder, pod_plan(), auto=False)
        self.cluster = FakeCluster(self.app.clock)
        self.folders = {0: str(folder / "first"), 2: str(folder / "second")}
        for path in self.folders.values():
            make_folder(Path(path), OLD, {"old": b"old"})
        self.pod = Pod()
        self.compression = CompressionChoice(LinkRates(), self.app.clock)
        self.uploaded_bytes = 0
        self.pod_ended = anyio.Event()
        self.rules: Mapping[int, ContentRules] = {}

    async def read(self, *commands: Command) -> Any:
        self.pod = await self.cluster.create_pod(MANIFEST)
        self.cluster.commands.extend(commands)
        mounts = [
            MountTransfer(
                index=index,
                mount=Workspace(f"w{index}").at(f"/w{index}"),
                folder=folder,
                tree=OLD,
                rules=self.rules.get(index, DEFAULT_RULES),
                returns=True,
            )
            for index, folder in self.folders.items()
        ]
        self.download = Download(
            self.app.attempt(),
            self.pod,
            self.cluster,
            mounts,
            self.compression,
            pod_ended=self.pod_ended,
            uploaded_bytes=self.uploaded_bytes,
        )
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(pass_time, self.app.clock)
                try:
                    with anyio.fail_after(60):
                        return await self.download.run()
                except DownloadFailed as error:
                    failure = error  # what leaves a task group is wrapped
                finally:
                    group.cancel_scope.cancel()
            raise failure
        finally:
            assert self.cluster.open_streams == 0

    @property
    def events(self) -> list[Event]:
        return self.app.ledger.events

    def untouched(self) -> bool:
        """Whether the coordinator's folders are unchanged, without leftovers."""
        additions = set(names(Path(self.folders[0]).parent)) - {"first", "second", "runs", "cache"}
        return self.contents() == [OLD, OLD] and not additions

    def contents(self) -> list[Tree]:
        return [read_folder(Path(path)) for path in self.folders.values()]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def test_folders_are_replaced_by_the_download(scene: Scene) -> None:
    """One exec without stdin; every folder is replaced, the trees are returned, and one event is recorded."""
    found = await scene.read(sends())
    assert found == {0: NEW, 2: OTHER}
    assert scene.contents() == [NEW, OTHER]
    (far,) = scene.cluster.execs
    assert (far.container, far.command, far.stdin) == ("senro-io", reading_command((0, 2)), False)
    (event,) = scene.events
    assert isinstance(event, TransferCompleted)
    assert (event.direction, event.bytes, event.tries) == ("download", len(DATA), 1)
    progress = scene.app.reporter.transfers
    assert progress[-1] == ("build.make", "download", len(DATA), len(DATA))
    assert progress[0] == ("build.make", "download", 50_000, None)
    assert scene.app.reporter.files[-1] == 3


async def test_remote_tar_gets_excludes(scene: Scene) -> None:
    """Plain names that all folders exclude are excluded by the remote tar; the other rules are applied here."""
    scene.rules = {0: ContentRules(("**/node_modules", "build", "**/*.pyc")), 2: ContentRules(("**/node_modules",))}
    await scene.read(sends())
    (far,) = scene.cluster.execs
    assert far.command == reading_command((0, 2), excludes=("node_modules",))


async def test_sockets_are_listed_as_omitted(scene: Scene) -> None:
    """Sockets are listed with their workspace, except excluded ones; unnamed ones with the first workspace."""
    scene.rules = {2: ContentRules(("run",))}
    named = b"".join(b"senro-socket %b\n" % name for name in (b"0/a/s", b"2/t", b"2/run", b"x", b"\xb2/y"))
    found = await scene.read(sends(err=named + b"senro-members 3 999999999\n"))
    assert found[0].omitted == (("(999999994 more)", "sockets"), ("a/s", "a socket"))
    assert found[2].omitted == (("t", "a socket"),)
    assert found == {0: NEW, 2: OTHER}


FAILURES: list[tuple[Command, str]] = [
    (sends(data=DATA[:-1024]), "archive"),
    (sends(data=DATA[:70_000]), "70000 bytes had arrived"),
    (sends(data=b""), "0 bytes had arrived"),
    (sends(end=StatusLost(1006)), "the stream was closed without a status: senro-members 3 0"),
    (sends(end=StreamBroken(ASKED, cause="reset by peer")), "reset by peer"),
    (sends(data=DATA[:100], end=StreamBroken(ASKED, cause="reset by peer")), "100 bytes had arrived"),
    (sends(err=b"tar: 0/d: file changed as we read it\n", end=ExitCode(1)), "exited 1: tar: 0/d: file changed"),
    (sends(end=ExecFailure("InternalError", "no such container")), "no such container"),
    (sends(err=b""), "the remote script counted no members, but 3 arrived"),
    (sends(err=b"senro-members 4 0\n"), "the remote script counted 4 members, but 3 arrived"),
]


@pytest.mark.parametrize(("failure", "words"), FAILURES, ids=range(len(FAILURES)))
async def test_incomplete_archive_is_downloaded_again(scene: Scene, failure: Command, words: str) -> None:
    """End blocks, status and count must be there; until then the folders are unchanged."""

    async def look(far: RemoteSide) -> ExecResult:
        assert scene.contents() == [OLD, OLD]
        return await sends()(far)

    assert await scene.read(failure, look) == {0: NEW, 2: OTHER}
    broken, done = scene.events
    assert isinstance(broken, TransferTryFailed)
    assert (broken.direction, broken.tries) == ("download", 1)
    assert words in broken.message
    assert isinstance(done, TransferCompleted)
    assert done.tries == 2


@pytest.mark.parametrize("failure", [failure for failure, _ in FAILURES], ids=range(len(FAILURES)))
async def test_three_failed_tries_change_nothing(scene: Scene, failure: Command) -> None:
    """After three failed tries the folders are unchanged."""
    with fails("could not be read back in 3 tries: "):
        await scene.read(*[failure] * TRIES)
    assert scene.untouched()
    assert [event.tries for event in scene.events if isinstance(event, TransferTryFailed)] == [1, 2, 3]


@pytest.mark.parametrize(
    "data",
    [
        tar_member(b"0/../x", content=b"x"),
        tar_member(b"/etc/passwd", content=b"x"),
        tar_member(b"0/l", kind=b"2", target=b"/etc/passwd"),
        tar_member(b"0/sparse", kind=b"S"),
    ],
    ids=["parent", "absolute", "link", "sparse"],
)
async def test_invalid_archive_is_refused_at_once(scene: Scene, data: bytes) -> None:
    """An archive that must not be unpacked is refused without another try, and the reason is recorded."""
    with fails("a workspace was refused as the step left it: ", refused=True):
        await scene.read(sends(data=data + bytes(1024)))
    assert scene.untouched()
    assert [type(event) for event in scene.events] == [TransferTryFailed]
    assert len(scene.cluster.execs) == 1


@pytest.mark.parametrize("another", [False, True])
async def test_missing_pod_is_not_tried_again(scene: Scene, another: bool) -> None:
    """If the pod is gone, or another has its name, there is no other try."""

    async def vanish(far: RemoteSide) -> ExecResult:
        await far.stdout(DATA[:10])
        scene.cluster.vanish(scene.pod)
        if another:
            await scene.cluster.create_pod(MANIFEST)
        raise StreamBroken(ASKED, cause="reset by peer")

    with fails(r"the pod went away before the workspaces were read back: .*10 bytes"):
        await scene.read(vanish)
    assert scene.untouched()
    assert len(scene.cluster.execs) == 1


async def test_failed_poll_does_not_end_the_download(scene: Scene) -> None:
    """If the pod cannot be read, the next try finds out."""
    scene.cluster.fail("read_pod", refusal("read", 503))
    assert await scene.read(sends(data=b""), sends()) == {0: NEW, 2: OTHER}


async def test_a_frozen_exec_does_not_outlive_its_pod(scene: Scene) -> None:
    """Once the pod has ended, a stream on which nothing moves is given up within seconds, and the files are lost."""

    async def frozen(far: RemoteSide) -> ExecResult:
        await far.stdout(b"x" * 512)
        scene.cluster.vanish(scene.pod)
        scene.pod_ended.set()
        await anyio.sleep_forever()
        raise AssertionError

    before = scene.app.clock.monotonic()
    with pytest.raises(DownloadFailed, match="the pod went away"):
        await scene.read(frozen)
    assert scene.app.clock.monotonic() - before < 10
    assert scene.untouched()


@pytest.mark.parametrize("times", [1, 2, 3, 6, 20])
@pytest.mark.parametrize("error", UNOPENED, ids=["500", "503", "429", "connection"])
async def test_refused_exec_counts_as_no_try(scene: Scene, error: ClusterError, times: int) -> None:
    """An exec that does not open is repeated, and three tries remain afterwards."""
    for _ in range(times):
        scene.cluster.fail("exec", error)
    assert await scene.read(sends(data=b""), sends(data=b""), sends()) == {0: NEW, 2: OTHER}
    assert [event.tries for event in scene.events if isinstance(event, TransferTryFailed)] == [0] * times + [1, 2]
    done = scene.events[-1]
    assert isinstance(done, TransferCompleted)
    assert done.tries == 3


@pytest.mark.parametrize("after", [0.5, 42, 300])
async def test_retry_after_is_respected(scene: Scene, after: float) -> None:
    """The exec is opened again after the requested delay."""
    before = scene.app.clock.monotonic()
    scene.cluster.fail("exec", refusal(ASKED, 429, retry_after=after))
    assert await scene.read(sends()) == {0: NEW, 2: OTHER}
    assert after <= scene.app.clock.monotonic() - before < after + 1


@pytest.mark.parametrize("error", UNOPENED, ids=["500", "503", "429", "connection"])
async def test_long_outage_ends_the_download(scene: Scene, error: ClusterError) -> None:
    """After fifteen minutes of refusals the download fails; another attempt may succeed."""
    before = scene.app.clock.monotonic()
    for _ in range(500):
        scene.cluster.fail("exec", error)
    with fails("could not be read back") as caught:
        await scene.read()
    assert str(error) in str(caught.value)
    assert caught.value.failure.repeatable
    assert PATIENCE_SECONDS - 3 <= scene.app.clock.monotonic() - before <= PATIENCE_SECONDS
    assert scene.untouched()
    # No try was made, so none can have failed.
    assert "3 tries" not in str(caught.value)


@pytest.mark.parametrize("code", [401, 403, 422])
async def test_missing_right_ends_the_download_at_once(scene: Scene, code: int) -> None:
    """A missing right is reported after one request; another attempt would fail too."""
    scene.cluster.fail("exec", refusal(ASKED, code, "Forbidden", 'cannot create resource "pods/exec"'))
    with fails('cannot create resource "pods/exec"') as caught:
        await scene.read(sends())
    assert not caught.value.failure.repeatable
    assert scene.cluster.calls.count("exec") == 1
    assert scene.untouched()


@pytest.mark.parametrize("rule", sorted(LOCAL_RULES - {"leftover"}))
async def test_local_error_ends_the_download_at_once(scene: Scene, rule: str) -> None:
    """An error of this machine ends the download after one try, and does not blame the step."""
    object.__setattr__(scene.app.services, "trees", _Trees(TreeError("d", rule, "No space left on device"), "write"))
    with fails("could not be written on this machine: d: No space left") as caught:
        await scene.read(sends())
    assert not caught.value.failure.repeatable
    assert len(scene.cluster.execs) == 1
    assert scene.untouched()


@pytest.mark.parametrize("rule", sorted(BROKEN_RULES))
async def test_damaged_archive_is_downloaded_again(scene: Scene, rule: str) -> None:
    """An archive that was damaged in transit counts as one of three tries."""
    object.__setattr__(scene.app.services, "trees", _Trees(TreeError("d", rule, "torn"), "write"))
    assert await scene.read(sends(), sends()) == {0: NEW, 2: OTHER}
    assert len(scene.cluster.execs) == 2


async def test_leftover_after_the_swap_is_noted(scene: Scene) -> None:
    """A `leftover` after the swap is noted, and the download has succeeded."""
    object.__setattr__(scene.app.services, "trees", _Trees(TreeError("old", "leftover", "Permission denied"), "leave"))
    assert await scene.read(sends()) == {0: NEW, 2: OTHER}
    assert scene.contents() == [NEW, OTHER]
    assert len(scene.cluster.execs) == 1
    assert scene.app.reporter.notes == [("build.make", "old: Permission denied")]
    assert [type(event) for event in scene.events] == [TransferCompleted]


async def test_leftover_before_the_swap_fails_the_download(scene: Scene) -> None:
    """A `leftover` before the swap fails the download."""
    object.__setattr__(scene.app.services, "trees", _Trees(TreeError("old", "leftover", "Permission denied"), "write"))
    with fails("old: Permission denied"):
        await scene.read(sends())
    assert scene.contents() == [OLD, OLD]


async def test_ended_container_is_not_tried_again(scene: Scene) -> None:
    """If `senro-io` has terminated, there is no other try."""

    async def end(far: RemoteSide) -> ExecResult:
        await far.stdout(DATA[:10])
        ended = {"name": "senro-io", "state": {"terminated": {"exitCode": 143, "reason": "Error"}}}
        scene.cluster.show(scene.pod, {"phase": "Running", "containerStatuses": [ended]})
        raise StreamBroken(ASKED, cause="reset by peer")

    with fails(r"the pod went away before the workspaces were read back: .*10 bytes"):
        await scene.read(end)
    assert scene.cluster.calls.count("exec") == 1
    assert scene.untouched()


async def test_count_is_found_after_many_warnings(scene: Scene) -> None:
    """Of a long stderr only the middle is dropped, so the count in the last line is found."""
    warnings = b"".join(b"tar: 0/socket-%d: socket ignored\n" % number for number in range(1000))
    assert await scene.read(sends(err=warnings + COUNT)) == {0: NEW, 2: OTHER}


async def test_cancelled_download_changes_nothing(scene: Scene) -> None:
    """A cancelled download replaces nothing, closes its exec and leaves no siblings."""

    async def hang(far: RemoteSide) -> ExecResult:
        await far.stdout(DATA[:70_000])
        group.cancel_scope.cancel()
        await anyio.sleep_forever()
        raise AssertionError("unreachable")

    async with anyio.create_task_group() as group:
        await scene.read(hang)
    assert scene.untouched()
    assert scene.events == []
