"""Transfers over links of different speeds: compressed if that is faster, restarted at most once."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from senro.adapters.fs.coding import Decompressor, make_compressor
from senro.app.pod import upload
from senro.domain.kube.exec_protocol import ExecResult, ExitCode
from senro.domain.run.events import TransferCompleted, TransferTryFailed
from senro.domain.tar.reader import Member
from senro.domain.transfer.compression import KNOWN_SECONDS, Coding
from senro.domain.transfer.replies import proof_line
from senro.domain.transfer.scripts import reading_command
from senro.domain.tree.tree import Tree
from tests.lib.archives.files import archive, file, read_events
from tests.lib.fakes.cluster import Command, RemoteSide
from tests.lib.harness.app import NONCE
from tests.unit.app.pod.test_download import Scene as ReadingScene
from tests.unit.app.pod.test_upload import Scene as StagingScene

pytestmark = pytest.mark.anyio

TEXT = b"".join(b"%d times %d is %d\n" % (n, n, n * n) for n in range(300_000))
NOISE = b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(120_000))
SLOW, FAST = 2e5, 400e6
"""Bytes a second."""


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StagingScene:
    monkeypatch.setattr(upload, "SETTLE_SECONDS", 0)
    return StagingScene(tmp_path)


def unpacked(data: bytes) -> bytes:
    unpacker = Decompressor()
    return b"".join(unpacker.feed(data)) + unpacker.finish()


class Link:
    """A remote side that reads at a given rate and keeps what it was sent."""

    def __init__(self, scene: StagingScene, rate: float, has: bytes = b"senro-has gzip\n") -> None:
        self.scene, self.rate, self.has = scene, rate, has
        self.sent: list[bytes] = []

    async def __call__(self, far: RemoteSide) -> ExecResult:
        await far.stdout(self.has)
        place = len(self.sent)
        self.sent.append(b"")
        while piece := await far.read():
            self.sent[place] += piece
            await self.scene.app.clock.sleep(len(piece) / self.rate)
        coding, _, data = self.sent[place].partition(b"\n")
        assert [event.path for event in read_events([unpacked(data)], (0, 1)) if isinstance(event, Member)]
        assert coding.decode() in {"plain", "gzip", "zstd"}
        await far.stdout(proof_line(NONCE))
        return ExitCode(0)

    @property
    def codings(self) -> list[str]:
        return [sent.partition(b"\n")[0].decode() for sent in self.sent]


async def stage(scene: StagingScene, link: Link, content: bytes) -> TransferCompleted:
    (scene.folder / "src" / "file").write_bytes(content)
    scene.cluster.command = link
    if scene.compression.rate("upload") is None:
        # Virtual time does not wait for the thread that packs a sample: it is packed before.
        scene.compression.ratio = await scene.app.services.trees.ratio_of(content[: 1 << 20])
    assert await scene.stage() is None
    (event,) = scene.events
    assert isinstance(event, TransferCompleted)
    assert event.tries == 1
    return event


async def test_slow_link_restarts_compressed(scene: StagingScene) -> None:
    """On a slow link the upload of text restarts compressed after the first megabytes; that is no failed try."""
    link = Link(scene, SLOW)
    event = await stage(scene, link, TEXT)
    assert link.codings == ["plain", "gzip"]
    assert (event.coding, event.bytes) == ("gzip", scene.upload.archive_bytes)
    assert event.wire_bytes < len(TEXT) / 2
    assert event.wire_bytes == len(link.sent[-1]) - len(b"gzip\n")
    rate = scene.compression.rate("upload")
    assert rate is not None
    assert SLOW / 2 < rate < SLOW * 2
    progress = [done for _, _, done, _ in scene.app.reporter.transfers]
    assert max(progress) == event.bytes
    assert any("compressed by gzip" in note for _, note in scene.app.reporter.notes)


@pytest.mark.parametrize(
    ("rate", "content", "has"),
    [
        pytest.param(FAST, TEXT, b"senro-has gzip zstd\n", id="fast"),
        pytest.param(SLOW, NOISE, b"senro-has gzip zstd\n", id="noise"),
        pytest.param(SLOW, TEXT, b"senro-has\n", id="nothing-to-unpack-with"),
        pytest.param(SLOW, TEXT[: 1 << 20], b"senro-has gzip\n", id="small"),
    ],
)
async def test_upload_stays_plain(scene: StagingScene, rate: float, content: bytes, has: bytes) -> None:
    """A fast link, incompressible content, an image without gzip, and a short transfer stay uncompressed."""
    link = Link(scene, rate, has)
    event = await stage(scene, link, content)
    assert link.codings == ["plain"]
    assert (event.coding, event.wire_bytes) == ("plain", event.bytes)


@pytest.mark.parametrize(
    ("age", "has", "expected"),
    [
        (0.0, b"senro-has gzip zstd\n", ["zstd"]),
        (0.0, b"senro-has gzip\n", ["gzip"]),
        (0.0, b"senro-has\n", ["plain"]),
        (KNOWN_SECONDS, b"senro-has gzip\n", ["plain", "gzip"]),
    ],
)
async def test_measured_rate_is_remembered(scene: StagingScene, age: float, has: bytes, expected: list[Coding]) -> None:
    """The next transfer starts compressed, once the compressors are known; after two minutes the link is measured."""
    scene.compression.link.measured("upload", SLOW, scene.app.clock.monotonic())
    scene.app.clock.move(age)
    link = Link(scene, SLOW, has)
    await stage(scene, link, TEXT)
    assert link.codings == expected


async def test_missing_list_of_compressors(scene: StagingScene) -> None:
    """If the compressors are not listed in time, the archive is sent uncompressed."""
    scene.compression.link.measured("upload", SLOW, scene.app.clock.monotonic())
    link = Link(scene, FAST, b"motd: welcome\n")
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patched:
        patched.setattr(upload, "COMPRESSORS_SECONDS", 0.05)
        await stage(scene, link, TEXT)
    assert link.codings == ["plain"]


def sends(scene: ReadingScene, content: bytes, rate: float, has: list[tuple[str, ...]]) -> Command:
    """A remote side that writes an archive of one file at a rate, compressed as its command says."""

    async def run(far: RemoteSide) -> ExecResult:
        has.append(far.command)
        coding = next(word for word in far.command if word in {"plain", "gzip", "zstd"})
        data = archive(Tree((file("f", content),)), {"f": content})
        packing = make_compressor(coding)  # type: ignore[arg-type] # one of the three, as found
        if packing is not None:
            data = packing.compress(data) + packing.flush()
        for at in range(0, len(data), 32_768):
            piece = data[at : at + 32_768]
            await scene.app.clock.sleep(len(piece) / rate)
            await far.stdout(piece)
        await far.stderr(b"senro-members 1 0\n")
        return ExitCode(0)

    return run


@pytest.fixture
def reading(tmp_path: Path) -> ReadingScene:
    scene = ReadingScene(tmp_path)
    scene.folders = {0: scene.folders[0]}
    return scene


async def read(
    scene: ReadingScene, content: bytes, rate: float, staged: int = 0
) -> tuple[list[str], TransferCompleted]:
    commands: list[tuple[str, ...]] = []
    scene.cluster.command = sends(scene, content, rate, commands)
    scene.uploaded_bytes = staged
    found = await scene.read()
    assert [entry.size for entry in found[0].entries] == [len(content)]
    assert not any(isinstance(event, TransferTryFailed) for event in scene.events)
    (event,) = scene.events
    assert isinstance(event, TransferCompleted)
    assert event.tries == 1
    codings = [next(word for word in command if word in {"plain", "gzip", "zstd"}) for command in commands]
    assert commands[-1] == reading_command((0,), coding=event.coding)
    return codings, event


async def test_slow_download_restarts_compressed(reading: ReadingScene) -> None:
    """As much is expected as was uploaded; the first megabytes are measured and sampled."""
    reading.compression.has = ("gzip",)
    codings, event = await read(reading, TEXT, SLOW, staged=len(TEXT))
    assert codings == ["plain", "gzip"]
    assert (event.coding, event.wire_bytes < len(TEXT) / 2 < event.bytes) == ("gzip", True)


async def test_long_download_restarts_later(reading: ReadingScene) -> None:
    """Without an upload the download restarts once it would take long enough to receive as much again."""
    reading.compression.has = ("zstd",)
    codings, _ = await read(reading, TEXT * 2, SLOW / 10)
    assert codings == ["plain", "zstd"]


@pytest.mark.parametrize(
    ("content", "rate", "has"),
    [
        pytest.param(TEXT, FAST, ("zstd", "gzip"), id="fast"),
        pytest.param(NOISE, SLOW, ("zstd", "gzip"), id="noise"),
        pytest.param(TEXT, SLOW, (), id="nothing-to-pack-with"),
        pytest.param(TEXT, SLOW, None, id="never-said"),
    ],
)
async def test_download_stays_plain(
    reading: ReadingScene, content: bytes, rate: float, has: tuple[Coding, ...] | None
) -> None:
    """The same cases as for uploads."""
    reading.compression.has = has
    codings, event = await read(reading, content, rate, staged=len(content))
    assert codings == ["plain"]
    assert event.wire_bytes == event.bytes


async def test_download_uses_the_measures_of_the_upload(reading: ReadingScene) -> None:
    """With the rate and the sample of the upload the download starts compressed."""
    reading.compression.has = ("gzip",)
    reading.compression.ratio = 0.3
    reading.compression.link.measured("upload", SLOW, reading.app.clock.monotonic())
    codings, _ = await read(reading, TEXT, SLOW, staged=len(TEXT))
    assert codings == ["gzip"]
