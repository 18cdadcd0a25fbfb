"""`FolderScratchStore` and `FolderKeyFiles` pass the suites of `senro.ports.scratch`, and handle damage."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from senro.adapters.fs import FolderContentStore, FolderKeyFiles, FolderScratchStore
from senro.adapters.fs.locks import LOCK_FILE, FileLock
from senro.domain.errors import ContentLost, StoreError, TreeError
from senro.domain.tree.tree import Tree
from senro.ports.scratch import KeyFiles, ScratchStore
from tests.contract.ports.scratch_suite import KeyFilesSuite, ScratchStoreSuite, entry
from tests.contract.ports.trees_suite import SMALL, folder_with
from tests.lib.archives.files import file, make_folder, names, read_folder
from tests.lib.builders.stores import without
from tests.lib.fakes.scratch import FakeScratchStore, ScratchEntries

pytestmark = pytest.mark.anyio


def folder_store(root: Path) -> FolderScratchStore:
    return FolderScratchStore(str(root), FolderContentStore(str(root)))


def below(root: Path, pattern: str) -> list[Path]:
    return sorted(root.glob(pattern))


class TestFolderScratchStore(ScratchStoreSuite):
    @pytest.fixture
    def store(self, tmp_path_factory: pytest.TempPathFactory) -> ScratchStore:
        self.root = tmp_path_factory.mktemp("cache") / "deep"
        return folder_store(self.root)

    @pytest.fixture
    def other(self, store: ScratchStore) -> ScratchStore:
        del store
        return folder_store(self.root)


class TestFakeScratchStore(ScratchStoreSuite):
    @pytest.fixture
    def store(self) -> ScratchStore:
        self.entries = ScratchEntries()
        return FakeScratchStore(self.entries)

    @pytest.fixture
    def other(self, store: ScratchStore) -> ScratchStore:
        del store
        return FakeScratchStore(self.entries)


class TestFolderKeyFiles(KeyFilesSuite):
    @pytest.fixture
    def files(self) -> KeyFiles:
        return FolderKeyFiles()


async def test_only_needed_folders_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a file at the top no other folder is read."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "go.sum").write_bytes(b"")
    listed = []
    listing = os.scandir

    def noting(path: str) -> object:
        listed.append(os.path.relpath(path, tmp_path))
        return listing(path)

    monkeypatch.setattr(os, "scandir", noting)
    await FolderKeyFiles().digests(str(tmp_path), ["go.sum"], exclude=())
    assert listed == ["."]
    await FolderKeyFiles().digests(str(tmp_path), ["*/go.sum"], exclude=())
    assert listed == [".", ".", "a"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def store(root: Path) -> FolderScratchStore:
    return folder_store(root)


async def test_bodies_are_shared(store: FolderScratchStore, root: Path, tmp_path: Path) -> None:
    """Entries with equal files store them once, together with the snapshots of workspaces."""
    folder = folder_with(tmp_path / "x")
    for key in ("a", "b"):
        await store.save("c", entry(key), SMALL, str(folder))
    assert len(below(root, "scratch/c/*.json")) == 2
    assert len(below(root, "index/*/*")) == 1
    assert len(below(root, "body/*/*")) == 2
    assert names(root / "scratch" / "c") == sorted(path.name for path in below(root, "scratch/c/*.json"))


async def test_missing_body(store: FolderScratchStore, root: Path, tmp_path: Path) -> None:
    """An entry with a missing or damaged body raises once, is removed, and its key is free."""
    folder = folder_with(tmp_path / "x")
    for spoil in (Path.unlink, lambda path: (path.chmod(0o600), path.write_bytes(b"#!/bin/ba\n"))):
        await store.save("c", entry("k"), SMALL, str(folder))
        (body,) = [path for path in below(root, "body/*/*") if path.stat().st_size]
        spoil(body)
        before = read_folder(folder_with(tmp_path / f"y{len(names(tmp_path))}"))
        with pytest.raises(StoreError, match="damaged"):
            await store.restore("c", "k", str(tmp_path / "x2"))
        assert before == SMALL
        assert await store.find("c", "k") is None
        body.unlink(missing_ok=True)
    assert await store.save("c", entry("k"), SMALL, str(folder)) is True
    await store.restore("c", "k", str(tmp_path / "z"))
    assert read_folder(tmp_path / "z") == SMALL


@pytest.mark.parametrize("kind", ["index", "body"])
async def test_temporary_error_keeps_the_entry(
    store: FolderScratchStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """An entry whose bodies cannot be read for the moment is kept."""
    await store.save("c", entry("k"), SMALL, str(folder_with(tmp_path / "x")))
    with monkeypatch.context() as patched:
        without(patched, kind, errno.EMFILE)
        with pytest.raises((StoreError, TreeError), match="Too many open files"):
            await store.restore("c", "k", str(tmp_path / "y"))
    assert await store.restore("c", "k", str(tmp_path / "y")) == SMALL


async def test_held_lock_keeps_the_entry(store: FolderScratchStore, root: Path, tmp_path: Path) -> None:
    """An entry that another process has locked is kept."""
    await store.save("c", entry("k"), SMALL, str(folder_with(tmp_path / "x")))
    lock = FileLock(root / LOCK_FILE)
    try:
        assert lock.try_acquire(exclusive=True)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("senro.adapters.fs.store._LOCK_SECONDS", 0.0)
            with pytest.raises(StoreError, match="another senro process holds this lock"):
                await store.restore("c", "k", str(tmp_path / "y"))
    finally:
        lock.close()
    assert await store.restore("c", "k", str(tmp_path / "y")) == SMALL


async def test_damaged_entry_that_cannot_be_removed(
    store: FolderScratchStore, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged entry that cannot be removed raises each time."""
    await store.save("c", entry("k"), SMALL, str(folder_with(tmp_path / "x")))
    (index,) = below(root, "index/*/*")
    index.unlink()

    def refused(path: Path, *, missing_ok: bool = False) -> None:
        del missing_ok
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(Path, "unlink", refused)
    for _ in range(2):
        with pytest.raises(ContentLost, match="not in this store"):
            await store.restore("c", "k", str(tmp_path / "y"))


