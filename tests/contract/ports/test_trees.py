"""`FolderTrees` keeps the contract of `Trees`, and what else must hold on a real disk.

More than 500 lines, since every claim is about one adapter and shares its hooks.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Full, Queue
from typing import Any

import anyio
import anyio.to_thread
import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.adapters.fs import FolderTrees, prefetch, staged_directory, work
from senro.adapters.fs import unpack as unpack_module
from senro.domain.errors import TreeError
from senro.domain.tar.writer import END
from senro.domain.tree.content_rules import ContentRules
from senro.domain.tree.tree import Tree
from senro.ports.trees import Packed, Trees
from tests.contract.ports.trees_suite import (
    SMALL,
    SMALL_CONTENTS,
    TreesSuite,
    big,
    deep_folder,
    folder_with,
    pack,
    unpack,
)
from tests.lib.archives.files import archive, directory, file, link, names, read_folder, tar_member, trees
from tests.property.domain.tar.test_tar import HARMLESS

pytestmark = pytest.mark.anyio

TreeWithContents = tuple[Tree, dict[str, bytes]]


class TestFolderTrees(TreesSuite):
    @pytest.fixture
    def trees(self) -> Trees:
        return FolderTrees()


class TestFolderTreesWithoutKernelCopies(TreesSuite):
    """macOS has no copy_file_range."""

    @pytest.fixture
    def trees(self, monkeypatch: pytest.MonkeyPatch) -> Trees:
        monkeypatch.delattr(os, "copy_file_range", raising=False)
        return FolderTrees()


class Slow(Queue[Any]):
    """A queue between thread and loop that is always waited for."""

    def get_nowait(self) -> Any:
        raise Empty

    def put_nowait(self, item: Any) -> None:  # noqa: ARG002 - the name is the queue's
        raise Full


class Hops:
    """Counts hops to threads; at the hop `at` it cancels the scope, before or after the hop's work."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.at = -1
        self.after = False
        self.scope = anyio.CancelScope()
        self._run = anyio.to_thread.run_sync
        monkeypatch.setattr(anyio.to_thread, "run_sync", self.run_sync)
        monkeypatch.setattr(work, "SLICE", 0.0)  # every yield is a hop of its own
        monkeypatch.setattr(prefetch, "Queue", Slow)  # and so is every piece
        monkeypatch.setattr(unpack_module, "MEMBERS_PER_STEP", 1)  # every member can be the last one

    async def run_sync(self, work: Callable[..., Any], *arguments: object) -> Any:
        self.count += 1
        if self.count == self.at and not self.after:
            self.scope.cancel()
        try:
            return await self._run(work, *arguments)
        finally:
            if self.count == self.at:
                self.scope.cancel()


def open_files() -> int:
    return len(names(Path("/dev/fd")))


@pytest.mark.slow  # once for each await
@pytest.mark.parametrize("after", [False, True])
async def test_cancelled_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, after: bool) -> None:
    """Cancelled at any await, a walk, pack, unpack or copy leaves no file open, and on disk only old or new trees."""
    tree = Tree((*SMALL.entries, file("big", b"x" * 200_000)))
    contents = {**SMALL_CONTENTS, "big": b"x" * 200_000}
    data = archive(tree, contents)
    source = folder_with(tmp_path / "source", tree, contents)
    port = FolderTrees()

    async def everything(place: Path) -> None:
        await port.walk(str(source))
        await pack(port, [Packed(0, str(source), tree)])
        await port.copy(tree, str(source), str(place / "copy"))
        await unpack(port, data, {0: str(place / "ws"), 1: str(place / "ws1")}, 100_000)

    hops = Hops(monkeypatch)
    hops.after = after
    folder_with(tmp_path / "whole" / "ws")
    await everything(tmp_path / "whole")
    total = hops.count
    opened = open_files()
    assert total > 30
    for at in range(1, total + 1):
        hops.count, hops.at, hops.scope = 0, at, anyio.CancelScope()
        place = tmp_path / str(at)
        folder_with(place / "ws")
        with hops.scope:
            await everything(place)
        assert hops.scope.cancel_called
        assert {name for name in names(place) if name not in {"ws", "ws1", "copy"}} == set()
        assert read_folder(place / "ws") in {SMALL, tree}
        assert not (place / "copy").exists() or read_folder(place / "copy") == tree
        assert open_files() == opened


