"""A workspace through random sequences of local and pod steps: each step sees the snapshot that the ledger names.

Pods are senro's own scripts, run by a shell and a tar of this machine, with volumes in a temporary folder.
"""

from __future__ import annotations

import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from senro.domain.errors import TreeError
from senro.domain.pipeline.step import Step
from senro.domain.pipeline.targets import local
from senro.domain.pipeline.workspace import Links, Workspace
from senro.domain.plan.pipeline import Pipeline
from senro.domain.run.events import SnapshotTaken, WorkspaceOpened
from senro.domain.transfer.containers import STAGE_COMMAND
from senro.domain.transfer.replies import remote_count
from senro.domain.transfer.scripts import reading_command, sentinel_name
from senro.domain.tree.content_rules import ContentRules
from senro.domain.tree.excludes import compile_excludes, remote_excludes
from senro.domain.tree.tree import Entry, Tree
from tests.lib.archives.files import BUSYBOX, directory, file, follow, link, read_folder_as_is
from tests.lib.builders.plans import RUNNER
from tests.lib.harness.app import App
from tests.unit.domain.transfer.test_scripts import NONCE, PROOF, Image, image_at

T = TypeVar("T")

NAMES = st.sampled_from(["a", "b", "c", "out", "x.o", "node_modules", "A", "é", "\udcff", "new\nline", "-rf"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
TARGETS = st.sampled_from(["a", "b", "../a", "a/b", ".", "..", "../..", "nothing", "/etc/passwd", "out", "c/"])
CONTENTS = st.sampled_from([b"", b"x", b"content\n", b"y" * 3000])
MODES = st.sampled_from([0o600, 0o644, 0o711, 0o4755, 0o2644, 0o1600])
EDITS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), PATHS, CONTENTS),
        st.tuples(st.just("write"), PATHS, CONTENTS),
        st.tuples(st.just("directory"), PATHS, st.none()),
        st.tuples(st.just("link"), PATHS, TARGETS),
        st.tuples(st.just("hard"), PATHS, PATHS),
        st.tuples(st.just("move"), PATHS, PATHS),
        st.tuples(st.just("mode"), PATHS, MODES),
        st.tuples(st.just("fifo"), PATHS, st.none()),
        st.tuples(st.just("remove"), PATHS, st.none()),
    ),
    max_size=6,
)
Edit = tuple[str, str, Any]
"""What is done, at which path, and how: a key of `DEEDS` and its arguments."""

RULES = st.tuples(
    st.lists(
        st.sampled_from(["**/out", "*.o", "**/*.o", "a/b", "c/", "b/**", "**/A", "out/b", "**/out/", "*/a/"]),
        max_size=2,
        unique=True,
    ),
    st.sampled_from(["refuse", "keep", "follow"]),
)
MACHINES = [("dash", "gnu"), ("busybox", "busybox")] if BUSYBOX else [("dash", "gnu")]


def write(place: Path, content: bytes) -> None:
    if not (place.is_symlink() or place.is_fifo()):
        place.write_bytes(content)


def set_mode(place: Path, mode: int) -> None:
    if place.is_file() and not place.is_symlink():
        place.chmod(mode)


