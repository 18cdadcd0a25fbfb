"""The content of a workspace is the same on any machine: excludes, links, omitted files, no_snapshot."""

from __future__ import annotations

from pathlib import Path

import pytest

import senro
from senro.domain.errors import PlanError, TreeError
from senro.domain.run.events import (
    AttemptStarted,
    RunEnded,
    SnapshotTaken,
    TransferCompleted,
    WorkspaceOpened,
    decode_event,
)
from senro.testing import Bench


def digests(bench: Bench) -> dict[str, str]:
    """Returns the digest of each snapshot, by the step that left it."""
    return {event.step: event.digest for event in bench.of(SnapshotTaken)}


def outcome_of(result: senro.Result, step: str) -> str:
    """Returns the message of the step's outcome."""
    outcome = result.steps[step].outcome
    assert outcome is not None
    return outcome.message


def nothing_started(bench: Bench) -> bool:
    """Whether the only run was refused before any attempt, and its ledger says so."""
    (ledger,) = bench.folder.glob("runs/*/events.jsonl")
    events = [decode_event(line) for line in ledger.read_bytes().splitlines()]
    return isinstance(events[-1], RunEnded) and not any(isinstance(event, AttemptStarted) for event in events)


LOOK = ["sh", "-c", "ls -A . src; cat src/*"]


def test_excludes_apply_in_both_directions(bench: Bench) -> None:
    """Excluded files of a pod or a local step are in no other step, so all have the same digest."""
    make = (
        "mkdir -p src/node_modules/x .git; echo 1 >> src/f; echo o > src/a.o; ln -sf /etc/passwd src/node_modules/x/l"
    )
    code = senro.Workspace("code", exclude=["**/*.o"])
    p = senro.Pipeline("excludes")
    w = p.workflow("w", on=bench.pod())
    w.step("pod", ["sh", "-c", make], mounts=[code.at("/w")], workdir="/w")
    w.step("pod-looks", LOOK, mounts=[code.at("/w")], workdir="/w", needs=["pod"])
    w.step("here", ["sh", "-c", make], mounts=[code.at("/w")], workdir="/w", needs=["pod-looks"], on=senro.local())
    w.step("here-looks", LOOK, mounts=[code.at("/w")], workdir="/w", needs=["here"], on=senro.local())
    w.step("pod-looks-again", LOOK, mounts=[code.at("/w")], workdir="/w", needs=["here-looks"])
    result = bench.run(p)
    assert result.ok, bench.events()
    assert bench.log("w.pod-looks") == b".:\nsrc\n\nsrc:\nf\n1\n"
    assert bench.log("w.here-looks") == bench.log("w.pod-looks-again") == b".:\nsrc\n\nsrc:\nf\n1\n1\n"
    seen = digests(bench)
    assert seen["w.pod"] == seen["w.pod-looks"]
    assert seen["w.here"] == seen["w.here-looks"] == seen["w.pod-looks-again"]
    assert bench.tree("code") == {"src/f": b"1\n1\n"}


def test_a_hard_link_to_an_excluded_file(bench: Bench) -> None:
    """The other name gets the content, although the excluded name has it first in a pod's archive."""
    code = senro.Workspace("code", exclude=["a.o"])
    result = bench.one("sh", "-c", "echo hard > a.o; ln a.o b; ln a.o c", mounts=[code.at("/w")], workdir="/w")
    assert result.ok, bench.events()
    assert bench.tree("code") == {"b": b"hard\n", "c": b"hard\n"}


def test_senroignore(bench: Bench) -> None:
    """The patterns of a `.senroignore` at the top of the first content apply to it and to downloads."""
    project = bench.folder / "project"
    (project / "dist").mkdir(parents=True)
    (project / "dist" / "old").write_text("")
    (project / ".senroignore").write_text("# made, not written\ndist/\n\n**/*.log\n")
    (project / "f").write_text("f")
    src = senro.Workspace("src", path="project")
    p = senro.Pipeline("ignore")
    w = p.workflow("w", on=bench.pod())
    w.step("s", ["sh", "-c", "ls -A; mkdir dist; echo > dist/new; echo > f.log"], mounts=[src.at("/w")], workdir="/w")
    w.step("t", ["ls", "-A"], mounts=[src.at("/w", "ro")], workdir="/w", needs=["s"])
    assert bench.run(p).ok, bench.events()
    assert bench.log("w.s") == bench.log("w.t") == b".senroignore\nf\n"
    assert set(bench.tree("src")) == {".senroignore", "f"}


