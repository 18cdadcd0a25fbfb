"""Persistent workspaces from run to run."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from senro.adapters.fs import FolderPersistentStore
from senro.adapters.fs.removal import remove_folder
from senro.cli.reporters.closing_summary import summary_lines
from senro.domain.caches.persistent import PersistentRecord
from senro.domain.errors import StoreError, TreeError
from senro.domain.pipeline.step import Step
from senro.domain.pipeline.targets import local
from senro.domain.pipeline.workspace import Workspace
from senro.domain.run.events import Noted, SnapshotTaken, WorkspaceEvicted, WorkspaceOpened
from senro.domain.tree.tree import Tree
from senro.ports.persistent import WorkspaceLock
from senro.ports.reporter import RunSummary
from tests.lib.archives.files import names
from tests.lib.builders.stores import without
from tests.lib.fakes.ledger import RUN_ID
from tests.lib.harness.app import App, pod_plan

pytestmark = pytest.mark.anyio

DAY = 86_400.0


class Scene:
    """One cache folder for several runs, whose step mounts `deps`, with the initial content `project`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "project").mkdir()
        (folder / "project" / "first").write_bytes(b"1")
        self.hours = 0.0
        self.events: list[Any] = []

    @property
    def place(self) -> Path:
        return self.folder / "cache" / "persistent" / "deps"

    @property
    def content(self) -> Path:
        return self.place / "content"

    def of(self, kind: type[Any]) -> list[Any]:
        """The events of the last run."""
        return [event for event in self.events if isinstance(event, kind)]

    def record(self) -> PersistentRecord:
        return msgspec.json.decode((self.place / "record.json").read_bytes(), type=PersistentRecord)

    @asynccontextmanager
    async def run(
        self, *, max_age: float = DAY, max_size: int = 10**6, mode: Any = "rw", on: Any = None, **step: Any
    ) -> AsyncIterator[App]:
        """Open a run, `hours` after midnight; `App.workspaces.release` ends it."""
        deps = Workspace("deps", path="project", scope="persistent", max_age=max_age, max_size=max_size)
        plan = pod_plan(mounts=[deps.at("/deps", mode)], on=on or local(), workdir="/deps", **step)
        app = App(self.folder, plan)
        app.clock.move(self.hours * 3600)
        async with FolderPersistentStore(str(self.folder / "cache")).lock("deps", since="now") as lock:
            object.__setattr__(app.services, "persistent", {"deps": lock})
            await app.workspaces.open(plan)
            try:
                yield app
            finally:
                self.events = list(app.ledger.events)

    async def whole(self, name: str, **options: Any) -> App:
        """A complete run whose step writes a file of this name."""
        async with self.run(**options) as app:
            step = step_of(app)
            await app.workspaces.prepare(step, again=False)
            (self.content / name).write_bytes(name.encode())
            await app.workspaces.keep(step, 1)
            await app.workspaces.release()
        return app


def step_of(app: App) -> Step:
    return app.plan.steps[0].step


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def test_content_stays_from_run_to_run(scene: Scene) -> None:
    """The second run starts from the content of the first, in the same folder; the initial content is copied once."""
    app = await scene.whole("a")
    assert [event.reused for event in scene.of(WorkspaceOpened)] == [False]
    assert app.workspaces.summary(app.plan)["deps"][1] == str(scene.content)
    (scene.folder / "project" / "second").write_bytes(b"2")
    await scene.whole("b")
    assert names(scene.content) == ["a", "b", "first"]
    (opened,) = scene.of(WorkspaceOpened)
    assert (opened.reused, opened.files) == (True, 2)
    assert names(scene.place) == ["content", "holder.json", "lock", "record.json"]
    assert scene.record().released


async def test_opened_digest_is_that_of_the_last_run(scene: Scene) -> None:
    """The digest that a run opens with is in its ledger, and is that of the previous run's snapshot."""
    await scene.whole("a")
    (left,) = scene.of(SnapshotTaken)
    async with scene.run():
        pass
    (opened,) = scene.of(WorkspaceOpened)
    assert opened.digest == left.digest


async def test_too_old_content_is_evicted_at_the_start(scene: Scene) -> None:
    """Content older than max_age, counted from its creation, is replaced by the initial content."""
    await scene.whole("a")
    scene.hours = 20
    await scene.whole("b")
    assert scene.of(WorkspaceEvicted) == []
    scene.hours = 25
    async with scene.run() as app:
        (evicted,) = [event for event in app.ledger.events if isinstance(event, WorkspaceEvicted)]
        assert (evicted.workspace, evicted.bound, evicted.limit, evicted.when) == ("deps", "max_age", DAY, "before_run")
        assert evicted.measured == 25 * 3600
        assert names(scene.content) == ["first"]
        assert app.reporter.notes == [
            ("", "the persistent workspace deps is evicted: it is 1d 1h old, and max_age is 1d")
        ]
        assert [type(event) for event in app.ledger.events] == [WorkspaceEvicted, WorkspaceOpened]


