"""The conformance suite of `senro.ports.trees`.

More than 500 lines: one class, which each adapter subclasses.
"""

from __future__ import annotations

import io
import os
import socket
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from senro.domain.errors import PlanError, TreeError
from senro.domain.transfer.compression import Coding
from senro.domain.transfer.retry_policy import BROKEN_RULES
from senro.domain.tree.content_rules import KEEP_EVERYTHING, ContentRules
from senro.domain.tree.paths import MAX_PATH
from senro.domain.tree.tree import Tree
from senro.ports.trees import Archive, Packed, Trees
from tests.lib.archives.files import (
    Contents,
    archive,
    directory,
    file,
    link,
    make_folder,
    mode_of,
    names,
    read_events,
    read_folder,
    read_folder_as_is,
    read_tree,
    tar_member,
)
from tests.lib.archives.hostile import REFUSED
from tests.property.domain.tar.test_tar import AWKWARD, AWKWARD_CONTENTS

pytestmark = pytest.mark.anyio

PIECE = 512 * 1024

SMALL = Tree((directory("d"), file("d/run", b"#!/bin/sh\n", executable=True), file("e"), link("l", "d/run")))
SMALL_CONTENTS = {"d/run": b"#!/bin/sh\n", "e": b""}


FOLLOWED = Tree(
    (
        directory("d"),
        directory("m"),
        *(file(path, SMALL_CONTENTS["d/run"], executable=True) for path in ("d/run", "l", "m/run")),
        *(file(path) for path in ("e", "d/n", "m/n")),
    )
)
"""`SMALL` with the links `m` to `d` and `d/n` to `e`, after all links were followed."""


def deep_folder(folder: Path, length: int) -> str:
    """Create nested folders until a path below `folder` has this many bytes. Returns the path."""
    place, path = os.open(folder, os.O_RDONLY), ""
    while len(path) < length:
        name = "x" * min(200, length - len(path) - bool(path))
        os.mkdir(name, dir_fd=place)
        inner = os.open(name, os.O_RDONLY, dir_fd=place)
        os.close(place)
        place, path = inner, f"{path}/{name}" if path else name
    os.close(place)
    return path


def big() -> tuple[Tree, dict[str, bytes]]:
    """Files of all sizes around that of a piece, and many small ones."""
    contents = {f"f{size}": os.urandom(size) for size in (1, 511, 512, 65_536, 131_072, 131_073, 1_500_000)}
    contents |= {f"s{number:03}": b"small" * number for number in range(200)}
    return Tree(tuple(file(path, content) for path, content in contents.items())), contents


async def pack(trees: Trees, parts: list[Packed], sentinel: str = "") -> list[bytes]:
    """Returns all pieces of an archive, after checking its length."""
    async with trees.pack(parts, sentinel=sentinel) as opened:
        pieces = await read_all(opened)
        assert await opened.read() == b""
        assert sum(map(len, pieces)) == opened.length
    return pieces


async def read_all(opened: Archive) -> list[bytes]:
    """Returns the remaining pieces of an archive."""
    pieces = []
    while piece := await opened.read():
        pieces.append(bytes(piece))
    return pieces


async def unpack(
    trees: Trees,
    data: bytes,
    destinations: dict[int, str],
    cut: int = 10_000,
    rules: Mapping[int, ContentRules] | None = None,
) -> Mapping[int, Tree]:
    """Unpack and replace, in pieces of `cut` bytes."""
    async with trees.unpack(destinations, rules=rules) as unpacking:
        for at in range(0, len(data), cut):
            await unpacking.write(data[at : at + cut])
        assert unpacking.received == len(data)
        found = await unpacking.finish()
        await unpacking.replace()
    return found


def folder_with(path: Path, tree: Tree = SMALL, contents: Contents = SMALL_CONTENTS) -> Path:
    """A folder with the files of the tree."""
    path.parent.mkdir(exist_ok=True)
    make_folder(path, tree, contents)
    return path


