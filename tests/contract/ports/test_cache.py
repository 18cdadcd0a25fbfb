"""`FolderCache` passes the suite of `Cache`, and never removes what a run needs."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import msgspec
import pytest

from senro.adapters.fs import FolderCache, FolderContentStore, FolderPersistentStore, FolderScratchStore, register_run
from senro.adapters.fs.cache import FolderCollection
from senro.adapters.fs.locks import FileLock
from senro.domain.caches.gc import sweep
from senro.domain.errors import StoreError
from senro.domain.run.events import Event, RunEnded, SnapshotTaken, encode_event
from senro.domain.run.state_names import RunState
from senro.domain.tree.tree import Tree
from senro.ports.cache import Cache
from senro.ports.scratch import ScratchStore
from senro.ports.snapshots import ContentStore
from tests.contract.ports.cache_suite import CacheSuite, collect, put, save
from tests.contract.ports.persistent_suite import RECORD, SINCE
from tests.contract.ports.test_trees import open_files
from tests.lib.archives.files import file, names, read_folder
from tests.lib.builders.events import AT

pytestmark = pytest.mark.anyio


class TestFolderCache(CacheSuite):
    @pytest.fixture
    def cache(self, tmp_path: Path) -> Cache:
        return FolderCache(str(tmp_path / "deep" / "cache"), patience=0.05)

    @pytest.fixture
    def content(self, tmp_path: Path) -> ContentStore:
        return FolderContentStore(str(tmp_path / "deep" / "cache"))

    @pytest.fixture
    def scratch(self, tmp_path: Path, content: ContentStore) -> ScratchStore:
        return FolderScratchStore(str(tmp_path / "deep" / "cache"), content)


class Scene:
    """A cache and runs that use it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "cache"
        self.content = FolderContentStore(str(self.root))
        self.scratch = FolderScratchStore(str(self.root), self.content)
        self.cache = FolderCache(str(self.root))

    async def put(self, name: str) -> Tree:
        return await put(self.content, self.folder / name, name.encode())

    def tell(self, run: str, *events: Event) -> str:
        """The folder of a run whose ledger has these events."""
        folder = self.folder / "runs" / run
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "events.jsonl").write_bytes(b"".join(encode_event(event) + b"\n" for event in events))
        return str(folder)

    async def ran(self, run: str, state: RunState | None, *trees: Tree) -> None:
        """A run that has ended or was killed."""
        events: list[Event] = [took(tree) for tree in trees]
        events += [] if state is None else [RunEnded(at=AT, state=state)]
        async with register_run(str(self.root), run, self.tell(run, *events)):
            pass

    async def holds_each(self, *trees: Tree) -> list[bool]:
        return [await self.holds(tree) for tree in trees]

    async def holds(self, tree: Tree) -> bool:
        try:
            await self.content.restore(tree.digest, str(self.folder / "restored"))
        except StoreError:
            return False
        return read_folder(self.folder / "restored") == tree

    def age(self, tree: Tree, seconds: float) -> None:
        """Set the time of the last use of a snapshot."""
        path = self.root / "index" / tree.digest[7:9] / tree.digest[7:]
        os.utime(path, (time.time() - seconds,) * 2)


def took(tree: Tree) -> SnapshotTaken:
    return SnapshotTaken(at=AT, step="w.s", attempt=1, workspace="src", digest=tree.digest, files=1, bytes=1)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def test_snapshots_of_failed_runs_are_kept(scene: Scene) -> None:
    """All snapshots of failed, cancelled and killed runs are kept, and none of runs that succeeded."""
    states: Mapping[str, RunState | None] = {
        "r1": "failed",
        "r2": "cancelled",
        "r3": None,
        "r4": "succeeded",
        "r5": "partial",
        "r6": "succeeded_with_recovery",
    }
    trees = []
    for run, state in states.items():
        trees.append(await scene.put(run))
        await scene.ran(run, state, trees[-1])
    await collect(scene.cache)
    assert await scene.holds_each(*trees) == [True, True, True, False, False, False]


async def test_snapshots_of_a_removed_run_are_not_kept(scene: Scene) -> None:
    """Without its folder a failed run keeps no snapshots, and its entry is removed."""
    tree = await scene.put("a")
    await scene.ran("r1", "failed", tree)
    (scene.folder / "runs" / "r1" / "events.jsonl").unlink()
    (scene.folder / "runs" / "r1").rmdir()
    await collect(scene.cache)
    assert not await scene.holds(tree)
    assert names(scene.root / "runs") == []


