"""`senro ws` and `senro cache gc` with runs and a cache of the test."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner, Result

from senro.adapters.fs import FolderContentStore, FolderPersistentStore, register_run
from senro.adapters.fs.removal import remove_folder
from senro.cli.main import main
from senro.domain.caches.persistent import PersistentRecord
from senro.domain.run.events import Event, RunEnded, RunStarted, SnapshotTaken, WorkspaceOpened, encode_event
from senro.domain.run.state_names import RunState
from senro.domain.tree.tree import Entry, Tree
from tests.lib.archives.files import Contents, directory, file, link, make_folder, names, read_folder, read_folder_as_is
from tests.lib.builders.events import AT

FIRST, SECOND = "20261129T231308Z-5f0c9a", "20261130T080000Z-0a1b2c"

OLD = {"a": b"one", "d/run": b"#!/bin/sh\n", "gone": b"12345"}
NEW = {"a": b"two!", "d/run": b"#!/bin/sh\n", "new": b""}


def tree_of(contents: Contents, *more: Entry) -> Tree:
    runs = {"d/run"}
    files = [file(path, content, executable=path in runs) for path, content in contents.items()]
    return Tree((directory("d"), *files, *more))


TREE_OLD = tree_of(OLD, link("l", "a"))
TREE_NEW = tree_of(NEW, link("l", "d"))


class Place:
    """A folder with runs and a cache."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        self.store = FolderContentStore(str(self.cache))

    def snapshot(self, name: str, tree: Tree, contents: Contents) -> Tree:
        make_folder(self.folder / name, tree, contents)
        anyio.run(self.store.put, tree, str(self.folder / name))
        return tree

    def run(self, run: str, *events: Event, state: RunState | None = "succeeded") -> Path:
        folder = self.folder / ".senro" / "runs" / run
        folder.mkdir(parents=True)
        started = RunStarted(at=AT, run=run, pipeline="release", steps=("build.make",), senro_version="1")
        ended = [] if state is None else [RunEnded(at=AT, state=state)]
        lines = [encode_event(event) + b"\n" for event in (started, *events, *ended)]
        (folder / "events.jsonl").write_bytes(b"".join(lines))

        async def register() -> None:
            async with register_run(str(self.cache), run, str(folder)):
                pass

        anyio.run(register)
        return folder

    def senro(self, *words: str) -> Result:
        return CliRunner().invoke(main, words)


def workspace_opened(name: str, tree: Tree, **more: Any) -> WorkspaceOpened:
    return WorkspaceOpened(at=AT, workspace=name, digest=tree.digest, files=tree.files, bytes=tree.size, **more)


def snapshot_taken(name: str, tree: Tree, step: str = "build.make", **more: Any) -> SnapshotTaken:
    return SnapshotTaken(
        at=AT, step=step, attempt=1, workspace=name, digest=tree.digest, files=tree.files, bytes=tree.size, **more
    )


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Two runs: the second one wrote `src`, and only the first one has `out`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SENRO_CACHE_DIR", str(tmp_path / "cache"))
    place = Place(tmp_path)
    old, new = place.snapshot("old", TREE_OLD, OLD), place.snapshot("new", TREE_NEW, NEW)
    place.run(FIRST, workspace_opened("src", old), workspace_opened("out", Tree()), state="failed")
    sample = ("pipe: a fifo", "dev: a block device")
    place.run(SECOND, workspace_opened("src", old), snapshot_taken("src", new, omitted=7, omitted_sample=sample))
    return place


# --- ls ------------------------------------------------------------------------------------------------------


def test_runs_are_listed(place: Place) -> None:
    """`ws ls` prints a line for each run, the newest last, with its state and its workspaces."""
    done = place.senro("ws", "ls")
    assert (done.exit_code, done.stderr) == (0, "")
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["RUN", "PIPELINE", "STATE", "WORKSPACES"],
        [FIRST, "release", "failed", "out,", "src"],
        [SECOND, "release", "succeeded", "src"],
    ]


def test_a_run_without_an_end_or_without_workspaces(place: Place) -> None:
    """The list and the run say so."""
    place.run("20261201T000000Z-ffffff", state=None)
    assert place.senro("ws", "ls").stdout.splitlines()[-1].split()[2:] == ["not", "ended", "-"]
    assert place.senro("ws", "ls", "latest").stdout.splitlines()[1:] == ["it has no workspace"]


