"""Archives that a hostile pod may send, unpacked by `FolderTrees`: each has the result of its table."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from senro.adapters.fs import FolderTrees
from senro.domain.errors import TreeError
from senro.domain.tar import reader as reader_module
from senro.domain.tar.writer import END
from senro.domain.tree.tree import Tree
from tests.contract.ports.trees_suite import SMALL, SMALL_CONTENTS, folder_with, unpack
from tests.lib.archives.files import archive, directory, file, link, names, read_folder, tar_member
from tests.lib.archives.hostile import BOMB_BYTES, PACKED, REFUSED, TAKEN, Hostile, bombs

pytestmark = pytest.mark.anyio

HOSTILE = {**REFUSED, **TAKEN, **PACKED}

KEPT_BYTES = 16 << 20
"""By how many bytes the process may grow for a bomb; any transfer may need 64 MiB."""


class Surroundings:
    """Everything near the destination, and of this process, that an archive must not change."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder_with(folder / "ws")
        (folder / "neighbour").mkdir()
        (folder / "neighbour" / "a").write_bytes(b"mine")
        (folder / "b").write_bytes(b"mine too")
        self.before = self.current_state()

    def current_state(self) -> tuple[object, ...]:
        """Returns the present state, without the destination."""
        return (
            names(self.folder),
            (self.folder / "neighbour" / "a").read_bytes(),
            (self.folder / "b").read_bytes(),
            names(Path("/dev/fd")),
            [name for name in names(Path(tempfile.gettempdir())) if ".senro-" in name],
            Path.cwd(),
        )


@pytest.fixture
async def surroundings(tmp_path: Path) -> Surroundings:
    """A destination with a tree; the first use of a thread opens what all of them need."""
    await anyio.to_thread.run_sync(threading.get_ident)
    return Surroundings(tmp_path)


async def unpack_result(data: bytes, destination: Path, cut: int) -> Hostile:
    """Returns the result of the data, in pieces of that size."""
    try:
        found = await unpack(FolderTrees(), data, {0: str(destination)}, cut)
    except TreeError as error:
        return Hostile(data, error.rule if str(error).isprintable() else str(error))
    return Hostile(data, tree=found[0], omitted=found[0].omitted)


@pytest.mark.parametrize("cut", [1 << 30, 997])
@pytest.mark.parametrize("name", HOSTILE)
async def test_result_of_each_archive(surroundings: Surroundings, name: str, cut: int) -> None:
    """Each archive is refused by its rule or is its tree; nothing else is written, removed, left or open."""
    wanted = HOSTILE[name]
    found = await unpack_result(wanted.data, surroundings.folder / "ws", cut)
    assert found == wanted
    there = SMALL if wanted.rule else wanted.tree
    assert await FolderTrees().walk(str(surroundings.folder / "ws")) == there
    if all(len(entry.path) < 3000 for entry in there.entries):  # reading it by its whole path needs a shorter one
        assert read_folder(surroundings.folder / "ws") == there
    assert surroundings.current_state() == surroundings.before


async def test_archives_are_different() -> None:
    """There are more than forty archives, and no two are equal."""
    sent = [hostile.data for hostile in HOSTILE.values()]
    assert len(set(sent)) == len(sent) > 200


@pytest.mark.parametrize("cut", [1, 5, 511, 513])
async def test_pieces_do_not_matter(surroundings: Surroundings, cut: int) -> None:
    """The sizes of the pieces change no result, of compressed, uncompressed, accepted and refused archives."""
    for name in (
        "up",
        "a write through a link",
        "gzip with another checksum",
        "zstd in two frames",
        "a chain of hard links",
    ):
        wanted = HOSTILE[name]
        found = await unpack_result(wanted.data[:20_000], surroundings.folder / "ws", cut)
        assert found == wanted, name
    assert surroundings.current_state() == surroundings.before


