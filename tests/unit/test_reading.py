from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from senro.app.reading import ReadBackLost, ReadBackRefused, Reading
from senro.app.staging import TRIES
from senro.domain.errors import StreamBroken
from senro.domain.events import Event, TransferBroken, Transferred
from senro.domain.exec_protocol import ExecFailure, ExecResult, ExitCode, StatusLost
from senro.domain.pod import Pod
from senro.domain.transfer import reading_command
from senro.domain.tree import Tree
from tests.fakes.cluster import Command, FakeCluster, FarSide, refused
from tests.support_app import App, pod_plan
from tests.support_files import archive, directory, file, make_folder, members, names, read_folder, tar_member

pytestmark = pytest.mark.anyio

ASKED = "exec in senro-io of pod ci/make-1"
OLD = Tree((file("old", b"old"),))
NEW = Tree((directory("d"), file("d/new", b"new" * 40_000)))
OTHER = Tree((file("only", b"1"),))
DATA = members(NEW, {"d/new": b"new" * 40_000}, 0) + archive(OTHER, {"only": b"1"}, 2)
COUNT = b"senro-members 3\n"
SUCCESS = ExitCode(0)
MANIFEST = {"kind": "Pod", "metadata": {"name": "make-1", "namespace": "ci"}, "spec": {"containers": []}}


def sends(
    data: bytes = DATA, err: bytes = COUNT, end: ExecResult | StreamBroken = SUCCESS, *, piece: int = 50_000
) -> Command:
    """The far side writes the archive in pieces, says something, and ends so."""

    async def run(far: FarSide) -> ExecResult:
        for at in range(0, len(data), piece):
            await far.stdout(data[at : at + piece])
        for at in range(0, len(err), 100):
            await far.stderr(err[at : at + 100])
        if isinstance(end, StreamBroken):
            raise end
        return end

    return run


class Scene:
    """A pod that ended its step, and two folders of the coordinator with old content."""

    def __init__(self, folder: Path) -> None:
        self.app = App(folder, pod_plan(), auto=False)
        self.cluster = FakeCluster(self.app.clock)
        self.folders = {0: str(folder / "first"), 2: str(folder / "second")}
        for path in self.folders.values():
            make_folder(Path(path), OLD, {"old": b"old"})
        self.pod = Pod()

    async def read(self, *commands: Command) -> Any:
        self.pod = await self.cluster.create_pod(MANIFEST)
        self.cluster.commands.extend(commands)
        self.reading = Reading(self.app.attempt(), self.pod, self.cluster, self.folders)
        try:
            with anyio.fail_after(60):
                return await self.reading.run()
        finally:
            assert self.cluster.open_streams == 0

    @property
    def events(self) -> list[Event]:
        return self.app.ledger.events

    def untouched(self) -> bool:
        """Whether the coordinator's copies are what they were, and nothing lies beside them."""
        beside = set(names(Path(self.folders[0]).parent)) - {"first", "second", "runs", "cache"}
        return self.contents() == [OLD, OLD] and not beside

    def contents(self) -> list[Tree]:
        return [read_folder(Path(path)) for path in self.folders.values()]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def test_folders_are_replaced_by_what_came(scene: Scene) -> None:
    """One exec without stdin, every folder swapped whole, the trees returned and one event."""
    found = await scene.read(sends())
    assert found == {0: NEW, 2: OTHER}
    assert scene.contents() == [NEW, OTHER]
    (far,) = scene.cluster.execs
    assert (far.container, far.command, far.stdin) == ("senro-io", reading_command((0, 2)), False)
    (event,) = scene.events
    assert isinstance(event, Transferred)
    assert (event.direction, event.bytes, event.tries) == ("out", len(DATA), 1)
    told = scene.app.told.transfers
    assert told[-1] == ("build.make", "out", len(DATA), len(DATA))
    assert told[0] == ("build.make", "out", 50_000, None)


FAILURES: list[tuple[Command, str]] = [
    (sends(data=DATA[:-1024]), "archive"),
    (sends(data=DATA[:70_000]), "70000 bytes had come"),
    (sends(data=b""), "0 bytes had come"),
    (sends(end=StatusLost(1006)), "the stream was closed without a status: senro-members 3"),
    (sends(end=StreamBroken(ASKED, cause="reset by peer")), "reset by peer"),
    (sends(data=DATA[:100], end=StreamBroken(ASKED, cause="reset by peer")), "100 bytes had come"),
    (sends(err=b"tar: 0/d: file changed as we read it\n", end=ExitCode(1)), "exited 1: tar: 0/d: file changed"),
    (sends(end=ExecFailure("InternalError", "no such container")), "no such container"),
    (sends(err=b""), "the far side counted None members, 3 came"),
    (sends(err=b"senro-members 4\n"), "the far side counted 4 members, 3 came"),
]


