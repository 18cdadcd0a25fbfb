from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from senro.app.pod import upload
from senro.app.pod.compression import CompressionChoice
from senro.app.pod.observer import PodObserver
from senro.app.pod.upload import Upload
from senro.domain.errors import ClusterError, StreamBroken, Unreachable
from senro.domain.kube.exec_protocol import ExecFailure, ExecResult, ExitCode, StatusLost
from senro.domain.pipeline.workspace import Workspace
from senro.domain.run.events import Event, TransferCompleted, TransferTryFailed
from senro.domain.tar.reader import Member
from senro.domain.transfer.compression import LinkRates
from senro.domain.transfer.replies import proof_line
from senro.domain.transfer.retry_policy import PATIENCE_SECONDS, TRIES
from senro.domain.transfer.scripts import sentinel_name, staging_command
from senro.domain.verdict import DidRun, Infra, InfraKind, Memory, Patience
from tests.lib.archives.files import read_events
from tests.lib.builders.plans import IMAGE
from tests.lib.fakes.clock import pass_time
from tests.lib.fakes.cluster import Command, FakeCluster, RemoteSide, refusal
from tests.lib.harness.app import NONCE, OVER, STARTED, WAITING, App, SteadyWatch, pod_plan, pod_with

pytestmark = pytest.mark.anyio

STAGING = pod_with(WAITING, stage={"running": {"startedAt": "2026-11-29T10:00:00Z"}})
RELEASED = pod_with(STARTED, stage=OVER, phase="Running")
GONE = None
ASKED = "exec in senro-stage of pod ci/make-1"


async def take(far: RemoteSide) -> bytes:
    """Read stdin completely."""
    data = b""
    while piece := await far.read():
        data += piece
    return data


async def script(far: RemoteSide) -> ExecResult:
    """Do what the staging script does with a complete archive."""
    coding, _, data = (await take(far)).partition(b"\n")
    assert coding == b"plain"
    members = [event.path for event in read_events([data], (0, 1)) if isinstance(event, Member)]
    assert members[-1] == sentinel_name(NONCE)
    await far.stdout(proof_line(NONCE))
    return ExitCode(0)


def broken_after(count: int) -> Command:
    """The stream breaks after `count` messages of stdin; the script has named its compressors before."""

    async def run(far: RemoteSide) -> ExecResult:
        await far.stdout(b"senro-has\n")
        for _ in range(count):
            await far.read()
        raise StreamBroken(ASKED, cause="reset by peer")

    return run


async def cut_at_once(far: RemoteSide) -> ExecResult:
    """The stream is cut after the 101."""
    del far
    raise StreamBroken(ASKED, cause="reset by peer")


def says(result: ExecResult, *, out: bytes = b"", err: bytes = b"") -> Command:
    """Read stdin completely, write this output, and end with this result."""

    async def run(far: RemoteSide) -> ExecResult:
        await take(far)
        for said, data in ((far.stdout, out), (far.stderr, err)):
            if data:
                await said(data)
        return result

    return run


class Scene:
    """An attempt with two workspaces, a pod whose `senro-stage` runs, and a remote side that the test scripts."""

    def __init__(self, folder: Path) -> None:
        (folder / "src").mkdir()
        (folder / "src" / "file").write_bytes(b"x" * 300_000)
        mounts = [Workspace("src", path="src").at("/src"), Workspace("out").at("/out")]
        self.app = App(folder, pod_plan(mounts=mounts), auto=False)
        self.cluster = FakeCluster(self.app.clock)
        self.watch = SteadyWatch(STAGING)
        self.compression = CompressionChoice(LinkRates(), self.app.clock)
        self.folder = folder

    async def stage(self, *commands: Command, torn: bool = False) -> Infra | None:
        manifest = {"kind": "Pod", "metadata": {"name": "make-1", "namespace": "ci"}, "spec": {"containers": []}}
        await self.cluster.create_pod(manifest)
        await self.app.workspaces.open(self.app.plan)
        self.app.ledger.lines.clear()
        self.cluster.commands.extend(commands)
        attempt = self.app.attempt()
        self.observer = PodObserver(
            self.watch,
            STAGING,
            Memory.start(uid="uid-1"),
            Patience(began=self.app.clock.monotonic()),
            self.app.clock,
        )
        mounts = self.app.workspaces.transfers(attempt.step)
        if torn:
            (self.folder / "runs" / self.app.ledger.run_id / "workspaces" / "src" / "file").write_bytes(b"y")
        self.upload = Upload(attempt, STAGING, self.cluster, mounts, self.compression, observer=self.observer)
        async with anyio.create_task_group() as group:
            group.start_soon(self.observer.run)
            group.start_soon(pass_time, self.app.clock)
            with anyio.fail_after(60):
                uploaded = await self.upload.run()
            group.cancel_scope.cancel()
        assert self.cluster.open_streams == 0
        self.fully_sent = uploaded.fully_sent
        return uploaded.failure

    @property
    def events(self) -> list[Event]:
        return self.app.ledger.events


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(upload, "SETTLE_SECONDS", 0)
    return Scene(tmp_path)


