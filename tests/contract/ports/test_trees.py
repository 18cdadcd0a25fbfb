"""`FolderTrees` passes the suite of `Trees`, and handles the errors of a disk.

More than 500 lines: all tests are about one adapter and share its hooks.
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
    """MacOS has no copy_file_range."""

    @pytest.fixture
    def trees(self, monkeypatch: pytest.MonkeyPatch) -> Trees:
        monkeypatch.delattr(os, "copy_file_range", raising=False)
        return FolderTrees()


class Slow(Queue[Any]):
    """A queue between thread and event loop that always has to be waited for."""

    def get_nowait(self) -> Any:
        raise Empty

    def put_nowait(self, item: Any) -> None:  # noqa: ARG002 - the signature of the queue
        raise Full


class Hops:
    """Counts the calls of worker threads; at call number `at` it cancels the scope, before or after the work."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.at = -1
        self.after = False
        self.scope = anyio.CancelScope()
        self._run = anyio.to_thread.run_sync
        monkeypatch.setattr(anyio.to_thread, "run_sync", self.run_sync)
        monkeypatch.setattr(work, "SLICE", 0.0)  # every yield is a call of a thread
        monkeypatch.setattr(prefetch, "Queue", Slow)  # and every piece is one too
        monkeypatch.setattr(unpack_module, "MEMBERS_PER_STEP", 1)  # every step unpacks one member

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
async def test_cancellation_at_any_await(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, after: bool) -> None:
    """A cancelled walk, pack, unpack or copy leaves no open file, and on disk only old or new trees."""
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
    """A cancelled prune leaves no open file, and a second one completes it.

    Nothing is lost, also not the target of a link that is reached by another link, upwards or by an excluded name.
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


async def test_prune_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a copy cannot be made, the folder is unchanged, with all links and all excluded files."""

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
    """Run as a user who has only the rights of the permission bits, as every user but root has."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


async def test_prune_in_what_a_step_locked() -> None:
    """A folder without the right to write is pruned too, and keeps its mode. `go mod download` leaves such folders."""
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


async def test_prune_of_what_cannot_be_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the text of the operating system."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    folder = folder_with(tmp_path / "x")
    monkeypatch.setattr("senro.adapters.fs.staged_directory.os.unlink", refuse)
    with pytest.raises(TreeError, match="not permitted") as caught:
        await FolderTrees().prune(str(folder), rules=ContentRules(("e",)))
    assert (caught.value.path, caught.value.rule) == ("e", "io")


async def test_piece_is_valid_until_the_next_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that reads ahead does not overwrite a piece before the next `read`."""
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


async def test_cancelled_read_ends_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a cancelled read the archive cannot be read: a piece may be lost."""
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


async def test_cancelled_write_ends_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a cancelled write a piece may be missing, so nothing can be written or replaced."""
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
    """If one of two folders cannot be swapped, both are unchanged, and no sibling is left."""
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
    """The new folder has the mode of the old one."""
    destination = folder_with(tmp_path / "ws")
    destination.chmod(0o750)
    await unpack(FolderTrees(), archive(SMALL, SMALL_CONTENTS), {0: str(destination)})
    assert destination.stat().st_mode & 0o7777 == 0o750


async def test_sibling_is_private(tmp_path: Path) -> None:
    """Only this user can read a tree while it is built."""
    async with FolderTrees().unpack({0: str(tmp_path / "ws")}):
        (name,) = names(tmp_path)
        assert re.fullmatch(r"\.ws\.senro-[0-9a-f]{12}\.new", name)
        assert (tmp_path / name).stat().st_mode & 0o7777 == 0o700


async def test_leftovers_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sibling that cannot be removed is an error that names it, or a note of another error."""

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


async def test_replaced_tree_without_permissions_is_removed(tmp_path: Path) -> None:
    """The old tree is removed although a step took away its permission bits."""
    destination = folder_with(tmp_path / "ws")
    (destination / "d").chmod(0)
    await unpack(FolderTrees(), archive(Tree(), {}), {0: str(destination)})
    assert names(tmp_path) == ["ws"]


@pytest.mark.slow  # the kernel resolves every path from its root
async def test_very_deep_tree(tmp_path: Path) -> None:
    """A tree deeper than the recursion limit is unpacked, walked, packed, copied and removed."""
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
    """A full disk is an error that names the file, and nothing is left."""

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
    """Let closing a written file of this name fail as on a full disk, as NFS does."""
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
    """The error names the member, the copy of a hard link or of a link, and nothing is left."""
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
    """Copying a folder raises the same error."""
    folder = folder_with(tmp_path / "x")
    opened = open_files()
    close_badly(monkeypatch, "d/run")
    with pytest.raises(TreeError, match="No space left") as caught:
        await FolderTrees().copy(SMALL, str(folder), str(tmp_path / "y"))
    monkeypatch.undo()
    assert (caught.value.path, caught.value.rule) == ("d/run", "io")
    assert names(tmp_path) == ["x"]
    assert open_files() == opened


async def test_error_of_closing_hides_no_other_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If unpacking is given up inside a file, an error of closing it is ignored."""
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
async def test_system_errors_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """Every error while a tree is built names the path, and leaves nothing and no open file."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    opened = open_files()
    umask = os.umask(0o077)  # with the usual one some modes need not be set
    try:
        monkeypatch.setattr(f"senro.adapters.fs.staged_directory.os.{call}", refuse)
        with pytest.raises(TreeError, match="not permitted"):
            await unpack(FolderTrees(), archive(SMALL, SMALL_CONTENTS), {0: str(tmp_path / "ws")})
    finally:
        os.umask(umask)
    monkeypatch.undo()
    assert names(tmp_path) == []
    assert open_files() == opened


async def test_too_many_open_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that may not open more files leaves no empty folder."""
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
    """If a disk treats two names as one (case, Unicode forms), the second is refused by its name.

    Such a disk finds a file at a name that was not created. The test creates it by other means.
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
    """If the kernel does not copy, or copies only a part, the copy is complete or an error."""
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


async def test_file_changed_while_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is cut, written or made unreadable while it is sent ends the archive with its name."""
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


