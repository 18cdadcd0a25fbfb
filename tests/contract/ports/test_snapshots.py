"""`FolderContentStore` passes the suite of `ContentStore`, and handles the errors of a disk."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import time
from pathlib import Path

import anyio
import pytest

from senro.adapters.fs import FolderContentStore
from senro.domain.errors import ContentLost, StoreError, TreeError
from senro.domain.tree.tree import Tree, encode
from senro.ports.snapshots import ContentStore
from tests.contract.ports.snapshots_suite import ContentStoreSuite
from tests.contract.ports.test_trees import Hops, open_files
from tests.contract.ports.trees_suite import SMALL, SMALL_CONTENTS, big, folder_with
from tests.lib.archives.files import digest_of, file, mode_of, names, read_folder
from tests.lib.builders.stores import without

pytestmark = pytest.mark.anyio

RUN = hashlib.sha256(b"#!/bin/sh\n").hexdigest()


class TestFolderContentStore(ContentStoreSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> ContentStore:
        return FolderContentStore(str(tmp_path / "deep" / "store"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(root: Path) -> ContentStore:
    return FolderContentStore(str(root))


def files_of(root: Path) -> list[str]:
    """The files of a store, without its empty lock file."""
    files = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    return [path for path in files if path != "lock" and not path.endswith("/lock")]


def test_unused_store_creates_nothing(store: ContentStore, root: Path) -> None:
    """A store without snapshots has no folder."""
    del store
    assert not root.exists()


async def test_files_of_a_store(store: ContentStore, root: Path, tmp_path: Path) -> None:
    """The store has each body once, the index, and nothing else; its files are read-only."""
    await store.put(SMALL, str(folder_with(tmp_path / "x")))
    empty, index = hashlib.sha256(b"").hexdigest(), SMALL.digest.removeprefix("sha256:")
    assert files_of(root) == sorted(
        [f"body/{RUN[:2]}/{RUN}", f"body/{empty[:2]}/{empty}", f"index/{index[:2]}/{index}"]
    )
    assert (root / f"body/{RUN[:2]}/{RUN}").read_bytes() == b"#!/bin/sh\n"
    assert (root / f"index/{index[:2]}/{index}").read_bytes() == encode(SMALL)
    for path in files_of(root):
        assert mode_of(root / path) == 0o444
    assert mode_of(root) == 0o700


async def test_stored_body_is_not_written_again(store: ContentStore, root: Path, tmp_path: Path) -> None:
    """A body that is stored is not written again, and its source is not read."""
    folder = folder_with(tmp_path / "x")
    await store.put(SMALL, str(folder))
    before = {path: (root / path).stat().st_ino for path in files_of(root)}
    (folder / "d" / "run").unlink()
    await store.put(SMALL, str(folder))
    assert {path: (root / path).stat().st_ino for path in files_of(root)} == before


@pytest.mark.parametrize("damage", [b"", b"#!/bin/sX\n", None])
async def test_damaged_body(store: ContentStore, root: Path, tmp_path: Path, damage: bytes | None) -> None:
    """A restore detects a damaged body and says what to do; storing the snapshot again repairs it."""
    folder = folder_with(tmp_path / "x")
    digest = await store.put(SMALL, str(folder))
    body = root / "body" / RUN[:2] / RUN
    body.unlink()
    if damage is not None:
        body.write_bytes(damage)
    with pytest.raises(ContentLost, match="remove this file") as caught:
        await store.restore(digest, str(tmp_path / "y"))
    assert caught.value.path == str(body)
    assert names(tmp_path) == ["store", "x"]
    body.unlink(missing_ok=True)
    await store.put(SMALL, str(folder))
    await store.restore(digest, str(tmp_path / "y"))
    assert read_folder(tmp_path / "y") == SMALL


async def test_truncated_body_is_repaired(store: ContentStore, root: Path, tmp_path: Path) -> None:
    """The next snapshot with a truncated body writes it again."""
    folder = folder_with(tmp_path / "x")
    digest = await store.put(SMALL, str(folder))
    body = root / "body" / RUN[:2] / RUN
    body.chmod(0o644)
    body.write_bytes(b"#!")
    await store.put(SMALL, str(folder))
    await store.restore(digest, str(tmp_path / "y"))
    assert read_folder(tmp_path / "y") == SMALL


@pytest.mark.parametrize("text", [encode(SMALL)[:-1], b"", b"senro tree 2\nD 2:..\n"])
async def test_damaged_index(store: ContentStore, root: Path, tmp_path: Path, text: bytes) -> None:
    """An index that does not match its digest, or is invalid, is named with what to do."""
    digest = await store.put(SMALL, str(folder_with(tmp_path / "x")))
    index = root / "index" / digest[7:9] / digest[7:]
    index.chmod(0o644)
    index.write_bytes(text)
    with pytest.raises(ContentLost, match="does not match its digest") as caught:
        await store.get(digest)
    assert caught.value.path == str(index)


async def test_invalid_index(store: ContentStore, root: Path) -> None:
    """An index with the right digest that is not a tree is refused."""
    data = b"senro tree 2\nD 2:..\n"
    digest = digest_of(data)
    index = root / "index" / digest[7:9] / digest[7:]
    index.parent.mkdir(parents=True)
    index.write_bytes(data)
    with pytest.raises(ContentLost, match="cannot be decoded"):
        await store.get(digest)


async def test_unreadable_index(store: ContentStore, root: Path) -> None:
    """An index that cannot be read is an error with the text of the operating system, and not lost."""
    index = root / "index" / "00" / ("0" * 64)
    index.mkdir(parents=True)
    with pytest.raises(StoreError, match="directory") as caught:
        await store.get("sha256:" + "0" * 64)
    assert not isinstance(caught.value, ContentLost)


@pytest.mark.parametrize("kind", ["index", "body"])
@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.EIO, errno.ENOMEM])
async def test_temporary_errors(
    store: ContentStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, number: int
) -> None:
    """An error of this process or of the disk does not mean that the snapshot is lost."""
    digest = await store.put(SMALL, str(folder_with(tmp_path / "x")))
    folder = folder_with(tmp_path / "y")
    with monkeypatch.context() as patched:
        without(patched, kind, number)
        with pytest.raises((StoreError, TreeError), match=re.escape(os.strerror(number))) as caught:
            await store.restore(digest, str(folder))
        assert not isinstance(caught.value, ContentLost)
    assert names(tmp_path) == ["store", "x", "y"]
    assert await store.restore(digest, str(folder)) == SMALL


async def test_disk_full(store: ContentStore, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is a `StoreError` that names the store; no part of the snapshot is left or visible."""
    folder = folder_with(tmp_path / "x")

    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for call in ("write", "fsync", "rename"):
        monkeypatch.setattr(f"senro.adapters.fs.store_writer.os.{call}", full)
        with pytest.raises(StoreError, match="No space left") as caught:
            await store.put(SMALL, str(folder))
        assert caught.value.path == str(root)
        monkeypatch.undo()
        assert files_of(root) == []
    await store.put(SMALL, str(folder))


