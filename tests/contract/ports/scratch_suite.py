"""The conformance suites of `senro.ports.scratch`."""

from __future__ import annotations

import os
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest

from senro.domain.caches.lookup import ScratchEntry
from senro.domain.errors import StoreError, TreeError
from senro.domain.tree.tree import Tree
from senro.ports.scratch import KeyFiles, ScratchStore
from tests.contract.ports.trees_suite import SMALL, SMALL_CONTENTS, big, folder_with
from tests.lib.archives.files import Contents, digest_of, directory, file, names, read_folder
from tests.property.domain.tar.test_tar import AWKWARD, AWKWARD_CONTENTS

pytestmark = pytest.mark.anyio

START = datetime(2026, 1, 1, tzinfo=UTC)
ODD_KEYS = ["a", "A", "..", ".", "-", "=", "x+y@z_1", "k" * 200, "gomod-" + "0" * 64]


def entry(key: str, hours: float = 0.0) -> ScratchEntry:
    """An entry that was made this many hours after START."""
    return ScratchEntry(key, START + timedelta(hours=hours))


def newest(entries: list[ScratchEntry]) -> list[str]:
    """Returns the keys, the newest first."""
    return [one.key for one in sorted(entries, key=lambda one: one.created, reverse=True)]


class ScratchStoreSuite:
    """A subclass has the fixtures `store`, which is empty, and `other`, a second store with the same entries."""

    @pytest.fixture
    def store(self) -> ScratchStore:
        raise NotImplementedError

    @pytest.fixture
    def other(self) -> ScratchStore:
        raise NotImplementedError

    @pytest.mark.parametrize(
        "made", [(SMALL, SMALL_CONTENTS), (AWKWARD, AWKWARD_CONTENTS), (Tree(), {}), (Tree((directory("d"),)), {})]
    )
    async def test_saved_entry_is_restored(
        self, store: ScratchStore, tmp_path: Path, made: tuple[Tree, Contents]
    ) -> None:
        """A saved entry is found and restored completely, also after its folder is gone."""
        folder = folder_with(tmp_path / "x", *made)
        assert await store.save("gomod", entry("k"), made[0], str(folder)) is True
        folder.rename(tmp_path / "gone")
        found = await store.find("gomod", "k")
        assert found is not None
        assert found.key == "k"
        assert found.created.tzinfo is not None
        assert await store.restore("gomod", "k", str(tmp_path / "y")) == made[0]
        assert read_folder(tmp_path / "y") == made[0]
        assert names(tmp_path) == ["gone", "y"]

    async def test_large_entry(self, store: ScratchStore, tmp_path: Path) -> None:
        """An entry of many pieces is restored completely."""
        tree, contents = big()
        contents |= {"large": os.urandom(20_000_000)}
        tree = Tree((*tree.entries, file("large", contents["large"])))
        await store.save("c", entry("k"), tree, str(folder_with(tmp_path / "x", tree, contents)))
        await store.restore("c", "k", str(tmp_path / "y"))
        assert read_folder(tmp_path / "y") == tree

    async def test_empty_store(self, store: ScratchStore, tmp_path: Path) -> None:
        """An empty store finds nothing and refuses to restore; the folder is unchanged."""
        folder = folder_with(tmp_path / "y")
        assert await store.find("c", "k") is None
        assert list(await store.find_by_prefix("c", [""])) == []
        with pytest.raises(StoreError, match="entry"):
            await store.restore("c", "k", str(folder))
        assert read_folder(folder) == SMALL
        assert names(tmp_path) == ["y"]

    async def test_first_entry_stays(self, store: ScratchStore, other: ScratchStore, tmp_path: Path) -> None:
        """A key that has an entry keeps it; later saves return False."""
        folder = folder_with(tmp_path / "x")
        second = folder_with(tmp_path / "z", Tree((file("other", b"1"),)), {"other": b"1"})
        assert await store.save("c", entry("k"), SMALL, str(folder)) is True
        for one in (store, other):
            assert await one.save("c", entry("k", 1), Tree((file("other", b"1"),)), str(second)) is False
            await one.restore("c", "k", str(tmp_path / "y"))
            assert read_folder(tmp_path / "y") == SMALL

    async def test_concurrent_saves(self, store: ScratchStore, other: ScratchStore, tmp_path: Path) -> None:
        """Of two concurrent saves of one key one returns False, and the entry is that of the other."""
        for attempt in range(5):
            said: dict[str, bool] = {}
            trees = {}

            async def save(name: str, one: ScratchStore, key: str, said: dict[str, bool], tree: Tree) -> None:
                said[name] = await one.save("c", entry(key), tree, str(tmp_path / f"{key}-{name}"))

            async with anyio.create_task_group() as group:
                for name, one in (("a", store), ("b", other)):
                    content = f"{name}{attempt}".encode()
                    trees[name] = Tree((file("who", content),))
                    folder_with(tmp_path / f"k{attempt}-{name}", trees[name], {"who": content})
                    group.start_soon(save, name, one, f"k{attempt}", said, trees[name])
            assert sorted(said.values()) == [False, True]
            (winner,) = [name for name, won in said.items() if won]
            for one in (store, other):
                await one.restore("c", f"k{attempt}", str(tmp_path / "y"))
                assert read_folder(tmp_path / "y") == trees[winner]

    async def test_other_store_finds_the_entry(self, store: ScratchStore, other: ScratchStore, tmp_path: Path) -> None:
        """An entry that one store saved is found by the other at once."""
        await store.save("c", entry("k"), SMALL, str(folder_with(tmp_path / "x")))
        found = await other.find("c", "k")
        assert found is not None
        assert [one.key for one in await other.find_by_prefix("c", ["k"])] == ["k"]
        await other.restore("c", "k", str(tmp_path / "y"))
        assert read_folder(tmp_path / "y") == SMALL

    async def test_similar_keys_are_different(self, store: ScratchStore, tmp_path: Path) -> None:
        """Keys that differ in case, in a dot or in length are different, and so are equal keys of two caches."""
        for place, key in enumerate([*ODD_KEYS]):
            content = str(place).encode()
            folder = folder_with(tmp_path / f"x{place}", Tree((file("n", content),)), {"n": content})
            assert await store.save("c", entry(key), Tree((file("n", content),)), str(folder)) is True
        assert await store.find("d", "a") is None
        assert list(await store.find_by_prefix("d", ["a"])) == []
        assert sorted(one.key for one in await store.find_by_prefix("c", [""])) == sorted(ODD_KEYS)
        for place, key in enumerate(ODD_KEYS):
            await store.restore("c", key, str(tmp_path / "y"))
            assert read_folder(tmp_path / "y") == Tree((file("n", str(place).encode()),))

    async def test_find_by_prefix(self, store: ScratchStore, tmp_path: Path) -> None:
        """Every entry with one of the prefixes is listed, with the time at which it was made."""
        folder = folder_with(tmp_path / "x")
        for hour, key in enumerate(["go-1.24-b", "go-1.24-a", "go-1.25-a", "go-1.2", "py-1", "go-1.24-c"]):
            await store.save("c", entry(key, hour), SMALL, str(folder))
        assert newest([*await store.find_by_prefix("c", ["go-1.24-"])]) == ["go-1.24-c", "go-1.24-a", "go-1.24-b"]
        assert newest([*await store.find_by_prefix("c", ["py-", "go-1.24-c"])]) == ["go-1.24-c", "py-1"]
        assert newest([*await store.find_by_prefix("c", ["go-1.2"])])[-1] == "go-1.24-b"
        assert list(await store.find_by_prefix("c", ["ruby-"])) == []

    async def test_restore_replaces_the_folder(self, store: ScratchStore, tmp_path: Path) -> None:
        """A restored folder has the files of the entry and no others."""
        await store.save("c", entry("k"), SMALL, str(folder_with(tmp_path / "x")))
        folder = folder_with(tmp_path / "y", AWKWARD, AWKWARD_CONTENTS)
        assert await store.restore("c", "k", str(folder)) == SMALL
        assert read_folder(folder) == SMALL

    async def test_changed_file_is_refused(self, store: ScratchStore, tmp_path: Path) -> None:
        """A file that differs from the tree is named, and there is no entry."""
        folder = folder_with(tmp_path / "x")
        (folder / "d" / "run").write_bytes(b"#!/bin/ba\n")
        with pytest.raises(TreeError, match="d/run"):
            await store.save("c", entry("k"), SMALL, str(folder))
        assert await store.find("c", "k") is None
        assert list(await store.find_by_prefix("c", ["k"])) == []

    async def test_cancelled_save(self, store: ScratchStore, tmp_path: Path) -> None:
        """A cancelled save leaves a complete entry or none."""
        tree, contents = big()
        contents |= {"large": os.urandom(10_000_000)}
        tree = Tree((*tree.entries, file("large", contents["large"])))
        folder = folder_with(tmp_path / "x", tree, contents)
        for seconds in (0, 0.01, 0.05):
            with anyio.move_on_after(seconds):
                await store.save("c", entry(f"k{seconds}"), tree, str(folder))
            if await store.find("c", f"k{seconds}") is not None:
                await store.restore("c", f"k{seconds}", str(tmp_path / "y"))
                assert read_folder(tmp_path / "y") == tree
            assert await store.save("c", entry(f"k{seconds}"), tree, str(folder)) in (True, False)
            await store.restore("c", f"k{seconds}", str(tmp_path / "y"))

    async def test_cancelled_restore(self, store: ScratchStore, tmp_path: Path) -> None:
        """A cancelled restore leaves the old folder or the entry, and no sibling."""
        tree, contents = big()
        await store.save("c", entry("k"), tree, str(folder_with(tmp_path / "x", tree, contents)))
        for seconds in (0, 0.005, 0.02):
            folder_with(tmp_path / f"y{seconds}")
            with anyio.move_on_after(seconds):
                await store.restore("c", "k", str(tmp_path / f"y{seconds}"))
            assert read_folder(tmp_path / f"y{seconds}") in (SMALL, tree)
        assert names(tmp_path) == ["x", "y0", "y0.005", "y0.02"]

    async def test_name(self, store: ScratchStore) -> None:
        """A store has a name for messages, and is writable unless it says otherwise."""
        assert store.name
        assert store.read_only is False


