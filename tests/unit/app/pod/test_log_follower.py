from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.adapters.apiserver import watch_pod
from senro.app.pod.log_follower import HUNG_SECONDS, PAUSE_SECONDS, POD_GONE, LogFollower
from senro.app.pod.observer import PodObserver
from senro.domain.errors import ClusterError, StreamBroken, Unreachable
from senro.domain.kube.pod import Pod
from senro.domain.run.events import LogEnded
from senro.domain.verdict import Exited, Infra, Memory, Patience
from tests.lib.fakes.cluster import Cut, FakeCluster, ended, refusal, running, waiting
from tests.lib.harness.app import App, pod_plan, until

pytestmark = pytest.mark.anyio

ASKED = "follow the log of step in pod ci/make-1"


def stamped(count: int, *, at: int = 0, text: str = "line") -> bytes:
    """Lines with timestamps, four per second, some of them equal."""
    lines = [f"2026-11-29T10:00:{n // 4:02}.{n % 4}00000000Z {text} {n // 3}\n" for n in range(at, at + count)]
    return "".join(lines).encode()


def plain(count: int, *, at: int = 0, text: str = "line") -> bytes:
    """The same lines without timestamps."""
    return "".join(f"{text} {n // 3}\n" for n in range(at, at + count)).encode()


def broken() -> StreamBroken:
    return StreamBroken(ASKED, cause="reset by peer")


class Scene:
    """A pod in a fake cluster that is polled and whose log is followed, in virtual time."""

    def __init__(self, folder: Path, secret: bytes | None = None) -> None:
        values = {} if secret is None else {"Token": secret}
        self.app = App(folder, pod_plan(), secrets=values)
        self.cluster = FakeCluster(self.app.clock, course=lambda _: [running()])
        self.pod = Pod()
        self.following: LogFollower | None = None

    @asynccontextmanager
    async def following_it(self) -> AsyncIterator[None]:
        """Follow the log while the context is open, then to its end, and record it."""
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
        """End the container and its log."""
        self.cluster.log(self.pod).end()
        self.cluster.show(self.pod, ended(code))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def test_log_is_written_and_reported(scene: Scene) -> None:
    """Each line is written without its timestamp, reported as it arrives, and the log is complete."""
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


async def test_log_is_not_opened_before_the_step_runs(scene: Scene) -> None:
    """While the pod is pending no log is requested."""
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
    """The log of a pod that ended while pending is complete and empty."""
    async with scene.following_it():
        scene.cluster.show(scene.pod, waiting())
        await scene.app.clock.sleep(3)
        scene.cluster.vanish(scene.pod)
    assert isinstance(scene.observer.answer, Infra)
    assert (scene.written, scene.end.complete) == (b"", True)


@pytest.mark.parametrize("error", [broken(), None, Unreachable(ASKED, cause="timed out", sent=True)], ids=str)
async def test_ended_stream_is_reopened(scene: Scene, error: ClusterError | None) -> None:
    """A stream that ends while the container runs is reopened at the last timestamp, without loss or repetition."""
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
    """Wherever the streams break, each line is written once."""

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


async def test_rest_is_read_at_the_end(scene: Scene) -> None:
    """A restarting apiserver ends streams in order: the rest is read once the step has ended."""
    scene.cluster.cuts.append(Cut(100, None))
    async with scene.following_it():
        scene.cluster.log(scene.pod).add(stamped(8))
        scene.finish()
    assert (scene.written, scene.end.complete) == (plain(8), True)
    assert scene.cluster.calls.count("follow_log") == 1
    assert "read_log" in scene.cluster.calls


async def test_hung_stream_is_cancelled(scene: Scene) -> None:
    """If the stream stays silent for three seconds after the container's end, the rest is read."""
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


async def test_stream_with_new_lines_is_reopened_soon(scene: Scene) -> None:
    """A stream that brought lines is reopened at once, before they are rotated away; others after a pause."""
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


async def test_rotation_during_a_break_is_recorded(scene: Scene) -> None:
    """If the log was rotated during a break, the lines that are left are written and the log is not complete."""
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


async def test_reading_the_rest_is_retried(scene: Scene) -> None:
    """Errors while reading the rest are retried; the caller bounds the time."""
    scene.cluster.cuts.append(Cut(100, broken()))
    for error in (broken(), Unreachable(ASKED, cause="refused", sent=False), refusal(ASKED, 429), refusal(ASKED, 500)):
        scene.cluster.fail("read_log", error)
    async with scene.following_it():
        scene.cluster.log(scene.pod).add(stamped(8))
        scene.finish()
    assert (scene.written, scene.end.complete) == (plain(8), True)
    assert scene.cluster.calls.count("read_log") == 5


async def test_400_for_a_starting_container_is_retried(scene: Scene) -> None:
    """A 400 for a container that the pod shows running is retried after half a second."""
    scene.cluster.fail("follow_log", refusal(ASKED, 400, "BadRequest", "waiting to start: ContainerCreating"))
    async with scene.following_it():
        scene.cluster.log(scene.pod).add(stamped(3))
        await until(lambda: scene.written == plain(3))
        scene.finish()
    assert scene.end.complete


async def test_empty_log_is_requested_again(scene: Scene) -> None:
    """A 204, or an empty stream, is requested again after half a second."""
    scene.cluster.cuts.extend([Cut(0, None), Cut(0, None)])
    async with scene.following_it():
        began = scene.app.clock.monotonic()
        scene.cluster.log(scene.pod).add(stamped(3))
        await until(lambda: scene.written == plain(3))
        assert scene.app.clock.monotonic() - began >= 2 * PAUSE_SECONDS
        scene.finish()
    assert (scene.cluster.openings, scene.end.complete) == ([None] * 3, True)