async def test_prune_cancelled_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancelled at any await, making a folder as its rules say leaves no file open; done again it is done.

    Nothing is lost by it: not what a link leads to through another link, be it up again or by an excluded name.
    """
    rules = ContentRules(("out", "m/run"), follow=True)

    def make(place: Path) -> Path:
        folder = folder_with(place)
        (folder / "out").mkdir()
        (folder / "out" / "f").write_bytes(b"")
        (folder / "m").symlink_to("d")
        (folder / "deep" / "in").mkdir(parents=True)
        (folder / "deep" / "f").write_bytes(b"f")
        for name, target in {"a": "deep/in", "b": "a/../f", "k": "m/run", "deep/in/z": "../../m"}.items():
            (folder / name).symlink_to(target)
        return folder

    port = FolderTrees()
    hops = Hops(monkeypatch)
    expected = await port.prune(str(make(tmp_path / "whole")), rules=rules)
    total, opened = hops.count, open_files()
    assert total > 10
    for at in range(1, total + 1):
        hops.count, hops.at, hops.scope = 0, at, anyio.CancelScope()
        folder = make(tmp_path / str(at))
        with hops.scope:
            await port.prune(str(folder), rules=rules)
        assert hops.scope.cancel_called
        assert open_files() == opened
        hops.at = -1
        assert await port.prune(str(folder), rules=rules) == expected == read_folder(folder)
    assert names(tmp_path) == sorted(["whole", *(str(at) for at in range(1, total + 1))])


async def test_prune_without_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a copy cannot be made the folder is as it was, each link and what is excluded still there."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    folder = folder_with(tmp_path / "x")
    (folder / "out").mkdir()
    (folder / "m").symlink_to("d")
    monkeypatch.setattr("senro.adapters.fs.copying.os.write", full)
    with pytest.raises(TreeError, match="No space left"):
        await FolderTrees().prune(str(folder), rules=ContentRules(("out",), follow=True))
    assert names(folder) == ["d", "e", "l", "m", "out"]
    assert (folder / "m").is_symlink()
    assert names(tmp_path) == ["x"]


@contextmanager
def as_nobody() -> Iterator[None]:
    """As a user who may do only what modes say; whoever is not root is one."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


async def test_prune_in_what_a_step_locked() -> None:
    """A directory that its owner may not write to keeps nothing from being made as the rules say, and keeps its mode.

    `go mod download` leaves such directories.
    """
    with as_nobody(), tempfile.TemporaryDirectory() as top:
        folder = Path(top) / "ws"
        (folder / "mod" / "node_modules").mkdir(parents=True)
        (folder / "mod" / "node_modules" / "f").write_bytes(b"")
        deep_folder(folder / "mod" / "node_modules", 10_000)
        (folder / "mod" / "lib").mkdir()
        (folder / "mod" / "lib" / "f").write_bytes(b"f")
        (folder / "mod" / "a.o").write_bytes(b"")
        os.mkfifo(folder / "mod" / "fifo")
        (folder / "mod" / "l").symlink_to("lib")
        (folder / "mod" / "m").symlink_to("lib/f")
        locked = [folder / "mod" / "lib", folder / "mod", folder]
        for place in locked:
            place.chmod(0o555)
        rules = ContentRules(("**/node_modules", "**/*.o"), follow=True)
        try:
            tree = await FolderTrees().prune(str(folder), rules=rules)
            assert [place.stat().st_mode & 0o7777 for place in locked] == [0o555] * 3
        finally:
            for place in reversed(locked):
                place.chmod(0o755)
        assert tree == read_folder(folder)
        assert {entry.path for entry in tree.entries if entry.kind == "file"} == {"mod/lib/f", "mod/l/f", "mod/m"}


