from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from senro.adapters.fs import FolderContentStore
from senro.app.workspaces.mount_transfer import returning_workspaces
from senro.domain.errors import PlanError, TreeError
from senro.domain.pipeline.step import Step
from senro.domain.pipeline.targets import local
from senro.domain.pipeline.workspace import ScratchCache, Workspace
from senro.domain.plan.pipeline import Pipeline
from senro.domain.plan.plan import Plan
from senro.domain.run.events import Noted, SnapshotTaken, WorkspaceOpened
from senro.domain.tree.content_rules import KEEP_EVERYTHING, ContentRules
from senro.domain.tree.excludes import DEFAULT_EXCLUDES
from senro.domain.tree.tree import Tree
from tests.lib.archives.files import directory, file, link, mode_of, names, read_folder
from tests.lib.builders.plans import RUNNER
from tests.lib.fakes.ledger import RUN_ID
from tests.lib.harness.app import App, pod_plan

pytestmark = pytest.mark.anyio

SRC = Workspace("src", path="src", exclude=["*.o"])
OUT = Workspace("out")
TMP = Workspace("tmp", path="src", scope="step")


class Scene:
    """A step that mounts a workspace of each kind, with the initial content `src`."""

    def __init__(self, folder: Path) -> None:
        (folder / "src" / ".git").mkdir(parents=True)
        for name in ("file", "main.o", ".git/HEAD"):
            (folder / "src" / name).write_bytes(name.encode())
        self.folder = folder
        plan = pod_plan(mounts=[SRC.at("/src"), OUT.at("/out"), TMP.at("/t", "ro")])
        self.app = App(folder, plan)
        self.workspaces = self.app.workspaces
        self.step: Step = plan.steps[0].step

    async def open(self) -> None:
        await self.workspaces.open(self.app.plan)
        self.mounts = await self.workspaces.prepare(self.step, again=False)

    def place(self, name: str) -> Path:
        return self.folder / "runs" / RUN_ID / "workspaces" / name

    def folder_of(self, index: int) -> Path:
        return Path(self.mounts[index].folder)


FIRST = Tree((file("file", b"file"),))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def test_initial_content_is_copied_and_recorded(scene: Scene) -> None:
    """The initial content is copied without excluded files, and recorded with its digest; the source is unchanged."""
    await scene.open()
    assert read_folder(scene.place("src")) == FIRST
    assert names(scene.place("out")) == []
    assert names(scene.folder / "src") == [".git", "file", "main.o"]
    opened = [event for event in scene.app.ledger.events if isinstance(event, WorkspaceOpened)]
    assert [(event.workspace, event.digest, event.files) for event in opened] == [
        ("src", FIRST.digest, 1),
        ("out", Tree().digest, 0),
        ("tmp", Tree((file("file", b"file"), file("main.o", b"main.o"))).digest, 2),
    ]


async def test_omitted_entries_are_counted_and_named(scene: Scene) -> None:
    """A fifo is omitted: the ledger has the number of omitted entries and names some of them."""
    for number in range(7):
        os.mkfifo(os.fsencode(scene.folder / "src") + b"/caf\xe9%d" % number)
    await scene.open()
    event = scene.app.ledger.events[0]
    assert isinstance(event, WorkspaceOpened)
    assert (event.files, event.omitted, len(event.omitted_sample)) == (1, 7, 5)
    assert all("caf" in name for name in event.omitted_sample)


async def test_invalid_initial_content_is_refused(scene: Scene) -> None:
    """A link out of the folder is refused by name."""
    (scene.folder / "src" / "out").symlink_to("/etc/passwd")
    with pytest.raises(TreeError, match="out: "):
        await scene.open()


def ignoring(folder: Path, **contents: str) -> App:
    """A run of workspaces, each with a `.senroignore`."""
    mounts = []
    for name, content in contents.items():
        (folder / name / "sub").mkdir(parents=True)
        for path in ("a.o", "sub/a.o", "keep"):
            (folder / name / path).write_bytes(path.encode())
        (folder / name / ".senroignore").write_text(content)
        mounts.append(Workspace(name, path=name, exclude=["keep"]).at(f"/{name}"))
    return App(folder, pod_plan(mounts=mounts))


