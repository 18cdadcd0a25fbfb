from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.adapters.apiserver import watch_pod
from senro.app.pod.log_follower import HUNG_SECONDS, PAUSE_SECONDS, LogFollower
from senro.app.pod.observer import PodObserver
from senro.domain.errors import ClusterError, StreamBroken, Unreachable
from senro.domain.kube.pod import Pod
from senro.domain.run.events import LogEnded
from senro.domain.verdict import Exited, Infra, Memory, Patience
from tests.lib.fakes.cluster import Cut, FakeCluster, ended, refused, running, waiting
from tests.lib.harness.app import App, pod_plan, until

pytestmark = pytest.mark.anyio

ASKED = "follow the log of step in pod ci/make-1"


def stamped(count: int, *, at: int = 0, text: str = "line") -> bytes:
    """Lines with times, four to a second, some of them alike."""
    lines = [f"2026-11-29T10:00:{n // 4:02}.{n % 4}00000000Z {text} {n // 3}\n" for n in range(at, at + count)]
    return "".join(lines).encode()


def plain(count: int, *, at: int = 0, text: str = "line") -> bytes:
    """The same as a person reads them."""
    return "".join(f"{text} {n // 3}\n" for n in range(at, at + count)).encode()


def broken() -> StreamBroken:
    return StreamBroken(ASKED, cause="reset by peer")


class Scene:
    """A pod in a fake cluster, watched by polls, its log followed, in virtual time that moves by itself."""

    def __init__(self, folder: Path, secret: bytes | None = None) -> None:
        values = {} if secret is None else {"Token": secret}
        self.app = App(folder, pod_plan(), secrets=values)
        self.cluster = FakeCluster(self.app.clock, course=lambda _: [running()])
        self.pod = Pod()
        self.following: LogFollower | None = None

    @asynccontextmanager
    async def following_it(self) -> AsyncIterator[None]:
        """The following beside its observer while the context is open, then to its end, and recorded."""
        attempt = self.app.attempt()
        manifest = {
            "kind": "Pod",
            "metadata": {"name": "make-1", "namespace": "ci"},
            "spec": {"containers": [{"name": "step"}]},
        }
        self.pod = await self.cluster.create_pod(manifest)
        clock = self.app.clock
        self.observer = PodObserver(
            watch_pod(self.cluster, "ci", "make-1", uid=self.pod.uid, clock=clock),
            self.pod,
            Memory.start(uid=self.pod.uid),
            Patience(began=clock.monotonic()),
            clock,
        )
        async with self.app.ledger.open_log("build.make", 1) as log:
            following = LogFollower(attempt, self.pod, self.cluster, self.observer, log)
            with anyio.fail_after(60):
                async with anyio.create_task_group() as group:
                    group.start_soon(self.observer.run)
                    group.start_soon(following.run)
                    yield
            await following.finish(within=20)
        assert self.cluster.open_streams == 0

    @property
    def written(self) -> bytes:
        return self.app.ledger.logs["build.make", 1].content

    @property
    def end(self) -> LogEnded:
        (event,) = self.app.ledger.events
        assert isinstance(event, LogEnded)
        return event

    def finish(self, code: int = 0) -> None:
        """The container ends, and its log with it."""
        self.cluster.log(self.pod).end()
        self.cluster.show(self.pod, ended(code))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def test_a_log_is_written_and_shown_to_its_end(scene: Scene) -> None:
    """Each line is in the run's folder without its time, told to the reporter as it came, and the log is complete."""
    async with scene.following_it():
        log = scene.cluster.log(scene.pod)
        log.add(stamped(5))
        await until(lambda: scene.written == plain(5))
        assert len(scene.app.reporter.lines) == 5
        log.add(stamped(1, at=5) + b"2026-11-29T10:00:09.000000000Z end")
        scene.finish()
    assert scene.written == plain(6) + b"end"
    assert scene.app.reporter.lines[-1] == ("build.make", "stdout", "end")
    assert (scene.end.complete, scene.end.reason) == (True, "")
    assert scene.cluster.openings == [None]


