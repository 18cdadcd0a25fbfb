"""The scratch caches of a run: what is restored, saved and recorded.

More than 500 lines: all tests share one scene of two stores in memory.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from senro.app.caches.caches import CacheContent, ScratchCaches
from senro.app.runtime.services import ScratchServices
from senro.domain.caches.key import CacheKeys
from senro.domain.caches.lookup import ScratchEntry
from senro.domain.errors import StoreError, StoreUnavailable, TreeError
from senro.domain.pipeline.step import Step
from senro.domain.pipeline.targets import Pod, local
from senro.domain.pipeline.workspace import ScratchCache, ScratchMount
from senro.domain.plan.pipeline import Pipeline
from senro.domain.plan.plan import Plan
from senro.domain.run.events import (
    Event,
    Noted,
    RemoteCacheDisabled,
    ScratchMissed,
    ScratchNotSaved,
    ScratchRestored,
    ScratchSaved,
)
from senro.domain.tree.tree import Tree
from tests.lib.archives.files import file, make_folder, read_folder
from tests.lib.builders.plans import RUNNER
from tests.lib.fakes.scratch import FakeScratchStore, ScratchEntries
from tests.lib.harness.app import App

pytestmark = pytest.mark.anyio

CACHE = ScratchCache("c", key="k", restore_keys=["k-"])
OLD = Tree((file("old", b"old"),))
NEW = Tree((file("new", b"new"),))
LATER = datetime(2026, 1, 1, tzinfo=UTC)
GONE = StoreUnavailable("s3://b/p", "the connection failed")


def plan_of(*steps: tuple[str, bool, tuple[str, ...]], **fields: Any) -> Plan:
    """A plan whose steps mount the cache: for each step its name, whether it runs in a pod, and its needs."""
    pipeline = Pipeline("p")
    workflow = pipeline.workflow("w")
    for name, pod, needs in steps:
        workflow.step(name, ["true"], mounts=[CACHE.at("/c")], needs=needs, on=RUNNER if pod else local(), **fields)
    return pipeline.build()


class Scene:
    """The caches of a run of the plan, with stores in memory."""

    def __init__(self, folder: Path, plan: Plan, *, shared: bool = True, key: str = "k") -> None:
        self.path = folder
        self.plan = plan
        self.app = App(folder, plan)
        self.local = FakeScratchStore(name="local")
        self.remote = FakeScratchStore(name="s3://b/p")
        self.services = ScratchServices(
            local=self.local, keys={"c": CacheKeys(key, ("k-",))}, remote=self.remote if shared else None
        )
        self.folders = 0

    @property
    def scratch_caches(self) -> ScratchCaches:
        return self.app.workspaces.scratch_caches

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Run the body, then wait for the saves to the shared store."""
        object.__setattr__(self.app.services, "scratch", self.services)
        async with anyio.create_task_group() as group:
            await self.scratch_caches.open(self.plan, group)
            yield

    def step(self, name: str) -> Step:
        return next(planned.step for planned in self.plan.steps if planned.step.id == f"w.{name}")

    async def start(self, name: str) -> Path:
        """Prepare the step. Returns the folder from which it starts."""
        step = self.step(name)
        await self.scratch_caches.prepare(step)
        (mount,) = step.mounts
        assert isinstance(mount, ScratchMount)
        content = self.scratch_caches.content(step, mount)
        if isinstance(step.on, Pod):
            assert read_folder(Path(content.folder)) == content.tree
        return Path(content.folder)

    async def returns(self, name: str, tree: Tree = NEW, contents: dict[str, bytes] | None = None) -> None:
        """Let the step's pod succeed; download the tree if a download is wanted."""
        folder = await self.scratch_caches.download_folder(self.step(name), 1, "c")
        if folder:
            make_folder(Path(folder), tree, contents or {"new": b"new"})
            await self.scratch_caches.save_download(self.step(name), 1, "c", CacheContent(folder, tree))

    async def save(self, store: FakeScratchStore, key: str, hours: float = 0.0) -> None:
        """Save the tree OLD to a store, as made this many hours after the others."""
        self.folders += 1
        folder = self.path / f"made{self.folders}"
        make_folder(folder, OLD, {"old": b"old"})
        await store.save("c", ScratchEntry(key, LATER + timedelta(hours=hours)), OLD, str(folder))
        store.calls.clear()

    @property
    def events(self) -> list[Event]:
        kinds = (RemoteCacheDisabled, Noted, ScratchMissed, ScratchNotSaved, ScratchRestored, ScratchSaved)
        return [event for event in self.app.ledger.events if isinstance(event, kinds)]

    @property
    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self.events]