async def test_too_large_content_is_evicted_at_the_end(scene: Scene) -> None:
    """Content larger than max_size after the last step is evicted, and the summary has no folder for it."""
    app = await scene.whole("a" * 50, max_size=50)
    (evicted,) = scene.of(WorkspaceEvicted)
    assert (evicted.bound, evicted.limit, evicted.measured, evicted.when) == ("max_size", 50, 51, "after_run")
    assert names(scene.place) == ["holder.json", "lock"]
    digest, folder = app.workspaces.summary(app.plan)["deps"]
    assert (digest, folder) == (scene.of(SnapshotTaken)[0].digest, "")
    await scene.whole("b")
    assert names(scene.content) == ["b", "first"]


def test_summary_says_that_a_workspace_was_evicted() -> None:
    """The summary of a run shows `(evicted)` in place of the workspace's folder."""
    summary = RunSummary(
        run_id=RUN_ID, state="succeeded", folder="/r", seconds=1, rows=[], workspaces={"deps": ("sha256:1", "")}
    )
    assert "workspace deps   (evicted)  sha256:1" in [line.text for line in summary_lines(summary)]


async def test_nothing_is_evicted_during_a_step(scene: Scene) -> None:
    """Nothing is evicted before the release, whatever the size and the age."""
    async with scene.run(max_age=1, max_size=10) as app:
        step = step_of(app)
        await app.workspaces.prepare(step, again=False)
        (scene.content / "large").write_bytes(bytes(1000))
        app.clock.move(100)
        await app.workspaces.keep(step, 1)
        await app.workspaces.prepare(step, again=True)
        assert names(scene.content) == ["first", "large"]
        await app.workspaces.keep(step, 2)
        await app.workspaces.release()
    assert [event.when for event in scene.of(WorkspaceEvicted)] == ["after_run"]


async def test_smaller_bound_evicts_at_the_start(scene: Scene) -> None:
    """A run with a smaller max_size than the previous run evicts content that exceeds it."""
    await scene.whole("a" * 50)
    async with scene.run(max_size=50) as app:
        assert names(scene.content) == ["first"]
        assert [type(event) for event in app.ledger.events] == [WorkspaceEvicted, WorkspaceOpened]


async def test_bounds_of_a_killed_run_apply(scene: Scene) -> None:
    """The bounds of a killed run are applied by the next run, even if its own are wider."""
    async with scene.run(max_size=50) as app:
        step = step_of(app)
        await app.workspaces.prepare(step, again=False)
        (scene.content / "large").write_bytes(bytes(1000))
        await app.workspaces.keep(step, 1)
    async with scene.run():
        assert names(scene.content) == ["first"]
    (evicted,) = scene.of(WorkspaceEvicted)
    assert (evicted.bound, evicted.limit, evicted.measured) == ("max_size", 50, 1001)


async def test_bounds_of_a_released_run_do_not_apply(scene: Scene) -> None:
    """Content that a run kept at its end is judged by the bounds of the next run only."""
    await scene.whole("a", max_age=3600)
    scene.hours = 2
    async with scene.run():
        assert names(scene.content) == ["a", "first"]


async def test_changes_of_a_killed_step_are_undone(scene: Scene) -> None:
    """The next run restores the content from before the step that was running when its run was killed."""
    await scene.whole("a")
    async with scene.run() as app:
        await app.workspaces.prepare(step_of(app), again=False)
        (scene.content / "half").write_bytes(b"")
        (scene.content / "a").unlink()
    assert scene.record().changing
    async with scene.run():
        assert names(scene.content) == ["a", "first"]
    (note,) = scene.of(Noted)
    assert f"the run {RUN_ID} was killed while a step changed the workspace deps" in note.message


@pytest.mark.parametrize("mode", ["rw", "ro"])
async def test_changes_of_a_cancelled_step_are_undone(scene: Scene, mode: str) -> None:
    """A cancelled run does not release content that a step was changing; the next run restores it."""
    await scene.whole("a")
    async with scene.run(mode=mode) as app:
        await app.workspaces.prepare(step_of(app), again=False)
        (scene.content / "half").write_bytes(b"")
        await app.workspaces.release()
    assert not scene.record().released
    async with scene.run():
        assert names(scene.content) == ["a", "first"]


async def test_killed_step_without_its_snapshot_evicts(scene: Scene) -> None:
    """If the snapshot from before the killed step is lost, the content is evicted."""
    await scene.whole("a")
    async with scene.run() as app:
        await app.workspaces.prepare(step_of(app), again=False)
        (scene.content / "half").write_bytes(b"")
    for path in (scene.folder / "cache" / "index").rglob("*"):
        if path.is_file():
            path.unlink()
    async with scene.run():
        assert names(scene.content) == ["first"]
    (evicted,) = scene.of(WorkspaceEvicted)
    assert (evicted.bound, evicted.limit, evicted.measured, evicted.when) == ("unfinished", 0, 0, "before_run")


