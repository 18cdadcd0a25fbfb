"""`senro ws` and `senro cache gc`: what they print, refuse and leave, over runs and a cache of this test's own."""

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


def opened(name: str, tree: Tree, **more: Any) -> WorkspaceOpened:
    return WorkspaceOpened(at=AT, workspace=name, digest=tree.digest, files=tree.files, bytes=tree.size, **more)


def took(name: str, tree: Tree, step: str = "build.make", **more: Any) -> SnapshotTaken:
    return SnapshotTaken(
        at=AT, step=step, attempt=1, workspace=name, digest=tree.digest, files=tree.files, bytes=tree.size, **more
    )


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Two runs: `src` was written by the second one, `out` is only in the first."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SENRO_CACHE_DIR", str(tmp_path / "cache"))
    place = Place(tmp_path)
    old, new = place.snapshot("old", TREE_OLD, OLD), place.snapshot("new", TREE_NEW, NEW)
    place.run(FIRST, opened("src", old), opened("out", Tree()), state="failed")
    sample = ("pipe: a fifo", "dev: a block device")
    place.run(SECOND, opened("src", old), took("src", new, omitted=7, omitted_sample=sample))
    return place


# --- ls ------------------------------------------------------------------------------------------------------


def test_runs_are_listed(place: Place) -> None:
    """Without a run: a line for each, the newest last, with its state and its workspaces."""
    done = place.senro("ws", "ls")
    assert (done.exit_code, done.stderr) == (0, "")
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["RUN", "PIPELINE", "STATE", "WORKSPACES"],
        [FIRST, "release", "failed", "out,", "src"],
        [SECOND, "release", "succeeded", "src"],
    ]


def test_a_run_that_goes_on_or_has_nothing(place: Place) -> None:
    """A run without an end is said to have none, and one without a workspace too."""
    place.run("20261201T000000Z-ffffff", state=None)
    assert place.senro("ws", "ls").stdout.splitlines()[-1].split()[2:] == ["not", "ended", "-"]
    assert place.senro("ws", "ls", "latest").stdout.splitlines()[1:] == ["it has no workspace"]


def test_workspaces_are_listed(place: Place) -> None:
    """With a run: of each workspace the newest snapshot, what it holds, the step that wrote it, what it lacks."""
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
    """With a workspace: its whole digest, and each entry with its kind, size and where a link leads."""
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


def test_names_steer_no_terminal(place: Place) -> None:
    """A name with control characters, or bytes that are not UTF-8, is shown so that it can do nothing."""
    name = os.fsdecode(b"caf\xe9\x1b[31m")
    tree = place.snapshot("odd", Tree((file(name, b"x"),)), {name: b"x"})
    place.run("20261201T000000Z-ffffff", opened("src", tree))
    done = place.senro("ws", "ls", "latest", "src")
    assert "\x1b" not in done.stdout
    assert "caf\\udce9" in done.stdout
    assert "added          caf\\udce9" in place.senro("ws", "diff", FIRST, "latest").stdout


@pytest.mark.parametrize("command", [("ls",), ("pull",), ("diff", FIRST)])
def test_an_unknown_run_is_refused_with_the_nearest(place: Place, command: tuple[str, ...]) -> None:
    """Exit 2, and the runs that it may have meant."""
    done = place.senro("ws", *command, SECOND[:-1] + "x", *(["src"] if command == ("pull",) else []))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"senro: run `{SECOND[:-1]}x`: there is no such run; the nearest are {SECOND}")


@pytest.mark.parametrize("command", [("ls", "latest"), ("pull", "latest"), ("diff", SECOND, "latest")])
def test_an_unknown_workspace_is_refused_with_the_nearest(place: Place, command: tuple[str, ...]) -> None:
    """Exit 2, and the workspaces that the run has."""
    done = place.senro("ws", *command, "scr")
    assert (done.exit_code, done.stderr) == (
        2,
        "senro: workspace `scr`: the run has no such workspace; it has src\n",
    )