@pytest.mark.parametrize(("failure", "words"), FAILURES, ids=range(len(FAILURES)))
async def test_what_cannot_be_proven_whole_is_read_again(scene: Scene, failure: Command, words: str) -> None:
    """End blocks, status and count must all be there; until they are, the folders are what they were."""

    async def look(far: FarSide) -> ExecResult:
        assert scene.contents() == [OLD, OLD]
        return await sends()(far)

    assert await scene.read(failure, look) == {0: NEW, 2: OTHER}
    broken, done = scene.events
    assert isinstance(broken, TransferBroken)
    assert (broken.direction, broken.tries) == ("out", 1)
    assert words in broken.message
    assert isinstance(done, Transferred)
    assert done.tries == 2


@pytest.mark.parametrize("failure", [failure for failure, _ in FAILURES], ids=range(len(FAILURES)))
async def test_three_tries_leave_everything_as_it_was(scene: Scene, failure: Command) -> None:
    """Then the files are lost, and the coordinator's copy is byte for byte what it was."""
    with pytest.raises(ReadBackLost, match="could not be read back in 3 tries: "):
        await scene.read(*[failure] * TRIES)
    assert scene.untouched()
    assert [event.tries for event in scene.events if isinstance(event, TransferBroken)] == [1, 2, 3]


@pytest.mark.parametrize(
    "data",
    [
        tar_member(b"0/../x", content=b"x"),
        tar_member(b"/etc/passwd", content=b"x"),
        tar_member(b"0/dev", kind=b"3"),
        tar_member(b"0/pipe", kind=b"6"),
    ],
    ids=["parent", "absolute", "device", "fifo"],
)
async def test_what_must_not_be_unpacked_is_refused_at_once(scene: Scene, data: bytes) -> None:
    """The step left it so: no other try helps, and nothing of it touches the folders."""
    with pytest.raises(ReadBackRefused, match="a workspace was refused as the step left it: "):
        await scene.read(sends(data=data + bytes(1024)))
    assert scene.untouched()
    assert scene.events == []
    assert len(scene.cluster.execs) == 1


@pytest.mark.parametrize("another", [False, True])
async def test_a_pod_that_is_gone_is_not_asked_again(scene: Scene, another: bool) -> None:
    """Gone, or another pod under its name: what it held is lost."""

    async def vanish(far: FarSide) -> ExecResult:
        await far.stdout(DATA[:10])
        scene.cluster.vanish(scene.pod)
        if another:
            await scene.cluster.create_pod(MANIFEST)
        raise StreamBroken(ASKED, cause="reset by peer")

    with pytest.raises(ReadBackLost, match=r"the pod went away before its workspaces were read back: .*10 bytes"):
        await scene.read(vanish)
    assert scene.untouched()
    assert len(scene.cluster.execs) == 1


async def test_a_control_plane_in_trouble_says_nothing_of_the_pod(scene: Scene) -> None:
    """Where it cannot be looked at, the next try finds out."""
    scene.cluster.fail("read_pod", refused("read", 503))
    assert await scene.read(sends(data=b""), sends()) == {0: NEW, 2: OTHER}


async def test_an_exec_that_does_not_open_is_repeated(scene: Scene) -> None:
    """A 500 before the 101, a refusal: each is one try."""
    scene.cluster.fail("exec", refused(ASKED, 500, message="dial tcp"))
    scene.cluster.fail("exec", refused(ASKED, 403, message="no"))
    assert await scene.read(sends()) == {0: NEW, 2: OTHER}
    assert [type(event) for event in scene.events] == [TransferBroken, TransferBroken, Transferred]


async def test_the_count_is_found_behind_many_warnings(scene: Scene) -> None:
    """A tar that warned of a thousand sockets still hands over: only the middle of what it said is dropped."""
    warnings = b"".join(b"tar: 0/socket-%d: socket ignored\n" % number for number in range(1000))
    assert await scene.read(sends(err=warnings + COUNT)) == {0: NEW, 2: OTHER}


async def test_a_reading_that_is_cancelled_leaves_everything_as_it_was(scene: Scene) -> None:
    """With half of the archive here: nothing is replaced, nothing stays open, nothing is left beside the folders."""

    async def hang(far: FarSide) -> ExecResult:
        await far.stdout(DATA[:70_000])
        group.cancel_scope.cancel()
        await anyio.sleep_forever()
        raise AssertionError("unreachable")

    async with anyio.create_task_group() as group:
        await scene.read(hang)
    assert scene.untouched()
    assert scene.events == []