async def test_ignore_file_applies_to_the_whole_run(tmp_path: Path) -> None:
    """Its patterns are added to those of the workspace, also for downloads; the file itself is copied."""
    app = ignoring(tmp_path, src="# objects\n**/*.o\n")
    await app.workspaces.open(app.plan)
    step = app.plan.steps[0].step
    assert names(tmp_path / "runs" / RUN_ID / "workspaces" / "src") == [".senroignore", "sub"]
    (src,) = app.workspaces.transfers(step)
    assert src.rules == ContentRules((*DEFAULT_EXCLUDES, "keep", "**/*.o"))


async def test_invalid_ignore_files_are_refused_together(tmp_path: Path) -> None:
    """All invalid lines of all workspaces are reported with their numbers, and no workspace is opened."""
    app = ignoring(tmp_path, src="!a\n", ok="b\n", out="\n/c\n")
    with pytest.raises(PlanError) as caught:
        await app.workspaces.open(app.plan)
    assert [one.where for one in caught.value.refusals] == ["src/.senroignore", "out/.senroignore"]
    assert "line 1: the pattern '!a' is a negation" in str(caught.value)
    assert "line 2: the pattern '/c' begins with" in str(caught.value)
    assert app.ledger.events == []


async def test_one_ignore_file_of_two_workspaces_is_refused_once(tmp_path: Path) -> None:
    """Two workspaces with the same initial folder have the same file, which is reported once."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / ".senroignore").write_text("!a\n")
    app = App(tmp_path, pod_plan(mounts=[SRC.at("/src"), TMP.at("/t")]))
    with pytest.raises(PlanError) as caught:
        await app.workspaces.open(app.plan)
    assert len(caught.value.refusals) == 1


async def test_links_of_the_initial_content(tmp_path: Path) -> None:
    """Kept links are copied as links; followed links are replaced by copies, and omissions are recorded once."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "f").write_bytes(b"f")
    (tmp_path / "src" / "l").symlink_to("f")
    os.mkfifo(tmp_path / "src" / "fifo")
    kept, plain = Workspace("kept", path="src", links="keep"), Workspace("plain", path="src", preserve_symlinks=False)
    app = App(tmp_path, pod_plan(mounts=[kept.at("/k"), plain.at("/p")]))
    await app.workspaces.open(app.plan)
    folder = tmp_path / "runs" / RUN_ID / "workspaces"
    trees = {"kept": Tree((file("f", b"f"), link("l", "f"))), "plain": Tree((file("f", b"f"), file("l", b"f")))}
    assert {name: read_folder(folder / name) for name in trees} == trees
    opened = [event for event in app.ledger.events if isinstance(event, WorkspaceOpened)]
    assert {event.workspace: event.digest for event in opened} == {name: tree.digest for name, tree in trees.items()}
    assert [event.omitted_sample for event in opened] == [("fifo: a fifo",)] * 2
    mounts = app.workspaces.transfers(app.plan.steps[0].step)
    assert [each.tree for each in mounts] == list(trees.values())


async def test_scratch_cache_excludes_nothing(tmp_path: Path) -> None:
    """Of a scratch cache nothing is excluded, and links are kept."""
    cache = ScratchCache("mod", key="x")
    app = App(tmp_path, pod_plan(mounts=[OUT.at("/out"), cache.at("/mod")]))
    await app.workspaces.open(app.plan)
    rules = [app.workspaces._rules_of(mount) for mount in app.plan.steps[0].step.mounts]
    assert rules == [ContentRules(DEFAULT_EXCLUDES), KEEP_EVERYTHING]


async def test_folder_of_the_runs_is_excluded(tmp_path: Path) -> None:
    """With `path="."` the initial content does not contain earlier runs."""
    (tmp_path / "file").write_bytes(b"1")
    app = App(tmp_path, pod_plan(mounts=[Workspace("all", path=".").at("/all")]))
    await app.workspaces.open(app.plan)
    assert names(tmp_path / "runs" / RUN_ID / "workspaces" / "all") == ["file"]


async def test_run_folders_in_the_path_are_excluded(tmp_path: Path) -> None:
    """If the folders of runs are in `path` itself, the initial content contains none of them."""
    base = tmp_path / "runs"
    (base / "20261129T231308Z-0a1b2c" / "workspaces").mkdir(parents=True)
    (base / "file").write_bytes(b"1")
    app = App(tmp_path, pod_plan(mounts=[Workspace("all", path="runs").at("/all")]))
    await app.workspaces.open(app.plan)
    assert names(base / RUN_ID / "workspaces" / "all") == ["file"]


