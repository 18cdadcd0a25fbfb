"""Pipelines as users write them, on a cluster, over TCP and TLS."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import senro
from senro import retry, secret
from senro.domain.run.events import (
    AttemptEnded,
    AttemptStarted,
    LogEnded,
    PodCreated,
    SnapshotTaken,
    StepEnded,
    WorkspaceOpened,
)
from senro.domain.run.state import at_start, final_run_state, fold
from senro.testing import Bench


def test_a_successful_command(bench: Bench) -> None:
    """The step's output is the pod's log, and its exit code the container's."""
    result = bench.one("sh", "-c", "echo one; echo two; printf three")
    assert result.state == "succeeded"
    outcome = result.steps["w.s"].outcome
    assert outcome is not None
    assert outcome.code == 0
    assert bench.log("w.s") == b"one\ntwo\nthree"
    assert [event.complete for event in bench.of(LogEnded)] == [True]


@pytest.mark.parametrize("code", [1, 3, 127, 255])
def test_a_failed_command(bench: Bench, code: int) -> None:
    """Any other exit code fails the step and the run, as a failure of the command."""
    result = bench.one("sh", "-c", f"echo before; exit {code}")
    assert (result.state, result.ok) == ("failed", False)
    outcome = result.steps["w.s"].outcome
    assert outcome is not None
    assert (outcome.kind, outcome.code) == ("failed", code)
    assert bench.log("w.s") == b"before\n"


def test_a_command_that_cannot_be_started(bench: Bench) -> None:
    """It fails the step as a failure of its command, with 128 and a hint."""
    result = bench.one("/no/such/command")
    outcome = result.steps["w.s"].outcome
    assert outcome is not None
    assert (outcome.kind, outcome.code, outcome.notes) == ("failed", 128, ("start-error",))
    assert "/no/such/command" in outcome.message
    assert outcome.hint


def test_a_workspace_through_a_local_step_and_two_pods(bench: Bench) -> None:
    """Pods change and read the files of a local step, and they come back. Each state has one digest."""
    src = senro.Workspace("src")
    p = senro.Pipeline("hand")
    p.workflow("a").step(
        "write", ["sh", "-c", "echo 1 > one; mkdir d; ln -s ../one d/link"], mounts=[src.at("/w")], workdir="/w"
    )
    pods = p.workflow("b", needs=["a"], on=bench.pod())
    pods.step("change", ["sh", "-c", "cat d/link > two && chmod +x two"], mounts=[src.at("/w")], workdir="/w")
    pods.step(
        "look",
        ["sh", "-c", "test -x two && cat two d/link"],
        needs=["change"],
        mounts=[src.at("/w", "ro")],
        workdir="/w",
    )
    p.workflow("c", needs=["b"]).step("here", ["sh", "-c", "cat one two"], mounts=[src.at("/w", "ro")], workdir="/w")
    result = bench.run(p)
    assert result.state == "succeeded"
    assert bench.log("b.look") == b"1\n1\n"
    assert bench.log("c.here") == b"1\n1\n"
    snapshots = bench.of(SnapshotTaken)
    assert [event.step for event in snapshots] == ["a.write", "b.change"]
    assert snapshots[-1].digest == result.workspaces["src"].digest
    assert Path(result.workspaces["src"].folder, "d/link").readlink() == Path("../one")
    assert os.access(Path(result.workspaces["src"].folder, "two"), os.X_OK)


def test_the_first_content_of_a_workspace(bench: Bench) -> None:
    """The folder of `path=` is copied without the excluded files, and never written to."""
    source = bench.folder / "project"
    (source / ".git").mkdir(parents=True)
    (source / ".git" / "HEAD").write_text("x")
    (source / "sub" / "node_modules").mkdir(parents=True)
    (source / "sub" / "node_modules" / "m").write_text("x")
    (source / "keep.txt").write_text("kept")
    (source / "drop.log").write_text("dropped")
    src = senro.Workspace("src", path="project", exclude=["*.log"])
    p = senro.Pipeline("first")
    p.workflow("w", on=bench.pod()).step(
        "s", ["sh", "-c", "echo changed > keep.txt; find . -type f"], mounts=[src.at("/w")], workdir="/w"
    )
    assert bench.run(p).ok
    assert bench.log("w.s") == b"./keep.txt\n"
    assert bench.tree("src") == {"keep.txt": b"changed\n"}
    assert (source / "keep.txt").read_text() == "kept"


def test_the_run_folder_is_excluded_from_a_workspace(bench: Bench) -> None:
    """A workspace of the working folder does not contain the runs in it."""
    (bench.folder / "file").write_text("x")
    src = senro.Workspace("src", path=".", exclude=["cache"])
    p = senro.Pipeline("inside")
    p.workflow("w").step("s", ["true"], mounts=[src.at("/w")])
    bench.run(p)
    second = bench.run(p)
    assert bench.tree("src", second) == {"file": b"x"}