POD = plan_of(("a", True, ()))


async def test_a_miss_starts_empty_and_saves(tmp_path: Path) -> None:
    """Without a matching entry the step starts from an empty folder, and its content is saved to both stores."""
    scene = Scene(tmp_path, POD)
    async with scene.open():
        assert read_folder(await scene.start("a")) == Tree()
        await scene.returns("a")
    assert scene.kinds == ["ScratchMissed", "ScratchSaved", "ScratchSaved"]
    assert [event.store for event in scene.events if isinstance(event, ScratchSaved)] == ["local", "remote"]
    for store in (scene.local, scene.remote):
        ((entry, tree, _),) = store.entries.archives.values()
        assert (entry.key, tree) == ("k", NEW)


@pytest.mark.parametrize("where", ["local", "remote"])
async def test_exact_entry_is_restored(tmp_path: Path, where: str) -> None:
    """An entry of the key is restored, from the local store if it is there; nothing is downloaded or saved."""
    scene = Scene(tmp_path, POD)
    await scene.save(scene.remote, "k")
    if where == "local":
        await scene.save(scene.local, "k")
    await scene.save(scene.local, "k-newer", hours=9)
    async with scene.open():
        assert read_folder(await scene.start("a")) == OLD
        assert await scene.scratch_caches.download_folder(scene.step("a"), 1, "c") == ""
    (restored,) = scene.events
    assert isinstance(restored, ScratchRestored)
    assert (restored.entry_key, restored.store, restored.files, restored.bytes) == ("k", where, 1, 3)
    assert ("c", "k") in scene.local.entries.archives
    assert scene.remote.calls == ([] if where == "local" else ["find", "restore"])


async def test_newest_entry_of_a_prefix_is_restored(tmp_path: Path) -> None:
    """The newest entry of both stores is restored, and saved locally if it is from the shared store."""
    scene = Scene(tmp_path, POD)
    await scene.save(scene.local, "k-1", hours=1)
    await scene.save(scene.remote, "k-2", hours=2)
    async with scene.open():
        await scene.start("a")
        await scene.returns("a")
    restored = scene.events[0]
    assert isinstance(restored, ScratchRestored)
    assert (restored.key, restored.entry_key, restored.store) == ("k", "k-2", "remote")
    assert {key for _, key in scene.local.entries.archives} == {"k", "k-1", "k-2"}
    assert {key for _, key in scene.remote.entries.archives} == {"k", "k-2"}


async def test_restored_once_a_run(tmp_path: Path) -> None:
    """If several steps start at the same time, the stores are read once and all start from the same content."""
    plan = plan_of(*((name, True, ()) for name in "abcdef"))
    scene = Scene(tmp_path, plan)
    await scene.save(scene.local, "k")
    async with scene.open(), anyio.create_task_group() as group:
        for name in "abcdef":
            group.start_soon(scene.start, name)
    assert scene.local.calls == ["find", "restore"]
    assert scene.kinds == ["ScratchRestored"]


async def test_damaged_entries_are_skipped(tmp_path: Path) -> None:
    """A damaged entry is noted and the next one is tried; at most five are tried."""
    scene = Scene(tmp_path, POD)
    for hour in range(8):
        await scene.save(scene.local, f"k-{hour}", hours=hour)
    await scene.save(scene.local, "k")
    scene.local.damaged = {"k", "k-7", "k-6"}
    async with scene.open():
        assert read_folder(await scene.start("a")) == OLD
    assert scene.kinds == ["Noted", "Noted", "Noted", "ScratchRestored"]
    restored = scene.events[-1]
    assert isinstance(restored, ScratchRestored)
    assert restored.entry_key == "k-5"
    again = Scene(tmp_path / "again", POD)
    (tmp_path / "again").mkdir()
    again.local.entries = scene.local.entries
    again.local.damaged = {"k", *(f"k-{hour}" for hour in range(8))}
    async with again.open():
        assert read_folder(await again.start("a")) == Tree()
    assert again.kinds == ["Noted"] * 5 + ["ScratchMissed"]