async def test_every_mount_is_sent_in_one_exec(scene: Scene) -> None:
    """One command and one archive, with the sentinel last, and one event; the reporter sees its progress."""
    assert await scene.stage(script) is None
    (far,) = scene.cluster.execs
    assert (far.container, far.command) == ("senro-stage", staging_command(2, NONCE))
    (event,) = scene.events
    assert isinstance(event, TransferCompleted)
    assert (event.direction, event.bytes, event.tries) == ("upload", scene.upload.archive_bytes, 1)
    progress = scene.app.reporter.transfers
    assert [done for _, _, done, _ in progress] == sorted({done for _, _, done, _ in progress})
    assert progress[-1] == ("build.make", "upload", event.bytes, event.bytes)
    assert event.bytes > 300_000
    assert scene.app.reporter.files[-1] == 1


@pytest.mark.parametrize(
    "end",
    [
        ExitCode(0),
        ExitCode(137),
        StatusLost(1006),
        ExecFailure("InternalError", "the container is gone"),
        StreamBroken(ASKED, cause="reset by peer"),
    ],
    ids=lambda end: type(end).__name__,
)
async def test_proof_line_completes_the_upload(scene: Scene, end: Any) -> None:
    """The end of the exec does not matter after the proof line: the container ends with it."""

    async def run(far: RemoteSide) -> ExecResult:
        await take(far)
        await far.stdout(b"noise\n" + proof_line(NONCE)[:5])
        await far.stdout(proof_line(NONCE)[5:])
        if isinstance(end, StreamBroken):
            raise end
        result: ExecResult = end
        return result

    assert await scene.stage(run) is None
    assert [type(event) for event in scene.events] == [TransferCompleted]


async def test_proof_line_before_the_end_of_stdin(scene: Scene) -> None:
    """After the proof line the rest of the archive is not sent."""

    async def run(far: RemoteSide) -> ExecResult:
        await far.read()
        await far.stdout(proof_line(NONCE))
        return ExitCode(0)

    assert await scene.stage(run) is None


UNOPENED: list[ClusterError] = [
    refusal(ASKED, 500, message="error dialing backend"),
    refusal(ASKED, 503, message="etcd has no leader"),
    refusal(ASKED, 429, "TooManyRequests", "slow down", retry_after=3),
    Unreachable(ASKED, cause="ConnectError: refused", sent=False),
]
"""What an apiserver or a kubelet that restarts says to an exec."""

FAILURES: list[tuple[Command, str]] = [
    (broken_after(0), "reset by peer"),
    (broken_after(2), "reset by peer"),
    (says(ExitCode(0)), "no proof line came"),
    (says(ExitCode(0), out=b"senro-staged other\n"), "no proof line came"),
    (
        says(ExitCode(1), err=b"senro: the archive was cut\n"),
        "the transfer's command exited 1: senro: the archive was cut",
    ),
    (says(ExitCode(2), err=b"x" * 99_999), "the transfer's command exited 2: xxx"),
    (says(StatusLost(1000), out=b"senro-has\n"), "the stream was closed without a status"),
    (says(ExecFailure("InternalError", "no such container"), out=b"senro-has\n"), "no such container"),
]


@pytest.mark.parametrize(("failure", "words"), FAILURES, ids=range(len(FAILURES)))
async def test_broken_upload_is_repeated(scene: Scene, failure: Command, words: str) -> None:
    """The next try uploads everything, and the failed try is recorded with its progress."""
    assert await scene.stage(failure, script) is None
    broken, done = scene.events
    assert isinstance(broken, TransferTryFailed)
    assert (broken.direction, broken.tries) == ("upload", 1)
    assert words in broken.message
    assert f" of {scene.upload.archive_bytes} bytes were sent)" in broken.message
    assert len(broken.message) < 10_000
    assert isinstance(done, TransferCompleted)
    assert done.tries == 2
    assert "staging broke (1 of 3 tries): " in scene.app.reporter.notes[0][1]