@pytest.mark.parametrize("kind", ["index", "body"])
async def test_unreadable_snapshot_evicts_nothing(scene: Scene, kind: str) -> None:
    """If the snapshot cannot be read, the run fails and nothing is evicted; a later run may restore it."""
    await scene.whole("a")
    async with scene.run() as app:
        await app.workspaces.prepare(step_of(app), again=False)
        (scene.content / "half").write_bytes(b"")
    with pytest.MonkeyPatch.context() as patched:
        without(patched, kind, errno.EMFILE)
        with pytest.raises((StoreError, TreeError), match="Too many open files"):
            async with scene.run():
                pass
    async with scene.run():
        assert names(scene.content) == ["a", "first"]
    assert scene.of(WorkspaceEvicted) == []


async def test_leftover_of_a_restore_is_noted(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the content of a killed step cannot be removed, the snapshot is restored all the same, and that is noted."""
    await scene.whole("a")
    async with scene.run() as app:
        await app.workspaces.prepare(step_of(app), again=False)
        (scene.content / "half").write_bytes(b"")

    def refusing(folder: Path) -> Generator[None, None, None]:
        if folder.name.endswith(".old"):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(folder))
        yield from remove_folder(folder)

    monkeypatch.setattr("senro.adapters.fs.staged_directory.remove_folder", refusing)
    async with scene.run():
        assert names(scene.content) == ["a", "first"]
    assert "it could not be removed (Device or resource busy); remove it by hand" in scene.of(Noted)[0].message


async def test_restored_folder_is_accessible(scene: Scene) -> None:
    """If the killed step removed the rights of the folder, the restored folder has the usual mode."""
    await scene.whole("a")
    async with scene.run() as app:
        await app.workspaces.prepare(step_of(app), again=False)
        scene.content.chmod(0o055)
    async with scene.run():
        assert names(scene.content) == ["a", "first"]
        assert scene.content.stat().st_mode & 0o777 == 0o755


async def test_content_without_a_snapshot_is_evicted(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Content whose first snapshot was never stored is evicted."""

    async def killed(*_: object) -> str:
        raise StoreError("x", "killed")

    with monkeypatch.context() as patched:
        patched.setattr("senro.adapters.fs.FolderContentStore.put", killed)
        with pytest.raises(StoreError):
            async with scene.run():
                pass
    (scene.content / "half").write_bytes(b"")
    async with scene.run():
        assert names(scene.content) == ["first"]
    assert [event.bound for event in scene.of(WorkspaceEvicted)] == ["unfinished"]


async def test_retried_local_step_starts_from_the_snapshot(scene: Scene) -> None:
    """Each attempt starts from the same content, and the next run from what the last attempt left."""
    await scene.whole("a")
    async with scene.run() as app:
        step = step_of(app)
        await app.workspaces.prepare(step, again=False)
        (scene.content / "one").write_bytes(b"")
        await app.workspaces.prepare(step, again=True)
        assert names(scene.content) == ["a", "first"]
        (scene.content / "two").write_bytes(b"")
        await app.workspaces.restore(step)
        assert not scene.record().changing
        await app.workspaces.release()
    async with scene.run():
        assert names(scene.content) == ["a", "first"]


async def test_change_through_a_read_only_mount_is_undone(scene: Scene) -> None:
    """A change through a read-only mount is detected and undone."""
    await scene.whole("a")
    async with scene.run(mode="ro") as app:
        step = step_of(app)
        await app.workspaces.prepare(step, again=False)
        assert scene.record().changing
        (scene.content / "written").write_bytes(b"")
        assert await app.workspaces.undo_read_only_changes(step) == ("deps",)
        assert not scene.record().changing
        await app.workspaces.release()
    async with scene.run():
        assert names(scene.content) == ["a", "first"]


async def test_failed_release_is_noted(scene: Scene) -> None:
    """An error at the release becomes a note; the next run applies the bounds."""
    async with scene.run(max_size=1) as app:
        (scene.content / "more").write_bytes(b"22")
        await app.workspaces.keep(step_of(app), 1)
        lock: WorkspaceLock = app.services.persistent["deps"]

        async def refused() -> None:
            raise StoreError(lock.folder, "no")

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(lock, "evict", refused)
            await app.workspaces.release()
    assert "the workspace deps could not be released; the next run does it" in scene.of(Noted)[0].message
    async with scene.run():
        assert names(scene.content) == ["first"]


async def test_without_path_the_content_is_empty(tmp_path: Path) -> None:
    """A workspace without `path` begins empty."""
    deps = Workspace("deps", scope="persistent", max_age=1, max_size=1)
    app = App(tmp_path, pod_plan(mounts=[deps.at("/deps")]))
    async with FolderPersistentStore(str(tmp_path / "cache")).lock("deps", since="now") as lock:
        object.__setattr__(app.services, "persistent", {"deps": lock})
        await app.workspaces.open(app.plan)
    (opened,) = app.ledger.events
    assert isinstance(opened, WorkspaceOpened)
    assert opened.digest == Tree().digest
