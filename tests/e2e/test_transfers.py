"""Broken transfers are repeated while the pod exists, and are then complete or reported; the command runs once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

import senro
from senro.adapters.fs import FolderTrees
from senro.domain.run.events import (
    AttemptEnded,
    PodCreated,
    SnapshotTaken,
    TransferCompleted,
    TransferTryFailed,
    WorkspaceOpened,
)
from senro.domain.transfer.containers import IO_CONTAINER, STAGE_CONTAINER
from senro.domain.transfer.scripts import sentinel_name
from senro.ports.trees import Packed
from senro.testing import Bench

pytestmark = pytest.mark.slow

STRIDE = 4096
SCALE = 10 if os.environ.get("SENRO_TEST_PROFILE") == "soak" else 1


def content(folder: Path) -> int:
    """Writes a small project. Returns the length of its archive."""
    (folder / "project" / "deep" / "er").mkdir(parents=True)
    (folder / "project" / "a.bin").write_bytes(bytes(range(256)) * 40)
    (folder / "project" / "deep" / "er" / "b.txt").write_text("b\n" * 700)
    (folder / "project" / "empty").write_bytes(b"")
    (folder / "project" / "link").symlink_to("deep/er/b.txt")

    async def length() -> int:
        trees = FolderTrees()
        tree = await trees.walk(str(folder / "project"))
        async with trees.pack([Packed(0, str(folder / "project"), tree)], sentinel=sentinel_name("0" * 16)) as archive:
            return archive.length

    return anyio.run(length)


def cuts(length: int) -> list[int]:
    """Returns every 4 KiB boundary, the first byte, and the byte before the end."""
    return sorted({1, *range(STRIDE, length, STRIDE), length - 1})


def pipeline(bench: Bench) -> senro.Pipeline:
    """Returns a pipeline with a step that changes a workspace and prints that it ran."""
    src = senro.Workspace("src", path="project")
    p = senro.Pipeline("cut")
    p.workflow("w", on=bench.pod()).step(
        "s", ["sh", "-c", "echo ran; echo changed > changed; rm empty"], mounts=[src.at("/w")], workdir="/w"
    )
    return p


CHANGED = {"a.bin", "deep/er/b.txt", "changed", "link"}


def check_whole(bench: Bench, result: senro.Result, direction: str, tries: int) -> None:
    """Checks that the run succeeded after `tries` tries, the command ran once, and all files came back."""
    assert result.state == "succeeded", bench.events()
    assert len([event for event in bench.of(TransferTryFailed) if event.direction == direction]) == tries - 1
    assert bench.log("w.s") == b"ran\n"
    assert bench.starts() == 1
    assert set(bench.tree("src")) == CHANGED
    assert bench.tree("src")["changed"] == b"changed\n"
    assert {event.direction for event in bench.of(TransferCompleted)} == {"upload", "download"}


@pytest.mark.bubblewrap
@pytest.mark.parametrize("direction", ["upload", "download"])
def test_a_cut_transfer_is_repeated(bench: Bench, direction: str) -> None:
    """One cut, at any 4 KiB of the archive in either direction: the transfer is repeated, and the step runs once."""
    length = content(bench.folder)
    for after in cuts(length):
        if direction == "upload":
            bench.faults.cut_exec("stdin", after, container=STAGE_CONTAINER)
        else:
            bench.faults.cut_exec("stdout", after, container=IO_CONTAINER)
        result = bench.run(pipeline(bench))
        assert bench.faults.pending() == 0
        check_whole(bench, result, direction, 2)


@pytest.mark.bubblewrap
@pytest.mark.parametrize("direction", ["upload", "download"])
def test_a_transfer_that_is_cut_three_times_fails(bench: Bench, direction: str) -> None:
    """The attempt is Infra `transfer` with the bytes it transferred, and the workspace is unchanged."""
    length = content(bench.folder)
    after = length // 2
    if direction == "upload":
        bench.faults.cut_exec("stdin", after, container=STAGE_CONTAINER, times=3)
    else:
        bench.faults.cut_exec("stdout", after, container=IO_CONTAINER, times=3)
    result = bench.run(pipeline(bench))
    outcome = result.steps["w.s"].outcome
    assert outcome is not None
    assert (result.state, outcome.kind, outcome.infra_kind) == ("failed", "infra", "transfer")
    # All bytes were sent, so the coordinator cannot know whether the last try released the step.
    assert outcome.did_run == ("maybe" if direction == "upload" else "yes")
    assert outcome.code == (None if direction == "upload" else 0)
    assert "3 tries" in outcome.message
    assert "bytes" in outcome.message
    assert set(bench.tree("src")) == {"a.bin", "deep/er/b.txt", "empty", "link"}
    assert bench.starts() == (0 if direction == "upload" else 1)


@pytest.mark.bubblewrap
@pytest.mark.parametrize(
    ("container", "direction", "tries"), [(STAGE_CONTAINER, "upload", 1), (IO_CONTAINER, "download", 2)]
)
def test_a_lost_status_of_an_exec(bench: Bench, container: str, direction: str, tries: int) -> None:
    """An upload needs no status after its proof line. A download without a status is repeated."""
    content(bench.folder)
    bench.faults.drop_status(container=container)
    check_whole(bench, bench.run(pipeline(bench)), direction, tries)


@pytest.mark.bubblewrap
@pytest.mark.parametrize(("lost", "tries"), [(1, 1), (512, 1), (10_240, 2), (11_000, 2)])
def test_a_missing_end_of_stdout_with_a_success_status(bench: Bench, lost: int, tries: int) -> None:
    """A real cluster does this to a slow reader on v5: an archive without its end blocks is downloaded again.

    tar pads its last record of 10 KiB with zeros; if only padding is missing, the archive is complete.
    """
    content(bench.folder)
    bench.faults.truncate_stdout(lost, container=IO_CONTAINER)
    check_whole(bench, bench.run(pipeline(bench)), "download", tries)


@pytest.mark.bubblewrap
@pytest.mark.parametrize(("last", "tries"), [(1, 1), (512, 1), (11_000, 2)])
def test_a_status_before_the_last_data(bench: Bench, last: int, tries: int) -> None:
    """An archive whose end blocks arrive after the status is downloaded again, and is then complete."""
    content(bench.folder)
    bench.faults.hasten_status(last, container=IO_CONTAINER)
    check_whole(bench, bench.run(pipeline(bench)), "download", tries)
    assert bench.faults.pending() == 0


@pytest.mark.bubblewrap
@pytest.mark.parametrize(("container", "direction"), [(STAGE_CONTAINER, "upload"), (IO_CONTAINER, "download")])
def test_a_late_status(bench: Bench, container: str, direction: str) -> None:
    """A late status does not cause a repetition."""
    content(bench.folder)
    bench.faults.delay_status(1, container=container)
    check_whole(bench, bench.run(pipeline(bench)), direction, 1)
    assert bench.faults.pending() == 0


class When(senro.Reporter):
    """Arms a fault when the step reaches a phase. `running` is the last moment before the exec of the download."""

    def __init__(self, phase: str, arm: Callable[[], object]) -> None:
        self._phase = phase
        self._arm: Callable[[], object] | None = arm

    def step_state(self, step_id: str, state: str, *, attempt: int, phase: str = "") -> None:
        """Called by the run."""
        if step_id and state and attempt and phase == self._phase and self._arm is not None:
            self._arm()
            self._arm = None


REFUSALS: dict[str, Callable[[Any, int], object]] = {
    "500": lambda faults, times: faults.refuse_handshake(times=times),
    "503": lambda faults, times: faults.answer(503, "shutting down", times=times, path_contains="/exec"),
    "429": lambda faults, times: faults.answer(429, "slow down", times=times, path_contains="/exec", retry_after=1),
    "dropped": lambda faults, times: faults.drop_connection(times=times, path_contains="/exec"),
}
"""Refusals of an exec by a control plane or kubelet that restarts."""


@pytest.mark.bubblewrap
@pytest.mark.parametrize(
    ("phase", "how", "times"),
    [
        *[(phase, how, 4) for phase in ("staging", "reading back") for how in ("503", "429", "dropped")],
        ("staging", "500", 4),
        ("reading back", "500", 6),
    ],
)
def test_a_refused_exec_is_no_try(bench: Bench, phase: str, how: str, times: int) -> None:
    """With more refusals than tries the files are still transferred in both directions."""
    content(bench.folder)
    result = bench.run(pipeline(bench), reporter=When(phase, lambda: REFUSALS[how](bench.faults, times)))
    assert bench.faults.pending() == 0
    check_whole(bench, result, "upload" if phase == "staging" else "download", times + 1)
    assert [event.tries for event in bench.of(TransferTryFailed)] == [0] * times
    assert [event.tries for event in bench.of(TransferCompleted)] == [1, 1]


@pytest.mark.bubblewrap
def test_refusals_do_not_use_up_tries(bench: Bench) -> None:
    """After two cuts with refusals in between, the third try succeeds."""
    content(bench.folder)

    def arm() -> None:
        bench.faults.refuse_handshake(times=3)
        bench.faults.cut_exec("stdout", 5000, container=IO_CONTAINER, times=2)

    result = bench.run(pipeline(bench), reporter=When("reading back", arm))
    check_whole(bench, result, "download", 6)
    assert [event.tries for event in bench.of(TransferTryFailed)] == [0, 0, 0, 1, 2]


@pytest.mark.bubblewrap
@pytest.mark.parametrize("phase", ["staging", "reading back"])
def test_a_forbidden_exec_is_reported_at_once(bench: Bench, phase: str) -> None:
    """One request suffices to report the missing right, and nothing is repeated."""
    content(bench.folder)
    words = 'pods "x" is forbidden: User "u" cannot create resource "pods/exec" in API group ""'
    src = senro.Workspace("src", path="project")
    p = senro.Pipeline("forbidden")
    p.workflow("w", on=bench.pod()).step(
        "s", ["sh", "-c", "rm empty"], mounts=[src.at("/w")], workdir="/w", retry=senro.retry.on_infra(attempts=3)
    )
    result = bench.run(
        p, reporter=When(phase, lambda: bench.faults.answer(403, words, times=99, path_contains="/exec"))
    )
    left = bench.faults.pending()
    bench.faults.clear()
    outcome = result.steps["w.s"].outcome
    assert outcome is not None
    assert (result.state, outcome.kind, result.steps["w.s"].attempts) == ("failed", "infra", 1)
    assert outcome.infra_kind == ("forbidden" if phase == "staging" else "transfer")
    assert (outcome.did_run, outcome.code) == (("no", None) if phase == "staging" else ("yes", 0))
    assert 'cannot create resource "pods/exec"' in outcome.message
    assert left == 98
    assert set(bench.tree("src")) == {"a.bin", "deep/er/b.txt", "empty", "link"}
    assert bench.starts() == (0 if phase == "staging" else 1)


@pytest.mark.bubblewrap
@pytest.mark.parametrize("at", ["stage", "middle"])
def test_a_pod_that_disappears_midway(bench: Bench, at: str) -> None:
    """The step is Infra `vanished`, its command ran at most once, and the workspace is unchanged."""
    content(bench.folder)
    bench.faults.vanish_pod(step="w.s", at=at)
    src = senro.Workspace("src", path="project")
    p = senro.Pipeline("vanish")
    p.workflow("w", on=bench.pod()).step("s", ["sh", "-c", "rm empty; sleep 30"], mounts=[src.at("/w")], workdir="/w")
    result = bench.run(p)
    outcome = result.steps["w.s"].outcome
    assert outcome is not None
    assert (outcome.kind, outcome.infra_kind) == ("infra", "vanished")
    assert outcome.did_run in ({"no"} if at == "stage" else {"yes", "maybe"})
    assert set(bench.tree("src")) == {"a.bin", "deep/er/b.txt", "empty", "link"}
    assert bench.starts() <= 1


@pytest.mark.bubblewrap
def test_a_pod_that_disappears_during_the_download(bench: Bench) -> None:
    """The outcome is Infra `transfer` with the command's code, and the workspace is unchanged."""
    content(bench.folder)
    bench.faults.vanish_pod(step="w.s", at="read-back")
    result = bench.run(pipeline(bench))
    outcome = result.steps["w.s"].outcome
    assert outcome is not None
    assert (outcome.kind, outcome.infra_kind, outcome.code, outcome.did_run) == ("infra", "transfer", 0, "yes")
    assert set(bench.tree("src")) == {"a.bin", "deep/er/b.txt", "empty", "link"}
    assert bench.starts() == 1