def test_workspaces_are_listed(place: Place) -> None:
    """`ws ls RUN` prints the newest snapshot of each workspace, the step that wrote it, and what it omits."""
    done = place.senro("ws", "ls", "latest")
    assert done.exit_code == 0
    head, columns, row, note = done.stdout.splitlines()
    assert head == f"run {SECOND} of release: succeeded"
    assert columns.split() == ["WORKSPACE", "SNAPSHOT", "FILES", "SIZE", "STATE"]
    assert row.split() == ["src", TREE_NEW.digest[:19], "3", "files", "14", "B", "after", "build.make"]
    assert note == "src: the snapshot omits 7 files: pipe: a fifo; dev: a block device; and 5 more"
    first = place.senro("ws", "ls", "20261129").stdout.splitlines()
    assert first[2].split()[-2:] == ["at", "first"]


def test_entries_are_listed(place: Place) -> None:
    """`ws ls RUN NAME` prints the digest, and each entry with its kind, size and link target."""
    done = place.senro("ws", "ls", "latest", "src")
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        f"src, after build.make: 3 files, 14 B, {TREE_NEW.digest}",
        "the snapshot omits 7 files: pipe: a fifo; dev: a block device; and 5 more",
        "F   4  a",
        "D   -  d",
        "X  10  d/run",
        "L   -  l -> d",
        "F   0  new",
    ]


def test_names_are_escaped(place: Place) -> None:
    """Control characters in names, and bytes that are not UTF-8, are escaped."""
    name = os.fsdecode(b"caf\xe9\x1b[31m")
    tree = place.snapshot("odd", Tree((file(name, b"x"),)), {name: b"x"})
    place.run("20261201T000000Z-ffffff", workspace_opened("src", tree))
    done = place.senro("ws", "ls", "latest", "src")
    assert "\x1b" not in done.stdout
    assert "caf\\udce9" in done.stdout
    assert "added          caf\\udce9" in place.senro("ws", "diff", FIRST, "latest").stdout


@pytest.mark.parametrize("command", [("ls",), ("pull",), ("diff", FIRST)])
def test_an_unknown_run(place: Place, command: tuple[str, ...]) -> None:
    """Exit code 2, and the runs with similar ids."""
    done = place.senro("ws", *command, SECOND[:-1] + "x", *(["src"] if command == ("pull",) else []))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"senro: run `{SECOND[:-1]}x`: there is no such run; the nearest are {SECOND}")


@pytest.mark.parametrize("command", [("ls", "latest"), ("pull", "latest"), ("diff", SECOND, "latest")])
def test_an_unknown_workspace(place: Place, command: tuple[str, ...]) -> None:
    """Exit code 2, and the workspaces of the run."""
    done = place.senro("ws", *command, "scr")
    assert (done.exit_code, done.stderr) == (
        2,
        "senro: workspace `scr`: the run has no such workspace; it has src\n",
    )


def test_no_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list is empty, every run is unknown, and nothing is created."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SENRO_CACHE_DIR", str(tmp_path / "cache"))
    assert CliRunner().invoke(main, ["ws", "ls"]).stdout == "no run yet\n"
    done = CliRunner().invoke(main, ["ws", "pull", "latest", "src"])
    assert (done.exit_code, done.stderr) == (2, "senro: run `latest`: there is no run yet\n")
    assert names(tmp_path) == []


def test_run_dir(place: Place) -> None:
    """`--run-dir` is the folder of the runs, as for `senro run`."""
    (place.folder / ".senro").rename(place.folder / "elsewhere")
    assert place.senro("ws", "ls").stdout == "no run yet\n"
    for command in (["ls", "latest"], ["pull", "latest", "src"], ["diff", "latest", "latest"]):
        assert place.senro("ws", *command, "--run-dir", "elsewhere/runs").exit_code == 0


# --- pull ----------------------------------------------------------------------------------------------------


def test_pull(place: Place) -> None:
    """It creates a folder of the workspace's name, or the given one, and says what a snapshot omits."""
    done = place.senro("ws", "pull", "latest", "src")
    assert (done.exit_code, done.stderr) == (0, "")
    assert read_folder(place.folder / "src") == TREE_NEW
    assert done.stdout.splitlines() == [
        "src, after build.make: 3 files, 14 B, in ./src",
        "the snapshot omits 7 files: pipe: a fifo; dev: a block device; and 5 more",
        "A snapshot has no owners, times or extended attributes, and of the modes only the owner's x.",
    ]
    assert place.senro("ws", "pull", FIRST, "src", "deep/down/x").exit_code == 0
    assert read_folder(place.folder / "deep" / "down" / "x") == TREE_OLD
    assert names(place.folder / "deep" / "down") == ["x"]