def test_invalid_lines_of_senroignore_are_refused(bench: Bench) -> None:
    """A negation is refused with its line number, together with all other invalid lines, before any pod."""
    (bench.folder / "project").mkdir()
    (bench.folder / "project" / ".senroignore").write_text("*.o\n!keep.o\n/top\n")
    src = senro.Workspace("src", path="project")
    p = senro.Pipeline("ignore")
    p.workflow("w", on=bench.pod()).step("s", ["true"], mounts=[src.at("/w")])
    with pytest.raises(PlanError) as caught:
        bench.run(p)
    assert "project/.senroignore: line 2: the pattern '!keep.o' is a negation" in str(caught.value)
    assert "project/.senroignore: line 3: the pattern '/top' begins with" in str(caught.value)
    assert nothing_started(bench)


def test_links_out_of_the_workspace_fail_the_step(bench: Bench) -> None:
    """Each is named, and the workspace is unchanged, for a pod and for a local step."""
    make = "echo changed > f; ln -s /etc/passwd abs; mkdir d; ln -s ../../up d/up; ln -s f fine"
    code = senro.Workspace("code")
    p = senro.Pipeline("links")
    p.workflow("w").step("first", ["sh", "-c", "echo 1 > f"], mounts=[code.at("/w")], workdir="/w")
    for name, on in (("pod", bench.pod()), ("here", senro.local())):
        needs = ["w"] if name == "pod" else ["pod"]
        p.workflow(name, on=on, needs=needs).step(
            "s", ["sh", "-c", make], mounts=[code.at("/w")], workdir="/w", continue_on_error=True
        )
    result = bench.run(p)
    for step in ("pod.s", "here.s"):
        message = outcome_of(result, step)
        assert "abs: the link is absolute (/etc/passwd)" in message
        assert "d/up: the link leaves the tree (../../up)" in message
        assert "fine" not in message
    assert bench.tree("code") == {"f": b"1\n"}


def test_links_out_of_the_workspace_are_kept_as_text(bench: Bench) -> None:
    """With `links="keep"` they are text from the first content to the last step, and senro never follows one."""
    (bench.folder / "project").mkdir()
    (bench.folder / "project" / "home").symlink_to("/senro-test/none")
    code = senro.Workspace("code", path="project", links="keep")
    p = senro.Pipeline("links")
    w = p.workflow("w", on=bench.pod())
    w.step("pod", ["sh", "-c", "readlink home; ln -s ../../up up"], mounts=[code.at("/w")], workdir="/w")
    w.step("look", ["sh", "-c", "readlink home; readlink up"], mounts=[code.at("/w")], workdir="/w", needs=["pod"])
    w.step(
        "here",
        ["sh", "-c", "readlink home; readlink up"],
        mounts=[code.at("/w", "ro")],
        workdir="/w",
        needs=["look"],
        on=senro.local(),
    )
    result = bench.run(p)
    assert result.ok, bench.events()
    assert bench.log("w.look") == bench.log("w.here") == b"/senro-test/none\n../../up\n"
    assert len(set(digests(bench).values())) == 1
    folder = Path(result.workspaces["code"].folder)
    assert (folder / "home").readlink() == Path("/senro-test/none")


def test_links_are_replaced_by_copies(bench: Bench) -> None:
    """With `preserve_symlinks=False` no step, pod or local, gets a link of another step, but a copy."""
    (bench.folder / "project" / "d").mkdir(parents=True)
    (bench.folder / "project" / "d" / "f").write_text("f\n")
    (bench.folder / "project" / "l").symlink_to("d")
    code = senro.Workspace("code", path="project", preserve_symlinks=False)
    look = "test ! -L l && test ! -L m && test ! -L n && cat l/f"
    p = senro.Pipeline("follow")
    w = p.workflow("w", on=bench.pod())
    w.step("pod", ["sh", "-c", f"{look}; ln -s d/f m"], mounts=[code.at("/w")], workdir="/w")
    w.step(
        "here",
        ["sh", "-c", f"{look}; ln -s l n"],
        mounts=[code.at("/w")],
        workdir="/w",
        needs=["pod"],
        on=senro.local(),
    )
    w.step("look", ["sh", "-c", f"{look}; cat m n/f"], mounts=[code.at("/w")], workdir="/w", needs=["here"])
    w.step(
        "bad", ["sh", "-c", "ln -s nothing gone; ln -s . loop"], mounts=[code.at("/w")], workdir="/w", needs=["look"]
    )
    result = bench.run(p)
    assert bench.log("w.look") == b"f\nf\nf\n"
    assert bench.tree("code") == dict.fromkeys(("d/f", "l/f", "m", "n/f"), b"f\n")
    assert "gone: the link leads to nothing" in outcome_of(result, "w.bad")
    assert "loop: the link leads to a directory that holds it" in outcome_of(result, "w.bad")