@pytest.mark.parametrize("error", [StoreError("/cache", "No space left"), TreeError("f", "io", "Too many open files")])
async def test_local_errors_skip_an_entry(tmp_path: Path, error: Exception) -> None:
    """An error of this machine during a restore or a local save is noted and fails no step."""
    scene = Scene(tmp_path, POD)
    await scene.save(scene.local, "k")
    await scene.save(scene.remote, "k")
    scene.local.fails = {"restore": [error], "save": [error]}
    async with scene.open():
        assert read_folder(await scene.start("a")) == OLD
    assert scene.kinds == ["Noted", "Noted", "ScratchRestored"]
    assert all(str(error) in event.message for event in scene.events if isinstance(event, Noted))


async def test_local_errors_of_all_entries_start_empty(tmp_path: Path) -> None:
    """If no entry can be restored, the step starts from an empty folder."""
    scene = Scene(tmp_path, POD, shared=False)
    await scene.save(scene.local, "k")
    scene.local.fails = {"restore": [TreeError("f", "io", "Too many open files")]}
    async with scene.open():
        assert read_folder(await scene.start("a")) == Tree()
    assert scene.kinds == ["Noted", "ScratchMissed"]


async def test_unavailable_from_the_start(tmp_path: Path) -> None:
    """A shared store that did not answer at the start is noted once and not used."""
    scene = Scene(tmp_path, POD, shared=False)
    object.__setattr__(scene.services, "unavailable", GONE)
    async with scene.open():
        await scene.start("a")
        await scene.returns("a")
    assert scene.kinds == ["RemoteCacheDisabled", "ScratchMissed", "ScratchSaved"]
    degraded = scene.events[0]
    assert isinstance(degraded, RemoteCacheDisabled)
    assert (degraded.store, degraded.reason) == ("s3://b/p", "the connection failed")
    assert scene.app.reporter.notes[0] == ("", "continues without the scratch store s3://b/p: the connection failed")


async def test_unavailable_midway(tmp_path: Path) -> None:
    """A shared store that fails during the run is noted once and not used any more; the run continues."""
    for call in ("find", "find_by_prefix", "save"):
        (tmp_path / call).mkdir()
        scene = Scene(tmp_path / call, POD)
        scene.remote.fails = {call: [GONE]}
        async with scene.open():
            await scene.start("a")
            await scene.returns("a")
        assert scene.kinds.count("RemoteCacheDisabled") == 1
        assert scene.remote.calls[-1] == call
        assert ("c", "k") in scene.local.entries.archives
        not_saved = [event for event in scene.events if isinstance(event, ScratchNotSaved)]
        assert [(event.store, event.reason) for event in not_saved] == (
            [("remote", "s3://b/p: the connection failed")] if call == "save" else []
        )


async def test_unavailability_is_recorded_once(tmp_path: Path) -> None:
    """Two concurrent requests that fail cause one note and one event."""
    scene = Scene(tmp_path, POD)
    async with scene.open():
        for _ in range(2):
            await scene.scratch_caches._stores.disable_remote(GONE.path, GONE.message)
        assert scene.scratch_caches._stores._store("remote") is None
    assert scene.kinds == ["RemoteCacheDisabled"]


async def test_notes_of_the_reporter(tmp_path: Path) -> None:
    """Each event of a cache is one note: where it was restored from, its key, and what was not saved."""
    scene = Scene(tmp_path, plan_of(("a", True, ()), ("b", True, ())))
    await scene.save(scene.remote, "k-1")
    async with scene.open():
        await scene.start("a")
        await scene.returns("a")
        await scene.returns("b")
    assert sorted(scene.app.reporter.notes) == [
        ("", "scratch cache c: 1 files, 3 bytes restored from k-1 in the shared store"),
        ("w.a", "scratch cache c: saved as k in the cache folder"),
        ("w.a", "scratch cache c: saved as k in the shared store"),
        ("w.b", "scratch cache c: not saved as k in the cache folder: the content from w.a was saved first"),
    ]


async def test_read_only_store_is_not_saved_to(tmp_path: Path) -> None:
    """Nothing is saved to a read-only shared store, and no note says so."""
    scene = Scene(tmp_path, POD)
    scene.remote.read_only = True
    async with scene.open():
        await scene.start("a")
        await scene.returns("a")
    assert scene.kinds == ["ScratchMissed", "ScratchSaved"]
    assert scene.remote.calls == ["find", "find_by_prefix"]


