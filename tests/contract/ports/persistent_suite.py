"""The conformance suite of `senro.ports.persistent`."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from senro.domain.caches.persistent import PersistentRecord
from senro.domain.errors import ConfigurationError
from senro.ports.persistent import Inspection, PersistentStore, WorkspaceLock

pytestmark = pytest.mark.anyio

SINCE = "2026-11-29T23:13:08Z"
RECORD = PersistentRecord(name="deps", made=1.5, max_age=60, max_size=1000, run="r", digest="sha256:" + "0" * 64)


async def kept(lock: WorkspaceLock) -> PersistentRecord | None:
    """Returns the record, after checking that there is content."""
    assert await lock.repair()
    return await lock.record()


def fill(folder: str, name: str = "file", size: int = 3) -> None:
    """Create the content, as a first run does."""
    Path(folder).mkdir()
    (Path(folder) / name).write_bytes(b"x" * size)


class PersistentStoreSuite:
    """A subclass has the fixtures `store`, which is empty, and `second`, another one of the same folder."""

    @pytest.fixture
    def store(self) -> PersistentStore:
        raise NotImplementedError

    @pytest.fixture
    def second(self) -> PersistentStore:
        raise NotImplementedError

    async def test_new_workspace(self, store: PersistentStore) -> None:
        """A new workspace has no content and no record, and its folder can be created."""
        assert list(await store.records()) == []
        async with store.lock("deps", since=SINCE) as lock:
            assert lock.name == "deps"
            assert not await lock.repair()
            assert await lock.record() is None
            fill(lock.folder)
            assert await lock.repair()
        assert list(await store.records()) == []

    async def test_content_stays_from_run_to_run(self, store: PersistentStore, second: PersistentStore) -> None:
        """The next holder of the lock finds the content and the record in the same folder."""
        async with store.lock("deps", since=SINCE) as lock:
            fill(lock.folder)
            await lock.write(RECORD)
            folder = lock.folder
        async with second.lock("deps", since=SINCE) as lock:
            assert lock.folder == folder
            assert await kept(lock) == RECORD
            assert list(await store.records()) == [RECORD]
            await lock.write(msgspec.structs.replace(RECORD, changing=True))
            assert await lock.record() == msgspec.structs.replace(RECORD, changing=True)

    async def test_lock_excludes_another_run(self, store: PersistentStore, second: PersistentStore) -> None:
        """A second lock is refused at once, with the holder and the time, until the first is released."""
        async with store.lock("deps", since=SINCE) as lock:
            for other in (store, second):
                with pytest.raises(ConfigurationError, match="is starting") as caught:
                    async with other.lock("deps", since="later"):
                        pass
            await lock.record_holder("20261129T231308Z-5f0c9a")
            with pytest.raises(ConfigurationError) as caught:
                async with second.lock("deps", since="later"):
                    pass
            (refusal,) = caught.value.refusals
            assert (refusal.where, refusal.rule) == ("workspace deps", "persistent-held")
            assert "the run 20261129T231308Z-5f0c9a (process " in refusal.message
            assert f"since {SINCE})" in refusal.message
            async with second.lock("other", since=SINCE):
                pass
        async with second.lock("deps", since=SINCE):
            pass

    async def test_measure(self, store: PersistentStore) -> None:
        """All files count, hidden ones and those in folders too; a link counts without its target."""
        async with store.lock("deps", since=SINCE) as lock:
            fill(lock.folder, size=1000)
            (Path(lock.folder) / "a" / ".git").mkdir(parents=True)
            (Path(lock.folder) / "a" / ".git" / "x").write_bytes(b"12345")
            (Path(lock.folder) / "a" / "link").symlink_to("../file")
            assert await lock.measure() == 1005

    async def test_inspect_changes_nothing(self, store: PersistentStore) -> None:
        """`inspect` returns the size of the content, or that there is none."""
        async with store.lock("deps", since=SINCE) as lock:
            assert await lock.inspect() == Inspection(None, 0)
            fill(lock.folder, size=7)
            assert await lock.inspect() == Inspection(7, 0)

    async def test_names_to_repair(self, store: PersistentStore) -> None:
        """A workspace with a record and no content is listed; one with both or neither is not."""
        async with store.lock("deps", since=SINCE) as lock:
            assert list(await store.names_to_repair()) == []
            await lock.write(RECORD)
            assert list(await store.names_to_repair()) == ["deps"]
            fill(lock.folder)
            assert list(await store.names_to_repair()) == []

    async def test_evict(self, store: PersistentStore) -> None:
        """Neither content nor record is left, and new content can be created; a second call does nothing."""
        async with store.lock("deps", since=SINCE) as lock:
            await lock.evict()
            fill(lock.folder)
            await lock.write(RECORD)
            await lock.evict()
            assert await lock.record() is None
            assert not await lock.repair()
            fill(lock.folder)
            assert await lock.repair()