def test_omitted_files_are_counted_and_named(bench: Bench) -> None:
    """Fifos and mode bits are recorded once for each snapshot, and absent for the next step on any machine."""
    make = "mkdir -p d; mkfifo d/fifo; ln d/fifo again; echo x > su; chmod 4755 su; chmod g+s d"
    code = senro.Workspace("code")
    p = senro.Pipeline("special")
    w = p.workflow("w", on=bench.pod())
    w.step("pod", ["sh", "-c", make], mounts=[code.at("/w")], workdir="/w")
    w.step(
        "look",
        ["sh", "-c", "test ! -u su && test ! -e again && test ! -e d/fifo"],
        mounts=[code.at("/w")],
        workdir="/w",
        needs=["pod"],
        on=senro.local(),
    )
    w.step("here", ["sh", "-c", make], mounts=[code.at("/w")], workdir="/w", needs=["look"], on=senro.local())
    w.step(
        "look-again",
        ["sh", "-c", "test ! -u su && test ! -e again && test ! -e d/fifo"],
        mounts=[code.at("/w")],
        workdir="/w",
        needs=["here"],
        on=senro.local(),
    )
    assert bench.run(p).ok, bench.events()
    omitted = {event.step: (event.omitted, event.omitted_sample) for event in bench.of(SnapshotTaken)}
    told = (3, ("again: a fifo", "d/fifo: a fifo", "su: the setuid bit"))
    assert omitted == {"w.pod": told, "w.look": (0, ()), "w.here": told, "w.look-again": (0, ())}
    assert len(set(digests(bench).values())) == 1


@pytest.mark.parametrize("where", ["pod", "local"])
def test_no_snapshot(bench: Bench, where: str) -> None:
    """Nothing is downloaded, no digest is recorded, and the next step gets the content from before."""
    code = senro.Workspace("code")
    on = bench.pod() if where == "pod" else senro.local()
    p = senro.Pipeline("none")
    w = p.workflow("w", on=on)
    w.step("make", ["sh", "-c", "echo 1 > f"], mounts=[code.at("/w")], workdir="/w")
    w.step(
        "try",
        ["sh", "-c", "echo 2 > f; echo > g"],
        mounts=[code.at("/w")],
        workdir="/w",
        needs=["make"],
        no_snapshot=True,
    )
    w.step("look", ["sh", "-c", "cat *"], mounts=[code.at("/w", "ro")], workdir="/w", needs=["try"])
    result = bench.run(p)
    assert result.ok, bench.events()
    assert bench.log("w.look") == b"1\n"
    assert bench.tree("code") == {"f": b"1\n"}
    assert list(digests(bench)) == ["w.make"]
    assert [event.step for event in bench.of(TransferCompleted) if event.direction == "download"] == (
        ["w.make"] if where == "pod" else []
    )
    (opened,) = bench.of(WorkspaceOpened)
    assert result.workspaces["code"].digest == digests(bench)["w.make"] != opened.digest


def test_the_plan_shows_no_snapshot(bench: Bench) -> None:
    """`senro plan` says that changes are discarded, and what later steps see."""
    (bench.folder / "pipeline.py").write_text(
        "import senro\n"
        "p = senro.Pipeline('none')\n"
        "p.workflow('w').step('try', ['true'], mounts=[senro.Workspace('code').at('/w')], no_snapshot=True)\n"
    )
    done = bench.cli("plan", "pipeline.py")
    assert "changes to its mounts are discarded: later steps see them as they were before" in done.stdout


def test_a_pure_step_with_a_claim_is_refused(bench: Bench) -> None:
    """`build` names the workspace and the claim. Without the claim the plan says that the step is pure."""
    written = (
        "import senro\n"
        "from senro import k8s\n"
        "p = senro.Pipeline('p')\n"
        "w = p.workflow('w', on=k8s.Pod('example.org/runner@sha256:' + '0' * 64, namespace='ci', claims=CLAIMS))\n"
        "w.step('make', ['make'], mounts=[senro.Workspace('cache').at('/cache', 'ro')], pure=True)\n"
    )
    (bench.folder / "claiming.py").write_text("CLAIMS = {'cache': 'senro-build-cache'}\n" + written)
    (bench.folder / "carrying.py").write_text("CLAIMS = {}\n" + written)
    refused = bench.cli("plan", "claiming.py")
    assert refused.returncode != 0
    assert "w.make: the step is pure, but mounts the workspace cache" in refused.stderr
    assert "which the claim senro-build-cache replaces" in refused.stderr
    assert "pure: its results depend only on its command" in bench.cli("plan", "carrying.py").stdout


def test_a_refused_first_content_starts_nothing(bench: Bench) -> None:
    """Links out of the first content are refused by name before any step or pod."""
    (bench.folder / "project").mkdir()
    (bench.folder / "project" / "one").symlink_to("/etc")
    (bench.folder / "project" / "two").symlink_to("../..")
    src = senro.Workspace("src", path="project")
    p = senro.Pipeline("links")
    p.workflow("w", on=bench.pod()).step("s", ["true"], mounts=[src.at("/w")])
    with pytest.raises(TreeError, match=r"one: the link is absolute \(/etc\); two: the link leaves the tree"):
        bench.run(p)
    assert nothing_started(bench)
