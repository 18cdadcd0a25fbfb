"""`FolderPersistentStore` passes the suite of `PersistentStore`, and repairs what killed processes leave."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio
import pytest

from senro.adapters.fs import FolderPersistentStore
from senro.adapters.fs.staged_directory import StagedDirectory
from senro.domain.errors import ConfigurationError, StoreError
from senro.ports.persistent import Inspection, PersistentStore, WorkspaceLock
from tests.contract.ports.persistent_suite import RECORD, SINCE, PersistentStoreSuite, fill
from tests.contract.ports.trees_suite import deep_folder
from tests.lib.archives.files import names, read_folder

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[3]

HOLDING = """
import sys, anyio
from senro.adapters.fs import FolderPersistentStore

async def main():
    async with FolderPersistentStore(sys.argv[1]).lock("deps", since="noon") as lock:
        await lock.record_holder("r1")
        print("held", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


class TestFolderPersistentStore(PersistentStoreSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> PersistentStore:
        return FolderPersistentStore(str(tmp_path / "deep" / "cache"))

    @pytest.fixture
    def second(self, tmp_path: Path) -> PersistentStore:
        return FolderPersistentStore(str(tmp_path / "deep" / "cache"))


@pytest.fixture
def store(tmp_path: Path) -> FolderPersistentStore:
    return FolderPersistentStore(str(tmp_path))


async def test_lock_excludes_another_process(store: FolderPersistentStore, tmp_path: Path) -> None:
    """The refusal names the pid of another holder; a killed process has no lock any more."""
    async with await anyio.open_process([sys.executable, "-c", HOLDING, str(tmp_path)], cwd=ROOT) as other:
        try:
            assert other.stdout is not None
            assert (await other.stdout.receive()).startswith(b"held")
            with pytest.raises(ConfigurationError, match=rf"the run r1 \(process {other.pid} on .*, since noon\)"):
                async with store.lock("deps", since=SINCE):
                    pass
        finally:
            other.kill()
        await other.wait()
    async with store.lock("deps", since=SINCE):
        pass


@pytest.mark.parametrize("moment", ["built", "between", "swapped", "discarding"])
async def test_killed_swap_is_repaired(store: FolderPersistentStore, moment: str) -> None:
    """After a kill at any moment of a swap the content is the old or the new one, and no sibling is left."""
    async with store.lock("deps", since=SINCE) as lock:
        fill(lock.folder, "old")
        staged = StagedDirectory(lock.folder)
        written = staged.create("new", executable=False)
        os.write(written, b"12345")
        os.close(written)
        os.close(staged.root)
        if moment == "between":
            staged.destination.rename(staged.old)
        elif moment != "built":
            staged.swap()
        if moment == "discarding":
            (staged.old / "old").unlink()
    async with store.lock("deps", since=SINCE) as lock:
        before = read_folder(Path(lock.folder).parent)
        assert list(await store.names_to_repair()) == ["deps"]
        assert await lock.inspect() == {"swapped": Inspection(5, 3), "discarding": Inspection(5, 0)}.get(
            moment, Inspection(3, 5)
        )
        assert read_folder(Path(lock.folder).parent) == before
        assert await lock.repair()
        assert list(await store.names_to_repair()) == []
        assert names(Path(lock.folder)) == (["old"] if moment in {"built", "between"} else ["new"])
        assert names(Path(lock.folder).parent) == ["content", "holder.json", "lock"]


async def test_killed_first_content_is_removed(store: FolderPersistentStore) -> None:
    """An incomplete first content counts as none."""
    async with store.lock("deps", since=SINCE) as lock:
        staged = StagedDirectory(lock.folder)
        os.close(staged.root)
        assert not await lock.repair()
        assert names(Path(lock.folder).parent) == ["holder.json", "lock"]


async def test_killed_eviction_is_completed(store: FolderPersistentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed eviction leaves no content, and the next repair removes the rest."""

    def cut(_: Path) -> None:
        raise KeyboardInterrupt

    async with store.lock("deps", since=SINCE) as lock:
        fill(lock.folder)
        await lock.write(RECORD)
        monkeypatch.setattr("senro.adapters.fs.persistent.remove_folder", cut)
        with pytest.raises(KeyboardInterrupt):
            await lock.evict()
        monkeypatch.undo()
        assert "content" not in names(Path(lock.folder).parent)
        assert len(names(Path(lock.folder).parent)) == 3
        assert list(await store.names_to_repair()) == ["deps"]
        assert await lock.inspect() == Inspection(None, 3)
        assert not await lock.repair()
        assert await lock.record() is None
        assert names(Path(lock.folder).parent) == ["holder.json", "lock"]


async def test_measure_of_very_long_paths(store: FolderPersistentStore) -> None:
    """A tree with paths longer than one system call accepts is measured and evicted."""
    async with store.lock("deps", since=SINCE) as lock:
        fill(lock.folder, size=4)
        deep_folder(Path(lock.folder), 10_000)
        fill(f"{lock.folder}/side", size=8)
        assert await lock.measure() == 12
        assert await lock.inspect() == Inspection(12, 0)
        await lock.evict()
        assert names(Path(lock.folder).parent) == ["holder.json", "lock"]


@pytest.mark.parametrize(("closed", "size"), [("content", 0), ("in", 4), ("below", 9)])
async def test_measure_of_unreadable_files(
    store: FolderPersistentStore, monkeypatch: pytest.MonkeyPatch, closed: str, size: int
) -> None:
    """Files that this user may not read count as 0, at any depth."""
    opening = os.open

    def refusing(path: str | Path, flags: int, *more: int, dir_fd: int | None = None) -> int:
        if Path(path).name == closed:
            raise PermissionError(13, "Permission denied", str(path))
        return opening(path, flags, *more, dir_fd=dir_fd)

    async with store.lock("deps", since=SINCE) as lock:
        fill(lock.folder, size=4)
        fill(f"{lock.folder}/in", size=5)
        fill(f"{lock.folder}/in/below", size=6)
        monkeypatch.setattr(os, "open", refusing)
        assert await lock.measure() == size


async def test_evict_without_rights(store: FolderPersistentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Content without any permission bits is removed, as far as a user who is not root can."""
    opening = os.open

    def as_user(path: str | Path, flags: int, *more: int, dir_fd: int | None = None) -> int:
        try:
            mode = os.stat(path, dir_fd=dir_fd, follow_symlinks=False).st_mode
        except FileNotFoundError:
            mode = 0o700
        if not mode & 0o400 and not flags & getattr(os, "O_PATH", 0):
            raise PermissionError(13, "Permission denied", str(path))
        return opening(path, flags, *more, dir_fd=dir_fd)

    async with store.lock("deps", since=SINCE) as lock:
        fill(lock.folder)
        fill(f"{lock.folder}/in")
        for folder in (Path(lock.folder) / "in", Path(lock.folder)):
            folder.chmod(0)
        monkeypatch.setattr(os, "open", as_user)
        assert await lock.inspect() == Inspection(0, 0)
        await lock.evict()
        assert names(Path(lock.folder).parent) == ["holder.json", "lock"]


async def test_invalid_record_and_holder(store: FolderPersistentStore, tmp_path: Path) -> None:
    """An invalid record counts as none, an invalid holder as an unnamed run."""
    async with store.lock("deps", since=SINCE) as lock:
        (tmp_path / "persistent" / "deps" / "record.json").write_bytes(b"{")
        assert await lock.record() is None
        (tmp_path / "persistent" / "deps" / "holder.json").write_bytes(b"{")
        with pytest.raises(ConfigurationError, match="another run, which is starting"):
            async with store.lock("deps", since=SINCE):
                pass


async def test_folder_that_cannot_be_created(tmp_path: Path) -> None:
    """The error names the folder and has the text of the operating system."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match="SENRO_CACHE_DIR"):
        async with FolderPersistentStore(str(tmp_path / "file")).lock("deps", since=SINCE):
            pass


async def test_errors_name_the_workspace(store: FolderPersistentStore) -> None:
    """An error of the operating system is raised as senro's, with the workspace and the text."""

    async def refused(lock: WorkspaceLock) -> None:
        with pytest.raises(StoreError, match="the persistent workspace cannot be used: No such file"):
            await lock.measure()

    async with store.lock("deps", since=SINCE) as lock:
        await refused(lock)
