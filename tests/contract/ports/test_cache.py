"""`FolderCache` keeps the contract of `Cache`, and never drops what a run needs."""

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
    """A cache and runs beside it."""

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
        """A run that has ended, or was killed."""
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
        """Let the snapshot have been used so long ago."""
        path = self.root / "index" / tree.digest[7:9] / tree.digest[7:]
        os.utime(path, (time.time() - seconds,) * 2)


def took(tree: Tree) -> SnapshotTaken:
    return SnapshotTaken(at=AT, step="w.s", attempt=1, workspace="src", digest=tree.digest, files=1, bytes=1)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def test_what_failed_runs_need_stays(scene: Scene) -> None:
    """Of runs that failed, were cancelled or killed every snapshot stays; of those that ended well none has to."""
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


async def test_a_run_that_was_removed_needs_nothing(scene: Scene) -> None:
    """Once its folder is gone, a failed run's snapshots may go, and its entry does."""
    tree = await scene.put("a")
    await scene.ran("r1", "failed", tree)
    (scene.folder / "runs" / "r1" / "events.jsonl").unlink()
    (scene.folder / "runs" / "r1").rmdir()
    await collect(scene.cache)
    assert not await scene.holds(tree)
    assert names(scene.root / "runs") == []


async def test_entries_of_runs_that_need_nothing_go(scene: Scene) -> None:
    """A run that ended well is forgotten, one that failed or goes on is not."""
    await scene.ran("r1", "succeeded", await scene.put("a"))
    await scene.ran("r2", "failed", await scene.put("b"))
    async with register_run(str(scene.root), "r3", scene.tell("r3")):
        await collect(scene.cache)
        assert [name.partition("-")[0] for name in names(scene.root / "runs")] == ["r2", "r3"]


async def test_what_a_running_run_has_stays(scene: Scene) -> None:
    """What its ledger names, however old, and what was put or found there since it began, told or not."""
    before, told, found = await scene.put("before"), await scene.put("told"), await scene.put("found")
    for tree in (before, told, found):
        scene.age(tree, 9999)
    async with register_run(str(scene.root), "r1", scene.tell("r1", took(told))):
        await scene.content.put(found, str(scene.folder / "found"))
        new = await scene.put("new")
        entry = await save(scene.scratch, scene.folder / "entry", "k", b"scratch")
        await collect(scene.cache, max_size=0)
        assert await scene.holds_each(before, told, found, new) == [False, True, True, True]
        assert await scene.scratch.restore("mod", "k", str(scene.folder / "x")) == entry
    await collect(scene.cache, max_size=0)
    assert await scene.holds_each(told, found, new) == [
        True,
        False,
        False,
    ]  # it was killed: its ledger tells what it needs


async def test_what_a_persistent_workspace_is_put_back_to_stays(scene: Scene) -> None:
    """The last snapshot of a persistent workspace is needed while there is its record."""
    tree = await scene.put("a")
    async with FolderPersistentStore(str(scene.root)).lock("deps", since=SINCE) as lock:
        await lock.write(msgspec.structs.replace(RECORD, digest=tree.digest))
        await collect(scene.cache)
        assert await scene.holds(tree)
        await lock.evict()
    await collect(scene.cache)
    assert not await scene.holds(tree)


async def test_used_is_put_or_restored(scene: Scene) -> None:
    """A snapshot that is put again, or restored, was used just now, as far as its age goes."""
    again, restored, neither = await scene.put("a"), await scene.put("b"), await scene.put("c")
    for tree in (again, restored, neither):
        scene.age(tree, 5000)
    await scene.content.put(again, str(scene.folder / "a"))
    await scene.content.restore(restored.digest, str(scene.folder / "x"))
    await collect(scene.cache, now=time.time(), max_age=1000)
    assert await scene.holds_each(again, restored, neither) == [True, True, False]


async def test_by_size_the_longest_unused_go(scene: Scene) -> None:
    """Past the size, what was used longest ago goes first."""
    trees = [await put(scene.content, scene.folder / name, name.encode() * 1000) for name in "abc"]
    for number, tree in enumerate(trees):
        scene.age(tree, 1000 - number)
    decision = await collect(scene.cache, max_age=None, max_size=2500)
    assert await scene.holds_each(*trees) == [False, True, True]
    assert 2000 < decision.kept <= 2500


async def test_damage_and_leftovers_go(scene: Scene) -> None:
    """An index that is damaged, and bodies that no index has, are of no use to anybody; an unknown file stays away."""
    whole, cut = await scene.put("whole"), await scene.put("cut")
    index = scene.root / "index" / cut.digest[7:9] / cut.digest[7:]
    index.chmod(0o600)
    index.write_bytes(b"senro tree 2\n")
    decision = await collect(scene.cache, max_age=None)
    assert (decision.items, len(decision.bodies)) == ((), 2)
    assert await scene.holds(whole)
    await scene.content.put(cut, str(scene.folder / "cut"))
    assert await scene.holds(cut)