async def test_first_download_is_saved(tmp_path: Path) -> None:
    """Of several pods the content that is downloaded first is saved; the others are recorded as not saved."""
    scene = Scene(tmp_path, plan_of(("a", True, ()), ("b", True, ()), ("d", True, ())), shared=False)
    async with scene.open():
        for name in "abd":
            assert read_folder(await scene.start(name)) == Tree()
        first, second = [await scene.scratch_caches.download_folder(scene.step(name), 1, "c") for name in "ab"]
        make_folder(Path(second), NEW, {"new": b"new"})
        make_folder(Path(first), OLD, {"old": b"old"})
        await scene.scratch_caches.save_download(scene.step("b"), 1, "c", CacheContent(second, NEW))
        await scene.scratch_caches.save_download(scene.step("a"), 1, "c", CacheContent(first, OLD))
        assert await scene.scratch_caches.download_folder(scene.step("d"), 1, "c") == ""
        assert read_folder(await scene.start("d")) == Tree()
    ((_, tree, _),) = scene.local.entries.archives.values()
    assert tree == NEW
    said = [(event.step, event.reason) for event in scene.events if isinstance(event, ScratchNotSaved)]
    assert said == [(step, "the content from w.b was saved first") for step in ("w.a", "w.d")]


async def test_lost_download_is_not_saved(tmp_path: Path) -> None:
    """A content that could not be downloaded is not saved, and a later step may be."""
    scene = Scene(tmp_path, plan_of(("a", True, ()), ("b", True, ())), shared=False)
    async with scene.open():
        await scene.start("a")
        await scene.scratch_caches.download_folder(scene.step("a"), 2, "c")
        await scene.scratch_caches.record_lost(scene.step("a"), 2, "c", "the pod went away")
        assert scene.local.entries.archives == {}
        await scene.start("b")
        await scene.returns("b")
    assert scene.kinds == ["ScratchMissed", "ScratchNotSaved", "ScratchSaved"]
    lost = scene.events[1]
    assert isinstance(lost, ScratchNotSaved)
    assert (lost.step, lost.attempt, lost.reason) == ("w.a", 2, "it was not downloaded: the pod went away")


async def test_entry_of_another_run_is_kept(tmp_path: Path) -> None:
    """If another run has saved the key meanwhile, its entry stays in both stores, and that is recorded."""
    for store in ("local", "remote"):
        (tmp_path / store).mkdir()
        scene = Scene(tmp_path / store, POD)
        async with scene.open():
            await scene.start("a")
            await scene.save(scene.local if store == "local" else scene.remote, "k")
            await scene.returns("a")
        (said,) = [event for event in scene.events if isinstance(event, ScratchNotSaved)]
        who = {"local": "another run on this machine", "remote": "another coordinator"}[store]
        assert (said.store, said.reason) == (store, f"{who} saved it first")


@pytest.mark.parametrize("error", [StoreError("/cache", "No space left"), TreeError("f", "changed", "it changed")])
async def test_full_disk_saves_nothing(tmp_path: Path, error: Exception) -> None:
    """A full disk fails no step, and a later step may be saved."""
    scene = Scene(tmp_path, plan_of(("a", True, ()), ("b", True, ())), shared=False)
    scene.local.fails = {"save": [error]}
    async with scene.open():
        for name in "ab":
            await scene.start(name)
            await scene.returns(name)
    assert scene.kinds == ["ScratchMissed", "ScratchNotSaved", "ScratchSaved"]
    lost = scene.events[1]
    assert isinstance(lost, ScratchNotSaved)
    assert lost.reason == str(error)


async def test_error_of_one_shared_entry_is_recorded(tmp_path: Path) -> None:
    """An error of one entry of the shared store is recorded, and the store is still used."""
    scene = Scene(tmp_path, POD)
    scene.remote.fails = {"save": [StoreError("s3://b/p/scratch/c/entry/k.json", "this is not an entry of senro")]}
    async with scene.open():
        await scene.start("a")
        await scene.returns("a")
    assert scene.kinds == ["ScratchMissed", "ScratchSaved", "ScratchNotSaved"]


async def test_shared_entry_is_used_without_a_local_copy(tmp_path: Path) -> None:
    """An entry of the shared store is used also if it cannot be saved locally."""
    scene = Scene(tmp_path, POD)
    await scene.save(scene.remote, "k")
    scene.local.fails = {"save": [StoreError("/cache", "No space left")]}
    async with scene.open():
        assert read_folder(await scene.start("a")) == OLD
    assert scene.kinds == ["Noted", "ScratchRestored"]


