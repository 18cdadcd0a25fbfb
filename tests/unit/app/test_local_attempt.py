from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from senro.app.local_attempt import GRACE_SECONDS, LocalAttempt
from senro.domain.pipeline.targets import local
from senro.domain.pipeline.workspace import Mount, Workspace
from senro.domain.run.events import LogEnded, SnapshotTaken, StepRunning
from senro.domain.run.outcome import Outcome
from senro.ports.processes import Command, OutputSink, ProcessEnd
from tests.lib.archives.files import names
from tests.lib.fakes.ledger import RUN_ID
from tests.lib.harness.app import App, pod_plan

pytestmark = pytest.mark.anyio

SRC = Workspace("src", path="src")
OUT = Workspace("my-out")


class Does:
    """A `Processes` that changes the folders of a step and prints output as the test says."""

    def __init__(
        self, end: ProcessEnd, *printed: tuple[str, bytes], writes: dict[str, str | None] | None = None
    ) -> None:
        self._end = end
        self._printed = printed
        self._writes = writes or {}
        self.command: Command | None = None

    async def run(self, command: Command, output: OutputSink) -> ProcessEnd:
        self.command = command
        for variable, target in self._writes.items():
            path = Path(command.env[variable]) / "made"
            if target is None:
                path.write_bytes(b"made")
            else:
                path.symlink_to(target)
        for stream, data in self._printed:
            await output(stream, data)  # type: ignore[arg-type]  # a literal in the tests below
        return self._end

    def kill_all(self) -> None:
        raise AssertionError("nobody asked twice")


class Scene:
    """A local step with two workspaces, one of them read-only."""

    def __init__(
        self, folder: Path, does: Does, *mounts: Mount, values: dict[str, bytes] | None = None, **step: Any
    ) -> None:
        (folder / "src").mkdir()
        (folder / "src" / "file").write_bytes(b"1")
        self.folder = folder
        self.does = does
        plan = pod_plan(on=local(), mounts=mounts or [SRC.at("/src", "ro"), OUT.at("/out")], **step)
        self.app = App(folder, plan, secrets=values)
        object.__setattr__(self.app.services, "processes", does)

    async def run(self, *, last: bool = True, files: dict[str, str] | None = None) -> Outcome:
        await self.app.workspaces.open(self.app.plan)
        mounts = await self.app.workspaces.prepare(self.app.plan.steps[0].step, again=False)
        attempt = self.app.attempt(2, last=last, mounts=mounts)
        self.app.ledger.lines.clear()
        return await LocalAttempt(attempt, files or {}, str(self.folder)).run()

    def place(self, name: str) -> Path:
        return self.folder / "runs" / RUN_ID / "workspaces" / name

    @property
    def kept(self) -> list[str]:
        return [event.workspace for event in self.app.ledger.events if isinstance(event, SnapshotTaken)]

    @property
    def command(self) -> Command:
        assert self.does.command is not None
        return self.does.command


async def test_command_gets_arguments_timeout_and_environment(tmp_path: Path) -> None:
    """The command gets its arguments, timeout and variables, the folders of workspaces, and the files of secrets."""
    scene = Scene(
        tmp_path,
        Does(ProcessEnd(code=0)),
        command=["make", "a b"],
        env={"CC": "gcc"},
        secrets={"TOKEN": "Token"},
        timeout=9,
        values={"Token": b"hunter2hunter2"},
    )
    outcome = await scene.run(files={"Token": "/secret/file"})
    assert outcome == Outcome(kind="succeeded", code=0)
    assert (list(scene.command.argv), scene.command.timeout) == (["make", "a b"], 9)
    assert (scene.command.cwd, scene.command.grace) == (str(tmp_path), GRACE_SECONDS)
    assert scene.command.env == {
        "CC": "gcc",
        "TOKEN": "/secret/file",
        "SENRO_WORKSPACE_SRC": str(scene.place("src")),
        "SENRO_WORKSPACE_MY_OUT": str(scene.place("my-out")),
        "SENRO_RUN": RUN_ID,
        "SENRO_STEP": "build.make",
        "SENRO_ATTEMPT": "2",
    }


@pytest.mark.parametrize(
    ("workdir", "folder"),
    [
        (None, "."),
        ("sub", "sub"),
        ("/src", "WS"),
        ("/src/deep/er", "WS/deep/er"),
        ("/srcx", "/srcx"),
        ("/tmp", "/tmp"),
    ],
)
async def test_workdir_is_mapped(tmp_path: Path, workdir: str | None, folder: str) -> None:
    """A workdir at or below a mount is mapped to the workspace's folder; others are relative to the base."""
    scene = Scene(tmp_path, Does(ProcessEnd(code=0)), workdir=workdir)
    await scene.run()
    expected = Path(folder.replace("WS", str(scene.place("src"))))
    assert Path(scene.command.cwd) == tmp_path / expected


