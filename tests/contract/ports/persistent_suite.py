"""What every `PersistentStore` must do."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from senro.domain.caches.persistent import PersistentRecord
from senro.domain.errors import ConfigurationError
from senro.ports.persistent import Found, Lease, PersistentStore

pytestmark = pytest.mark.anyio

SINCE = "2026-11-29T23:13:08Z"
RECORD = PersistentRecord(name="deps", made=1.5, max_age=60, max_size=1000, run="r", digest="sha256:" + "0" * 64)


async def kept(lease: Lease) -> PersistentRecord | None:
    """The record, once it is known that there is content."""
    assert await lease.mend()
    return await lease.record()


def fill(folder: str, name: str = "file", size: int = 3) -> None:
    """Put content there, as a run does with its first one."""
    Path(folder).mkdir()
    (Path(folder) / name).write_bytes(b"x" * size)


class PersistentStoreSuite:
    """Subclass it and give `store`, which is empty, and `second`, another one of the same place."""

    @pytest.fixture
    def store(self) -> PersistentStore:
        raise NotImplementedError

    @pytest.fixture
    def second(self) -> PersistentStore:
        raise NotImplementedError

    async def test_new(self, store: PersistentStore) -> None:
        """A new one has no content and no record; its folder can be made."""
        assert list(await store.records()) == []
        async with store.lease("deps", since=SINCE) as lease:
            assert lease.name == "deps"
            assert not await lease.mend()
            assert await lease.record() is None
            fill(lease.folder)
            assert await lease.mend()
        assert list(await store.records()) == []

    async def test_from_run_to_run(self, store: PersistentStore, second: PersistentStore) -> None:
        """Content and record are there for the next one, in the same place."""
        async with store.lease("deps", since=SINCE) as lease:
            fill(lease.folder)
            await lease.write(RECORD)
            folder = lease.folder
        async with second.lease("deps", since=SINCE) as lease:
            assert lease.folder == folder
            assert await kept(lease) == RECORD
            assert list(await store.records()) == [RECORD]
            await lease.write(msgspec.structs.replace(RECORD, changing=True))
            assert await lease.record() == msgspec.structs.replace(RECORD, changing=True)

    async def test_one_at_a_time(self, store: PersistentStore, second: PersistentStore) -> None:
        """A second one is refused at once, naming who has it and since when; afterwards it is free again."""
        async with store.lease("deps", since=SINCE) as lease:
            for other in (store, second):
                with pytest.raises(ConfigurationError, match="begins just now") as caught:
                    async with other.lease("deps", since="later"):
                        pass
            await lease.held_by("20261129T231308Z-5f0c9a")
            with pytest.raises(ConfigurationError) as caught:
                async with second.lease("deps", since="later"):
                    pass
            (refusal,) = caught.value.refusals
            assert (refusal.where, refusal.rule) == ("workspace deps", "persistent-held")
            assert "the run 20261129T231308Z-5f0c9a (process " in refusal.message
            assert f"since {SINCE})" in refusal.message
            async with second.lease("other", since=SINCE):
                pass
        async with second.lease("deps", since=SINCE):
            pass

    async def test_measured(self, store: PersistentStore) -> None:
        """All files count, in folders and hidden ones too; a link does not count what it leads to."""
        async with store.lease("deps", since=SINCE) as lease:
            fill(lease.folder, size=1000)
            (Path(lease.folder) / "a" / ".git").mkdir(parents=True)
            (Path(lease.folder) / "a" / ".git" / "x").write_bytes(b"12345")
            (Path(lease.folder) / "a" / "link").symlink_to("../file")
            assert await lease.measure() == 1005

    async def test_looked_at(self, store: PersistentStore) -> None:
        """What there is can be had without a change to it: nothing, or the size of the content."""
        async with store.lease("deps", since=SINCE) as lease:
            assert await lease.look() == Found(None, 0)
            fill(lease.folder, size=7)
            assert await lease.look() == Found(7, 0)

    async def test_unsettled(self, store: PersistentStore) -> None:
        """One that has a record and no content is to be seen to; one that has both, and one that has neither, not."""
        async with store.lease("deps", since=SINCE) as lease:
            assert list(await store.unsettled()) == []
            await lease.write(RECORD)
            assert list(await store.unsettled()) == ["deps"]
            fill(lease.folder)
            assert list(await store.unsettled()) == []

    async def test_evicted(self, store: PersistentStore) -> None:
        """Neither content nor record is left, and a new content can be put there; nothing there is fine too."""
        async with store.lease("deps", since=SINCE) as lease:
            await lease.evict()
            fill(lease.folder)
            await lease.write(RECORD)
            await lease.evict()
            assert await lease.record() is None
            assert not await lease.mend()
            fill(lease.folder)
            assert await lease.mend()
