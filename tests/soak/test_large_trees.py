"""Workspaces of extreme sizes: a hundred thousand files, a file above 8 GiB, paths of the maximum length.

Only `make soak` runs the two that take minutes; SENRO_TEST_PROFILE=soak runs one of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from senro.adapters.fs import FolderContentStore, FolderTrees
from senro.domain.tree.content_rules import ContentRules
from senro.domain.tree.paths import MAX_PATH
from senro.domain.tree.tree import Tree
from senro.ports.trees import Packed
from tests.contract.ports.trees_suite import deep_folder
from tests.lib.archives.files import BUSYBOX_TAR, GNU_TAR, needs_busybox

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

only_in_soak = pytest.mark.skipif(os.environ.get("SENRO_TEST_PROFILE") != "soak", reason="`make soak` runs it")

FILES = 100_000
EVERYTHING = ContentRules(exclude=("**",))
SIZE = 9 << 30  # above 8 GiB, where a size no longer fits into octal digits

TARS = pytest.mark.parametrize(
    "command", [GNU_TAR, pytest.param(BUSYBOX_TAR, marks=needs_busybox)], ids=["gnu", "busybox"]
)


async def send(command: list[str], folder: Path, tree: Tree) -> bytes:
    """Sends the tree's archive to a process. Returns its output."""
    async with (
        await anyio.open_process(command) as process,
        FolderTrees().pack([Packed(0, str(folder), tree)]) as archive,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        while piece := await archive.read():
            await process.stdin.send(bytes(piece))
        await process.stdin.aclose()
        said = b"".join([data async for data in process.stdout])
        assert await process.wait() == 0
    return said


async def round_trip(command: list[str], folder: Path, there: Path, back: Path) -> tuple[Tree, Tree]:
    """Sends a folder to a foreign tar and receives its archive. Returns both trees."""
    trees = FolderTrees()
    sent = await trees.walk(str(folder))
    (there / "0").mkdir(parents=True)
    await send([*command, "-x", "-m", "-o", "-f", "-", "-C", str(there)], folder, sent)
    async with (
        await anyio.open_process([*command, "-c", "-f", "-", "0"], cwd=there) as process,
        trees.unpack({0: str(back)}) as unpacking,
    ):
        assert process.stdout is not None
        async for data in process.stdout:
            await unpacking.write(data)
        assert await process.wait() == 0
        found = await unpacking.finish()
        await unpacking.replace()
    return sent, found[0]


@TARS
async def test_the_longest_path(tmp_path: Path, command: list[str]) -> None:
    """A path of 4,093 bytes, 4,095 with its mount's number, is sent, received and removed."""
    folder = tmp_path / "x"
    folder.mkdir()
    longest = deep_folder(folder, MAX_PATH)
    sent, came = await round_trip(command, folder, tmp_path / "there", tmp_path / "back")
    assert sent == came
    assert came.entries[-1].path == longest
    await FolderTrees().prune(str(tmp_path / "back"), rules=EVERYTHING)
    assert list((tmp_path / "back").iterdir()) == []


@only_in_soak
@pytest.mark.timeout(1200)
@TARS
async def test_a_hundred_thousand_files(
    tmp_path: Path, command: list[str], record_property: Callable[[str, object], None]
) -> None:
    """They are walked, sent, received, stored as a snapshot and restored with the same digest, in minutes."""
    folder = tmp_path / "x"
    for number in range(FILES):
        parent = folder / f"d{number % 100}" / f"e{number // 100 % 10}"
        if number < 1000:
            parent.mkdir(parents=True, exist_ok=True)
        (parent / f"f{number}").write_bytes(b"%d\n" % number)
    began = time.monotonic()
    sent, came = await round_trip(command, folder, tmp_path / "there", tmp_path / "back")
    assert sent == came
    assert came.files == FILES
    store = FolderContentStore(str(tmp_path / "cache"))
    assert await store.put(came, str(tmp_path / "back")) == sent.digest
    assert await store.restore(sent.digest, str(tmp_path / "restored")) == sent
    seconds = time.monotonic() - began
    record_property("summary", f"{FILES} files by {command[-1]}: out, back, kept and restored in {seconds:.0f} s")


@only_in_soak
@pytest.mark.timeout(1200)
async def test_a_file_above_8_gib(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """Its size is in base 256, and GNU tar reads the content with the digest of the walk."""
    folder = tmp_path / "x"
    folder.mkdir()
    with (folder / "large").open("wb") as opened:
        opened.truncate(SIZE)
        opened.seek(SIZE - 1)
        opened.write(b"!")
    trees = FolderTrees()
    began = time.monotonic()
    tree = await trees.walk(str(folder))
    said = (await send(["sh", "-c", "tar -x -O -f - | sha256sum"], folder, tree)).split()[0].decode()
    assert (tree.size, tree.entries[0].digest) == (SIZE, f"sha256:{said}")
    record_property("summary", f"one file of {SIZE >> 30} GiB was walked and sent in {time.monotonic() - began:.0f} s")