def test_pull_into_a_folder_that_is_not_empty(place: Place) -> None:
    """It is refused, and replaced as a whole with --force."""
    (place.folder / "mine").mkdir()
    assert place.senro("ws", "pull", "latest", "src", "mine").exit_code == 0
    (place.folder / "mine" / "more").write_bytes(b"")
    before = read_folder(place.folder / "mine")
    done = place.senro("ws", "pull", FIRST, "src", "mine")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "mine: it is not empty; write --force to replace it" in done.stderr
    assert read_folder(place.folder / "mine") == before
    assert place.senro("ws", "pull", FIRST, "src", "mine", "--force").exit_code == 0
    assert read_folder(place.folder / "mine") == TREE_OLD


@pytest.mark.parametrize("damage", ["body", "index"])
def test_pull_of_a_damaged_snapshot(place: Place, damage: str) -> None:
    """A damaged or missing snapshot leaves the destination unchanged."""
    (place.folder / "mine").mkdir()
    (place.folder / "mine" / "file").write_bytes(b"mine")
    digest = TREE_NEW.digest if damage == "index" else file("a", NEW["a"]).digest
    path = place.cache / damage / digest[7:9] / digest[7:]
    path.chmod(0o600)
    path.write_bytes(b"TWO!")
    done = place.senro("ws", "pull", "latest", "src", "mine", "--force")
    assert done.exit_code == 2
    assert str(path) in done.stderr
    assert (place.folder / "mine" / "file").read_bytes() == b"mine"
    assert not [name for name in names(place.folder) if name.startswith(".mine")]


@pytest.mark.parametrize("force", [[], ["--force"]])
@pytest.mark.parametrize("destination", [".", "..", "../{here}", "../../{above}", "deep/..", "here", "above/{here}"])
def test_pull_does_not_replace_the_working_folder(place: Place, destination: str, force: list[str]) -> None:
    """Nor a folder above it, whatever its path, with or without --force."""
    (place.folder / "deep").mkdir()
    (place.folder / "here").symlink_to(".")
    (place.folder / "above").symlink_to("..")
    before = read_folder_as_is(place.folder)
    destination = destination.format(here=place.folder.name, above=place.folder.parent.name)
    done = place.senro("ws", "pull", "latest", "src", destination, *force)
    assert done.exit_code == 2
    assert f"{destination}: this is or contains the working folder" in done.stderr
    assert read_folder_as_is(place.folder) == before


def test_pull_does_not_replace_a_file(place: Place) -> None:
    """With or without --force."""
    (place.folder / "file").write_bytes(b"")
    for force in ([], ["--force"]):
        done = place.senro("ws", "pull", "latest", "src", "file", *force)
        assert done.exit_code == 2
        assert "file: " in done.stderr
    assert (place.folder / "file").read_bytes() == b""


def test_pull_into_a_sibling_folder(place: Place) -> None:
    """A path with `..` or through a link works."""
    (place.folder / "sub").mkdir()
    (place.folder / "link").symlink_to("sub")
    assert place.senro("ws", "pull", "latest", "src", "sub/../one").exit_code == 0
    assert place.senro("ws", "pull", "latest", "src", "link/../two").exit_code == 0
    assert place.senro("ws", "pull", "latest", "src", "link/three").exit_code == 0
    for name in ("one", "two", "sub/three"):
        assert read_folder(place.folder / name) == TREE_NEW
    done = place.senro("ws", "pull", "latest", "src", "sub/three/d/..", "--force")
    assert done.exit_code == 2
    assert "it is the root, or ends in `..`; name a folder" in done.stderr


# --- diff ----------------------------------------------------------------------------------------------------


def test_diff(place: Place) -> None:
    """Exit code 1, and each path that differs, and workspaces of only one run."""
    done = place.senro("ws", "diff", FIRST, SECOND)
    assert (done.exit_code, done.stderr) == (1, "")
    assert done.stdout.splitlines() == [
        "out: only the first run has it",
        "src: 4 differences",
        "  content        a  (3 B -> 4 B)",
        "  removed        gone  (5 B)",
        "  target         l  (a -> d)",
        "  added          new  (0 B)",
    ]


def test_diff_of_equal_workspaces(place: Place) -> None:
    """Exit code 0 without reading the snapshots, which may have been removed."""
    for path in (place.cache / "index").rglob("*"):
        if path.is_file():
            path.unlink()
    done = place.senro("ws", "diff", SECOND, "latest")
    assert (done.exit_code, done.stdout) == (0, "src: equal\n")
    done = place.senro("ws", "diff", FIRST, "latest", "src")
    assert done.exit_code == 2
    assert "not in this store" in done.stderr