ENDS: list[tuple[ProcessEnd, Outcome]] = [
    (ProcessEnd(code=3), Outcome(kind="failed", code=3)),
    (ProcessEnd(code=137), Outcome(kind="failed", code=137)),
    (
        ProcessEnd(code=None, error="no such program: mak"),
        Outcome(kind="failed", did_run="no", notes=("start-error",), message="no such program: mak"),
    ),
    (
        ProcessEnd(code=143, timed_out=True),
        Outcome(kind="timed_out", code=143, hint="Raise the step's timeout, or make it faster."),
    ),
    (ProcessEnd(code=1, error="pid 7 lives on"), Outcome(kind="failed", code=1, message="pid 7 lives on")),
]


@pytest.mark.parametrize(("end", "outcome"), ENDS, ids=range(len(ENDS)))
async def test_process_end_becomes_the_outcome(tmp_path: Path, end: ProcessEnd, outcome: Outcome) -> None:
    """The outcome has the exit code or timeout, and errors of starting and ending the command."""
    assert await Scene(tmp_path, Does(end)).run() == outcome


async def test_output_is_split_into_lines_and_masked(tmp_path: Path) -> None:
    """The lines of both streams are logged and reported whole; a secret that is printed in pieces is masked."""
    printed = [("stdout", b"one\ntoken=hun"), ("stderr", b"err\xff\n"), ("stdout", b"ter2hunter2\nend")]
    scene = Scene(tmp_path, Does(ProcessEnd(code=0), *printed), values={"Token": b"hunter2hunter2"})
    await scene.run()
    assert scene.app.reporter.lines == [
        ("build.make", "stdout", "one"),
        ("build.make", "stderr", "err\ufffd"),
        ("build.make", "stdout", "token=***"),
        ("build.make", "stdout", "end"),
    ]
    assert scene.app.ledger.logs["build.make", 2].content == b"one\nerr\xff\ntoken=***\nend"
    kinds = [type(event) for event in scene.app.ledger.events]
    assert kinds == [StepRunning, LogEnded, SnapshotTaken]


@pytest.mark.parametrize(
    ("code", "last", "kept"), [(0, False, True), (0, True, True), (3, False, False), (3, True, True)]
)
async def test_changes_are_kept(tmp_path: Path, code: int, last: bool, kept: bool) -> None:
    """Changes are kept after a success and after the last attempt, in read-write mounts only."""
    scene = Scene(tmp_path, Does(ProcessEnd(code=code), writes={"SENRO_WORKSPACE_MY_OUT": None}))
    await scene.run(last=last)
    assert scene.kept == (["my-out"] if kept else [])
    assert names(scene.place("my-out")) == ["made"]


@pytest.mark.parametrize("target", [None, "/etc/passwd"], ids=["file", "link"])
async def test_change_of_a_read_only_workspace_fails_the_step(tmp_path: Path, target: str | None) -> None:
    """A step that changed a read-only workspace has failed, and the workspace is restored."""
    scene = Scene(tmp_path, Does(ProcessEnd(code=0), writes={"SENRO_WORKSPACE_SRC": target}))
    outcome = await scene.run()
    assert (outcome.kind, outcome.code) == ("failed", 0)
    assert outcome.message == "the step changed a workspace that it mounts read-only (src); the change was undone"
    assert outcome.hint
    assert names(scene.place("src")) == ["file"]
    assert scene.kept == []


async def test_failure_with_a_changed_read_only_workspace(tmp_path: Path) -> None:
    """A failed step keeps its exit code, and the read-only workspace is restored."""
    scene = Scene(tmp_path, Does(ProcessEnd(code=3), writes={"SENRO_WORKSPACE_SRC": None}))
    outcome = await scene.run()
    assert (outcome.kind, outcome.code, outcome.message) == ("failed", 3, "")
    assert names(scene.place("src")) == ["file"]


@pytest.mark.parametrize("code", [0, 3])
async def test_unstorable_workspace_fails_the_step(tmp_path: Path, code: int) -> None:
    """A link out of the workspace fails the step, which keeps its code; the workspace is restored."""
    scene = Scene(tmp_path, Does(ProcessEnd(code=code), writes={"SENRO_WORKSPACE_MY_OUT": "/etc/passwd"}))
    outcome = await scene.run()
    assert (outcome.kind, outcome.code) == ("failed", code)
    assert outcome.message.startswith("a workspace was refused as the step left it: made: ")
    assert outcome.hint == "The workspace was restored to its state before the step."
    assert names(scene.place("my-out")) == []