async def test_damaged_record(store: FolderScratchStore, root: Path, tmp_path: Path) -> None:
    """An invalid record counts as missing, and the next save replaces it."""
    folder = folder_with(tmp_path / "x")
    await store.save("c", entry("k"), SMALL, str(folder))
    (record,) = below(root, "scratch/c/*.json")
    record.chmod(0o600)
    record.write_bytes(b"{")
    assert await store.find("c", "k") is None
    assert list(await store.find_by_prefix("c", ["k"])) == []
    assert await store.save("c", entry("k"), SMALL, str(folder)) is True
    assert await store.find("c", "k") == entry("k")


async def test_time_of_use(store: FolderScratchStore, root: Path, tmp_path: Path) -> None:
    """The modification time of a record is that of the last restore, for garbage collection."""
    await store.save("c", entry("k"), SMALL, str(folder_with(tmp_path / "x")))
    (record,) = below(root, "scratch/c/*.json")
    os.utime(record, (1, 1))
    await store.find("c", "k")
    assert record.stat().st_mtime == 1
    await store.restore("c", "k", str(tmp_path / "y"))
    assert record.stat().st_mtime > 1_000_000_000


async def test_disk_full(
    store: FolderScratchStore, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is an error with the text of the operating system, and leaves no entry."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", full)
        with pytest.raises(StoreError, match="No space left"):
            await store.save("c", entry("k"), SMALL, str(folder_with(tmp_path / "x")))
    assert names(root / "scratch" / "c") == []
    assert await store.save("c", entry("k"), SMALL, str(tmp_path / "x")) is True


async def test_invalid_folder(tmp_path: Path) -> None:
    """A cache folder that cannot exist is an error that names it."""
    make_folder(tmp_path, Tree((file("cache"),)), {"cache": b""})
    with pytest.raises(StoreError, match="cannot be read"):
        await folder_store(tmp_path / "cache").find("c", "k")


async def test_records_are_private(store: FolderScratchStore, root: Path, tmp_path: Path) -> None:
    """Other users cannot read the keys."""
    await store.save(
        "c", entry("k"), Tree((file("f"),)), str(folder_with(tmp_path / "x", Tree((file("f"),)), {"f": b""}))
    )
    assert (root / "scratch" / "c").stat().st_mode & 0o777 == 0o700
    (record,) = below(root, "scratch/c/*.json")
    assert record.stat().st_mode & 0o777 == 0o400