async def test_entries_of_successful_runs_are_removed(scene: Scene) -> None:
    """The entry of a run that succeeded is removed; that of a failed or running one is not."""
    await scene.ran("r1", "succeeded", await scene.put("a"))
    await scene.ran("r2", "failed", await scene.put("b"))
    async with register_run(str(scene.root), "r3", scene.tell("r3")):
        await collect(scene.cache)
        assert [name.partition("-")[0] for name in names(scene.root / "runs")] == ["r2", "r3"]


async def test_snapshots_of_a_running_run_are_kept(scene: Scene) -> None:
    """Those that its ledger names, and all that were stored or found since it began."""
    before, recorded, found = await scene.put("before"), await scene.put("recorded"), await scene.put("found")
    for tree in (before, recorded, found):
        scene.age(tree, 9999)
    async with register_run(str(scene.root), "r1", scene.tell("r1", took(recorded))):
        await scene.content.put(found, str(scene.folder / "found"))
        new = await scene.put("new")
        entry = await save(scene.scratch, scene.folder / "entry", "k", b"scratch")
        await collect(scene.cache, max_size=0)
        assert await scene.holds_each(before, recorded, found, new) == [False, True, True, True]
        assert await scene.scratch.restore("mod", "k", str(scene.folder / "x")) == entry
    await collect(scene.cache, max_size=0)
    assert await scene.holds_each(recorded, found, new) == [
        True,
        False,
        False,
    ]  # it was killed; its ledger names its snapshots


async def test_snapshot_of_a_persistent_workspace_is_kept(scene: Scene) -> None:
    """Its last snapshot is kept as long as there is its record."""
    tree = await scene.put("a")
    async with FolderPersistentStore(str(scene.root)).lock("deps", since=SINCE) as lock:
        await lock.write(msgspec.structs.replace(RECORD, digest=tree.digest))
        await collect(scene.cache)
        assert await scene.holds(tree)
        await lock.evict()
    await collect(scene.cache)
    assert not await scene.holds(tree)


async def test_put_and_restore_are_uses(scene: Scene) -> None:
    """Storing a snapshot again, or restoring it, makes it recently used."""
    again, restored, neither = await scene.put("a"), await scene.put("b"), await scene.put("c")
    for tree in (again, restored, neither):
        scene.age(tree, 5000)
    await scene.content.put(again, str(scene.folder / "a"))
    await scene.content.restore(restored.digest, str(scene.folder / "x"))
    await collect(scene.cache, now=time.time(), max_age=1000)
    assert await scene.holds_each(again, restored, neither) == [True, True, False]


async def test_least_recently_used_are_removed_first(scene: Scene) -> None:
    """Above the size limit the least recently used snapshots are removed."""
    trees = [await put(scene.content, scene.folder / name, name.encode() * 1000) for name in "abc"]
    for number, tree in enumerate(trees):
        scene.age(tree, 1000 - number)
    decision = await collect(scene.cache, max_age=None, max_size=2500)
    assert await scene.holds_each(*trees) == [False, True, True]
    assert 2000 < decision.kept <= 2500


async def test_damaged_and_unused_files_are_removed(scene: Scene) -> None:
    """Damaged indexes, and bodies that no index names, are removed; an unknown file is kept."""
    whole, cut = await scene.put("whole"), await scene.put("cut")
    index = scene.root / "index" / cut.digest[7:9] / cut.digest[7:]
    index.chmod(0o600)
    index.write_bytes(b"senro tree 2\n")
    decision = await collect(scene.cache, max_age=None)
    assert (decision.items, len(decision.bodies)) == ((), 2)
    assert await scene.holds(whole)
    await scene.content.put(cut, str(scene.folder / "cut"))
    assert await scene.holds(cut)


async def test_scratch_entry_without_its_bodies(scene: Scene) -> None:
    """It is removed by age like an invalid record; an entry that is being written is kept."""
    tree = await save(scene.scratch, scene.folder / "a", "k", b"one")
    (scene.root / "index" / tree.digest[7:9] / tree.digest[7:]).unlink()
    (scene.root / "scratch" / "mod" / "x.json").write_bytes(b"{")
    (scene.root / "scratch" / "mod" / ".aside").write_bytes(b"")
    assert len((await collect(scene.cache, now=time.time(), max_age=1000)).items) == 0
    assert len((await collect(scene.cache)).items) == 2
    assert names(scene.root / "scratch" / "mod") == [".aside"]