async def test_nothing_is_opened_before_the_step_runs(scene: Scene) -> None:
    """While the pod waits nobody asks for a log that is not there."""
    async with scene.following_it():
        scene.cluster.show(scene.pod, waiting())
        await scene.app.clock.sleep(10)
        assert "follow_log" not in scene.cluster.calls
        scene.cluster.log(scene.pod).add(stamped(2))
        scene.cluster.show(scene.pod, running())
        await until(lambda: scene.written == plain(2))
        scene.finish()
    assert scene.end.complete


async def test_a_step_that_never_ran_has_an_empty_log(scene: Scene) -> None:
    """The pod went away while it waited: the log is complete, and empty."""
    async with scene.following_it():
        scene.cluster.show(scene.pod, waiting())
        await scene.app.clock.sleep(3)
        scene.cluster.vanish(scene.pod)
    assert isinstance(scene.observer.answer, Infra)
    assert (scene.written, scene.end.complete) == (b"", True)


@pytest.mark.parametrize("error", [broken(), None, Unreachable(ASKED, cause="timed out", sent=True)], ids=str)
async def test_a_stream_that_ends_is_opened_again(scene: Scene, error: ClusterError | None) -> None:
    """Broken or ended in order while the container runs: reopened at the last time, nothing lost, nothing twice."""
    scene.cluster.cuts.extend([Cut(120, error), Cut(60, error)])
    async with scene.following_it():
        scene.cluster.log(scene.pod).add(stamped(12))
        await until(lambda: scene.written == plain(12))
        scene.finish()
    assert scene.written == plain(12)
    assert scene.end.complete
    assert scene.cluster.openings[0] is None
    assert all(since is not None and since.endswith("Z") for since in scene.cluster.openings[1:])
    assert len(scene.cluster.openings) == 3


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(0, 300), st.sampled_from(["broken", "ended"])), max_size=5),
    st.integers(0, 20),
    st.integers(0, 20),
)
def test_every_line_is_written_once(cuts: list[tuple[int, str]], before: int, after: int) -> None:
    """Wherever the streams are cut, whatever the lines are: the file is the log."""

    async def run() -> None:
        scene = Scene(Path("/nowhere"))
        scene.cluster.cuts.extend(Cut(at, broken() if how == "broken" else None) for at, how in cuts)
        async with scene.following_it():
            scene.cluster.log(scene.pod).add(stamped(before))
            await scene.app.clock.sleep(2)
            scene.cluster.log(scene.pod).add(stamped(after, at=before))
            await scene.app.clock.sleep(0.1)
            scene.finish()
        assert scene.written == plain(before + after)
        assert scene.end.complete

    anyio.run(run)


async def test_what_was_not_followed_is_read_in_the_end(scene: Scene) -> None:
    """An apiserver that restarts ends streams in order, the last one too: the rest is read once the step has ended."""
    scene.cluster.cuts.append(Cut(100, None))
    async with scene.following_it():
        scene.cluster.log(scene.pod).add(stamped(8))
        scene.finish()
    assert (scene.written, scene.end.complete) == (plain(8), True)
    assert scene.cluster.calls.count("follow_log") == 1
    assert "read_log" in scene.cluster.calls


async def test_a_stream_that_hangs_after_the_end_is_let_go(scene: Scene) -> None:
    """The pod says that the container has ended, the stream does not: three quiet seconds later the rest is read."""
    async with scene.following_it():
        log = scene.cluster.log(scene.pod)
        log.add(stamped(4))
        await until(lambda: scene.written == plain(4))
        scene.cluster.show(scene.pod, ended(0))
        await until(lambda: isinstance(scene.observer.answer, Exited))
        began = scene.app.clock.monotonic()
        log.add(stamped(2, at=4))
    assert (scene.written, scene.end.complete) == (plain(6), True)
    assert HUNG_SECONDS <= scene.app.clock.monotonic() - began <= 3 * HUNG_SECONDS
    assert scene.cluster.calls.count("read_log") == 1