def test_no_run_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing ever ran, the list is empty and every run unknown; nothing is made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SENRO_CACHE_DIR", str(tmp_path / "cache"))
    assert CliRunner().invoke(main, ["ws", "ls"]).stdout == "no run yet\n"
    done = CliRunner().invoke(main, ["ws", "pull", "latest", "src"])
    assert (done.exit_code, done.stderr) == (2, "senro: run `latest`: there is no run yet\n")
    assert names(tmp_path) == []


def test_another_folder_of_runs(place: Place) -> None:
    """`--run-dir` says where runs are, as for `senro run`."""
    (place.folder / ".senro").rename(place.folder / "elsewhere")
    assert place.senro("ws", "ls").stdout == "no run yet\n"
    for command in (["ls", "latest"], ["pull", "latest", "src"], ["diff", "latest", "latest"]):
        assert place.senro("ws", *command, "--run-dir", "elsewhere/runs").exit_code == 0


# --- pull ----------------------------------------------------------------------------------------------------


def test_a_workspace_is_pulled(place: Place) -> None:
    """Into a new folder of its name, or of the name given; what a snapshot does not carry is said."""
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


def test_what_is_not_empty_is_refused(place: Place) -> None:
    """Without --force a folder that holds something stays as it is; with it, it is replaced whole."""
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
def test_what_is_damaged_replaces_nothing(place: Place, damage: str) -> None:
    """Verified before it is moved: a damaged or missing snapshot leaves the destination byte for byte as it was."""
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
def test_the_working_folder_is_not_replaced(place: Place, destination: str, force: list[str]) -> None:
    """Neither it nor one above it, however it is named, by links too, with --force or without."""
    (place.folder / "deep").mkdir()
    (place.folder / "here").symlink_to(".")
    (place.folder / "above").symlink_to("..")
    before = read_folder_as_is(place.folder)
    destination = destination.format(here=place.folder.name, above=place.folder.parent.name)
    done = place.senro("ws", "pull", "latest", "src", destination, *force)
    assert done.exit_code == 2
    assert f"{destination}: this is or contains the working folder" in done.stderr
    assert read_folder_as_is(place.folder) == before


def test_what_is_no_folder_is_not_replaced(place: Place) -> None:
    """With --force or without."""
    (place.folder / "file").write_bytes(b"")
    for force in ([], ["--force"]):
        done = place.senro("ws", "pull", "latest", "src", "file", *force)
        assert done.exit_code == 2
        assert "file: " in done.stderr
    assert (place.folder / "file").read_bytes() == b""


def test_a_sibling_is_replaced(place: Place) -> None:
    """A folder beside the working one is what its path says, by `..` and through links."""
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


def test_two_runs_differ(place: Place) -> None:
    """Exit 1, each path that differs and how; a workspace that only one run has is said."""
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


def test_nothing_differs(place: Place) -> None:
    """Exit 0 for what is equal, without an index: that of a snapshot that is dropped is not needed."""
    for path in (place.cache / "index").rglob("*"):
        if path.is_file():
            path.unlink()
    done = place.senro("ws", "diff", SECOND, "latest")
    assert (done.exit_code, done.stdout) == (0, "src: equal\n")
    done = place.senro("ws", "diff", FIRST, "latest", "src")
    assert done.exit_code == 2
    assert "not in this store" in done.stderr


def test_kinds_and_modes(place: Place) -> None:
    """A kind that changed, a mode alone, a mode with the content."""
    before = Tree((file("a", b"1"), file("b", b"1"), file("c", b"1", executable=True), directory("t")))
    after = Tree((file("a", b"1", executable=True), file("b", b"22", executable=True), file("c", b"2"), file("t")))
    place.snapshot("x", before, dict.fromkeys("abc", b"1"))
    place.snapshot("y", after, {"a": b"1", "b": b"22", "c": b"2", "t": b""})
    place.run("20261201T000000Z-aaaaaa", opened("x", before))
    place.run("20261201T000000Z-bbbbbb", opened("x", after))
    done = place.senro("ws", "diff", "20261201T000000Z-a", "latest", "x")
    assert done.stdout.splitlines()[1:] == [
        "  mode           a  (executable now)",
        "  content, mode  b  (1 B -> 2 B, executable now)",
        "  content, mode  c  (not executable any more)",
        "  type           t  (directory -> file)",
    ]