def remove(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink()


DEEDS: dict[str, Callable[[Path, Path, Any], object]] = {
    "write": lambda _, place, content: write(place, content),
    "directory": lambda _, place, __: place.mkdir(),
    "link": lambda _, place, target: place.symlink_to(target),
    "hard": lambda folder, place, other: os.link(folder / other, place, follow_symlinks=False),
    "move": lambda folder, place, other: (folder / other).rename(place),
    "mode": lambda _, place, mode: set_mode(place, mode),
    "fifo": lambda _, place, __: os.mkfifo(place),
    "remove": lambda _, place, __: remove(place),
}


def edit(folder: Path, edits: list[Edit]) -> None:
    """Apply a step's edit to a folder; an impossible edit is ignored."""
    for what, path, how in edits:
        place = folder / path
        if not os.path.realpath(place.parent).startswith(os.path.realpath(folder)):
            continue  # a step may write through a link, and this test must not
        with suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            DEEDS[what](folder, place, how)


def expected(folder: Path, rules: ContentRules) -> tuple[Tree, int]:
    """The tree of a folder by its rules, and how many entries it omits. Raises `TreeError` for refused links."""
    excludes = compile_excludes(rules.exclude)
    entries: list[Entry] = []
    lost = 0
    for place, names, files in os.walk(folder):
        for name in names + files:
            path = str((Path(place) / name).relative_to(folder))
            status = (Path(place) / name).lstat()
            if excludes.matches(path, directory=stat.S_ISDIR(status.st_mode)):
                continue
            if stat.S_ISLNK(status.st_mode):
                entries.append(link(path, str(os.readlink(Path(place) / name))))  # noqa: PTH115 - as it is written
            elif stat.S_ISDIR(status.st_mode):
                entries.append(directory(path))
            elif stat.S_ISREG(status.st_mode):
                entries.append(file(path, (Path(place) / name).read_bytes(), executable=bool(status.st_mode & 0o100)))
                lost += bool(status.st_mode & 0o7000)
            else:
                lost += 1
    tree = Tree(tuple(entries), links="keep" if rules.follow else rules.links)
    return (follow(tree, excludes)[0] if rules.follow else tree), lost


class WorkspaceMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.top = Path(tempfile.mkdtemp(prefix="senro-machine-"))
        self.attempts = 0

    def teardown(self) -> None:
        shutil.rmtree(self.top)

    @initialize(rules=RULES, edits=EDITS)
    def begin(self, rules: tuple[list[str], str], edits: list[Edit]) -> None:
        """Open a workspace with an initial content that is valid."""
        exclude, how = rules
        (self.top / "src").mkdir()
        edit(self.top / "src", edits)
        links: Links = "keep" if how == "keep" else "refuse"
        workspace = Workspace("src", path="src", exclude=exclude, links=links, preserve_symlinks=how != "follow")
        pipeline = Pipeline("machine")
        workflow = pipeline.workflow("w")
        workflow.step("here", ["true"], mounts=[workspace.at("/w")], on=local())
        workflow.step("there", ["true"], mounts=[workspace.at("/w")], needs=["here"], on=RUNNER)
        plan = pipeline.build()
        self.here, self.there = (planned.step for planned in plan.steps)
        self.app = App(self.top, plan)
        try:
            self.run(lambda: self.app.workspaces.open(plan))
        except TreeError:
            # Nothing of a run that was refused is looked at.
            shutil.rmtree(self.top / "src")
            (self.top / "src").mkdir()
            shutil.rmtree(self.top / "runs", ignore_errors=True)
            self.app = App(self.top, plan)
            self.run(lambda: self.app.workspaces.open(plan))
        (self.transfer,) = self.app.workspaces.transfers(self.there)
        self.content_rules = self.transfer.rules
        self.folder = Path(self.transfer.folder)

    @rule(edits=EDITS)
    def local_step(self, edits: list[Edit]) -> None:
        """A local step works on the folder itself; its changes are kept, or refused and undone."""
        self.attempts += 1
        edit(self.folder, edits)
        self.judge(self.folder, lambda: self.app.workspaces.keep(self.here, self.attempts), self.here)

    @rule(edits=EDITS)
    def local_step_again(self, edits: list[Edit]) -> None:
        """The changes of an attempt are undone before the next attempt."""
        edit(self.folder, edits)
        self.run(lambda: self.app.workspaces.prepare(self.here, again=True))

    @rule(edits=EDITS, machine=st.sampled_from(MACHINES))
    def pod_step(self, edits: list[Edit], machine: tuple[str, str]) -> None:
        """A pod sees the content of the ledger's snapshot; its changes are downloaded, or refused with no effect."""
        self.attempts += 1
        root = self.top / f"pod{self.attempts}"
        root.mkdir()
        image = image_at(root, *machine)
        self.run(lambda: self.stage(image))
        volume = image.volumes / "0"
        assert read_folder_as_is(volume).digest == self.digest
        edit(volume, edits)
        self.judge(volume, lambda: self.read_back(image), self.there)

    @rule()
    def socket_of_a_daemon(self) -> None:
        """A socket that a local step leaves does not change the snapshot."""
        before = self.digest
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with socket.socket(socket.AF_UNIX) as listening, suppress(OSError):
                listening.bind(f"/proc/self/fd/{folder}/s")  # a socket's whole path may have 107 bytes
        finally:
            os.close(folder)
        self.run(lambda: self.app.workspaces.keep(self.here, self.attempts))
        assert self.digest == before

    @invariant()
    def the_next_step_sees_what_the_ledger_says(self) -> None:
        """The folder has exactly the tree of the digest: no excluded name, no fifo, no unknown link."""
        if not hasattr(self, "content_rules"):
            return
        assert read_folder_as_is(self.folder).digest == self.digest
        excludes = compile_excludes(self.content_rules.exclude)
        for entry in read_folder_as_is(self.folder).entries:
            assert not excludes.matches(entry.path, directory=entry.kind == "directory")
            assert entry.kind != "link" or not self.content_rules.follow
        for place, names, _ in os.walk(self.folder):
            assert not [name for name in names if name.startswith(".senro")]
            assert Path(place).is_dir()

    @property
    def digest(self) -> str:
        """The newest digest in the ledger."""
        kinds = (WorkspaceOpened, SnapshotTaken)
        return [event.digest for event in self.app.ledger.events if isinstance(event, kinds)][-1]

    def judge(self, folder: Path, keep: Callable[[], Awaitable[None]], step: Step) -> None:
        """Check that the changes of a step are kept by the rules, or refused by name and undone."""
        before = self.digest
        refused = None
        try:
            tree, lost = expected(folder, self.content_rules)
        except TreeError as error:
            refused, tree, lost = error, Tree(), 0
        if refused is not None:
            with pytest.raises(TreeError) as caught:
                self.run(keep)
            assert (caught.value.path, caught.value.rule) == (refused.path, refused.rule)
            self.run(lambda: self.app.workspaces.restore(step))
            assert self.digest == before
            return
        self.run(keep)
        event = self.app.ledger.events[-1]
        assert isinstance(event, SnapshotTaken)
        assert (event.digest, event.files, event.bytes) == (tree.digest, tree.files, tree.size)
        assert event.omitted == lost

    async def stage(self, image: Image) -> None:
        """Send senro's archive through senro's script."""
        pieces = []
        parts = [each.packed for each in self.app.workspaces.transfers(self.there)]
        async with self.app.services.trees.pack(parts, sentinel=sentinel_name(NONCE)) as archive:
            while piece := await archive.read():
                pieces.append(bytes(piece))
        with image.running(STAGE_COMMAND) as image.stage:
            assert image.stage_with(b"".join(pieces), mounts=1) == (0, PROOF, b"")
            assert image.released()

    async def read_back(self, image: Image) -> None:
        """Download as `senro.app.pod.download` does."""
        mounts = [each for each in self.app.workspaces.transfers(self.there) if each.returns]
        rules = {each.index: each.rules for each in mounts}
        excludes = remote_excludes([one.exclude for one in rules.values()], ("0",))
        code, data, stderr = image.run(reading_command((0,), excludes=excludes))
        assert code == 0, stderr
        folders = {each.index: each.folder for each in mounts}
        async with self.app.services.trees.unpack(folders, rules=rules) as unpacking:
            await unpacking.write(data)
            trees = await unpacking.finish()
            counted = remote_count(stderr)
            assert counted is not None
            assert counted.members == unpacking.members
            await unpacking.replace()
        snapshots = [(each.mount, trees[each.index]) for each in mounts]
        await self.app.workspaces.take_snapshots(self.there, self.attempts, snapshots)

    def run(self, call: Callable[[], Awaitable[T]]) -> T:
        return anyio.run(call)


TestWorkspaceMachine = pytest.mark.slow(WorkspaceMachine.TestCase)
# Every pod step starts three processes; the other properties of trees have the profile's examples.
TestWorkspaceMachine.settings = settings(
    settings(), max_examples=max(15, settings().max_examples // 4), stateful_step_count=6
)