async def test_requested_delay_is_kept_before_the_log_is_opened_again(scene: Scene) -> None:
    """A log that the apiserver refuses with Retry-After is not requested before that time."""
    scene.cluster.fail("follow_log", refusal(ASKED, 429, retry_after=7.0))
    began = scene.app.clock.monotonic()
    async with scene.following_it():
        scene.cluster.log(scene.pod).add(stamped(3))
        await until(lambda: scene.written == plain(3))
        assert scene.app.clock.monotonic() - began >= 7
        scene.finish()
    assert scene.end.complete


@pytest.mark.parametrize("code", [500, 502, 429])
async def test_unreachable_kubelet_is_retried(scene: Scene, code: int) -> None:
    """Errors of the connection do not end the log: the pod shows whether more follows."""
    for _ in range(3):
        scene.cluster.fail("follow_log", refusal(ASKED, code, message="dial tcp: connection refused"))
    async with scene.following_it():
        scene.cluster.log(scene.pod).add(stamped(3))
        await until(lambda: scene.written == plain(3))
        scene.finish()
    assert scene.end.complete


async def test_missing_pod_makes_the_log_incomplete(scene: Scene) -> None:
    """If the pod is gone after the stream broke, the log's reason says so."""
    scene.cluster.cuts.append(Cut(len(stamped(3)) + 10, broken()))
    async with scene.following_it():
        log = scene.cluster.log(scene.pod)
        log.add(stamped(3))
        await until(lambda: scene.written == plain(3))
        scene.cluster.vanish(scene.pod)
        log.add(stamped(2, at=3))
    assert scene.written == plain(3)
    assert not scene.end.complete
    assert scene.end.reason == POD_GONE


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize(
    "error",
    [
        refusal(ASKED, 404, "NotFound", 'pods "make-1" not found'),
        refusal(ASKED, 404, message="404 page not found"),
        refusal(ASKED, 400, "BadRequest", "container not found"),
        refusal(ASKED, 500, message="rpc error"),
    ],
    ids=str,
)
@pytest.mark.parametrize("ended", [False, True], ids=["running", "ended"])
async def test_odd_answers_of_a_restarting_kubelet_do_not_end_the_log(
    scene: Scene, error: ClusterError, times: int, *, ended: bool
) -> None:
    """After a broken stream the log is asked for again as long as the pod is there, whatever is answered meanwhile."""
    scene.cluster.cuts.append(Cut(len(stamped(3)), broken()))
    async with scene.following_it():
        log = scene.cluster.log(scene.pod)
        for _ in range(times):
            scene.cluster.fail("follow_log" if not ended else "read_log", error)
        log.add(stamped(3))
        await until(lambda: scene.written == plain(3))
        log.add(stamped(2, at=3))
        scene.finish()
    assert scene.written == plain(5)
    assert (scene.end.complete, scene.end.reason) == (True, "")


async def test_404_ends_the_log(scene: Scene) -> None:
    """A 404 at the opening ends the log with its reason."""
    scene.cluster.fail("follow_log", refusal(ASKED, 404, "NotFound", 'pods "make-1" not found'))
    async with scene.following_it():
        await until(lambda: "follow_log" in scene.cluster.calls)
        scene.cluster.vanish(scene.pod)
    assert scene.end.reason == "the pod was gone before the end of its log was read"


async def test_403_ends_the_log(scene: Scene) -> None:
    """A 403 ends the log with the cluster's message, after one request."""
    scene.cluster.fail("follow_log", refusal(ASKED, 403, "Forbidden", 'cannot get resource "pods/log"'))
    async with scene.following_it():
        await until(lambda: "follow_log" in scene.cluster.calls)
        scene.finish()
    assert 'cannot get resource "pods/log"' in scene.end.reason
    assert scene.cluster.calls.count("follow_log") == 1


TROUBLE = b"failed to watch directory /var/log/pods/ci_make-1: no space left on device"


async def test_kubelet_error_in_the_stream_is_not_output(scene: Scene) -> None:
    """An error that the kubelet writes into the stream is not output of the step; the rest is read at the end."""
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


async def test_persistent_kubelet_error_is_recorded(scene: Scene) -> None:
    """If the end cannot be read because of it, the log is incomplete, with the kubelet's message as reason."""
    async with scene.following_it():
        log = scene.cluster.log(scene.pod)
        log.add(stamped(4) + TROUBLE)
        scene.finish()
    assert scene.written == plain(4)
    assert (scene.end.complete, scene.end.reason) == (False, TROUBLE.decode())


async def test_secrets_are_masked_in_file_and_report(tmp_path: Path) -> None:
    """A secret that the step prints is masked in the file and in the report."""
    scene = Scene(tmp_path, secret=b"hunter2hunter2")
    async with scene.following_it():
        scene.cluster.log(scene.pod).add(b"2026-11-29T10:00:00.000000000Z token=hunter2hunter2 \xff\n")
        scene.finish()
    assert scene.written == b"token=*** \xff\n"
    assert scene.app.reporter.lines == [("build.make", "stdout", "token=*** \ufffd")]


async def test_long_line_is_written_as_one(scene: Scene) -> None:
    """A line that arrives in pieces gets one newline at its end."""
    long = b"x" * 1_100_000
    scene.cluster.piece = 65_536
    async with scene.following_it():
        scene.cluster.log(scene.pod).add(b"2026-11-29T10:00:00.000000000Z " + long + b"\n" + stamped(1, at=9))
        scene.finish()
    assert scene.written == long + b"\n" + plain(1, at=9)


async def test_undrained_log_is_incomplete(scene: Scene) -> None:
    """If the caller's bound is reached, the log is incomplete."""
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