async def test_unreadable_ledger(scene: Scene) -> None:
    """If a ledger cannot be read, nothing is removed, and the error names it."""
    tree = await scene.put("a")
    await scene.ran("r1", "succeeded", tree)
    ledger = scene.folder / "runs" / "r1" / "events.jsonl"
    ledger.unlink()
    ledger.mkdir()
    with pytest.raises(StoreError, match=r"events\.jsonl: the run's ledger cannot be read"):
        await collect(scene.cache)
    assert await scene.holds(tree)


async def test_run_that_registers_meanwhile(scene: Scene) -> None:
    """The incomplete entry of a run that begins is kept, and does not stop the collection."""
    await scene.put("a")
    (scene.root / "runs").mkdir()
    (scene.root / "runs" / "r1-0.json").write_bytes(b"")
    await collect(scene.cache)
    assert names(scene.root / "runs") == ["r1-0.json"]


async def test_incomplete_entries_of_killed_runs_are_removed(scene: Scene) -> None:
    """Incomplete entries of killed runs and of scratch caches are removed after a day."""
    await save(scene.scratch, scene.folder / "a", "k", b"one")
    (scene.root / "runs").mkdir()
    runs, scratches = scene.root / "runs", scene.root / "scratch" / "mod"
    for name, age in (("new", 80_000), ("old", 90_000)):
        for path in (runs / f"{name}-0.json", scratches / f".{name}"):
            path.write_bytes(b"")
            os.utime(path, (time.time() - age,) * 2)
    async with scene.cache.collecting() as collection:
        await collection.survey()
    assert len(names(runs)) == 2  # nothing was removed
    await collect(scene.cache, max_age=None)
    assert names(runs) == ["new-0.json"]
    assert len(names(scratches)) == 2
    assert names(scratches)[0] == ".new"


async def test_locked_run_is_alive(scene: Scene) -> None:
    """A run that has the lock of its entry is alive, however old the entry is."""
    (scene.root / "runs").mkdir(parents=True)
    lock = FileLock(scene.root / "runs" / "r1-0.json")
    try:
        assert lock.try_acquire(exclusive=True)
        os.utime(lock.fd, (1, 1))
        await collect(scene.cache)
        assert names(scene.root / "runs") == ["r1-0.json"]
    finally:
        lock.close()
    await collect(scene.cache)
    assert names(scene.root / "runs") == []


async def test_snapshot_waits_for_a_drop(scene: Scene) -> None:
    """No put and no restore begins while the lock is held to remove; both go on once it is released."""
    tree = await scene.put("a")
    done = []

    async def again() -> None:
        await scene.content.put(tree, str(scene.folder / "a"))
        done.append("put")

    async def restore() -> None:
        await scene.content.restore(tree.digest, str(scene.folder / "x"))
        done.append("restored")

    lock = FileLock(scene.root / "lock")
    try:
        assert lock.try_acquire(exclusive=True)  # as a slice of a drop does
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(again)
            tasks.start_soon(restore)
            with anyio.move_on_after(0.2):
                await anyio.sleep_forever()
            assert done == []
            lock.release()
    finally:
        lock.close()
    assert sorted(done) == ["put", "restored"]


async def test_drop_waits_for_a_snapshot(scene: Scene) -> None:
    """While a snapshot is stored or restored nothing is removed; a drop that waits too long removes nothing."""
    tree = await scene.put("a")
    lock = FileLock(scene.root / "lock")
    try:
        assert lock.try_acquire(exclusive=False)  # as a restore does
        with pytest.raises(StoreError, match="lock: another senro process holds this lock"):
            await collect(FolderCache(str(scene.root), patience=0.05))
    finally:
        lock.close()
    assert await scene.holds(tree)
    await collect(scene.cache)
    assert not await scene.holds(tree)