@pytest.mark.bubblewrap
def test_a_tree_with_every_kind_of_name(bench: Bench) -> None:
    """Any names keep their digest from a local step through two pods: a thousand, or ten thousand in `make soak`."""
    root = bench.folder / "project"
    root.mkdir()
    for number in range(10 * SCALE):
        folder = root / f"d{number:03}-ü-{'n' * (200 if number % 10 == 0 else 3)}"
        folder.mkdir()
        for inner in range(100):
            (folder / f"{inner:03}-{'ß' if inner % 7 else 'x' * 200}.txt").write_bytes(
                os.urandom(6000) if inner % 5 else b""
            )
        (folder / "run").write_text("#!/bin/sh\n")
        (folder / "run").chmod(0o755)
        (folder / "link").symlink_to("run")
        (folder / "empty").mkdir()
    src = senro.Workspace("src", path="project")
    p = senro.Pipeline("big")
    p.workflow("a").step("here", ["true"], mounts=[src.at("/w")])
    p.workflow("b", needs=["a"], on=bench.pod()).step("one", ["true"], mounts=[src.at("/w")])
    p.workflow("c", needs=["b"], on=bench.pod()).step("two", ["true"], mounts=[src.at("/w")])
    p.workflow("d", needs=["c"]).step("back", ["true"], mounts=[src.at("/w")])
    result = bench.run(p)
    assert result.state == "succeeded"
    digests = {event.digest for event in bench.of(WorkspaceOpened)}
    digests |= {event.digest for event in bench.of(SnapshotTaken)}
    assert digests == {result.workspaces["src"].digest}
    assert len(bench.of(AttemptEnded)) == 4
    assert len(bench.of(PodCreated)) == 2