async def test_step_workspace_is_a_new_copy(scene: Scene) -> None:
    """Each attempt of each step gets a new copy of the initial content."""
    await scene.open()
    folder = scene.folder_of(2)
    assert folder != scene.place("tmp")
    (folder / "file").write_bytes(b"changed")
    (folder / "more").write_bytes(b"")
    await scene.workspaces.prepare(scene.step, again=True)
    assert names(folder) == ["file", "main.o"]
    assert (folder / "file").read_bytes() == b"file"


async def test_changes_of_an_attempt_are_undone(scene: Scene) -> None:
    """`restore` resets the workspaces that the step writes to their last snapshots; `prepare` resets its own copies."""
    await scene.open()
    for index in range(3):
        (scene.folder_of(index) / "left").write_bytes(b"")
    await scene.workspaces.restore(scene.step)
    assert names(scene.folder_of(2)) == ["file", "left", "main.o"]
    await scene.workspaces.prepare(scene.step, again=True)
    assert read_folder(scene.folder_of(0)) == FIRST
    assert names(scene.folder_of(1)) == []
    assert names(scene.folder_of(2)) == ["file", "main.o"]


async def test_changes_of_a_step_are_kept(scene: Scene) -> None:
    """Each read-write mount gets a recorded snapshot, from which the next step starts."""
    await scene.open()
    scene.app.ledger.lines.clear()
    (scene.folder_of(1) / "made").write_bytes(b"made")
    await scene.workspaces.keep(scene.step, 3)
    made = Tree((file("made", b"made"),))
    snapshots = [event for event in scene.app.ledger.events if isinstance(event, SnapshotTaken)]
    assert [(event.workspace, event.digest, event.attempt) for event in snapshots] == [
        ("src", FIRST.digest, 3),
        ("out", made.digest, 3),
    ]
    assert scene.app.recorder.progress.workspaces["out"] == made.digest
    (scene.folder_of(1) / "made").unlink()
    await scene.workspaces.restore(scene.step)
    assert read_folder(scene.folder_of(1)) == made


class Full(FolderContentStore):
    """A store with room for one more snapshot."""

    room = 1

    async def put(self, tree: Tree, folder: str) -> str:
        self.room -= 1
        if self.room < 0:
            raise TreeError(folder, "io", "No space left on device")
        return await super().put(tree, folder)


@pytest.mark.parametrize("how", ["pruned", "put", "come back"])
async def test_all_changes_of_a_step_are_kept_or_none(scene: Scene, how: str) -> None:
    """If one workspace cannot be stored, no snapshot is recorded, and all workspaces are restored."""
    await scene.open()
    scene.app.ledger.lines.clear()
    before = dict(scene.app.recorder.progress.workspaces)
    (scene.folder_of(0) / "made").write_bytes(b"made")
    if how == "pruned":
        (scene.folder_of(1) / "l").symlink_to("/etc/passwd")
    else:
        object.__setattr__(scene.app.services, "content", Full(str(scene.folder / "cache")))
    came = [(scene.mounts[0].mount, read_folder(scene.folder_of(0))), (scene.mounts[1].mount, Tree())]
    calls: dict[str, Any] = {"come back": lambda: scene.workspaces.take_snapshots(scene.step, 1, came)}
    with pytest.raises(TreeError):
        await calls.get(how, lambda: scene.workspaces.keep(scene.step, 1))()
    assert [event for event in scene.app.ledger.events if isinstance(event, SnapshotTaken)] == []
    assert scene.app.recorder.progress.workspaces == before
    await scene.workspaces.restore(scene.step)
    assert [read_folder(scene.folder_of(index)) for index in range(2)] == [FIRST, Tree()]