@pytest.mark.parametrize("times", [1, 2, 3, 6, 20])
@pytest.mark.parametrize("error", UNOPENED, ids=["500", "503", "429", "connection"])
async def test_refused_exec_counts_as_no_try(scene: Scene, error: ClusterError, times: int) -> None:
    """An exec that does not open is repeated, and three tries remain afterwards."""
    for _ in range(times):
        scene.cluster.fail("exec", error)
    assert await scene.stage(broken_after(1), broken_after(1), script) is None
    broken = [event for event in scene.events if isinstance(event, TransferTryFailed)]
    assert [event.tries for event in broken] == [0] * times + [1, 2]
    done = scene.events[-1]
    assert isinstance(done, TransferCompleted)
    assert done.tries == 3
    assert len(scene.cluster.execs) == 3


CATCHING_UP: list[Command] = [
    says(ExecFailure("InternalError", "error sending request: dial tcp: connect: connection refused")),
    says(StatusLost(1006)),
    cut_at_once,
]


@pytest.mark.parametrize("times", [1, 3, 20])
@pytest.mark.parametrize("failure", CATCHING_UP, ids=["kubelet down", "no status", "cut"])
async def test_an_exec_that_ends_before_the_scripts_first_word_is_no_try(
    scene: Scene, failure: Command, times: int
) -> None:
    """A kubelet that is down answers 101 and then an internal error, as often as it is asked: no try is used up."""
    assert await scene.stage(*[failure] * times, broken_after(1), broken_after(1), script) is None
    broken = [event for event in scene.events if isinstance(event, TransferTryFailed)]
    assert [event.tries for event in broken] == [0] * times + [1, 2]


async def test_a_frozen_exec_does_not_outlive_its_pod(scene: Scene) -> None:
    """Once the pod's answer is settled, a stream on which nothing moves is given up within seconds."""

    async def frozen(far: RemoteSide) -> ExecResult:
        await far.read()
        scene.watch.show(None)
        await anyio.sleep_forever()
        raise AssertionError

    before = scene.app.clock.monotonic()
    assert await scene.stage(frozen) is None
    assert isinstance(scene.observer.answer, Infra)
    assert scene.app.clock.monotonic() - before < 10


async def test_retry_after_is_respected(scene: Scene) -> None:
    """The exec is opened again after the requested delay."""
    before = scene.app.clock.monotonic()
    scene.cluster.fail("exec", refusal(ASKED, 429, retry_after=42))
    assert await scene.stage(script) is None
    assert 42 <= scene.app.clock.monotonic() - before < 60


@pytest.mark.parametrize("error", UNOPENED, ids=["500", "503", "429", "connection"])
async def test_long_outage_ends_the_attempt(scene: Scene, error: ClusterError) -> None:
    """After fifteen minutes of refusals the attempt fails with the last error; the step did not run."""
    before = scene.app.clock.monotonic()
    for _ in range(500):
        scene.cluster.fail("exec", error)
    infra = await scene.stage()
    assert infra is not None
    assert infra.did_run is DidRun.NO
    assert str(error) in infra.message
    assert PATIENCE_SECONDS - 3 <= scene.app.clock.monotonic() - before <= PATIENCE_SECONDS
    assert scene.cluster.execs == []


@pytest.mark.parametrize(
    ("code", "kind"),
    [(401, InfraKind.UNAUTHORIZED), (403, InfraKind.FORBIDDEN), (422, InfraKind.TRANSFER)],
)
async def test_missing_right_ends_the_attempt_at_once(scene: Scene, code: int, kind: InfraKind) -> None:
    """A missing right is reported after one request, and not as a broken transfer."""
    scene.cluster.fail("exec", refusal(ASKED, code, "Forbidden", 'cannot create resource "pods/exec"'))
    infra = await scene.stage(script)
    assert infra is not None
    assert (infra.kind, infra.did_run) == (kind, DidRun.NO)
    assert 'cannot create resource "pods/exec"' in infra.message
    assert scene.cluster.calls.count("exec") == 1


async def test_three_failed_tries_end_the_attempt(scene: Scene) -> None:
    """After three tries the attempt fails as `transfer`, with the progress of the last try; the command did not run."""
    infra = await scene.stage(*[broken_after(1)] * TRIES)
    assert infra is not None
    assert (infra.kind, infra.did_run) == (InfraKind.TRANSFER, DidRun.NO)
    assert infra.message.startswith("the workspaces could not be staged in 3 tries: ")
    assert infra.message.endswith(f" of {scene.upload.archive_bytes} bytes were sent)")
    assert [event.tries for event in scene.events if isinstance(event, TransferTryFailed)] == [1, 2, 3]