async def test_too_many_members(surroundings: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many empty members are refused as soon as the limit is reached."""
    monkeypatch.setattr(reader_module, "MAX_MEMBERS", 1000)
    sent = 0

    async def send() -> None:
        nonlocal sent
        async with FolderTrees().unpack({0: str(surroundings.folder / "ws")}) as unpacking:
            for sent in range(100_000):
                await unpacking.write(tar_member(f"0/{sent}"))

    with pytest.raises(TreeError, match="more than 1000 members") as caught:
        await send()
    assert caught.value.rule == "limit"
    assert sent < 20_000  # some megabytes may be in buffers
    assert read_folder(surroundings.folder / "ws") == SMALL
    assert surroundings.current_state() == surroundings.before


def link_then_file(tree: Path) -> Tree:
    """A destination with a link to its neighbour where the archive has a folder."""
    (tree / "d").rename(tree / "was")
    (tree / "d").symlink_to("../neighbour")
    return Tree((directory("d"), file("d/a", b"theirs")))


def file_then_folder(tree: Path) -> Tree:
    """A destination with a file where the archive has a folder."""
    (tree / "x").write_bytes(b"")
    return Tree((directory("x"), file("x/a", b"theirs")))


def locked(tree: Path) -> Tree:
    """A destination without any permission bits."""
    (tree / "d").chmod(0)
    return Tree((directory("d"), file("d/a", b"theirs"), link("l", "d/a")))


@pytest.mark.parametrize("change", [link_then_file, file_then_folder, locked])
async def test_destination_does_not_affect_the_archive(
    surroundings: Surroundings, change: Callable[[Path], Tree]
) -> None:
    """Links, files and modes in the destination have no effect: the tree is built in a sibling."""
    tree = change(surroundings.folder / "ws")
    contents = {entry.path: b"theirs" for entry in tree.entries if entry.kind == "file"}
    assert await unpack(FolderTrees(), archive(tree, contents), {0: str(surroundings.folder / "ws")}) == {0: tree}
    assert read_folder(surroundings.folder / "ws") == tree
    assert surroundings.current_state() == surroundings.before


async def test_one_refused_part_refuses_all(surroundings: Surroundings) -> None:
    """If one of two mounts in an archive is refused, neither is replaced."""
    other = folder_with(surroundings.folder / "other")
    surroundings.before = surroundings.current_state()
    data = tar_member("0/new") + tar_member("1/new") + tar_member("1/l", b"2", target="/etc") + END
    with pytest.raises(TreeError) as caught:
        await unpack(FolderTrees(), data, {0: str(surroundings.folder / "ws"), 1: str(other)})
    assert (caught.value.path, caught.value.rule) == ("l", "link")
    assert (read_folder(surroundings.folder / "ws"), read_folder(other)) == (SMALL, SMALL)
    assert set(SMALL_CONTENTS) == {"d/run", "e"}
    assert surroundings.current_state() == surroundings.before


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how large a process was at most")
def test_bombs_stay_small(tmp_path: Path) -> None:
    """A gzip or zstd stream of a thousandth of its content needs little memory, accepted or refused.

    The archives are unpacked in another process, which prints by how much it grew.
    """
    process = subprocess.run(
        [sys.executable, "-c", f"from {__name__} import unpack_bombs; unpack_bombs()", str(tmp_path)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    found = json.loads(process.stdout)
    assert len(found) == 11
    for name, (sent, grown, as_named, left) in found.items():
        assert sent < BOMB_BYTES / 500, name
        assert grown < KEPT_BYTES, (name, grown)
        assert as_named, name
        assert left == ["ws"], name


def unpack_bombs() -> None:
    """Print for each bomb its bytes, the growth of the process, whether the result is right, and the files."""
    found = {}
    for name, bomb in bombs().items():
        destination = folder_with(Path(sys.argv[1]) / "place" / "ws")
        Path("/proc/self/clear_refs").write_text("5")  # proc_pid_clear_refs(5): reset the peak to the present size
        before = _memory("VmRSS")
        came = anyio.run(unpack_result, bomb.data, destination, 65_536)
        grown = _memory("VmHWM") - before
        found[name] = (len(bomb.data), grown, came == bomb, names(destination.parent))
        shutil.rmtree(destination.parent)
    sys.stdout.write(json.dumps(found))


def _memory(field: str) -> int:
    """Returns the memory of this process in bytes, now (VmRSS) or at most (VmHWM)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(field)