@pytest.mark.bubblewrap
def test_a_read_only_mount_in_a_pod(bench: Bench) -> None:
    """The pod cannot write to it, and nothing is downloaded."""
    src = senro.Workspace("src")
    result = bench.one("sh", "-c", "! touch /w/x", mounts=[src.at("/w", "ro")])
    assert result.ok
    assert bench.of(SnapshotTaken) == []
    assert [event.pod for event in bench.of(PodCreated)] != []


def test_a_local_step_that_writes_to_a_read_only_mount_fails(bench: Bench) -> None:
    """The change is detected after the step, and undone."""
    src = senro.Workspace("src")
    p = senro.Pipeline("ro")
    w = p.workflow("w")
    w.step("a", ["sh", "-c", "echo 1 > f"], mounts=[src.at("/w")], workdir="/w")
    w.step("b", ["sh", "-c", "echo 2 > f"], mounts=[src.at("/w", "ro")], workdir="/w", needs=["a"])
    result = bench.run(p)
    outcome = result.steps["w.b"].outcome
    assert outcome is not None
    assert "read-only" in outcome.message
    assert bench.tree("src") == {"f": b"1\n"}


def test_a_failed_step_keeps_its_files(bench: Bench) -> None:
    """The workspace of a failed command is downloaded too, for its reports."""
    src = senro.Workspace("src")
    result = bench.one("sh", "-c", "echo report > /w/report; exit 4", mounts=[src.at("/w")])
    assert result.state == "failed"
    assert bench.tree("src") == {"report": b"report\n"}


@pytest.mark.parametrize("local", [True, False])
def test_a_link_out_of_the_workspace_fails_the_step(bench: Bench, local: bool) -> None:
    """The message names the link, and the workspace is unchanged."""
    src = senro.Workspace("src")
    on = senro.local() if local else bench.pod()
    p = senro.Pipeline("link")
    w = p.workflow("w")
    w.step("a", ["sh", "-c", "echo 1 > f"], mounts=[src.at("/w")], workdir="/w")
    w.step(
        "b", ["sh", "-c", "echo 2 > f; ln -s ../../escape bad"], mounts=[src.at("/w")], workdir="/w", needs=["a"], on=on
    )
    outcome = bench.run(p).steps["w.b"].outcome
    assert outcome is not None
    assert (outcome.kind, outcome.code) == ("failed", 0)
    assert "bad" in outcome.message
    assert bench.tree("src") == {"f": b"1\n"}


def test_a_workspace_of_scope_step(bench: Bench) -> None:
    """Each step starts with the first content, whatever other steps did to theirs."""
    (bench.folder / "seed").mkdir()
    (bench.folder / "seed" / "f").write_text("seed")
    tmp = senro.Workspace("tmp", path="seed", scope="step")
    p = senro.Pipeline("scope")
    w = p.workflow("w")
    w.step("a", ["sh", "-c", "cat f; echo a > f"], mounts=[tmp.at("/t")], workdir="/t")
    w.step("b", ["sh", "-c", "cat f; echo b > f"], mounts=[tmp.at("/t")], workdir="/t", on=bench.pod())
    w.step("c", ["sh", "-c", "cat f"], mounts=[tmp.at("/t")], workdir="/t", needs=["a", "b"], on=bench.pod())
    assert bench.run(p).ok
    assert [bench.log(step) for step in ("w.a", "w.b", "w.c")] == [b"seed", b"seed", b"seed"]


@pytest.mark.bubblewrap
def test_two_workspaces_in_one_pod(bench: Bench) -> None:
    """All mounts are transferred in one archive, each to and from its own folder."""
    one, two, three = (senro.Workspace(name) for name in ("one", "two", "three"))
    p = senro.Pipeline("several")
    p.workflow("w").step("seed", ["sh", "-c", "echo 3 > f"], mounts=[three.at("/c")], workdir="/c")
    p.workflow("x", needs=["w"], on=bench.pod()).step(
        "s", ["sh", "-c", "cp /c/f /a/x; cp /c/f /b/y"], mounts=[one.at("/a"), three.at("/c", "ro"), two.at("/b")]
    )
    assert bench.run(p).ok
    assert (bench.tree("one"), bench.tree("two"), bench.tree("three")) == ({"x": b"3\n"}, {"y": b"3\n"}, {"f": b"3\n"})