def test_diff_of_kinds_and_modes(place: Place) -> None:
    """A changed kind, a mode alone, a mode with the content."""
    before = Tree((file("a", b"1"), file("b", b"1"), file("c", b"1", executable=True), directory("t")))
    after = Tree((file("a", b"1", executable=True), file("b", b"22", executable=True), file("c", b"2"), file("t")))
    place.snapshot("x", before, dict.fromkeys("abc", b"1"))
    place.snapshot("y", after, {"a": b"1", "b": b"22", "c": b"2", "t": b""})
    place.run("20261201T000000Z-aaaaaa", workspace_opened("x", before))
    place.run("20261201T000000Z-bbbbbb", workspace_opened("x", after))
    done = place.senro("ws", "diff", "20261201T000000Z-a", "latest", "x")
    assert done.stdout.splitlines()[1:] == [
        "  mode           a  (executable now)",
        "  content, mode  b  (1 B -> 2 B, executable now)",
        "  content, mode  c  (not executable any more)",
        "  type           t  (directory -> file)",
    ]


def test_diff_json(place: Place) -> None:
    """`--json` prints the same, with both entries of each path and their digests."""
    done = place.senro("ws", "diff", FIRST, SECOND, "--json")
    assert done.exit_code == 1
    told = json.loads(done.stdout)
    assert told["equal"] is False
    out, src = told["workspaces"]
    assert out == {"name": "out", "before": Tree().digest, "after": None, "equal": False, "changes": []}
    assert (src["before"], src["after"]) == (TREE_OLD.digest, TREE_NEW.digest)
    changes = {change["path"]: change for change in src["changes"]}
    assert changes["a"]["what"] == ["content"]
    assert changes["a"]["after"] == {
        "kind": "file",
        "size": 4,
        "digest": file("a", b"two!").digest,
        "executable": False,
    }
    assert changes["gone"]["after"] is None
    assert changes["l"]["before"] == {"kind": "link", "target": "a"}
    assert json.loads(place.senro("ws", "diff", "latest", "latest", "--json").stdout)["equal"] is True


def test_diff_without_workspaces(place: Place) -> None:
    """Two runs without workspaces are equal."""
    place.run("20261201T000000Z-aaaaaa")
    done = place.senro("ws", "diff", "latest", "latest")
    assert (done.exit_code, done.stdout) == (0, "neither run has a workspace\n")


# --- gc ------------------------------------------------------------------------------------------------------


def age(place: Place, days: float) -> None:
    """Sets the last use of everything in the store to `days` days ago."""
    for path in (place.cache / "index").rglob("*"):
        os.utime(path, (time.time() - days * 86_400,) * 2)


def test_gc_by_age(place: Place) -> None:
    """The default is thirty days. The snapshots of a failed run are kept, and the run is named."""
    assert place.senro("cache", "gc").stdout.startswith("dropped nothing; freed 0 B, kept ")
    age(place, 31)
    before = read_folder(place.cache)
    dry = place.senro("cache", "gc", "--dry-run")
    assert dry.stdout.startswith("would drop 1 snapshot; would free ")
    assert read_folder(place.cache) == before
    done = place.senro("cache", "gc")
    assert (done.exit_code, done.stderr) == (0, "")
    dropped, why, run = done.stdout.splitlines()
    assert dropped.startswith("dropped 1 snapshot; freed ")
    assert "the folder of a run that did not succeed can be removed to release its snapshots" in why
    assert run == f"  {FIRST}  failed  {place.folder / '.senro' / 'runs' / FIRST}"
    assert place.senro("ws", "pull", FIRST, "src", "x").exit_code == 0
    gone = place.senro("ws", "pull", SECOND, "src", "y")
    assert gone.exit_code == 2
    assert "the snapshot is not in this store; run the step that made it again" in gone.stderr


def test_gc_by_size(place: Place) -> None:
    """The longest unused entries are removed. If what is needed exceeds the bound, the output says so."""
    done = place.senro("cache", "gc", "--max-age", "1000d", "--max-size", "1")
    assert done.stdout.startswith("dropped 1 snapshot;")
    assert done.stdout.splitlines()[-1] == "This is more than 1 B, but all of it is needed."
    assert place.senro("cache", "gc", "--max-size", "1Gi").stdout.startswith("dropped nothing")


def keep(place: Place, name: str, *, age: float, digest: str = TREE_NEW.digest) -> Path:
    """Creates a persistent workspace of 5 bytes, `age` seconds old, with a max_age of an hour. Returns its folder."""

    async def make() -> None:
        async with FolderPersistentStore(str(place.cache)).lock(name, since="now") as lock:
            make_folder(Path(lock.folder), Tree((file("f", b"12345"),)), {"f": b"12345"})
            made = time.time() - age
            await lock.write(PersistentRecord(name=name, made=made, max_age=3600, max_size=10, run="r", digest=digest))

    anyio.run(make)
    return place.cache / "persistent" / name