@pytest.mark.slow  # once for each await
async def test_cancellation_at_any_await(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a cancellation at any await the store has complete bodies, and an index only with all of its bodies."""
    tree = Tree((*SMALL.entries, file("big", b"x" * 2_000_000)))
    folder = folder_with(tmp_path / "x", tree, {**SMALL_CONTENTS, "big": b"x" * 2_000_000})
    hops = Hops(monkeypatch)

    async def everything(place: Path) -> None:
        store = FolderContentStore(str(place / "store"))
        await store.put(tree, str(folder))
        await store.restore(tree.digest, str(place / "y"))

    await everything(tmp_path / "whole")
    total, opened = hops.count, open_files()
    for at in range(1, total + 1):
        hops.count, hops.at, hops.scope = 0, at, anyio.CancelScope()
        place = tmp_path / str(at)
        place.mkdir()
        with hops.scope:
            await everything(place)
        assert not [path for path in files_of(place) if "tmp/" in path]
        assert set(names(place)) <= {"store", "y"}
        for path in (place / path for path in files_of(place) if path.startswith("store/")):
            assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name
        if list(place.glob("store/index/*/*")):
            store = FolderContentStore(str(place / "store"))
            hops.at = -1
            await store.restore(tree.digest, str(place / "again"))
            assert read_folder(place / "again") == tree
        assert open_files() == opened


async def test_old_temporary_files_are_removed(store: ContentStore, root: Path, tmp_path: Path) -> None:
    """A file in `tmp/` that is a day old is removed; a new one is not."""
    (root / "tmp").mkdir(parents=True)
    for name, age in (("old", 90_000), ("new", 0)):
        (root / "tmp" / name).write_bytes(b"")
        os.utime(root / "tmp" / name, (time.time() - age,) * 2)
    await store.put(SMALL, str(folder_with(tmp_path / "x")))
    assert names(root / "tmp") == ["new"]


@pytest.mark.slow  # four concurrent snapshots on two cores
async def test_concurrent_puts(root: Path, tmp_path: Path) -> None:
    """Several store objects may store snapshots with the same bodies concurrently."""
    tree, contents = big()
    folder = folder_with(tmp_path / "x", tree, contents)
    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(FolderContentStore(str(root)).put, tree, str(folder))
    await FolderContentStore(str(root)).restore(tree.digest, str(tmp_path / "y"))
    assert read_folder(tmp_path / "y") == tree
    assert names(root / "tmp") == []