async def test_a_stream_that_brings_news_is_opened_again_soon(scene: Scene) -> None:
    """What is cut while lines come is resumed at once, before they rotate away; what brings nothing is asked gently."""
    scene.cluster.cuts.extend([Cut(120, broken()), Cut(160, broken()), Cut(10, broken()), Cut(10, broken())])
    async with scene.following_it():
        scene.cluster.log(scene.pod).add(stamped(12))
        began = scene.app.clock.monotonic()
        await until(lambda: len(scene.cluster.openings) == 3)
        assert scene.app.clock.monotonic() - began < PAUSE_SECONDS
        await until(lambda: len(scene.cluster.openings) == 5)
        assert scene.app.clock.monotonic() - began >= 2 * PAUSE_SECONDS
        scene.finish()
    assert (scene.written, scene.end.complete) == (plain(12), True)


async def test_a_rotation_inside_a_cut_is_told(scene: Scene) -> None:
    """The newest file no longer holds the newest line: what is there is written, and the log is not called complete."""
    scene.cluster.cuts.append(Cut(len(stamped(4)), broken()))
    async with scene.following_it():
        log = scene.cluster.log(scene.pod)
        log.add(stamped(4))
        await until(lambda: scene.written == plain(4))
        log.content = stamped(4, at=8)
        scene.finish()
    assert scene.written == plain(4) + plain(4, at=8)
    assert not scene.end.complete
    assert scene.end.reason == "it was rotated while its stream was cut, so lines in between may be missing"


async def test_the_rest_is_asked_for_until_it_is_answered(scene: Scene) -> None:
    """Troubles on the way to the last lines are sat out; the caller bounds it."""
    scene.cluster.cuts.append(Cut(100, broken()))
    for error in (broken(), Unreachable(ASKED, cause="refused", sent=False), refused(ASKED, 429), refused(ASKED, 500)):
        scene.cluster.fail("read_log", error)
    async with scene.following_it():
        scene.cluster.log(scene.pod).add(stamped(8))
        scene.finish()
    assert (scene.written, scene.end.complete) == (plain(8), True)
    assert scene.cluster.calls.count("read_log") == 5


async def test_a_kubelet_that_has_not_started_it_yet_is_asked_again(scene: Scene) -> None:
    """400 although the pod says that it runs: asked again half a second later, and nothing is missing."""
    scene.cluster.fail("follow_log", refused(ASKED, 400, "BadRequest", "waiting to start: ContainerCreating"))
    async with scene.following_it():
        scene.cluster.log(scene.pod).add(stamped(3))
        await until(lambda: scene.written == plain(3))
        scene.finish()
    assert scene.end.complete


async def test_a_log_with_nothing_in_it_is_asked_for_again(scene: Scene) -> None:
    """204, as long as no node is named: the stream ends in order and empty, half a second later it is opened again."""
    scene.cluster.cuts.extend([Cut(0, None), Cut(0, None)])
    async with scene.following_it():
        began = scene.app.clock.monotonic()
        scene.cluster.log(scene.pod).add(stamped(3))
        await until(lambda: scene.written == plain(3))
        assert scene.app.clock.monotonic() - began >= 2 * PAUSE_SECONDS
        scene.finish()
    assert (scene.cluster.openings, scene.end.complete) == ([None] * 3, True)


@pytest.mark.parametrize("code", [500, 502, 429])
async def test_a_kubelet_out_of_reach_is_asked_again(scene: Scene, code: int) -> None:
    """Troubles on the way say nothing of the log: the pod says whether there is more to come."""
    for _ in range(3):
        scene.cluster.fail("follow_log", refused(ASKED, code, message="dial tcp: connection refused"))
    async with scene.following_it():
        scene.cluster.log(scene.pod).add(stamped(3))
        await until(lambda: scene.written == plain(3))
        scene.finish()
    assert scene.end.complete


async def test_a_pod_that_is_gone_says_so(scene: Scene) -> None:
    """The stream broke and the pod is no more: what came is kept, and the end of the log says what is missing."""
    scene.cluster.cuts.append(Cut(len(stamped(3)) + 10, broken()))
    async with scene.following_it():
        log = scene.cluster.log(scene.pod)
        log.add(stamped(3))
        await until(lambda: scene.written == plain(3))
        scene.cluster.vanish(scene.pod)
        log.add(stamped(2, at=3))
    assert scene.written == plain(3)
    assert not scene.end.complete
    assert "could not be read" in scene.end.reason
    assert "404" in scene.end.reason