HAND_OVER = plan_of(("a", False, ()), ("b", True, ("a",)), ("d", False, ("b",)), ("e", False, ("d",)))


async def test_content_passes_between_local_steps_and_pods(tmp_path: Path) -> None:
    """A pod starts from what the local step before it left, a local step from what was downloaded from the pod."""
    scene = Scene(tmp_path, HAND_OVER)
    async with scene.open():
        folder = await scene.start("a")
        make_folder(folder, OLD, {"old": b"old"})
        await scene.scratch_caches.save_local(scene.step("a"), 1)
        assert read_folder(await scene.start("b")) == OLD
        await scene.returns("b")
        last = await scene.start("d")
        assert read_folder(last) == NEW
        assert await scene.start("e") == last
        await scene.scratch_caches.save_local(scene.step("d"), 1)
        assert read_folder(folder) == OLD
    for store in (scene.local, scene.remote):
        ((_, tree, _),) = store.entries.archives.values()
        assert tree == OLD


async def test_content_is_passed_on_with_an_exact_entry(tmp_path: Path) -> None:
    """With an exact entry nothing is saved, but downloads are passed on to local steps all the same."""
    scene = Scene(tmp_path, HAND_OVER)
    await scene.save(scene.local, "k")
    async with scene.open():
        folder = await scene.start("a")
        assert read_folder(folder) == OLD
        await scene.scratch_caches.save_local(scene.step("a"), 1)
        await scene.start("b")
        await scene.returns("b")
        assert read_folder(await scene.start("d")) == NEW
    assert scene.kinds == ["ScratchRestored"]


async def test_without_a_download_the_local_content_stays(tmp_path: Path) -> None:
    """Without a download the next local step continues with the content of the last one."""
    scene = Scene(tmp_path, HAND_OVER)
    async with scene.open():
        make_folder(await scene.start("a"), OLD, {"old": b"old"})
        await scene.start("b")
        assert read_folder(await scene.start("d")) == OLD


async def test_last_download_is_passed_on(tmp_path: Path) -> None:
    """A local step after several pods starts from the last download; pods do not see each other's changes."""
    scene = Scene(tmp_path, plan_of(("a", True, ()), ("b", True, ("a",)), ("d", False, ("a", "b"))))
    async with scene.open():
        await scene.start("a")
        await scene.returns("a", OLD, {"old": b"old"})
        assert read_folder(await scene.start("b")) == Tree()
        await scene.returns("b")
        assert read_folder(await scene.start("d")) == NEW


async def test_unreadable_local_content_starts_a_pod_empty(tmp_path: Path) -> None:
    """If what a local step left cannot be read, the pod after it starts from an empty folder."""
    scene = Scene(tmp_path, HAND_OVER)
    async with scene.open():
        make_folder(await scene.start("a"), OLD, {"old": b"old"})
        walk = scene.app.services.trees.walk

        async def unreadable(*_: Any, **__: Any) -> Tree:
            raise TreeError("old", "unreadable", "it cannot be read")

        object.__setattr__(scene.app.services.trees, "walk", unreadable)
        await scene.scratch_caches.save_local(scene.step("a"), 1)
        await scene.scratch_caches.prepare(scene.step("b"))
        object.__setattr__(scene.app.services.trees, "walk", walk)
        (mount,) = scene.step("b").mounts
        assert isinstance(mount, ScratchMount)
        assert scene.scratch_caches.content(scene.step("b"), mount).tree == Tree()
    assert scene.kinds == ["ScratchMissed", "ScratchNotSaved", "Noted"]


async def test_no_snapshot_step_works_in_a_copy(tmp_path: Path) -> None:
    """A local step whose changes are not kept works in a copy, of which nothing is saved."""
    scene = Scene(tmp_path, plan_of(("a", False, ()), ("b", False, ("a",)), no_snapshot=True))
    async with scene.open():
        folder = await scene.start("a")
        make_folder(folder, NEW, {"new": b"new"})
        await scene.scratch_caches.save_local(scene.step("a"), 1)
        assert read_folder(await scene.start("b")) == Tree()
    assert scene.kinds == ["ScratchMissed"]