@pytest.mark.bubblewrap
def test_the_variables_of_a_step(bench: Bench) -> None:
    """Variables have their exact values, `$` included, and senro's are added; the coordinator's are not."""
    src = senro.Workspace("my-src")
    result = bench.one(
        "sh",
        "-c",
        'echo "$PLAIN|$DOLLAR|$SENRO_RUN|$SENRO_STEP|$SENRO_ATTEMPT|$SENRO_WORKSPACE_MY_SRC"; env | grep -c SENRO_K8S',
        env={"PLAIN": "a b", "DOLLAR": "$(PLAIN) $$ $HOME"},
        mounts=[src.at("/w", "ro")],
    )
    line, count = bench.log("w.s").decode().splitlines()
    plain, dollar, run_id, step, attempt, where = line.split("|")
    assert (plain, dollar, run_id, step, attempt) == ("a b", "$(PLAIN) $$ $HOME", result.run_id, "w.s", "1")
    assert where.endswith("/w")
    assert count == "0"


def test_a_local_step_does_not_get_the_credentials(bench: Bench) -> None:
    """A local step gets no variable of the cluster or of a secret."""
    p = senro.Pipeline("env")
    p.workflow("w").step("s", ["env"])
    p.workflow("x", on=bench.pod()).step("s", ["true"])
    bench.run(p)
    assert b"SENRO_K8S" not in bench.log("w.s")
    assert b"SENRO_WORKSPACE" not in bench.log("w.s")


@pytest.mark.parametrize("local", [True, False])
def test_a_secret_is_only_a_file(bench: Bench, local: bool) -> None:
    """The step gets the value as a file. No field of a pod, event, log or other file contains it."""
    value = "correct-horse-battery-staple"
    p = senro.Pipeline("secret")
    p.workflow("w", on=senro.local() if local else bench.pod()).step(
        "s",
        ["sh", "-c", 'wc -c < "$TOKEN"; cat "$TOKEN"; echo; case $TOKEN in /*) echo path;; esac'],
        secrets={"TOKEN": "Token"},
    )
    result = bench.run(p, secrets={"Token": secret.value(value)})
    assert result.ok
    assert bench.log("w.s").split() == [b"28", b"***", b"path"]
    kept = [path for path in bench.folder.rglob("*") if path.is_file() and value.encode() in path.read_bytes()]
    assert kept == []
    if not local and bench.cluster is not None:
        assert value not in str(bench.cluster.created_pods)


def test_a_secret_from_the_environment(bench: Bench) -> None:
    """A secret without a reference is read from SENRO_SECRET_<NAME>."""
    bench.environ["SENRO_SECRET_API_KEY"] = "from-the-environment"
    bench.one("sh", "-c", 'wc -c < "$KEY"', secrets={"KEY": "api-key"})
    assert bench.log("w.s").strip() == b"20"


def test_a_missing_secret_is_refused_before_anything_starts(bench: Bench) -> None:
    """The refusal names the variable to set, and nothing was created."""
    with pytest.raises(senro.ConfigurationError, match="SENRO_SECRET_TOKEN"):
        bench.one("true", secrets={"T": "token"})
    assert not (bench.folder / "runs").exists()


def test_steps_start_when_their_needs_have_ended(bench: Bench) -> None:
    """Two steps without needs run at the same time, and a step that needs both runs after them."""
    p = senro.Pipeline("order")
    w = p.workflow("w", on=bench.pod())
    src = senro.Workspace("src")
    # Each waits for the other's file, so they only end if they run at the same time.
    meet = "touch {0}; i=0; while [ ! -e {1} ] && [ $i -lt 600 ]; do sleep 0.1; i=$((i+1)); done; test -e {1}"
    local = p.workflow("l")
    folder = str(bench.folder)
    local.step("a", ["sh", "-c", meet.format(f"{folder}/a", f"{folder}/b")])
    local.step("b", ["sh", "-c", meet.format(f"{folder}/b", f"{folder}/a")])
    w.step("c", ["true"], needs=["l.a", "l.b"], mounts=[src.at("/w")])
    assert bench.run(p).ok
    began = [event.step for event in bench.of(AttemptStarted)]
    ended = [event.step for event in bench.of(StepEnded)]
    assert set(began[:2]) == {"l.a", "l.b"}
    assert ended[-1] == "w.c"


def test_jobs_bounds_the_concurrent_attempts(bench: Bench) -> None:
    """With one job, an attempt starts after the previous one has ended."""
    p = senro.Pipeline("jobs")
    for number in range(3):
        p.workflow(f"w{number}").step("s", ["true"])
    bench.run(p, jobs=1)
    kinds = [type(event) for event in bench.events() if isinstance(event, AttemptStarted | AttemptEnded)]
    assert kinds == [AttemptStarted, AttemptEnded] * 3


def test_max_pods_bounds_the_pods_of_a_target(bench: Bench) -> None:
    """At most `max_pods` pods of a target exist at the same time."""
    p = senro.Pipeline("max")
    on = bench.pod(max_pods=1)
    for number in range(3):
        p.workflow(f"w{number}", on=on).step("s", ["true"])
    result = bench.run(p)
    assert result.ok
    kinds = [
        event.__class__.__name__ for event in bench.events() if event.__class__.__name__ in ("PodCreated", "PodDeleted")
    ]
    assert kinds == ["PodCreated", "PodDeleted"] * 3