async def test_prune_what_the_system_keeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is refused in a directory that its owner may write to is told in the system's words."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    folder = folder_with(tmp_path / "x")
    monkeypatch.setattr("senro.adapters.fs.staged_directory.os.unlink", refuse)
    with pytest.raises(TreeError, match="not permitted") as caught:
        await FolderTrees().prune(str(folder), rules=ContentRules(("e",)))
    assert (caught.value.path, caught.value.rule) == ("e", "io")


async def test_a_piece_stays_until_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However far the thread runs ahead, it writes over no piece before the next one is asked for."""
    contents = {name: os.urandom(3 * work.PIECE + number) for number, name in enumerate(("a", "b", "c"))}
    tree = Tree(tuple(file(name, content) for name, content in contents.items()))
    folder, whole, at = folder_with(tmp_path / "x", tree, contents), archive(tree, contents), 0
    waiting: Queue[Any] = Queue(prefetch.DEPTH)
    monkeypatch.setattr(prefetch, "Queue", lambda _: waiting)
    async with FolderTrees().pack([Packed(0, str(folder), tree)]) as opened:
        with anyio.fail_after(30):
            while piece := await opened.read():
                while not waiting.full() and at + (prefetch.DEPTH + 2) * work.PIECE < len(whole):
                    await anyio.lowlevel.checkpoint()
                assert piece == whole[at : at + len(piece)]
                at += len(piece)
    assert at == len(whole)


async def test_cancelled_read_tears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a read that was cancelled the archive cannot be read on: a piece may be lost."""
    tree, contents = big()
    folder = folder_with(tmp_path / "x", tree, contents)
    hops = Hops(monkeypatch)
    async with FolderTrees().pack([Packed(0, str(folder), tree)]) as opened:
        await opened.read()
        hops.at = hops.count + 1
        with hops.scope:
            await opened.read()
        with pytest.raises(TreeError) as caught:
            await opened.read()
        assert caught.value.rule == "torn"