async def test_a_pod_that_is_gone_before_it_is_opened(scene: Scene) -> None:
    """404 at the opening ends the following with its reason."""
    scene.cluster.fail("follow_log", refused(ASKED, 404, "NotFound", 'pods "make-1" not found'))
    async with scene.following_it():
        await until(lambda: "follow_log" in scene.cluster.calls)
        scene.cluster.vanish(scene.pod)
    assert scene.end.reason == "the pod was gone before the end of its log was read"


async def test_a_log_that_may_not_be_read(scene: Scene) -> None:
    """403 is told once, in the cluster's words; nobody hammers."""
    scene.cluster.fail("follow_log", refused(ASKED, 403, "Forbidden", 'cannot get resource "pods/log"'))
    async with scene.following_it():
        await until(lambda: "follow_log" in scene.cluster.calls)
        scene.finish()
    assert 'cannot get resource "pods/log"' in scene.end.reason
    assert scene.cluster.calls.count("follow_log") == 1


TROUBLE = b"failed to watch directory /var/log/pods/ci_make-1: no space left on device"


async def test_a_trouble_of_the_kubelet_is_no_line_of_the_step(scene: Scene) -> None:
    """Said inside the log, since the 200 was out: not shown as output. What it kept back is read in the end."""
    scene.cluster.cuts.append(Cut(len(stamped(4) + TROUBLE), None))
    async with scene.following_it():
        log = scene.cluster.log(scene.pod)
        log.add(stamped(4) + TROUBLE)
        await until(lambda: scene.written == plain(4))
        await scene.app.clock.sleep(0.01)
        log.content = stamped(6)
        await until(lambda: scene.written == plain(6))
        scene.finish()
    assert len(scene.cluster.openings) == 2
    assert scene.written == plain(6)
    assert scene.end.complete


async def test_a_trouble_that_stays_is_told(scene: Scene) -> None:
    """Where the end cannot be read because of it, the log is not complete and the kubelet's words say why."""
    async with scene.following_it():
        log = scene.cluster.log(scene.pod)
        log.add(stamped(4) + TROUBLE)
        scene.finish()
    assert scene.written == plain(4)
    assert (scene.end.complete, scene.end.reason) == (False, TROUBLE.decode())


async def test_secrets_are_masked_in_file_and_report(tmp_path: Path) -> None:
    """A value that the step prints is in neither."""
    scene = Scene(tmp_path, secret=b"hunter2hunter2")
    async with scene.following_it():
        scene.cluster.log(scene.pod).add(b"2026-11-29T10:00:00.000000000Z token=hunter2hunter2 \xff\n")
        scene.finish()
    assert scene.written == b"token=*** \xff\n"
    assert scene.app.reporter.lines == [("build.make", "stdout", "token=*** \ufffd")]


async def test_a_long_line_is_written_in_one(scene: Scene) -> None:
    """A line that comes in pieces gets its one newline at its end."""
    long = b"x" * 1_100_000
    scene.cluster.piece = 65_536
    async with scene.following_it():
        scene.cluster.log(scene.pod).add(b"2026-11-29T10:00:00.000000000Z " + long + b"\n" + stamped(1, at=9))
        scene.finish()
    assert scene.written == long + b"\n" + plain(1, at=9)


async def test_a_log_that_was_not_drained_says_so(scene: Scene) -> None:
    """The caller's bound was reached."""
    async with scene.following_it():
        scene.finish()
        await scene.observer.until(lambda seen: isinstance(seen.answer, Exited))
    following = LogFollower(
        scene.app.attempt(), scene.pod, scene.cluster, scene.observer, scene.app.ledger.logs["build.make", 1]
    )
    await following.finish(within=0)
    event = scene.app.ledger.events[-1]
    assert isinstance(event, LogEnded)
    assert (event.complete, event.reason) == (False, "its end did not come within the bound")