class TreesSuite:
    """A subclass has the fixture `trees`."""

    @pytest.fixture
    def trees(self) -> Trees:
        raise NotImplementedError

    @pytest.mark.parametrize("made", [(AWKWARD, AWKWARD_CONTENTS), (SMALL, SMALL_CONTENTS), (Tree(), {})])
    async def test_walk(self, trees: Trees, tmp_path: Path, made: tuple[Tree, Contents]) -> None:
        """Walking a folder returns its tree."""
        folder = folder_with(tmp_path / "x", *made)
        assert await trees.walk(str(folder)) == made[0] == read_folder(folder)

    async def test_walk_of_large_files(self, trees: Trees, tmp_path: Path) -> None:
        """Files of any size have the digest of their whole content."""
        tree, contents = big()
        assert await trees.walk(str(folder_with(tmp_path / "x", tree, contents))) == tree

    @pytest.mark.parametrize("coding", ["gzip", "zstd"])
    async def test_compressed_archive(self, trees: Trees, tmp_path: Path, coding: Coding) -> None:
        """A compressed archive is shorter, counts its uncompressed bytes, and is unpacked from any pieces."""
        contents = {**big()[1], "text": b"the same line\n" * 50_000}
        tree = Tree(tuple(file(path, content) for path, content in contents.items()))
        folder = folder_with(tmp_path / "x", tree, contents)
        async with trees.pack([Packed(0, str(folder), tree)], coding=coding) as opened:
            assert (opened.content_bytes, opened.members) == (0, 0)
            pieces = await read_all(opened)
            assert (opened.content_bytes, opened.members) == (opened.length, len(tree.entries))
        data = b"".join(pieces)
        assert len(data) < opened.length - 500_000
        assert all(len(piece) <= 2 * PIECE for piece in pieces)
        for number, cut in enumerate((1_000, 70_000, len(data))):
            async with trees.unpack({0: str(tmp_path / f"y{number}")}) as unpacking:
                for at in range(0, len(data), cut):
                    await unpacking.write(data[at : at + cut])
                assert await unpacking.finish() == {0: tree}
                assert (unpacking.received, unpacking.unpacked) == (len(data), opened.length)
                await unpacking.replace()
            assert read_folder(tmp_path / f"y{number}") == tree

    @pytest.mark.parametrize("coding", ["gzip", "zstd"])
    async def test_damaged_compressed_archive(self, trees: Trees, tmp_path: Path, coding: Coding) -> None:
        """An archive that is cut, damaged or followed by more bytes replaces nothing."""
        folder = folder_with(tmp_path / "x")
        async with trees.pack([Packed(0, str(folder), SMALL)], coding=coding) as opened:
            data = b"".join(await read_all(opened))
        bad = [data[:3], data[:-1], data[: len(data) // 2], data + b"x", data + data]
        for damaged in bad:
            with pytest.raises(TreeError) as caught:
                await unpack(trees, damaged, {0: str(tmp_path / "y")})
            assert caught.value.rule in BROKEN_RULES
        assert names(tmp_path) == ["x"]
        noticed = set()
        for at in range(12, len(data), 7):
            damaged = data[:at] + bytes([data[at] ^ 64]) + data[at + 1 :]
            try:
                assert await unpack(trees, damaged, {0: str(tmp_path / "y")}) == {0: SMALL}
            except TreeError as error:
                noticed.add(error.rule)
        assert noticed
        assert noticed <= BROKEN_RULES

    async def test_pack_open_to_all(self, trees: Trees, tmp_path: Path) -> None:
        """With `open_to_all` everything is writable by every user, and the tree is the same."""
        folder = folder_with(tmp_path / "x")
        async with trees.pack([Packed(0, str(folder), SMALL)], open_to_all=True) as opened:
            data = b"".join(await read_all(opened))
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            assert {member.name: member.mode for member in tar} == {
                "0/d": 0o777,
                "0/d/run": 0o777,
                "0/e": 0o666,
                "0/l": 0o777,
            }
        assert read_tree(data) == SMALL

    async def test_ratio(self, trees: Trees, tmp_path: Path) -> None:
        """A sample from all files distinguishes noise from text; missing files do not matter."""
        text = b"".join(b"line %d of the text\n" % number for number in range(100_000))
        noise = os.urandom(2_000_000)
        found = []
        for number, contents in enumerate(({"a": text}, {"a": noise}, {"a": noise, "z": text}, {}, {"e": b""})):
            tree = Tree(tuple(file(path, content) for path, content in contents.items()))
            folder = folder_with(tmp_path / str(number), tree, contents)
            found.append(await trees.ratio([Packed(0, str(folder), tree)]))
        packs, full, half, *nothing = found
        assert packs < 0.4 < half < 0.8 < full
        assert nothing == [1.0, 1.0]
        assert await trees.ratio_of(text) < 0.4
        gone = Tree((file("a", text), file("b", noise)))
        assert await trees.ratio([Packed(0, str(folder_with(tmp_path / "gone", Tree(), {})), gone)]) == 1.0

    async def test_walk_skips_excluded_files(self, trees: Trees, tmp_path: Path) -> None:
        """Excluded files are not read, not even a link that leaves the tree."""
        folder = folder_with(tmp_path / "x")
        (folder / ".git").mkdir()
        (folder / ".git" / "out").symlink_to("/etc")
        (folder / "a.pyc").write_bytes(b"x")
        assert await trees.walk(str(folder), rules=ContentRules(("**/.git", "*.pyc"))) == SMALL
        with pytest.raises(PlanError):
            await trees.walk(str(folder), rules=ContentRules(("!a",)))

    async def test_walk_omits_special_files(
        self, trees: Trees, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Fifos and sockets are omitted and named; the rest is the tree."""
        folder = folder_with(tmp_path / "x")
        os.mkfifo(folder / "d" / "fifo")
        monkeypatch.chdir(folder)  # the path of a socket may have 107 bytes
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("socket")
            tree = await trees.walk(str(folder))
        assert tree == SMALL
        assert tree.omitted == (("d/fifo", "a fifo"), ("socket", "a socket"))

    @pytest.mark.parametrize("target", ["/etc/passwd", "../y", "d/../../y", "../x/e"])
    async def test_walk_refuses_links_out_of_the_tree(self, trees: Trees, tmp_path: Path, target: str) -> None:
        """A link that is absolute or leaves the tree is refused with its name and its target."""
        folder = folder_with(tmp_path / "x")
        (folder / "bad").symlink_to(target)
        with pytest.raises(TreeError, match=target) as caught:
            await trees.walk(str(folder))
        assert (caught.value.path, caught.value.rule) == ("bad", "link")

    async def test_walk_names_all_refused_links(self, trees: Trees, tmp_path: Path) -> None:
        """All refused links are named at once; if the rules keep them, the tree has their text."""
        folder = folder_with(tmp_path / "x")
        (folder / "bad").symlink_to("/etc/passwd")
        (folder / "d" / "worse").symlink_to("../../y")
        with pytest.raises(TreeError) as caught:
            await trees.walk(str(folder))
        assert "bad: the link is absolute" in str(caught.value)
        assert "d/worse: the link leaves" in str(caught.value)
        tree = await trees.walk(str(folder), rules=KEEP_EVERYTHING)
        assert tree == Tree((*SMALL.entries, link("bad", "/etc/passwd"), link("d/worse", "../../y")), links="keep")

    async def test_walk_names_mode_bits(self, trees: Trees, tmp_path: Path) -> None:
        """The setuid, setgid and sticky bits of files are omitted and named; folders may have any."""
        folder = folder_with(tmp_path / "x")
        (folder / "e").chmod(0o4600)
        (folder / "d").chmod(0o3755)
        tree = await trees.walk(str(folder))
        assert (tree, tree.omitted) == (SMALL, (("e", "the setuid bit"),))

    async def test_walk_refuses_long_paths(self, trees: Trees, tmp_path: Path) -> None:
        """A path that is longer than a system call accepts is refused by its name."""
        folder = folder_with(tmp_path / "x", Tree(), {})
        deepest = deep_folder(folder, MAX_PATH + 1)
        with pytest.raises(TreeError, match="more than 4093 bytes") as caught:
            await trees.walk(str(folder))
        assert (caught.value.path, caught.value.rule) == (deepest, "limit")
        assert await trees.walk(str(folder), rules=ContentRules(("x*/**",))) == Tree((directory("x" * 200),))

    async def test_prune(self, trees: Trees, tmp_path: Path) -> None:
        """Excluded files, fifos and mode bits are removed; the rest stays."""
        folder = folder_with(tmp_path / "x")
        (folder / "out" / "deep").mkdir(parents=True)
        (folder / "out" / "deep" / "f").write_bytes(b"")
        (folder / "out" / "etc").symlink_to("/etc")
        (folder / "out" / "deep").chmod(0)
        (folder / "a.o").symlink_to("/etc/passwd")
        os.mkfifo(folder / "d" / "fifo")
        (folder / "e").chmod(0o6640)
        tree = await trees.prune(str(folder), rules=ContentRules(("**/out", "*.o", "**/nothing")))
        assert tree == SMALL == read_folder(folder)
        assert tree.omitted == (("d/fifo", "a fifo"), ("e", "the setuid and setgid bits"))
        assert mode_of(folder / "e") == 0o640
        assert names(folder) == ["d", "e", "l"]
        assert names(folder / "d") == ["run"]

    async def test_prune_of_long_paths(self, trees: Trees, tmp_path: Path) -> None:
        """An excluded file whose path is longer than a system call accepts is removed too."""
        folder = folder_with(tmp_path / "x")
        (folder / "out").mkdir()
        deep_folder(folder / "out", 10_000)
        assert await trees.prune(str(folder), rules=ContentRules(("out",))) == SMALL == read_folder(folder)

    async def test_prune_of_a_refused_folder(self, trees: Trees, tmp_path: Path) -> None:
        """A folder that breaks a rule is refused, and nothing of it is removed."""
        folder = folder_with(tmp_path / "x")
        (folder / "out").mkdir()
        (folder / "bad").symlink_to("/etc/passwd")
        for rules in (ContentRules(("out",)), ContentRules(("out",), follow=True)):
            with pytest.raises(TreeError) as caught:
                await trees.prune(str(folder), rules=rules)
            assert (caught.value.path, caught.value.rule) == ("bad", "link")
        assert names(folder) == ["bad", "d", "e", "l", "out"]

    async def test_prune_follows_links(self, trees: Trees, tmp_path: Path) -> None:
        """Copies replace links to files and to folders, and share nothing with their targets."""
        folder = folder_with(tmp_path / "x")
        (folder / "m").symlink_to("d")
        (folder / "d" / "n").symlink_to("../e")
        tree = await trees.prune(str(folder), rules=ContentRules(follow=True))
        assert tree == FOLLOWED == read_folder(folder)
        (folder / "m" / "run").write_bytes(b"other")
        assert (folder / "d" / "run").read_bytes() == b"#!/bin/sh\n"

    async def test_prune_makes_no_excluded_copies(self, trees: Trees, tmp_path: Path) -> None:
        """A copy that the rules exclude at its place is not made; a second prune changes nothing."""
        rules = ContentRules(("m/run", "build/"), follow=True)
        whole = Tree((*SMALL.entries, link("m", "d"), link("build", "d")))
        folder = folder_with(tmp_path / "x", whole)
        async with trees.unpack({0: str(tmp_path / "y")}, rules={0: rules}) as unpacking:
            await unpacking.write(archive(whole, SMALL_CONTENTS))
            unpacked = (await unpacking.finish())[0]
            await unpacking.replace()
        for place, tree in ((folder, await trees.prune(str(folder), rules=rules)), (tmp_path / "y", unpacked)):
            assert tree == read_folder(place) == await trees.prune(str(place), rules=rules)
            assert names(place) == ["d", "e", "l", "m"]
            assert names(place / "m") == []

    async def test_read(self, trees: Trees, tmp_path: Path) -> None:
        """A file is read up to a limit; a missing one is None; anything but a file is an error with its name."""
        folder = folder_with(tmp_path / "x", Tree((file("f", b"12345"), directory("d"))), {"f": b"12345"})
        (folder / "l").symlink_to("f")
        os.mkfifo(folder / "fifo")
        assert await trees.read(str(folder), "f", limit=9) == b"12345"
        assert await trees.read(str(folder), "f", limit=3) == b"123"
        assert await trees.read(str(folder), "g", limit=3) is None
        for name in ("d", "l", "fifo"):
            with pytest.raises(TreeError) as caught:
                await trees.read(str(folder), name, limit=3)
            assert (caught.value.path, caught.value.rule) == (name, "unreadable")
        with pytest.raises(TreeError, match="nowhere"):
            await trees.read(str(tmp_path / "nowhere"), "f", limit=3)

    async def test_walk_of_a_missing_folder(self, trees: Trees, tmp_path: Path) -> None:
        """A missing folder, or a file in its place, is an error that names it."""
        (tmp_path / "file").write_bytes(b"")
        for name in ("missing", "file"):
            with pytest.raises(TreeError) as caught:
                await trees.walk(str(tmp_path / name))
            assert caught.value.path == str(tmp_path / name)

    @pytest.mark.parametrize("made", [(AWKWARD, AWKWARD_CONTENTS), (SMALL, SMALL_CONTENTS), (Tree(), {})])
    async def test_pack(self, trees: Trees, tmp_path: Path, made: tuple[Tree, Contents]) -> None:
        """The bytes of an archive are those that `senro.domain.tar` defines."""
        folder = folder_with(tmp_path / "x", *made)
        assert b"".join(await pack(trees, [Packed(0, str(folder), made[0])])) == archive(*made)

    async def test_pack_pieces(self, trees: Trees, tmp_path: Path) -> None:
        """Pieces have 256 to 512 KiB, except the last one."""
        tree, contents = big()
        folder = folder_with(tmp_path / "x", tree, contents)
        pieces = await pack(trees, [Packed(0, str(folder), tree)])
        assert b"".join(pieces) == archive(tree, contents)
        assert all(PIECE // 2 - 1024 <= len(piece) <= PIECE for piece in pieces[:-1])
        assert len(pieces[-1]) <= PIECE

    async def test_pack_parts(self, trees: Trees, tmp_path: Path) -> None:
        """Several trees share an archive, each under its index; the sentinel is the last member, in the first part."""
        one, other = folder_with(tmp_path / "one"), folder_with(tmp_path / "other", AWKWARD, AWKWARD_CONTENTS)
        data = b"".join(
            await pack(trees, [Packed(3, str(one), SMALL), Packed(1, str(other), AWKWARD)], sentinel=".whole")
        )
        found = await unpack(trees, data, {3: str(tmp_path / "3"), 1: str(tmp_path / "1")})
        assert found == {3: Tree((*SMALL.entries, file(".whole"))), 1: AWKWARD}
        last = [event for event in read_events([data], (1, 3)) if not isinstance(event, bytes)][-3]
        assert "Member(index=3, path='.whole', kind='file'" in repr(last)

    @pytest.mark.parametrize("change", ["longer", "shorter", "other", "gone", "link", "fifo", "directory"])
    async def test_pack_of_a_changed_file(self, trees: Trees, tmp_path: Path, change: str) -> None:
        """A file that changed since the walk ends the archive with an error that names it."""
        folder = folder_with(tmp_path / "x", Tree((file("a"), file("b", b"12345"))), {"a": b"", "b": b"12345"})
        tree = await trees.walk(str(folder))
        before = (folder / "b").stat()
        if change in {"longer", "shorter", "other"}:
            (folder / "b").write_bytes({"longer": b"123456", "shorter": b"1234", "other": b"54321"}[change])
            os.utime(folder / "b", ns=(before.st_atime_ns, before.st_mtime_ns))
        else:
            (folder / "b").unlink()
            if change == "link":
                (folder / "b").symlink_to("a")
            elif change == "fifo":
                os.mkfifo(folder / "b")
            elif change == "directory":
                (folder / "b").mkdir()
        async with trees.pack([Packed(0, str(folder), tree)]) as opened:
            with pytest.raises(TreeError) as caught:
                await read_all(opened)
            assert (caught.value.path, caught.value.rule) == ("b", "changed")
            with pytest.raises(TreeError):
                await opened.read()

    async def test_pack_of_a_missing_folder(self, trees: Trees, tmp_path: Path) -> None:
        """The error names the folder."""
        async with trees.pack([Packed(0, str(tmp_path / "gone"), SMALL)]) as opened:
            with pytest.raises(TreeError, match="gone"):
                await opened.read()

    async def test_closed_archive_cannot_be_read(self, trees: Trees, tmp_path: Path) -> None:
        """An archive whose context was left raises."""
        tree, contents = big()
        folder = folder_with(tmp_path / "x", tree, contents)
        async with trees.pack([Packed(0, str(folder), tree)]) as opened:
            await opened.read()
        with pytest.raises(TreeError):
            await opened.read()

    @pytest.mark.parametrize("cut", [1, 511, 512, 513, 32 * 1024, 10_000_000])
    async def test_unpack(self, trees: Trees, tmp_path: Path, cut: int) -> None:
        """The unpacked tree is the packed one, from any pieces, with modes 0644 and 0755. The old content is gone."""
        destination = tmp_path / "ws"
        destination.mkdir()
        (destination / "old").write_bytes(b"old")
        found = await unpack(trees, archive(AWKWARD, AWKWARD_CONTENTS), {0: str(destination)}, cut)
        assert found == {0: AWKWARD}
        assert read_folder(destination) == AWKWARD
        for entry in AWKWARD.entries:
            mode = (destination / entry.path).lstat().st_mode & 0o7777
            assert entry.kind == "link" or mode == (0o755 if entry.executable or entry.kind == "directory" else 0o644)
        assert names(tmp_path) == ["ws"]

    async def test_unpack_of_large_files(self, trees: Trees, tmp_path: Path) -> None:
        """Files of any size are unpacked."""
        tree, contents = big()
        assert await unpack(trees, archive(tree, contents), {0: str(tmp_path / "ws")}) == {0: tree}
        assert read_folder(tmp_path / "ws") == tree

    async def test_unpack_creates_the_destination(self, trees: Trees, tmp_path: Path) -> None:
        """A missing destination is created with its parents."""
        destination = tmp_path / "a" / "b" / "ws"
        await unpack(trees, archive(SMALL, SMALL_CONTENTS), {0: str(destination)})
        assert read_folder(destination) == SMALL
        assert names(destination.parent) == ["ws"]

    async def test_unpack_of_missing_parts(self, trees: Trees, tmp_path: Path) -> None:
        """The destination of a part without members becomes empty; a part without destination is refused."""
        one, other = folder_with(tmp_path / "one"), folder_with(tmp_path / "other")
        await unpack(trees, archive(SMALL, SMALL_CONTENTS, 1), {0: str(one), 1: str(other)})
        assert (read_folder(one), read_folder(other)) == (Tree(), SMALL)
        with pytest.raises(TreeError):
            await unpack(trees, archive(SMALL, SMALL_CONTENTS, 1), {0: str(one)})

    async def test_unpack_without_replace(self, trees: Trees, tmp_path: Path) -> None:
        """Before `replace` the destination is unchanged, and leaving without it leaves nothing else."""
        destination = folder_with(tmp_path / "ws")
        async with trees.unpack({0: str(destination)}) as unpacking:
            await unpacking.write(archive(AWKWARD, AWKWARD_CONTENTS))
            assert read_folder(destination) == SMALL
            await unpacking.finish()
            assert read_folder(destination) == SMALL
        assert read_folder(destination) == SMALL
        assert names(tmp_path) == ["ws"]

    async def test_calls_in_a_wrong_order(self, trees: Trees, tmp_path: Path) -> None:
        """`replace` before `finish`, `write` after it, and every call after the end raise."""
        destination = folder_with(tmp_path / "ws")
        async with trees.unpack({0: str(destination)}) as unpacking:
            await unpacking.write(archive(AWKWARD, AWKWARD_CONTENTS))
            with pytest.raises(TreeError):
                await unpacking.replace()
            await unpacking.finish()
            with pytest.raises(TreeError):
                await unpacking.write(b"")
            with pytest.raises(TreeError):
                await unpacking.finish()
        with pytest.raises(TreeError):
            await unpacking.replace()
        assert read_folder(destination) == SMALL

    async def test_truncated_archive(self, trees: Trees, tmp_path: Path) -> None:
        """An archive that is cut at any block is truncated, and changes nothing."""
        destination = folder_with(tmp_path / "ws", Tree((file("old"),)), {"old": b""})
        data = archive(SMALL, SMALL_CONTENTS)
        for cut in range(0, len(data), 512):
            with pytest.raises(TreeError) as caught:
                await unpack(trees, data[:cut], {0: str(destination)})
            assert caught.value.rule == "truncated"
        assert names(tmp_path) == ["ws"]
        assert names(destination) == ["old"]

    @pytest.mark.parametrize("name", REFUSED)
    async def test_hostile_archives(self, trees: Trees, tmp_path: Path, name: str) -> None:
        """A refused archive raises its rule, and leaves nothing."""
        data, rule, *_ = REFUSED[name]
        destination = folder_with(tmp_path / "ws")
        with pytest.raises(TreeError) as caught:
            await unpack(trees, tar_member("0/before", content=b"x") + data, {0: str(destination)})
        assert caught.value.rule == rule
        assert read_folder(destination) == SMALL
        assert names(tmp_path) == ["ws"]

    async def test_hard_links_become_files(self, trees: Trees, tmp_path: Path) -> None:
        """Hard links become separate files with the content and the mode of the first."""
        data = (
            tar_member("0/a", content=b"x" * 3_000_000, mode=b"0000755\0")
            + tar_member("0/b", b"1", target="0/a")
            + tar_member("0/l", b"2", target="a")
            + tar_member("0/m", b"1", target="0/l")
            + bytes(1024)
        )
        found = await unpack(trees, data, {0: str(tmp_path / "ws")})
        content = b"x" * 3_000_000
        tree = Tree(
            (file("a", content, executable=True), file("b", content, executable=True), link("l", "a"), link("m", "a"))
        )
        assert found == {0: tree}
        assert read_folder(tmp_path / "ws") == tree
        assert (tmp_path / "ws" / "a").stat().st_nlink == 1

    async def test_unpack_rules(self, trees: Trees, tmp_path: Path) -> None:
        """Excluded members are not returned and not on disk, except through a hard link; each part has its rules."""
        data = (
            tar_member("0/out/a", content=b"a" * 3_000)
            + tar_member("0/out/l", b"2", target="/etc")
            + tar_member("0/fifo", b"6")
            + tar_member("0/b", b"1", target="0/out/a")
            + tar_member("1/out", content=b"1")
            + tar_member("1/l", b"2", target="/etc")
            + bytes(1024)
        )
        destinations = {index: str(tmp_path / f"ws{index}") for index in (0, 1)}
        async with trees.unpack(destinations, rules={0: ContentRules(("**/out",)), 1: KEEP_EVERYTHING}) as unpacking:
            await unpacking.write(data)
            found = await unpacking.finish()
            assert unpacking.members == 6
            await unpacking.replace()
        trees_on_disk = {index: read_folder_as_is(Path(folder)) for index, folder in destinations.items()}
        expected = {
            0: Tree((file("b", b"a" * 3_000),)),
            1: Tree((file("out", b"1"), link("l", "/etc")), links="keep"),
        }
        assert found == trees_on_disk == expected
        assert found[0].omitted == (("fifo", "a fifo"),)

    async def test_refused_link_replaces_nothing(self, trees: Trees, tmp_path: Path) -> None:
        """A link that the rules of its part refuse leaves every destination unchanged."""
        destination = folder_with(tmp_path / "ws")
        data = archive(Tree((link("a", "/x"), link("b", "../y")), links="keep"), {})
        async with trees.unpack({0: str(destination)}, rules={0: ContentRules(("c",))}) as unpacking:
            await unpacking.write(data)
            with pytest.raises(TreeError, match="b: the link leaves the tree"):
                await unpacking.finish()
        assert read_folder(destination) == SMALL
        assert names(tmp_path) == ["ws"]

    async def test_unpack_follows_links(self, trees: Trees, tmp_path: Path) -> None:
        """If the rules follow links, copies replace the received links."""
        tree = Tree((*SMALL.entries, link("m", "d"), link("d/n", "../e")))
        async with trees.unpack({0: str(tmp_path / "ws")}, rules={0: ContentRules(follow=True)}) as unpacking:
            await unpacking.write(archive(tree, SMALL_CONTENTS))
            found = await unpacking.finish()
            await unpacking.replace()
        assert found == {0: FOLLOWED}
        assert read_folder(tmp_path / "ws") == FOLLOWED

    async def test_repeated_member(self, trees: Trees, tmp_path: Path) -> None:
        """Of a file that comes twice the later one is kept."""
        data = (
            tar_member("0/a", content=b"one") + tar_member("0/a", content=b"another", mode=b"0000755\0") + bytes(1024)
        )
        found = await unpack(trees, data, {0: str(tmp_path / "ws")})
        assert found == {0: Tree((file("a", b"another", executable=True),))}
        assert read_folder(tmp_path / "ws") == found[0]

    async def test_unpack_counts(self, trees: Trees, tmp_path: Path) -> None:
        """Members and bytes are counted; roots are not members."""
        async with trees.unpack({0: str(tmp_path / "ws")}) as unpacking:
            await unpacking.write(tar_member("0/", b"5") + archive(SMALL, SMALL_CONTENTS))
            await unpacking.finish()
            assert unpacking.members == len(SMALL.entries)
            assert unpacking.received == 512 + len(archive(SMALL, SMALL_CONTENTS))

    @pytest.mark.parametrize("inner", ["", "/d", "/d/.."])
    async def test_overlapping_destinations_are_refused(self, trees: Trees, tmp_path: Path, inner: str) -> None:
        """Destinations that are equal, or inside one another, are refused."""
        destination = folder_with(tmp_path / "ws")
        with pytest.raises(TreeError) as caught:
            await unpack(trees, bytes(1024), {0: str(destination), 1: str(destination) + inner})
        assert caught.value.rule == "destination"
        assert read_folder(destination) == SMALL
        assert names(tmp_path) == ["ws"]

    @pytest.mark.parametrize("kind", ["file", "link"])
    async def test_destination_must_be_a_folder(self, trees: Trees, tmp_path: Path, kind: str) -> None:
        """A destination that is a file or a link is refused before anything is created."""
        destination = tmp_path / "ws"
        folder_with(tmp_path / "real")
        if kind == "file":
            destination.write_bytes(b"x")
        else:
            destination.symlink_to("real")
        with pytest.raises(TreeError) as caught:
            await unpack(trees, bytes(1024), {0: str(destination)})
        assert caught.value.rule == "destination"
        assert names(tmp_path) == ["real", "ws"]
        assert read_folder(tmp_path / "real") == SMALL

    async def test_kept_links(self, trees: Trees, tmp_path: Path) -> None:
        """Links that leave the tree are copied and packed as their text, and nothing follows one."""
        tree = Tree((file("f", b"f"), link("a", "/etc/passwd"), link("b", "../../x")), links="keep")
        folder = folder_with(tmp_path / "x", tree, {"f": b"f"})
        await trees.copy(tree, str(folder), str(tmp_path / "y"))
        assert read_folder_as_is(tmp_path / "y") == tree
        assert b"".join(await pack(trees, [Packed(0, str(folder), tree)])) == archive(tree, {"f": b"f"})

    @pytest.mark.parametrize("existing", [False, True])
    async def test_copy(self, trees: Trees, tmp_path: Path, *, existing: bool) -> None:
        """A copy has exactly the files of the tree, although the source has more."""
        folder = folder_with(tmp_path / "x", AWKWARD, AWKWARD_CONTENTS)
        (folder / "more").write_bytes(b"")
        if existing:
            (tmp_path / "y").mkdir()
        assert await trees.copy(AWKWARD, str(folder), str(tmp_path / "y")) == AWKWARD
        assert read_folder(tmp_path / "y") == AWKWARD
        assert names(tmp_path) == ["x", "y"]

    async def test_copy_follows_links(self, trees: Trees, tmp_path: Path) -> None:
        """If the rules follow links, the copy has copies in their place, and the source is unchanged."""
        tree = Tree((*SMALL.entries, link("m", "d"), link("d/n", "../e"), link("build", "d")), omitted=(("x", "y"),))
        folder = folder_with(tmp_path / "x", tree)
        rules = ContentRules(("build/",), follow=True)
        found = await trees.copy(tree, str(folder), str(tmp_path / "y"), rules=rules)
        assert found == FOLLOWED == read_folder(tmp_path / "y")
        assert found.omitted == tree.omitted
        assert read_folder(folder) == tree
        bad = Tree((*tree.entries, link("gone", "nothing")))
        with pytest.raises(TreeError, match="gone: the link leads to nothing"):
            await trees.copy(bad, str(folder), str(tmp_path / "z"), rules=rules)
        assert names(tmp_path) == ["x", "y"]

    async def test_copy_of_large_files(self, trees: Trees, tmp_path: Path) -> None:
        """Files of any size are copied, and share nothing that a write could change."""
        tree, contents = big()
        folder = folder_with(tmp_path / "x", tree, contents)
        await trees.copy(tree, str(folder), str(tmp_path / "y"))
        with (tmp_path / "y" / "f1500000").open("r+b") as opened:
            opened.write(b"other")
        assert read_folder(folder) == tree

    async def test_copy_to_a_folder_with_files(self, trees: Trees, tmp_path: Path) -> None:
        """A destination with files is refused and unchanged."""
        folder, other = folder_with(tmp_path / "x"), folder_with(tmp_path / "y", AWKWARD, AWKWARD_CONTENTS)
        with pytest.raises(TreeError) as caught:
            await trees.copy(SMALL, str(folder), str(other))
        assert caught.value.rule == "destination"
        assert read_folder(other) == AWKWARD

    @pytest.mark.parametrize("change", [b"#!/bin/sh!", b"shorter", None])
    async def test_copy_of_a_changed_file(self, trees: Trees, tmp_path: Path, change: bytes | None) -> None:
        """A file that differs from the tree ends the copy with an error that names it, and nothing is left."""
        folder = folder_with(tmp_path / "x")
        (folder / "d" / "run").unlink()
        if change is not None:
            (folder / "d" / "run").write_bytes(change)
        with pytest.raises(TreeError) as caught:
            await trees.copy(SMALL, str(folder), str(tmp_path / "y"))
        assert (caught.value.path, caught.value.rule) == ("d/run", "changed")
        assert names(tmp_path) == ["x"]

    async def test_copy_of_a_missing_folder(self, trees: Trees, tmp_path: Path) -> None:
        """A missing source is an error that names it, and leaves nothing."""
        with pytest.raises(TreeError, match="gone"):
            await trees.copy(SMALL, str(tmp_path / "gone"), str(tmp_path / "y"))
        assert names(tmp_path) == []

    async def test_tree_after_pack_and_unpack(self, trees: Trees, tmp_path: Path) -> None:
        """A folder that is walked, packed and unpacked has the same digest, and the same archive."""
        tree, contents = big()
        folder = folder_with(tmp_path / "x", tree, contents)
        first = b"".join(await pack(trees, [Packed(0, str(folder), await trees.walk(str(folder)))]))
        await unpack(trees, first, {0: str(tmp_path / "y")})
        again = await trees.walk(str(tmp_path / "y"))
        assert again.digest == tree.digest
        assert b"".join(await pack(trees, [Packed(0, str(tmp_path / "y"), again)])) == first
        assert read_tree(first) == tree