class KeyFilesSuite:
    """A subclass has the fixture `files`."""

    @pytest.fixture
    def files(self) -> KeyFiles:
        raise NotImplementedError

    async def test_matching_files(self, files: KeyFiles, tmp_path: Path) -> None:
        """Each file that a pattern matches is in the result with its digest, also below a folder that matches."""
        contents = {"go.sum": b"1", "a/go.sum": b"2", "tools/x/y": b"3", "tools/z": b"", "other": b"4"}
        for path, content in contents.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_bytes(content)

        async def found(*patterns: str, exclude: tuple[str, ...] = ()) -> set[str]:
            digests = await files.digests(str(tmp_path), patterns, exclude=exclude)
            assert digests == {path: digest_of(contents[path]) for path in digests}
            return set(digests)

        assert await found("go.sum") == {"go.sum"}
        assert await found("**/go.sum", "tools") == {"go.sum", "a/go.sum", "tools/x/y", "tools/z"}
        assert await found("tools/*") == {"tools/z", "tools/x/y"}
        assert await found("**", exclude=("tools/", "other")) == {"go.sum", "a/go.sum"}
        assert await found("missing", "*.lock") == set()

    async def test_links_to_files(self, files: KeyFiles, tmp_path: Path) -> None:
        """A link to a file counts as that file; a link to a folder or to nothing is ignored."""
        folder = tmp_path / "w"
        (folder / "d").mkdir(parents=True)
        (tmp_path / "outside").write_bytes(b"1")
        (folder / "d" / "f").write_bytes(b"2")
        (folder / "l").symlink_to("../outside")
        (folder / "gone").symlink_to("nowhere")
        (folder / "e").symlink_to("d")
        (folder / "loop").symlink_to(".")
        assert await files.digests(str(folder), ["**"], exclude=()) == {"l": digest_of(b"1"), "d/f": digest_of(b"2")}

    async def test_special_files_are_ignored(
        self, files: KeyFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Fifos and sockets are ignored, by name and through a link, and opening them does not block."""
        os.mkfifo(tmp_path / "fifo")
        (tmp_path / "link").symlink_to("s")
        monkeypatch.chdir(tmp_path)  # the path of a socket may have 107 bytes
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("s")
        assert await files.digests(str(tmp_path), ["**"], exclude=()) == {}

    async def test_folders_without_matches_are_not_read(self, files: KeyFiles, tmp_path: Path) -> None:
        """A folder that no pattern can match is not read, whatever is in it."""
        for path in ("a/go.sum", "b/go.sum", "b/c/x.lock", "b/c/d/x.lock"):
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_bytes(b"")
        found = await files.digests(str(tmp_path), ["go.sum", "b/*/*.lock"], exclude=())
        assert found == {"b/c/x.lock": digest_of(b"")}

    async def test_unreadable_match_is_an_error(self, files: KeyFiles, tmp_path: Path) -> None:
        """A matching file that cannot be read is named; other files are not opened."""
        (tmp_path / "circle").symlink_to("circle")
        assert await files.digests(str(tmp_path), ["other"], exclude=()) == {}
        with pytest.raises(TreeError, match="circle"):
            await files.digests(str(tmp_path), ["**"], exclude=())