async def test_folder_of_a_step_is_pruned(scene: Scene) -> None:
    """Excluded files, fifos and special mode bits are removed from the folder, so the next step sees the snapshot."""
    await scene.open()
    folder = scene.folder_of(0)
    for path in ("node_modules/x/y", "sub/.git/HEAD", "new.o", "made"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(b"")
    (folder / "node_modules" / "out").symlink_to("/etc/passwd")
    (folder / "made").chmod(0o4755)
    os.mkfifo(folder / "fifo")
    scene.app.ledger.lines.clear()
    await scene.workspaces.keep(scene.step, 1)
    expected = Tree((file("file", b"file"), file("made", executable=True), directory("sub")))
    assert read_folder(folder) == expected
    assert mode_of(folder / "made") == 0o755
    event = scene.app.ledger.events[0]
    assert isinstance(event, SnapshotTaken)
    assert (event.digest, event.omitted) == (expected.digest, 2)
    assert event.omitted_sample == ("fifo: a fifo", "made: the setuid bit")


async def test_excluded_file_in_a_read_only_mount_is_a_change(scene: Scene) -> None:
    """An excluded file that is written counts as a change: in a pod the write would have failed."""
    await scene.open()
    (scene.folder_of(2) / "node_modules").mkdir()
    assert await scene.workspaces.undo_read_only_changes(scene.step) == ("tmp",)


@pytest.mark.parametrize("how", ["fifo", "bits"])
async def test_omitted_entry_in_a_read_only_mount_is_a_change(scene: Scene, how: str) -> None:
    """A fifo or a setuid bit counts as a change, although no digest contains it."""
    await scene.open()
    folder = scene.folder_of(2)
    if how == "fifo":
        os.mkfifo(folder / "fifo")
    else:
        (folder / "file").chmod(0o4644)
    assert await scene.workspaces.undo_read_only_changes(scene.step) == ("tmp",)
    assert names(folder) == ["file", "main.o"]
    assert mode_of(folder / "file") == 0o644
    assert await scene.workspaces.undo_read_only_changes(scene.step) == ()


async def test_read_only_mount_with_kept_links(tmp_path: Path) -> None:
    """Links that lead out are no change; an additional one is."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "l").symlink_to("/etc/passwd")
    app = App(tmp_path, pod_plan(on=local(), mounts=[Workspace("a", path="src", links="keep").at("/a", "ro")]))
    await app.workspaces.open(app.plan)
    step = app.plan.steps[0].step
    assert await app.workspaces.undo_read_only_changes(step) == ()
    (Path(app.workspaces.transfers(step)[0].folder) / "m").symlink_to("/etc")
    assert await app.workspaces.undo_read_only_changes(step) == ("a",)


async def test_transfers_of_a_step(scene: Scene) -> None:
    """All mounts are uploaded, by index; only read-write mounts are downloaded, into the run's folders."""
    await scene.open()
    packed = [each.packed for each in scene.mounts]
    assert [(part.index, part.folder) for part in packed] == [
        (0, str(scene.place("src"))),
        (1, str(scene.place("out"))),
        (2, str(scene.folder_of(2))),
    ]
    assert packed[0].tree == FIRST
    returning = returning_workspaces(scene.mounts)
    assert [(each.index, each.folder) for each in returning] == [
        (0, str(scene.place("src"))),
        (1, str(scene.place("out"))),
    ]
    (scene.place("out") / "d").mkdir()
    came = Tree((directory("d"),))
    await scene.workspaces.take_snapshots(scene.step, 1, [(returning[0].mount, FIRST), (returning[1].mount, came)])
    assert scene.app.recorder.progress.workspaces["out"] == came.digest
    assert scene.workspaces.transfers(scene.step)[1].tree == came


@pytest.mark.parametrize("how", ["changed", "added", "removed", "link"])
async def test_changed_read_only_mount_is_restored(scene: Scene, how: str) -> None:
    """Every change is undone, also one that makes a walk fail; the name of the workspace is returned."""
    await scene.open()
    folder = scene.folder_of(2)
    match how:
        case "changed":
            (folder / "file").write_bytes(b"changed")
        case "added":
            (folder / "more").write_bytes(b"")
        case "removed":
            (folder / "file").unlink()
        case _:
            (folder / "link").symlink_to("/etc/passwd")
    assert await scene.workspaces.undo_read_only_changes(scene.step) == ("tmp",)
    assert names(folder) == ["file", "main.o"]
    assert (folder / "file").read_bytes() == b"file"
    assert await scene.workspaces.undo_read_only_changes(scene.step) == ()


async def test_summary_of_opened_workspaces(scene: Scene) -> None:
    """The summary has the digest and folder of each workspace; nothing before `open`."""
    assert scene.workspaces.summary(scene.app.plan) == {}
    await scene.open()
    summary = scene.workspaces.summary(scene.app.plan)
    assert summary["src"] == (FIRST.digest, str(scene.place("src")))
    assert list(summary) == ["src", "out", "tmp"]


class Sticky(FolderContentStore):
    """A store whose restore cannot remove the old content, or fails before the swap."""

    rule = "leftover"

    async def restore(self, digest: str, folder: str) -> Tree:
        if self.rule == "leftover":
            await super().restore(digest, folder)
        raise TreeError(folder, self.rule, "Permission denied")


@pytest.mark.parametrize("how", ["prepare", "restore", "undo_read_only_changes"])
async def test_leftover_of_a_restore_is_noted(scene: Scene, how: str) -> None:
    """If the old content cannot be removed after a restore, that is noted, and the step starts."""
    await scene.open()
    object.__setattr__(scene.app.services, "content", Sticky(str(scene.folder / "cache")))
    for index in range(3):
        (scene.folder_of(index) / "left").write_bytes(b"")
    calls: dict[str, Any] = {
        "prepare": lambda: scene.workspaces.prepare(scene.step, again=True),
        "restore": lambda: scene.workspaces.restore(scene.step),
        "undo_read_only_changes": lambda: scene.workspaces.undo_read_only_changes(scene.step),
    }
    await calls[how]()
    put_right = {"prepare": [2], "restore": [0, 1], "undo_read_only_changes": [2]}[how]
    for index in put_right:
        assert "left" not in names(scene.folder_of(index))
    notes = [event.message for event in scene.app.ledger.events if isinstance(event, Noted)]
    assert notes == [f"{scene.folder_of(index)}: Permission denied" for index in put_right]
    assert scene.workspaces.transfers(scene.step)[0].tree == FIRST


async def test_failed_restore_is_raised(scene: Scene) -> None:
    """Any other error leaves the folder unchanged, and is raised."""
    await scene.open()
    store = Sticky(str(scene.folder / "cache"))
    store.rule = "io"
    object.__setattr__(scene.app.services, "content", store)
    with pytest.raises(TreeError, match="Permission denied"):
        await scene.workspaces.prepare(scene.step, again=True)


def readers(*, after: bool, on: Any = None) -> Plan:
    """Two steps that mount one workspace read-only, one after the other or concurrently."""
    pipeline = Pipeline("release")
    workflow = pipeline.workflow("build", on=on or local())
    workflow.step("a", ["a"], mounts=[OUT.at("/out", "ro")])
    workflow.step("b", ["b"], mounts=[OUT.at("/out", "ro")], needs=["a"] if after else [])
    return pipeline.build()


async def test_concurrent_local_readers_have_own_copies(tmp_path: Path) -> None:
    """A change by one of two concurrent local readers is not visible to the other, and only the one is reported."""
    app = App(tmp_path, readers(after=False))
    await app.workspaces.open(app.plan)
    one, other = (planned.step for planned in app.plan.steps)
    folders = [Path((await app.workspaces.prepare(step, again=False))[0].folder) for step in (one, other)]
    shared = tmp_path / "runs" / RUN_ID / "workspaces" / "out"
    assert len({*folders, shared}) == 3
    (folders[0] / "made").write_bytes(b"")
    assert await app.workspaces.undo_read_only_changes(one) == ("out",)
    assert await app.workspaces.undo_read_only_changes(other) == ()
    assert [names(folder) for folder in (*folders, shared)] == [[], [], []]


async def test_sequential_reader_needs_no_copy(tmp_path: Path) -> None:
    """Steps that cannot be concurrent use the workspace's folder, as a pod's step does."""
    for folder, plan in (("a", readers(after=True)), ("b", readers(after=False, on=RUNNER))):
        (tmp_path / folder).mkdir()
        app = App(tmp_path / folder, plan)
        await app.workspaces.open(app.plan)
        for planned in app.plan.steps:
            (mount,) = await app.workspaces.prepare(planned.step, again=False)
            assert mount.folder == str(tmp_path / folder / "runs" / RUN_ID / "workspaces" / "out")
