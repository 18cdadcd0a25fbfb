from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

import senro
from senro.adapters.fs.ledger import FolderLedger
from senro.domain.errors import ConfigurationError, RunBroken, StoreError, TreeError
from senro.domain.run.events import AttemptEnded, RunEnded, StepEnded, decode_event
from tests.lib.harness.app import RecordingReporter

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test has its own folder and cache."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def environ(folder: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "SENRO_CACHE_DIR": str(folder / "cache")}


def shell(*scripts: str, **options: Any) -> senro.Plan:
    """Returns a plan of local steps `w.s0`, `w.s1`, … that may run at the same time."""
    pipeline = senro.Pipeline("p")
    workflow = pipeline.workflow("w")
    for number, script in enumerate(scripts):
        workflow.step(f"s{number}", ["sh", "-c", script], **options)
    return pipeline.build()


def events(folder: Path) -> list[object]:
    """Returns the ledger of the only run."""
    (ledger,) = folder.glob(".senro/runs/*/events.jsonl")
    return [decode_event(line) for line in ledger.read_bytes().splitlines()]


def check_type(error: BaseException, kind: type[BaseException]) -> None:
    """Checks that the error has this type and is no group."""
    assert type(error) is kind


@pytest.mark.parametrize("jobs", [0, -1, -(2**40)])
def test_less_than_one_job_is_refused(folder: Path, jobs: int) -> None:
    """Before anything is started: no folder is created, and the reporter is only closed."""
    told = RecordingReporter()
    with pytest.raises(ConfigurationError, match=f"at least one step must run at once, not {jobs}"):
        senro.run_sync(shell("true"), jobs=jobs, reporter=told, environ=environ(folder))
    assert list(folder.iterdir()) == []
    assert told.states == []


@pytest.mark.parametrize("jobs", [1, 2, None])
def test_any_number_of_jobs(folder: Path, jobs: int | None) -> None:
    """A plan runs with any number of concurrent attempts."""
    assert senro.run_sync(shell("true", "true", "true"), jobs=jobs, environ=environ(folder)).ok