async def test_cancelled_write_tears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a write that was cancelled the archive has a hole: nothing more is taken, nothing can be replaced."""
    tree, contents = big()
    hops = Hops(monkeypatch)
    async with FolderTrees().unpack({0: str(tmp_path / "ws")}) as unpacking:
        hops.at = hops.count + 1
        with hops.scope:
            await unpacking.write(archive(tree, contents))
        assert hops.scope.cancelled_caught
        for call in (unpacking.write(b""), unpacking.finish(), unpacking.replace()):
            with pytest.raises(TreeError) as caught:
                await call
            assert caught.value.rule == "torn"
    assert names(tmp_path) == []


@pytest.mark.parametrize(("existing", "fails"), [(True, 1), (True, 2), (True, 3), (True, 4), (False, 1), (False, 2)])
async def test_replace_all_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, existing: bool, fails: int
) -> None:
    """If one of two folders cannot be swapped in, both are what they were before, and nothing lies beside them."""
    one, other = tmp_path / "one", tmp_path / "other"
    if existing:
        folder_with(one)
        folder_with(other)
    rename = Path.rename
    count = 0

    def failing(self: Path, target: Path) -> Path:
        nonlocal count
        count += 1
        if count == fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return rename(self, target)

    async with FolderTrees().unpack({0: str(one), 1: str(other)}) as unpacking:
        await unpacking.write(archive(Tree((file("new"),)), {"new": b""}))
        await unpacking.finish()
        monkeypatch.setattr(Path, "rename", failing)
        with pytest.raises(TreeError, match="Input/output error"):
            await unpacking.replace()
        monkeypatch.undo()
    assert names(tmp_path) == (["one", "other"] if existing else [])
    if existing:
        assert (read_folder(one), read_folder(other)) == (SMALL, SMALL)


async def test_replace_keeps_the_mode(tmp_path: Path) -> None:
    """The folder that is swapped in has the permissions of the one before."""
    destination = folder_with(tmp_path / "ws")
    destination.chmod(0o750)
    await unpack(FolderTrees(), archive(SMALL, SMALL_CONTENTS), {0: str(destination)})
    assert destination.stat().st_mode & 0o7777 == 0o750


async def test_built_in_private(tmp_path: Path) -> None:
    """While a tree is built beside its destination nobody else may look into it."""
    async with FolderTrees().unpack({0: str(tmp_path / "ws")}):
        (name,) = names(tmp_path)
        assert re.fullmatch(r"\.ws\.senro-[0-9a-f]{12}\.new", name)
        assert (tmp_path / name).stat().st_mode & 0o7777 == 0o700


async def test_leftover_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be removed is an error that names it, or a note where another error is on its way already."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with pytest.raises(TreeError) as caught:
        async with FolderTrees().unpack({0: str(tmp_path / "ws")}):
            monkeypatch.setattr(os, "rmdir", refuse)
    assert caught.value.rule == "leftover"
    monkeypatch.undo()

    async def fail() -> None:
        async with FolderTrees().unpack({0: str(tmp_path / "ws")}):
            monkeypatch.setattr(os, "rmdir", refuse)
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as other:
        await fail()
    assert "remove it by hand" in other.value.__notes__[0]


async def test_removes_what_a_step_locked(tmp_path: Path) -> None:
    """A folder whose rights a step took away does not keep the old tree from being removed."""
    destination = folder_with(tmp_path / "ws")
    (destination / "d").chmod(0)
    await unpack(FolderTrees(), archive(Tree(), {}), {0: str(destination)})
    assert names(tmp_path) == ["ws"]


@pytest.mark.slow  # the kernel walks every path from its root
async def test_deep(tmp_path: Path) -> None:
    """A tree deeper than any recursion could follow with comfort is unpacked, walked, packed, copied and removed."""
    paths = ["/".join("d" for _ in range(depth)) for depth in range(1, 500)]
    tree = Tree(tuple(directory(path) for path in paths))
    port = FolderTrees()
    destination = str(tmp_path / "ws")
    assert await unpack(port, archive(tree, {}), {0: destination}) == {0: tree}
    assert await port.walk(destination) == tree
    await port.copy(tree, destination, str(tmp_path / "copy"))
    await unpack(port, archive(Tree(), {}), {0: destination})
    await unpack(port, archive(Tree(), {}), {0: str(tmp_path / "copy")})
    assert names(tmp_path) == ["copy", "ws"]


async def test_disk_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full is an error that names the file and says so; nothing is left."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("senro.adapters.fs.copying.os.write", full)
    with pytest.raises(TreeError, match="No space left") as caught:
        await unpack(FolderTrees(), archive(SMALL, SMALL_CONTENTS), {0: str(tmp_path / "ws")})
    assert (caught.value.path, caught.value.rule) == ("d/run", "io")
    monkeypatch.undo()
    folder = folder_with(tmp_path / "x")
    monkeypatch.setattr("senro.adapters.fs.copying.os.write", full)
    with pytest.raises(TreeError, match="No space left") as caught:
        await FolderTrees().copy(SMALL, str(folder), str(tmp_path / "y"))
    assert caught.value.path == "d/run"
    monkeypatch.undo()
    assert names(tmp_path) == ["x"]


def close_badly(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let the system say that the disk is full when a written file of this name is closed, as NFS does."""
    close = os.close

    def closing(opened: int) -> None:
        path = str(Path(f"/proc/self/fd/{opened}").readlink())
        written = fcntl.fcntl(opened, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
        close(opened)
        if written and path.endswith(f"/{name}"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "close", closing)


@pytest.mark.parametrize("name", ["d/run", "again", "m/run"])
async def test_disk_full_when_a_file_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Some file systems say so then: a member, a hard link's copy, what stands for a link are named, none is left."""
    tree = Tree((*SMALL.entries, link("m", "d")))
    hard = tar_member("0/again", b"1", target="0/d/run")
    data = archive(tree, SMALL_CONTENTS).removesuffix(END) + hard + END
    opened = open_files()
    close_badly(monkeypatch, name)
    with pytest.raises(TreeError, match="No space left") as caught:
        await unpack(FolderTrees(), data, {0: str(tmp_path / "ws")}, rules={0: ContentRules(follow=True)})
    monkeypatch.undo()
    assert (caught.value.path, caught.value.rule) == (name, "io")
    assert names(tmp_path) == []
    assert open_files() == opened


async def test_disk_full_when_a_copy_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of a folder tells it in the same way."""
    folder = folder_with(tmp_path / "x")
    opened = open_files()
    close_badly(monkeypatch, "d/run")
    with pytest.raises(TreeError, match="No space left") as caught:
        await FolderTrees().copy(SMALL, str(folder), str(tmp_path / "y"))
    monkeypatch.undo()
    assert (caught.value.path, caught.value.rule) == ("d/run", "io")
    assert names(tmp_path) == ["x"]
    assert open_files() == opened


async def test_a_file_that_cannot_be_closed_hides_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an unpacking is given up in the middle of a file, what its closing says is no news."""
    data = archive(SMALL, SMALL_CONTENTS)
    cut = data.index(SMALL_CONTENTS["d/run"]) + 1
    opened = open_files()
    close_badly(monkeypatch, "d/run")
    with pytest.raises(TreeError) as caught:
        await unpack(FolderTrees(), data[:cut], {0: str(tmp_path / "ws")})
    monkeypatch.undo()
    assert caught.value.rule == "truncated"
    assert names(tmp_path) == []
    assert open_files() == opened


@pytest.mark.parametrize("call", ["fchmod", "mkdir"])
async def test_refused_by_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """Whatever the system refuses while a tree is built is named, leaves nothing, and no file open."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    opened = open_files()
    umask = os.umask(0o077)  # without one no mode needs to be set
    try:
        monkeypatch.setattr(f"senro.adapters.fs.staged_directory.os.{call}", refuse)
        with pytest.raises(TreeError, match="not permitted"):
            await unpack(FolderTrees(), archive(SMALL, SMALL_CONTENTS), {0: str(tmp_path / "ws")})
    finally:
        os.umask(umask)
    monkeypatch.undo()
    assert names(tmp_path) == []
    assert open_files() == opened


async def test_no_more_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that may open no more files leaves no empty folder behind."""
    opening = os.open

    def refusing(path: Any, *arguments: Any, **named: Any) -> int:
        if str(path).endswith(".new"):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return opening(path, *arguments, **named)

    monkeypatch.setattr("senro.adapters.fs.staged_directory.os.open", refusing)
    with pytest.raises(TreeError, match="Too many open files"):
        await unpack(FolderTrees(), archive(SMALL, SMALL_CONTENTS), {0: str(tmp_path / "ws")})
    monkeypatch.undo()
    assert names(tmp_path) == []


def test_names_that_a_disk_takes_for_one(tmp_path: Path) -> None:
    """Where a disk takes two names for one (case, Unicode forms), the second is refused by name, whatever it is.

    Such a disk finds something at a name that nothing was made at: so does this one, where somebody else made it.
    """
    folder = staged_directory.StagedDirectory(str(tmp_path / "ws"))
    try:
        folder.make_directory("d")
        folder.make_directory("d")
        (folder.built / "x").mkdir()
        for second in (
            lambda: folder.make_directory("x"),
            lambda: folder.create("x", executable=False),
            lambda: folder.make_link("x", "d"),
        ):
            with pytest.raises(TreeError, match="another name as equal") as caught:
                second()
            assert (caught.value.path, caught.value.rule) == ("x", "case")
    finally:
        for _ in folder.discard():
            pass
    assert names(tmp_path) == []


@pytest.mark.parametrize("how", ["refuses", "nothing", "stops", "breaks"])
async def test_kernel_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """Where the kernel does not copy, or only begins to, the copy is whole or an error; never a wrong file."""
    content = os.urandom(3 << 20)
    tree = Tree((file("a", content),))
    folder = folder_with(tmp_path / "x", tree, {"a": content})

    def copying(source: int, target: int, count: int, at: int, to: int) -> int:
        if how == "refuses" or (how == "breaks" and at):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        if how == "nothing" or (how == "stops" and at):
            return 0
        return os.pwrite(target, os.pread(source, min(count, 1 << 20), at), to)

    monkeypatch.setattr("senro.adapters.fs.copying.os.copy_file_range", copying, raising=False)
    if how in {"refuses", "nothing"}:
        await FolderTrees().copy(tree, str(folder), str(tmp_path / "y"))
        assert read_folder(tmp_path / "y") == tree
    else:
        with pytest.raises(TreeError) as caught:
            await FolderTrees().copy(tree, str(folder), str(tmp_path / "y"))
        assert (caught.value.path, caught.value.rule) == ("a", {"stops": "changed", "breaks": "io"}[how])
        assert names(tmp_path) == ["x"]


async def test_file_cut_while_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is cut, written to or unreadable while its bytes go out ends the archive by its name."""
    content = b"x" * 3_000_000
    tree = Tree((file("a", content),))
    folder = folder_with(tmp_path / "x", tree, {"a": content})
    read = os.readv

    for change in ("cut", "written", "broken"):

        def reading(opened: int, buffers: list[memoryview], change: str = change) -> int:
            size = read(opened, buffers)
            if change == "cut":
                os.truncate(folder / "a", 200_000)
            elif change == "written":
                with (folder / "a").open("r+b") as writing:
                    writing.write(b"x")
                os.utime(folder / "a", (1, 1))
            else:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return size

        (folder / "a").write_bytes(content)
        monkeypatch.setattr("senro.adapters.fs.pack.os.readv", reading)
        with pytest.raises(TreeError) as caught:
            await pack(FolderTrees(), [Packed(0, str(folder), tree)])
        monkeypatch.undo()
        assert (caught.value.path, caught.value.rule) == ("a", "changed")


async def test_short_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes that take a part of what they are given are completed."""
    write = os.write
    monkeypatch.setattr(
        "senro.adapters.fs.copying.os.write", lambda opened, data: write(opened, data[: max(1, len(data) // 2)])
    )
    tree = Tree((file("a", b"x" * 5000),))
    await unpack(FolderTrees(), archive(tree, {"a": b"x" * 5000}), {0: str(tmp_path / "ws")})
    monkeypatch.undo()
    assert read_folder(tmp_path / "ws") == tree


async def test_walk_while_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that grows, shrinks or is exchanged while it is read is named, not taken as it was half read."""
    folder = folder_with(tmp_path / "x", Tree((file("a", b"x" * 3_000_000),)), {"a": b"x" * 3_000_000})
    read, opening = os.read, os.open

    for change in ("grow", "shrink", "gone"):

        def reading(opened: int, count: int, change: str = change) -> bytes:
            data = read(opened, count)
            if change == "grow":
                with (folder / "a").open("ab") as growing:
                    growing.write(b"y")
            elif change == "shrink":
                os.truncate(folder / "a", 10)
            return data

        monkeypatch.setattr("senro.adapters.fs.walk.os.read", reading)
        if change == "gone":

            def vanishing(path: str, *arguments: Any, **named: Any) -> int:
                if path == "a":
                    (folder / "a").unlink()
                return opening(path, *arguments, **named)

            monkeypatch.setattr("senro.adapters.fs.walk.os.open", vanishing)
        with pytest.raises(TreeError) as caught:
            await FolderTrees().walk(str(folder))
        assert (caught.value.path, caught.value.rule) == ("a", "changed")
        monkeypatch.undo()


async def test_walk_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file, folder or link that must not be read is named, with what to do."""
    folder = folder_with(tmp_path / "x")
    opening = os.open

    def refusing(path: str, *arguments: Any, **named: Any) -> int:
        if path == refused.rpartition("/")[2]:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return opening(path, *arguments, **named)

    for refused in ("d", "d/run"):
        monkeypatch.setattr(os, "open", refusing)
        with pytest.raises(TreeError, match="exclude it") as caught:
            await FolderTrees().walk(str(folder))
        assert (caught.value.path, caught.value.rule) == (refused, "unreadable")
        monkeypatch.undo()


@pytest.mark.parametrize(("call", "path"), [("read", "d/run"), ("readlink", "l"), ("scandir", ".")])
async def test_walk_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, path: str) -> None:
    """A disk that fails is named where it fails, with the system's words."""
    folder = folder_with(tmp_path / "x", Tree(SMALL.entries[:2] + SMALL.entries[3:]), SMALL_CONTENTS)

    def broken(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(f"senro.adapters.fs.walk.os.{call}", broken)
    with pytest.raises(TreeError, match="Input/output error") as caught:
        await FolderTrees().walk(str(folder))
    assert (caught.value.path, caught.value.rule) == (path, "unreadable")


class _Vanishing:
    """A directory entry that is gone when it is looked at."""

    name = "e"

    def is_dir(self, *, follow_symlinks: bool) -> bool:
        return follow_symlinks

    def stat(self, *, follow_symlinks: bool) -> os.stat_result:
        raise FileNotFoundError(errno.ENOENT, f"gone, {follow_symlinks}")


async def test_walk_vanished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is gone before anything of it was read is not in the tree, and no error: it might never have been."""
    folder = folder_with(tmp_path / "x")

    @contextmanager
    def scan(opened: int) -> Iterator[Iterator[_Vanishing]]:
        assert opened > 2
        yield iter([_Vanishing()])

    monkeypatch.setattr("senro.adapters.fs.walk.os.scandir", scan)
    assert await FolderTrees().walk(str(folder)) == Tree()


@pytest.mark.slow  # counting memory takes time
async def test_memory(tmp_path: Path) -> None:
    """Packing and unpacking hold a few pieces in memory, not the files: under 6 MiB for 48 MiB in three files."""
    contents = {name: os.urandom(16 << 20) for name in ("a", "b", "c")}
    tree = Tree(tuple(file(name, content) for name, content in contents.items()))
    folder = folder_with(tmp_path / "x", tree, contents)
    contents.clear()
    port = FolderTrees()
    tracemalloc.start()
    try:
        async with (
            port.pack([Packed(0, str(folder), tree)]) as packing,
            port.unpack({0: str(tmp_path / "y")}) as unpacking,
        ):
            while piece := await packing.read():
                await unpacking.write(bytes(piece))
            await unpacking.finish()
            await unpacking.replace()
        assert tracemalloc.get_traced_memory()[1] < 6 << 20
    finally:
        tracemalloc.stop()
    assert read_folder(tmp_path / "y") == tree


@pytest.mark.parametrize("name", HARMLESS)
async def test_harmless(tmp_path: Path, name: str) -> None:
    """What honest tars write in odd ways arrives on disk as what it means."""
    data, tree = HARMLESS[name]
    assert await unpack(FolderTrees(), data + bytes(1024), {0: str(tmp_path / "ws")}) == {0: tree}
    assert read_folder(tmp_path / "ws") == tree


@pytest.mark.slow  # a folder for each example
@given(drawn=trees(), cut=st.integers(1, 5000))
async def test_any_tree(tmp_path_factory: pytest.TempPathFactory, drawn: TreeWithContents, cut: int) -> None:
    """Any tree goes from folder to archive to folder with one digest."""
    top = tmp_path_factory.mktemp("any")
    folder = folder_with(top / "x", *drawn)
    port = FolderTrees()
    tree = await port.walk(str(folder))
    assert tree == drawn[0]
    data = b"".join(await pack(port, [Packed(0, str(folder), tree)]))
    found = await unpack(port, data, {0: str(top / "y")}, cut)
    assert found[0].digest == tree.digest == read_folder(top / "y").digest


@pytest.mark.slow  # a folder for each example
@given(drawn=trees(), data=st.data())
async def test_mutated_stays_inside(
    tmp_path_factory: pytest.TempPathFactory, drawn: TreeWithContents, data: st.DataObject
) -> None:
    """An archive with any bytes changed and its checksums mended arrives or is refused, and writes nowhere else."""
    whole = bytearray(archive(*drawn))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at] = data.draw(st.sampled_from([*b"0./\x00125xLK", 255]))
        block = at // 512 * 512
        whole[block + 148 : block + 156] = b" " * 8
        whole[block + 148 : block + 156] = b"%06o\0 " % sum(whole[block : block + 512])
    top = tmp_path_factory.mktemp("mutated")
    destination = folder_with(top / "ws")
    try:
        found = await unpack(FolderTrees(), bytes(whole), {0: str(destination)})
    except TreeError:
        assert read_folder(destination) == SMALL
    else:
        assert read_folder(destination) == found[0]
    assert names(top) == ["ws"]


@pytest.mark.parametrize("size", [work.PIECE // 2, work.PIECE, work.PIECE + 1])
async def test_however_full_a_piece_is(tmp_path: Path, size: int) -> None:
    """A file of any size may begin at any block of a piece, the last one too: the archive is the domain's."""
    for filled in range(work.PIECE // 512 - 4, work.PIECE // 512 + 3):
        names = [f"d{number:04}" for number in range(filled)]
        content = os.urandom(size)
        tree = Tree((*(directory(name) for name in names), file("x", content), directory("y")))
        folder = tmp_path / str(filled)
        folder.mkdir()
        (folder / "x").write_bytes(content)
        pieces = await pack(FolderTrees(), [Packed(0, str(folder), tree)])
        assert b"".join(pieces) == archive(tree, {"x": content})


@pytest.mark.parametrize("umask", [0, 0o027, 0o777])
async def test_modes_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    """Every file is 0644 or 0755, every directory 0755: the first of each kind, and those after it."""
    tree = Tree(
        (
            directory("d"),
            *(file(name, b"x") for name in ("a", "d/b")),
            *(file(name, b"x", executable=True) for name in ("c", "d/e")),
        )
    )
    before = os.umask(umask)
    try:
        async with FolderTrees().unpack({0: str(tmp_path / "ws")}) as unpacking:
            await unpacking.write(archive(tree, dict.fromkeys(("a", "d/b", "c", "d/e"), b"x")))
            await unpacking.finish()
            await unpacking.replace()
    finally:
        os.umask(before)
    modes = {path: (tmp_path / "ws" / path).stat().st_mode & 0o7777 for path in ("a", "d/b", "c", "d/e", "d")}
    assert modes == {"a": 0o644, "d/b": 0o644, "c": 0o755, "d/e": 0o755, "d": 0o755}


async def test_links_only_at_the_end(tmp_path: Path) -> None:
    """While files are written there is no link in the new folder that one of them could go through."""
    async with FolderTrees().unpack({0: str(tmp_path / "ws")}) as unpacking:
        await unpacking.write(tar_member("0/l", b"2", target="d") + tar_member("0/x", content=b"y" * 600_000))
        (name,) = names(tmp_path)
        with anyio.fail_after(30):
            while "x" not in (found := names(tmp_path / name)):
                assert found == []
                await anyio.lowlevel.checkpoint()
        assert found == ["x"]
        await unpacking.write(bytes(1024))
        assert await unpacking.finish() == {0: Tree((link("l", "d"), file("x", b"y" * 600_000)))}