def test_gc_evicts_expired_persistent_workspaces(place: Place) -> None:
    """One past its own max_age is evicted unless a run has it; --max-age does not matter."""
    for name, age in (("old", 4000), ("young", 3000), ("held", 4000)):
        keep(place, name, age=age)

    async def round_(*words: str) -> str:
        async with FolderPersistentStore(str(place.cache)).lock("held", since="now"):
            return await anyio.to_thread.run_sync(lambda: place.senro("cache", "gc", *words).stdout)

    persistent = place.cache / "persistent"
    dry = anyio.run(round_, "--dry-run")
    assert dry.startswith("would drop 1 persistent workspace (old); would free 5 B")
    assert (persistent / "old" / "content").exists()
    done = anyio.run(round_, "--max-age", "0")
    assert " and 1 persistent workspace (old); freed " in done or "dropped 1 persistent workspace (old)" in done
    assert [name for name in names(persistent) if (persistent / name / "content").exists()] == ["held", "young"]


@pytest.mark.parametrize("moment", ["renamed", "unlinked", "swapping"])
def test_gc_completes_interrupted_evictions(place: Place, moment: str) -> None:
    """What a killed run left of an eviction or a swap is removed, and its snapshot is no longer needed.

    Without content there is nothing to restore; existing content stays. A dry run reports this and changes nothing.
    """
    cut = keep(place, "cut", age=10)
    gone = cut / ".content.senro-0123456789ab.gone"
    if moment == "swapping":
        make_folder(cut / ".content.senro-0123456789ab.new", Tree((file("g", b"123"),)), {"g": b"123"})
        (cut / "content").rename(cut / ".content.senro-0123456789ab.old")
    else:
        (cut / "content").rename(gone)
    if moment == "unlinked":
        (cut / "record.json").unlink()
    left = names(cut)
    freed = "3 B" if moment == "swapping" else "5 B"
    assert place.senro("cache", "gc", "--dry-run").stdout.startswith(f"would drop nothing; would free {freed}, ")
    assert names(cut) == left
    assert place.senro("cache", "gc").stdout.startswith(f"dropped nothing; freed {freed}, ")
    expected = ["content", "holder.json", "lock", "record.json"] if moment == "swapping" else ["holder.json", "lock"]
    assert names(cut) == expected
    assert place.senro("cache", "gc").stdout.startswith("dropped nothing; freed 0 B, ")


def test_gc_removes_the_snapshot_of_an_interrupted_eviction(place: Place) -> None:
    """The snapshot for the repair is removed after the eviction is complete."""
    cut = keep(place, "cut", age=10)
    age(place, 31)
    assert place.senro("cache", "gc").stdout.startswith("dropped nothing; freed 0 B, ")
    (cut / "content").rename(cut / ".content.senro-0123456789ab.gone")
    assert place.senro("cache", "gc").stdout.startswith("dropped 1 snapshot; freed ")


def test_gc_reports_a_workspace_that_cannot_be_evicted(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named with the reason and stays; other workspaces and snapshots are removed."""
    for name in ("bad", "good"):
        keep(place, name, age=4000, digest=Tree().digest)
    age(place, 31)

    def refusing(folder: Path) -> Generator[None, None, None]:
        if folder.parent.name == "bad":
            raise OSError(5, "Input/output error", str(folder))
        yield from remove_folder(folder)

    monkeypatch.setattr("senro.adapters.fs.persistent.remove_folder", refusing)
    done = place.senro("cache", "gc")
    assert done.exit_code == 0
    dropped, left, *_ = done.stdout.splitlines()
    assert dropped.startswith("dropped 1 snapshot and 1 persistent workspace (good); freed ")
    assert left.startswith("left unchanged: persistent workspace bad: ")
    assert left.endswith("the persistent workspace cannot be used: Input/output error")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--max-age", "soon"], "--max-age: `soon` is no age; write an age such as `30d` or `12h`, or seconds"),
        (["--max-size", "much"], "--max-size: `much` is no size; write bytes, or a quantity such as `10Gi`"),
        (["--max-size", "-1"], "--max-size: `-1` is no size"),
    ],
)
def test_invalid_bounds(place: Place, words: list[str], problem: str) -> None:
    """Exit code 2 and what to write; nothing is removed."""
    age(place, 31)
    before = read_folder(place.cache)
    done = place.senro("cache", "gc", *words)
    assert done.exit_code == 2
    assert problem in done.stderr
    assert read_folder(place.cache) == before