@pytest.fixture
def room(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Fills the disk after a number of events."""
    left: int = request.param
    append = FolderLedger.append

    async def full(ledger: FolderLedger, line: bytes) -> None:
        nonlocal left
        if left == 0:
            raise StoreError(f"{ledger.folder}/events.jsonl", "No space left on device; make room")
        left -= 1
        await append(ledger, line)

    monkeypatch.setattr(FolderLedger, "append", full)
    return left


@pytest.mark.parametrize("room", range(1, 10), indirect=True)
def test_a_failing_ledger_breaks_the_run(folder: Path, room: int) -> None:
    """Whichever event fails: a single error with its cause and the run's folder."""
    with pytest.raises(RunBroken, match="No space left on device") as caught:
        senro.run_sync(shell("echo one; sleep 0.1", "echo two"), environ=environ(folder))
    check_type(caught.value, RunBroken)
    assert isinstance(caught.value.cause, StoreError)
    assert caught.value.__cause__ is caught.value.cause
    assert caught.value.folder == str(next((folder / ".senro" / "runs").iterdir()))
    assert len(events(folder)) == room


@pytest.mark.parametrize("room", [0], indirect=True)
def test_a_ledger_that_fails_at_once(folder: Path, room: int) -> None:
    """Nothing was started, so the error is that of the store."""
    with pytest.raises(StoreError, match="No space left on device") as caught:
        senro.run_sync(shell("touch started"), environ=environ(folder))
    check_type(caught.value, StoreError)
    assert len(events(folder)) == room
    assert not (folder / "started").exists()


@pytest.mark.slow
def test_a_full_disk_is_exit_code_1(folder: Path) -> None:
    """With a real limit on the size of files, the command prints a message without a traceback."""
    steps = "\n".join(f"w.step('s{number}', ['true'])" for number in range(40))
    (folder / "p.py").write_text(f"import senro\np = senro.Pipeline('p')\nw = p.workflow('w')\n{steps}\n")
    program = (
        f"import resource, sys; sys.path.insert(0, {str(ROOT)!r}); sys.dont_write_bytecode = True\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (12_288, resource.RLIM_INFINITY))\n"
        "from senro.cli.main import main; main(['run', 'p.py', '--jobs', '2', '--quiet'])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env=environ(folder),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 1, ran.stderr
    assert ran.stderr.startswith("senro: the run broke: ")
    assert "Traceback" not in ran.stderr
    assert len(ran.stderr.splitlines()) == 1
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 12_288


def test_an_invalid_first_content_is_no_broken_run(folder: Path) -> None:
    """A link out of the workspace is an error of the pipeline."""
    (folder / "src").mkdir()
    (folder / "src" / "out").symlink_to("/etc/passwd")
    plan = shell("true", mounts=[senro.Workspace("src", path="src").at("/src")])
    with pytest.raises(TreeError, match="out: ") as caught:
        senro.run_sync(plan, environ=environ(folder))
    check_type(caught.value, TreeError)


class FailingReporter(RecordingReporter):
    """A reporter that raises."""

    def log_line(self, step_id: str, stream: str, text: str) -> None:
        raise LookupError(step_id, stream, text)


def test_the_error_of_a_reporter_is_raised(folder: Path) -> None:
    """It is not wrapped. The ledger says that the coordinator failed and how every step ended."""
    with pytest.raises(LookupError) as caught:
        senro.run_sync(shell("echo hello", "sleep 60"), reporter=FailingReporter(), environ=environ(folder))
    check_type(caught.value, LookupError)
    ended = events(folder)
    assert sorted(event.step for event in ended if isinstance(event, StepEnded)) == ["w.s0", "w.s1"]
    assert [event.state for event in ended if isinstance(event, RunEnded)] == ["cancelled"]


def test_a_cancelled_task_ends_its_run(folder: Path) -> None:
    """With asyncio's cancellation the step's process ends, and its attempt is recorded."""

    async def main() -> None:
        running = asyncio.Event()

        class Watching(RecordingReporter):
            def log_line(self, step_id: str, stream: str, text: str) -> None:
                super().log_line(step_id, stream, text)
                running.set()

        task = asyncio.ensure_future(
            senro.run(shell("echo $$; exec sleep 600"), reporter=(told := Watching()), environ=environ(folder))
        )
        await running.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(ProcessLookupError):
            os.kill(int(told.lines[0][2]), 0)

    with anyio.from_thread.start_blocking_portal() as portal:
        portal.call(main)
    (outcome,) = (event.outcome for event in events(folder) if isinstance(event, AttemptEnded))
    assert (outcome.kind, outcome.did_run) == ("cancelled", "yes")


def test_concurrent_readers_are_judged_separately(folder: Path) -> None:
    """Of two local steps with a read-only workspace, the one that writes fails, and the other does not see it."""
    (folder / "src").mkdir()
    (folder / "src" / "file").write_text("first\n")
    src = senro.Workspace("src", path="src")
    pipeline = senro.Pipeline("p")
    workflow = pipeline.workflow("w")
    for name, script in (
        ("guilty", "touch made; echo changed > file"),
        ("innocent", 'until test -e "$FLAG"; do sleep 0.02; done; cat file; ls'),
    ):
        flag = str(folder / "flag")
        workflow.step(
            name,
            ["sh", "-c", f'{script}; touch "$FLAG"' if name == "guilty" else script],
            mounts=[src.at("/src", "ro")],
            workdir="/src",
            env={"FLAG": flag},
        )
    told = RecordingReporter()
    result = senro.run_sync(pipeline.build(), reporter=told, environ=environ(folder))
    assert {name: step.state for name, step in result.steps.items()} == {
        "w.guilty": "failed",
        "w.innocent": "succeeded",
    }
    outcome = result.steps["w.guilty"].outcome
    assert outcome is not None
    assert "changed a workspace that it mounts read-only (src)" in outcome.message
    assert [text for step, _, text in told.lines if step == "w.innocent"] == ["first", "file"]
    assert Path(result.workspaces["src"].folder, "file").read_text() == "first\n"
