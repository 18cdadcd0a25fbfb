"""How many requests a store gets, counted in a shared folder: with a real store each is a round trip."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import obstore
import pytest

from senro.adapters.bucket import open_scratch_store, read_location
from senro.adapters.bucket.store import RECORDS_AT_ONCE, BucketScratchStore
from senro.adapters.fs import FolderTrees
from senro.domain.caches.record import LARGEST
from senro.domain.errors import StoreError, StoreUnavailable
from tests.contract.ports.scratch_suite import entry, newest
from tests.contract.ports.trees_suite import SMALL, folder_with
from tests.lib.archives.files import read_folder

pytestmark = pytest.mark.anyio


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    (tmp_path / "shared").mkdir()
    return tmp_path / "shared"


@pytest.fixture
def store(shared: Path) -> BucketScratchStore:
    environ = {"SENRO_REMOTE_SCRATCH": f"file://{shared}"}
    location = read_location(environ)
    assert location is not None
    drawn = iter(range(1000))
    return open_scratch_store(location, environ, trees=FolderTrees(), token=lambda: f"t{next(drawn)}")


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The read requests so far, by the names of the obstore functions."""
    counted: Counter[str] = Counter()

    def counting(name: str) -> Any:
        call = getattr(obstore, name)

        def counted_call(*arguments: Any, **options: Any) -> Any:
            counted[name] += 1
            return call(*arguments, **options)

        return counted_call

    for name in ("get", "head", "get_range"):
        monkeypatch.setattr(obstore, name, counting(name))
    return counted


async def test_record_is_read_once(store: BucketScratchStore, requests: Counter[str], tmp_path: Path) -> None:
    """The record is read by one request, then the archive."""
    await store.save("c", entry("k"), SMALL, str(folder_with(tmp_path / "x")))
    requests.clear()
    assert await store.find("c", "k") is not None
    assert requests == {"get": 1}
    await store.restore("c", "k", str(tmp_path / "y"))
    assert requests == {"get": 1, "get_range": 1}
    assert read_folder(tmp_path / "y") == SMALL


async def test_second_restore_reads_the_record_again(store: BucketScratchStore, shared: Path, tmp_path: Path) -> None:
    """A second restore reads the record again: the entry may not exist any more."""
    await store.save("c", entry("k"), SMALL, str(folder_with(tmp_path / "x")))
    await store.find("c", "k")
    await store.restore("c", "k", str(tmp_path / "y"))
    (shared / "scratch" / "c" / "entry" / "k.json").unlink()
    with pytest.raises(StoreError, match="does not exist any more"):
        await store.restore("c", "k", str(tmp_path / "y"))


@pytest.mark.parametrize("size", [0, 1, LARGEST - 1, LARGEST, LARGEST + 1, 4 * LARGEST])
async def test_get_reads_at_most_the_limit(store: BucketScratchStore, shared: Path, size: int) -> None:
    """An object of any size is read up to the limit, an empty one too."""
    (shared / "x").write_bytes(bytes(size))
    assert await store._bucket.get("x", LARGEST) == bytes(min(size, LARGEST))
    assert await store._bucket.get("y", LARGEST) is None


async def of_one_second(store: BucketScratchStore, shared: Path, tmp_path: Path, count: int) -> None:
    """This many entries that the store received in the same second, each made an hour after the next."""
    folder = folder_with(tmp_path / "x")
    for number in range(count):
        await store.save("c", entry(f"k{number:02}", -number), SMALL, str(folder))
    for path in (shared / "scratch" / "c" / "entry").iterdir():
        os.utime(path, (1e9, 1e9))


async def test_records_of_one_second_are_read_concurrently(
    store: BucketScratchStore, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records of entries of the same second are read concurrently, at most `RECORDS_AT_ONCE` at a time."""
    count = 2 * RECORDS_AT_ONCE + 1
    await of_one_second(store, shared, tmp_path, count)
    under_way, most, full = 0, 0, anyio.Event()
    get = store._bucket.get

    async def noted(path: str, limit: int) -> bytes | None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        if under_way == RECORDS_AT_ONCE:
            full.set()
        await full.wait()
        data = await get(path, limit)
        under_way -= 1
        return data

    monkeypatch.setattr(store._bucket, "get", noted)
    with anyio.fail_after(20):
        found = await store.find_by_prefix("c", [""])
    assert most == RECORDS_AT_ONCE
    assert newest([*found]) == [f"k{number:02}" for number in range(count)]


async def test_unavailable_store_ends_the_reads(
    store: BucketScratchStore, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the store fails meanwhile, it is unavailable, and the other records are not read."""
    await of_one_second(store, shared, tmp_path, 2 * RECORDS_AT_ONCE)
    requests = 0

    async def failing(path: str, limit: int) -> bytes | None:
        nonlocal requests
        del path, limit
        requests += 1
        await anyio.lowlevel.checkpoint()
        raise StoreUnavailable("file:///x", "the connection failed")

    monkeypatch.setattr(store._bucket, "get", failing)
    with pytest.raises(StoreUnavailable, match="the connection failed"):
        await store.find_by_prefix("c", [""])
    assert requests <= RECORDS_AT_ONCE