@pytest.mark.parametrize("moment", ["walked", "copied"])
async def test_no_snapshot_step_concurrent_to_a_writer(tmp_path: Path, moment: str) -> None:
    """If the copy fails because another step writes, the step starts from an empty folder, and that is noted."""
    pipeline = Pipeline("p")
    workflow = pipeline.workflow("w")
    workflow.step("a", ["true"], mounts=[CACHE.at("/c")], on=local())
    workflow.step("b", ["true"], mounts=[CACHE.at("/c")], on=local(), no_snapshot=True)
    scene = Scene(tmp_path, pipeline.build(), shared=False)
    async with scene.open():
        shared = await scene.start("a")
        make_folder(shared, OLD, {"old": b"old"})
        walk = scene.app.services.trees.walk

        async def beside_a_writer(folder: str, **options: Any) -> Tree:
            tree = await walk(folder, **options)
            (shared / "old").write_bytes(b"written meanwhile")
            if moment == "walked":
                raise TreeError("old", "changed", "the file changed while it was read")
            return tree

        object.__setattr__(scene.app.services.trees, "walk", beside_a_writer)
        own = await scene.start("b")
        assert own != shared
        assert read_folder(own) == Tree()
    assert scene.kinds == ["ScratchMissed", "Noted"]
    ((step, note),) = [said for said in scene.app.reporter.notes if "starts empty" in said[1]]
    assert (step, "old: " in note) == ("w.b", True)


async def test_local_content_is_walked_once_for_all_pods(tmp_path: Path) -> None:
    """What local steps left is walked for the first pod after them, and again only after another local step."""
    steps = (("a", False, ()), *((pod, True, ("a",)) for pod in "bcd"), ("e", False, ("b", "c", "d")))
    scene = Scene(tmp_path, plan_of(*steps, ("f", True, ("e",)), ("g", True, ("e",))), shared=False)
    async with scene.open():
        folder = await scene.start("a")
        make_folder(folder, OLD, {"old": b"old"})
        walk, walked = scene.app.services.trees.walk, []

        async def counted(folder: str, **options: Any) -> Tree:
            walked.append(folder)
            return await walk(folder, **options)

        object.__setattr__(scene.app.services.trees, "walk", counted)
        for pod in "bcd":
            assert read_folder(await scene.start(pod)) == OLD
        assert len(walked) == 1
        (await scene.start("e") / "new").write_bytes(b"new")
        (folder / "old").unlink()
        for pod in "fg":
            assert read_folder(await scene.start(pod)) == NEW
        assert len(walked) == 2


async def test_shared_save_uses_the_local_entry(tmp_path: Path) -> None:
    """The shared store gets what was saved locally, even if later local steps change their folder meanwhile."""
    scene = Scene(tmp_path, plan_of(("a", False, ()), ("b", False, ("a",))))
    async with scene.open():
        folder = await scene.start("a")
        make_folder(folder, OLD, {"old": b"old"})
        await scene.scratch_caches.save_local(scene.step("a"), 1)
        make_folder(folder, NEW, {"new": b"new"})
    ((_, tree, _),) = scene.remote.entries.archives.values()
    assert tree == OLD


async def test_cancelled_save_frees_the_key(tmp_path: Path) -> None:
    """After a cancelled save another step's content may be saved."""
    scene = Scene(tmp_path, plan_of(("a", True, ()), ("b", True, ())), shared=False)
    async with scene.open():
        await scene.start("a")
        scene.local.hangs = {"save"}
        with anyio.move_on_after(0.01):
            await scene.returns("a")
        scene.local.hangs = set()
        await scene.start("b")
        await scene.returns("b")
    assert scene.kinds == ["ScratchMissed", "ScratchSaved"]


async def test_plan_with_caches_needs_a_store(tmp_path: Path) -> None:
    """A plan with caches needs a store; one without caches does not."""
    scene = Scene(tmp_path, POD)
    async with anyio.create_task_group() as group:
        with pytest.raises(RuntimeError, match="there is no store"):
            await scene.scratch_caches.open(POD, group)
    pipeline = Pipeline("p")
    pipeline.workflow("w").step("a", ["true"])
    plain = Scene(tmp_path, pipeline.build())
    async with anyio.create_task_group() as group:
        await plain.scratch_caches.open(plain.plan, group)
        await plain.scratch_caches.prepare(plain.step("a"))
    assert isinstance(plain.local.entries, ScratchEntries)