async def test_image_without_tar_is_not_tried_again(scene: Scene) -> None:
    """A 127 of the script ends the upload: another try would fail too."""
    infra = await scene.stage(says(ExitCode(127), err=b"senro: the image has no tar\n"))
    assert infra is not None
    assert (infra.kind, infra.did_run) == (InfraKind.CONFIG, DidRun.NO)
    assert infra.message == (
        f"the image {IMAGE} has no tar; name an image that has sh, tar and mkfifo as helper= of k8s.Pod(...), "
        "to transfer its workspaces"
    )
    assert len(scene.cluster.execs) == 1


async def test_changed_file_ends_the_upload(scene: Scene) -> None:
    """A file that changed after the walk is named, and there is no other try."""
    infra = await scene.stage(says(ExitCode(1)), torn=True)
    assert infra is not None
    assert (infra.kind, infra.did_run) == (InfraKind.TRANSFER, DidRun.NO)
    assert infra.message.startswith("a workspace could not be packed: file: ")
    assert len(scene.cluster.execs) == 1


async def test_missing_pod_ends_the_upload(scene: Scene) -> None:
    """The streams of a pod that is deleted break first: the pod's own answer decides."""

    async def run(far: RemoteSide) -> ExecResult:
        await far.read()
        scene.watch.show(GONE)
        raise StreamBroken(ASKED, cause="reset by peer")

    assert await scene.stage(run) is None
    assert scene.observer.answer.settled
    assert [type(event) for event in scene.events] == [TransferTryFailed]


@pytest.mark.parametrize("proof_lost", [says(StatusLost(1006)), says(ExitCode(0))], ids=["cut", "no-line"])
async def test_release_without_a_proof_line(scene: Scene, monkeypatch: pytest.MonkeyPatch, proof_lost: Command) -> None:
    """`senro-stage` has exited 0, which only the script does: nothing is uploaded again."""
    monkeypatch.setattr(upload, "SETTLE_SECONDS", 30)

    async def run(far: RemoteSide) -> ExecResult:
        result = await proof_lost(far)
        scene.watch.show(RELEASED)
        return result

    assert await scene.stage(run) is None
    assert [type(event) for event in scene.events] == [TransferTryFailed, TransferCompleted]
    assert len(scene.cluster.execs) == 1


async def test_late_release_records_the_transfer(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first proof was lost and the second exec not opened: the transfer is recorded with the first try's bytes."""
    sleeping = scene.app.clock.sleep

    async def sleep(seconds: float) -> None:
        scene.cluster.fail("exec", Unreachable(ASKED, cause="refused", sent=False))
        scene.watch.show(RELEASED)
        await sleeping(seconds)

    monkeypatch.setattr(scene.app.clock, "sleep", sleep)
    assert await scene.stage(says(StatusLost(1006))) is None
    *_, event = scene.events
    assert isinstance(event, TransferCompleted)
    assert event.wire_bytes == event.bytes == scene.upload.archive_bytes


ENDS = [
    {**OVER["terminated"], "exitCode": 1, "reason": "Error"},
    {"exitCode": 0, "reason": "Completed", "startedAt": None},
]


@pytest.mark.parametrize("end", ENDS, ids=["failed", "synthetic"])
async def test_other_end_of_the_container_is_no_proof(scene: Scene, end: dict[str, Any]) -> None:
    """A failure is left to the observer; a synthetic Completed, without a start, proves nothing."""

    async def run(far: RemoteSide) -> ExecResult:
        scene.watch.show(pod_with(WAITING, stage={"terminated": end}))
        return await says(StatusLost(1006))(far)

    result = await scene.stage(run, run, run)
    assert not any(isinstance(event, TransferCompleted) for event in scene.events)
    assert result is not None or scene.observer.answer.settled


async def test_cancelled_upload_closes_its_exec(scene: Scene) -> None:
    """A cancelled upload closes its exec and records nothing."""

    async def hang(far: RemoteSide) -> ExecResult:
        await far.read()
        group.cancel_scope.cancel()
        await anyio.sleep_forever()
        raise AssertionError("unreachable")

    async with anyio.create_task_group() as group:
        await scene.stage(hang)
    assert scene.cluster.open_streams == 0
    assert scene.events == []