@pytest.mark.parametrize("local", [True, False])
def test_a_timeout(bench: Bench, local: bool) -> None:
    """The step is ended, and its state is timed_out instead of failed."""
    result = bench.one(
        "sh", "-c", "echo begun; sleep 300", timeout=1, on=senro.local() if local else bench.pod(grace=1)
    )
    assert result.steps["w.s"].state == "timed_out"
    assert result.state == "failed"
    assert bench.log("w.s") == b"begun\n"


def test_a_failure_skips_dependent_steps(bench: Bench) -> None:
    """The steps that need a failed one are skipped, and the others run."""
    p = senro.Pipeline("skip")
    w = p.workflow("w")
    w.step("bad", ["false"])
    w.step("after", ["true"], needs=["bad"])
    w.step("other", ["true"])
    p.workflow("v", needs=["w"]).step("last", ["true"])
    result = bench.run(p)
    states = {step: known.state for step, known in result.steps.items()}
    assert states == {
        "w.bad": "failed",
        "w.after": "skipped_upstream_failed",
        "w.other": "succeeded",
        "v.last": "skipped_upstream_failed",
    }


def test_continue_on_error(bench: Bench) -> None:
    """The steps that need it run, and the run is partial, which counts as success."""
    p = senro.Pipeline("partial")
    w = p.workflow("w")
    w.step("bad", ["false"], continue_on_error=True)
    w.step("after", ["true"], needs=["bad"])
    result = bench.run(p)
    assert (result.state, result.ok, result.steps["w.after"].state) == ("partial", True, "succeeded")


@pytest.mark.parametrize("local", [True, False])
def test_retry_on_failure(bench: Bench, local: bool) -> None:
    """The command runs again, with the workspace as before the first attempt."""
    src = senro.Workspace("src")
    on = senro.local() if local else bench.pod()
    p = senro.Pipeline("again")
    p.workflow("w", on=on).step(
        "s",
        ["sh", "-c", "ls; touch left; test $SENRO_ATTEMPT = 2"],
        mounts=[src.at("/w")],
        workdir="/w",
        retry=retry.on_failure(attempts=3, delay=0.01),
    )
    result = bench.run(p)
    assert (result.state, result.steps["w.s"].attempts) == ("succeeded_with_recovery", 2)
    assert (bench.log("w.s", 1), bench.log("w.s", 2)) == (b"", b"")
    assert bench.tree("src") == {"left": b""}


def test_retry_on_infra_does_not_repeat_a_failed_command(bench: Bench) -> None:
    """A failure of the command is not repeated by a policy for infrastructure failures."""
    result = bench.one("false", retry=retry.on_infra(attempts=3, delay=0.01))
    assert (result.steps["w.s"].state, result.steps["w.s"].attempts) == ("failed", 1)


def test_ten_thousand_lines_arrive_once_and_in_order(bench: Bench) -> None:
    """The log of a step that prints fast is complete."""
    bench.one("sh", "-c", "i=0; while [ $i -lt 10000 ]; do echo line $i; i=$((i+1)); done")
    assert bench.log("w.s") == b"".join(b"line %d\n" % number for number in range(10_000))


@pytest.mark.bubblewrap
def test_a_restricted_pod_as_a_user(bench: Bench) -> None:
    """A pod of the restricted standard transfers a workspace in both directions as its user."""
    src = senro.Workspace("src")
    p = senro.Pipeline("restricted")
    p.workflow("a").step("seed", ["sh", "-c", "echo 1 > f"], mounts=[src.at("/w")], workdir="/w")
    p.workflow("b", needs=["a"], on=bench.pod(security="restricted", user=1000, group=1000)).step(
        "s", ["sh", "-c", "id -u; cat f > g"], mounts=[src.at("/w")], workdir="/w"
    )
    assert bench.run(p).ok
    assert bench.log("b.s") == b"1000\n"
    assert bench.tree("src") == {"f": b"1\n", "g": b"1\n"}


def test_the_ledger_describes_the_whole_run(bench: Bench) -> None:
    """The state computed from events.jsonl equals the result."""
    src = senro.Workspace("src")
    p = senro.Pipeline("ledger")
    p.workflow("w", on=bench.pod()).step("s", ["sh", "-c", "echo 1 > /w/f"], mounts=[src.at("/w")])
    plan = p.build()
    result = bench.run(p)
    progress = at_start(plan)
    for event in bench.events():
        progress = fold(progress, event)
    assert final_run_state(plan, progress) == result.state
    assert progress.workspaces["src"] == result.workspaces["src"].digest
    assert len(bench.of(WorkspaceOpened)) == 1
