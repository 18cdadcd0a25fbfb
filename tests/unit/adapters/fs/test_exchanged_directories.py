"""A process that a step left behind replaces a directory by a link while senro reads or removes its workspace."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from senro.adapters.fs.open_directory import OpenDirectory
from senro.adapters.fs.removal import remove_folder
from senro.adapters.fs.trees import FolderTrees
from senro.adapters.fs.walk import prune, walk
from senro.domain.errors import TreeError
from senro.domain.tree.content_rules import DEFAULT_RULES, ContentRules
from senro.ports.trees import Packed

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory that does not belong to the workspace, with files of the names that the workspace has."""
    folder = tmp_path / "outside"
    (folder / "deeper").mkdir(parents=True)
    for path in ("file", "deeper/file", "mark"):
        (folder / path).write_text("theirs")
    folder.chmod(0o2750)
    return folder


def workspace(tmp_path: Path) -> Path:
    """A workspace with `victim`, a directory of files and of a directory, and other entries around it."""
    folder = tmp_path / "ws"
    for path in ("a/file", "victim/file", "victim/deeper/file", "victim/mark", "z/file"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("ours")
    return folder


def exchange(folder: Path, outside: Path, tmp_path: Path) -> None:
    """Move `victim` away and put a link to the directory outside in its place."""
    (folder / "victim").rename(tmp_path / "moved")
    (folder / "victim").symlink_to(outside)


def content(folder: Path) -> dict[str, str | int]:
    """What a directory holds, and its mode."""
    files: dict[str, str | int] = {
        str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()
    }
    return files | {"mode": folder.stat().st_mode, "deeper mode": (folder / "deeper").stat().st_mode}


def slices(work: Generator[None, None, object], count: int) -> bool:
    """Run `count` slices of the work. Returns whether it ended in them."""
    return any(next(work, work) is work for _ in range(count))


def removal(folder: Path) -> Generator[None, None, object]:
    return remove_folder(folder)


def pruning(folder: Path) -> Generator[None, None, object]:
    return prune(str(folder), ContentRules(exclude=("victim/deeper", "mark")))


def clearing_bits(folder: Path) -> Generator[None, None, object]:
    (folder / "victim/mark").chmod(0o6755)
    return prune(str(folder), DEFAULT_RULES)


def reading(folder: Path) -> Generator[None, None, object]:
    return walk(str(folder), DEFAULT_RULES)


@pytest.mark.parametrize("begin", [removal, pruning, clearing_bits, reading])
def test_nothing_outside_is_touched_at_whatever_moment_a_directory_is_exchanged(
    tmp_path_factory: pytest.TempPathFactory, outside: Path, begin: Callable[[Path], Generator[None, None, object]]
) -> None:
    """Whenever a listed directory becomes a link to another, no file there is removed and no mode there is changed."""
    before = content(outside)
    count, ended = 0, False
    while not ended:
        place = tmp_path_factory.mktemp("case")
        folder = workspace(place)
        work = begin(folder)
        ended = slices(work, count)
        if not ended:
            try:
                exchange(folder, outside, place)
            except FileNotFoundError:
                ended = True  # it was removed already
            try:
                for _ in work:
                    pass
            except (OSError, TreeError):
                pass
        assert content(outside) == before, count
        count += 1
    assert count > 4


def test_a_walk_reads_nothing_through_a_link_that_took_a_directorys_place(tmp_path: Path, outside: Path) -> None:
    """The walk of a workspace whose directory became a link between two slices is refused as changed."""
    folder = workspace(tmp_path)
    work = walk(str(folder), DEFAULT_RULES)
    next(work)
    exchange(folder, outside, tmp_path)
    with pytest.raises(TreeError) as caught:
        for _ in work:
            pass
    assert caught.value.rule == "changed"


@pytest.mark.anyio
async def test_an_archive_carries_nothing_through_a_link_that_took_a_directorys_place(
    tmp_path: Path, outside: Path
) -> None:
    """A file that lies behind a link is not sent to a pod, even if its content is what the walk promised."""
    folder, trees = workspace(tmp_path), FolderTrees()
    for path in ("file", "deeper/file", "mark"):
        (outside / path).write_text("ours")
    tree = await trees.walk(str(folder))
    exchange(folder, outside, tmp_path)
    async with trees.pack([Packed(0, str(folder), tree)]) as archive:
        with pytest.raises(TreeError, match="victim"):
            await archive.read()


@pytest.mark.parametrize("mode", [0, 0o100, 0o200, 0o500])
def test_a_deep_tree_without_rights_is_removed(tmp_path: Path, mode: int) -> None:
    """A tree that is deeper than any path may be long is removed, whatever rights its directories have lost."""
    top = tmp_path / "deep"
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(40):
        os.mkdir("d" * 200, dir_fd=here)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=below))
        os.fchmod(here, mode)
        os.close(here)
        here = below
    os.close(here)
    for _ in remove_folder(top):
        pass
    assert not top.exists()


def test_a_failed_look_leaves_the_folder_usable(tmp_path: Path) -> None:
    """After a path that does not exist was asked for, the next path is looked up from the folder itself."""
    folder = workspace(tmp_path)
    with OpenDirectory(folder) as directory:
        with pytest.raises(FileNotFoundError):
            directory.open("victim/deeper/nowhere/file")
        os.close(directory.open("a/file"))
        os.close(directory.open("victim/deeper/file"))
        os.close(directory.open("victim/file"))
        with os.scandir(directory.directory("")) as listing:
            assert sorted(item.name for item in listing) == ["a", "victim", "z"]