async def test_an_entry_without_its_content(scene: Scene) -> None:
    """A scratch entry whose content is gone, and a file that is none, only age; one being written is let be."""
    tree = await save(scene.scratch, scene.folder / "a", "k", b"one")
    (scene.root / "index" / tree.digest[7:9] / tree.digest[7:]).unlink()
    (scene.root / "scratch" / "mod" / "x.json").write_bytes(b"{")
    (scene.root / "scratch" / "mod" / ".aside").write_bytes(b"")
    assert len((await collect(scene.cache, now=time.time(), max_age=1000)).items) == 0
    assert len((await collect(scene.cache)).items) == 2
    assert names(scene.root / "scratch" / "mod") == [".aside"]


async def test_a_ledger_that_cannot_be_read(scene: Scene) -> None:
    """Where nobody can tell what a run needs, nothing is dropped, and the ledger is named."""
    tree = await scene.put("a")
    await scene.ran("r1", "succeeded", tree)
    ledger = scene.folder / "runs" / "r1" / "events.jsonl"
    ledger.unlink()
    ledger.mkdir()
    with pytest.raises(StoreError, match=r"events\.jsonl: the run's ledger cannot be read"):
        await collect(scene.cache)
    assert await scene.holds(tree)


async def test_a_run_that_registers_meanwhile(scene: Scene) -> None:
    """Half an entry is of a run that begins: it stays, and is no obstacle."""
    await scene.put("a")
    (scene.root / "runs").mkdir()
    (scene.root / "runs" / "r1-0.json").write_bytes(b"")
    await collect(scene.cache)
    assert names(scene.root / "runs") == ["r1-0.json"]


async def test_what_killed_runs_had_begun_to_write_goes(scene: Scene) -> None:
    """An entry of a run that was killed as it registered, and of a scratch entry that never was one, go in a day."""
    await save(scene.scratch, scene.folder / "a", "k", b"one")
    (scene.root / "runs").mkdir()
    runs, scratches = scene.root / "runs", scene.root / "scratch" / "mod"
    for name, age in (("new", 80_000), ("old", 90_000)):
        for path in (runs / f"{name}-0.json", scratches / f".{name}"):
            path.write_bytes(b"")
            os.utime(path, (time.time() - age,) * 2)
    async with scene.cache.collecting() as collection:
        await collection.survey()
    assert len(names(runs)) == 2  # nothing was dropped
    await collect(scene.cache, max_age=None)
    assert names(runs) == ["new-0.json"]
    assert len(names(scratches)) == 2
    assert names(scratches)[0] == ".new"


async def test_a_run_that_registers_for_days_stays(scene: Scene) -> None:
    """Who has the lock of an entry is alive, however old the entry is."""
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


async def test_a_snapshot_waits_while_something_is_dropped(scene: Scene) -> None:
    """Neither a put nor a restore begins while the lock is held to drop; both go on when it is given back."""
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
        assert lock.try_acquire(exclusive=True)  # as a slice of a drop has it
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


async def test_a_drop_waits_for_a_snapshot(scene: Scene) -> None:
    """While a snapshot is put or restored nothing is removed; a drop that waits too long removes nothing at all."""
    tree = await scene.put("a")
    lock = FileLock(scene.root / "lock")
    try:
        assert lock.try_acquire(exclusive=False)  # as a restore has it
        with pytest.raises(StoreError, match="lock: another senro process holds this lock"):
            await collect(FolderCache(str(scene.root), patience=0.05))
    finally:
        lock.close()
    assert await scene.holds(tree)
    await collect(scene.cache)
    assert not await scene.holds(tree)


async def test_a_long_drop_lets_others_in(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes long is dropped in slices: a snapshot is put in between, whole, and all the rest goes."""
    trees = [await scene.put(f"t{number}") for number in range(6)]
    monkeypatch.setattr("senro.adapters.fs.cache.SLICE_SECONDS", 0.0)  # one file a slice
    taken = 0

    async def again() -> None:
        nonlocal taken
        await scene.content.put(trees[3], str(scene.folder / "t3"))
        taken += 1

    async with scene.cache.collecting() as collection, anyio.create_task_group() as tasks:
        survey = await collection.survey()
        tasks.start_soon(again)
        decision = sweep(survey.items, survey.bodies, now=1e11, max_age=0, max_size=None)
        await collection.drop(decision)
        assert taken == 1  # long before the end
    assert await scene.holds_each(*trees) == [False, False, False, True, False, False]


async def test_what_is_used_meanwhile_is_read_once(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """In however many slices the rest is dropped, an index is read once: as it was surveyed, or as it came."""
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


async def test_slices_do_some_dropping(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it takes longer than a slice to see what was used meanwhile, each slice drops more than one file."""
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
async def test_runs_and_collectors_at_once(scene: Scene) -> None:
    """Whatever collectors drop beside them, runs find each snapshot that they put: the same few, over and over."""
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


async def test_no_cache_folder(tmp_path: Path) -> None:
    """A file in its place is named."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match="SENRO_CACHE_DIR"):
        await collect(FolderCache(str(tmp_path / "file" / "cache")))
    with pytest.raises(StoreError, match="SENRO_CACHE_DIR"):
        async with register_run(str(tmp_path / "file"), "r", "/nowhere"):
            pass