def test_for_a_program(place: Place) -> None:
    """`--json`: the same with both entries of each path, digests included."""
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


def test_runs_without_workspaces(place: Place) -> None:
    """Nothing differs where there is nothing."""
    place.run("20261201T000000Z-aaaaaa")
    done = place.senro("ws", "diff", "latest", "latest")
    assert (done.exit_code, done.stdout) == (0, "neither run has a workspace\n")


# --- gc ------------------------------------------------------------------------------------------------------


def aged(place: Place, days: float) -> None:
    """Let everything in the store have been used so many days ago."""
    for path in (place.cache / "index").rglob("*"):
        os.utime(path, (time.time() - days * 86_400,) * 2)


def test_what_was_not_used_for_long_goes(place: Place) -> None:
    """By default after thirty days; what a failed run needs stays, and the run that needs it is named."""
    assert place.senro("cache", "gc").stdout.startswith("dropped nothing; freed 0 B, kept ")
    aged(place, 31)
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


def test_until_it_fits(place: Place) -> None:
    """By size the longest unused go; where what is needed takes more, that is said."""
    done = place.senro("cache", "gc", "--max-age", "1000d", "--max-size", "1")
    assert done.stdout.startswith("dropped 1 snapshot;")
    assert done.stdout.splitlines()[-1] == "This is more than 1 B, but all of it is needed."
    assert place.senro("cache", "gc", "--max-size", "1Gi").stdout.startswith("dropped nothing")


def keep(place: Place, name: str, *, age: float, digest: str = TREE_NEW.digest) -> Path:
    """A persistent workspace of 5 bytes that was made so many seconds ago and may be an hour old; returns its place."""

    async def make() -> None:
        async with FolderPersistentStore(str(place.cache)).lock(name, since="now") as lock:
            make_folder(Path(lock.folder), Tree((file("f", b"12345"),)), {"f": b"12345"})
            made = time.time() - age
            await lock.write(PersistentRecord(name=name, made=made, max_age=3600, max_size=10, run="r", digest=digest))

    anyio.run(make)
    return place.cache / "persistent" / name


def test_persistent_workspaces_go_by_their_own_age(place: Place) -> None:
    """One that is older than it may be is evicted, unless a run has it; a younger one stays, whatever --max-age is."""
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
def test_what_was_cut_is_ended(place: Place, moment: str) -> None:
    """What a killed run left of an eviction or a swap is freed, whatever its age; its snapshot is needed no more.

    Without content there is nothing to put back; what content there is stays. A dry run says so and changes nothing.
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


def test_a_snapshot_goes_with_the_workspace_that_was_cut(place: Place) -> None:
    """What a workspace would have been put back to is dropped once its eviction has been ended."""
    cut = keep(place, "cut", age=10)
    aged(place, 31)
    assert place.senro("cache", "gc").stdout.startswith("dropped nothing; freed 0 B, ")
    (cut / "content").rename(cut / ".content.senro-0123456789ab.gone")
    assert place.senro("cache", "gc").stdout.startswith("dropped 1 snapshot; freed ")


def test_one_that_cannot_be_seen_to(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named with what is wrong, stays, and keeps nobody from the others; snapshots are dropped all the same."""
    for name in ("bad", "good"):
        keep(place, name, age=4000, digest=Tree().digest)
    aged(place, 31)

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
def test_bounds_that_are_none(place: Place, words: list[str], problem: str) -> None:
    """Exit 2 and what to write; nothing is dropped."""
    aged(place, 31)
    before = read_folder(place.cache)
    done = place.senro("cache", "gc", *words)
    assert done.exit_code == 2
    assert problem in done.stderr
    assert read_folder(place.cache) == before