async def test_partial_writes_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes that accept a part of the data are completed."""
    write = os.write
    monkeypatch.setattr(
        "senro.adapters.fs.copying.os.write", lambda opened, data: write(opened, data[: max(1, len(data) // 2)])
    )
    tree = Tree((file("a", b"x" * 5000),))
    await unpack(FolderTrees(), archive(tree, {"a": b"x" * 5000}), {0: str(tmp_path / "ws")})
    monkeypatch.undo()
    assert read_folder(tmp_path / "ws") == tree


async def test_file_changed_while_walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that grows, shrinks or is replaced while it is read is an error that names it."""
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
    """A file, folder or link without permission is named, with what to do."""
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
async def test_walk_on_a_failing_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, path: str) -> None:
    """The error has the path and the text of the operating system."""
    folder = folder_with(tmp_path / "x", Tree(SMALL.entries[:2] + SMALL.entries[3:]), SMALL_CONTENTS)

    def broken(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(f"senro.adapters.fs.walk.os.{call}", broken)
    with pytest.raises(TreeError, match="Input/output error") as caught:
        await FolderTrees().walk(str(folder))
    assert (caught.value.path, caught.value.rule) == (path, "unreadable")


class _Vanishing:
    """A directory entry that is gone when it is examined."""

    name = "e"

    def is_dir(self, *, follow_symlinks: bool) -> bool:
        return follow_symlinks

    def stat(self, *, follow_symlinks: bool) -> os.stat_result:
        raise FileNotFoundError(errno.ENOENT, f"gone, {follow_symlinks}")


async def test_file_that_vanished_before_it_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is gone before it was read is not in the tree, and no error."""
    folder = folder_with(tmp_path / "x")

    @contextmanager
    def scan(opened: int) -> Iterator[Iterator[_Vanishing]]:
        assert opened > 2
        yield iter([_Vanishing()])

    monkeypatch.setattr("senro.adapters.fs.walk.os.scandir", scan)
    assert await FolderTrees().walk(str(folder)) == Tree()


@pytest.mark.slow  # measuring memory is slow
async def test_memory_is_bounded(tmp_path: Path) -> None:
    """Packing and unpacking 48 MiB in three files needs less than 6 MiB of memory."""
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
async def test_unusual_archives(tmp_path: Path, name: str) -> None:
    """Archives of real tar programs in unusual forms are unpacked as they mean."""
    data, tree = HARMLESS[name]
    assert await unpack(FolderTrees(), data + bytes(1024), {0: str(tmp_path / "ws")}) == {0: tree}
    assert read_folder(tmp_path / "ws") == tree


@pytest.mark.slow  # a folder for each example
@given(drawn=trees(), cut=st.integers(1, 5000))
async def test_any_tree(tmp_path_factory: pytest.TempPathFactory, drawn: TreeWithContents, cut: int) -> None:
    """Any tree has the same digest after it was packed and unpacked."""
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
async def test_mutated_archives_stay_inside(
    tmp_path_factory: pytest.TempPathFactory, drawn: TreeWithContents, data: st.DataObject
) -> None:
    """A mutated archive with valid checksums is unpacked or refused, and writes nothing elsewhere."""
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
async def test_files_at_any_place_of_a_piece(tmp_path: Path, size: int) -> None:
    """A file of any size may begin at any block of a piece, also at the last one."""
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
async def test_modes_with_any_umask(tmp_path: Path, umask: int) -> None:
    """Every file is 0644 or 0755, every folder 0755, the first of each kind and the later ones."""
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


async def test_links_are_made_last(tmp_path: Path) -> None:
    """While files are written, the new folder has no link through which one could be written."""
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