async def test_long_drop_is_interrupted_by_a_put(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long drop is done in slices: a snapshot is stored in between, and everything else is removed."""
    trees = [await scene.put(f"t{number}") for number in range(6)]
    monkeypatch.setattr("senro.adapters.fs.cache.SLICE_SECONDS", 0.0)  # one file a slice
    stored = 0

    async def again() -> None:
        nonlocal stored
        await scene.content.put(trees[3], str(scene.folder / "t3"))
        stored += 1

    async with scene.cache.collecting() as collection, anyio.create_task_group() as tasks:
        survey = await collection.survey()
        tasks.start_soon(again)
        decision = sweep(survey.items, survey.bodies, now=1e11, max_age=0, max_size=None)
        await collection.drop(decision)
        assert stored == 1  # well before the end
    assert await scene.holds_each(*trees) == [False, False, False, True, False, False]


async def test_indexes_are_read_once(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """In any number of slices an index is read once, in the survey or when it appears."""
    trees = [await scene.put(f"t{number}") for number in range(6)]
    monkeypatch.setattr("senro.adapters.fs.cache.SLICE_SECONDS", 0.0)  # one file a slice
    read: list[str] = []
    reading = Path.read_bytes

    def noted(path: Path) -> bytes:
        read.append(path.name)
        return reading(path)

    async with scene.cache.collecting() as collection:
        with monkeypatch.context() as patched:
            patched.setattr(Path, "read_bytes", noted)
            survey = await collection.survey()
            await scene.content.put(trees[3], str(scene.folder / "t3"))
            new = await scene.put("new")
            entry = await save(scene.scratch, scene.folder / "entry", "k", b"scratch")
            await collection.drop(sweep(survey.items, survey.bodies, now=1e11, max_age=0, max_size=None))
    assert sorted(read) == sorted(tree.digest[7:] for tree in (*trees, new, entry))
    assert await scene.holds_each(*trees, new) == [False, False, False, True, False, False, True]


async def test_each_slice_removes_files(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each slice removes more than one file, although it first searches for used ones."""
    for number in range(20):
        await scene.put(f"t{number}")
    monkeypatch.setattr("senro.adapters.fs.cache.SLICE_SECONDS", 0.05)
    slices = 0
    used_again = FolderCollection._used_since_survey

    def slow(collection: FolderCollection) -> Generator[None, None, set[str]]:
        nonlocal slices
        slices += 1
        end = time.monotonic() + 0.06
        while time.monotonic() < end:
            yield
        return (yield from used_again(collection))

    monkeypatch.setattr(FolderCollection, "_used_since_survey", slow)
    await collect(scene.cache)
    assert slices < 40  # of two files each


@pytest.mark.slow  # runs and collectors in a race
async def test_concurrent_runs_and_collections(scene: Scene) -> None:
    """Runs find every snapshot that they have stored, whatever concurrent collections remove."""
    shared = [(name, Tree((file("f", name.encode()), file("common", b"c")))) for name in "abc"]
    for name, _ in shared:
        (scene.folder / name).mkdir()
        (scene.folder / name / "f").write_bytes(name.encode())
        (scene.folder / name / "common").write_bytes(b"c")
    before = open_files()
    going = 3
    rounds = 0

    async def run(number: int) -> None:
        nonlocal going
        store = FolderContentStore(str(scene.root))
        for turn in range(12):
            run_id = f"r{number}-{turn}"
            async with register_run(str(scene.root), run_id, scene.tell(run_id)):
                for name, tree in shared:
                    await store.put(tree, str(scene.folder / name))
                for _, tree in shared:
                    place = scene.folder / f"x{number}"
                    await store.restore(tree.digest, str(place))
                    assert read_folder(place) == tree
                scene.tell(run_id, RunEnded(at=AT, state="succeeded"))
        going -= 1

    async def collector() -> None:
        nonlocal rounds
        while going:
            await collect(FolderCache(str(scene.root)))
            rounds += 1
            await anyio.lowlevel.checkpoint()

    async with AsyncExitStack() as stack:
        tasks = await stack.enter_async_context(anyio.create_task_group())
        for number in range(3):
            tasks.start_soon(run, number)
        tasks.start_soon(collector)
    assert rounds > 0
    assert open_files() == before
    await collect(scene.cache)
    assert await scene.holds_each(*(tree for _, tree in shared)) == [False] * 3


async def test_file_in_place_of_the_cache(tmp_path: Path) -> None:
    """The error names the file."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match="SENRO_CACHE_DIR"):
        await collect(FolderCache(str(tmp_path / "file" / "cache")))
    with pytest.raises(StoreError, match="SENRO_CACHE_DIR"):
        async with register_run(str(tmp_path / "file"), "r", "/nowhere"):
            pass
