"""Images that lack what transfers need, helper images, and pods with few rights."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import senro
from senro import retry, secret
from senro.devcluster.images import ORDINARY_USER, READ_ONLY_ROOT, WITHOUT_SHELL, WITHOUT_TAR
from senro.domain.run.events import AttemptEnded, PodCreated, SnapshotTaken, TransferCompleted
from senro.domain.transfer.replies import HELPER_ADVICE
from senro.testing import Bench

pytestmark = [pytest.mark.slow, pytest.mark.bubblewrap]


def project(bench: Bench) -> senro.Workspace:
    """A workspace with a file, a program, and a file in a folder."""
    root = bench.folder / "project"
    (root / "d").mkdir(parents=True)
    (root / "f").write_text("1\n")
    (root / "run").write_text("#!/bin/sh\n")
    (root / "run").chmod(0o755)
    (root / "d" / "g").write_text("2\n")
    return senro.Workspace("src", path="project")


BEFORE = {"f": b"1\n", "run": b"#!/bin/sh\n", "d/g": b"2\n"}


def absent(bench: Bench, program: str) -> str:
    """Returns an image without one program that a transfer needs."""
    bench.faults.clear()  # skipped on a real cluster, which has no such image
    known = {"sh": WITHOUT_SHELL, "tar": WITHOUT_TAR}
    return known.get(program) or bench.devcluster.add_image(f"without-{program}", absent=[program])


@pytest.mark.parametrize("program", ["sh", "tar", "mkfifo"])
def test_an_image_without_a_required_program(bench: Bench, program: str) -> None:
    """The message names the image, the program and `helper=`. Nothing ran, and nothing is repeated."""
    image = absent(bench, program)
    result = bench.one(
        "cp",
        "f",
        "g",
        on=bench.pod(image=image),
        mounts=[project(bench).at("/w")],
        workdir="/w",
        retry=retry.on_infra(attempts=3),
    )
    outcome = result.steps["w.s"].outcome
    assert outcome is not None
    assert (outcome.kind, outcome.infra_kind, outcome.did_run) == ("infra", "config", "no")
    assert f"the image {image} has no {program}; {HELPER_ADVICE}" in outcome.message
    assert "helper=" in outcome.message
    assert (result.steps["w.s"].attempts, bench.starts()) == (1, 0)
    assert bench.tree("src") == BEFORE


@pytest.mark.parametrize("program", ["sh", "tar", "mkfifo"])
def test_a_helper_image_transfers_for_the_steps_image(bench: Bench, program: str) -> None:
    """The step runs in its own image; transfers in both directions run in the helper."""
    image = absent(bench, program)
    result = bench.one(
        *("cp", "f", "d/h"),
        on=bench.pod(image=image, helper=bench.image),
        mounts=[project(bench).at("/w")],
        workdir="/w",
    )
    assert result.ok
    assert bench.tree("src") == {**BEFORE, "d/h": b"1\n"}
    assert {event.direction for event in bench.of(TransferCompleted)} == {"upload", "download"}
    (pod,) = bench.pods()
    spec = bench.states(pod)[0]["spec"]
    images = {entry["name"]: entry["image"] for entry in (*spec["initContainers"], *spec["containers"])}
    assert images == {"senro-stage": bench.image, "step": image, "senro-io": bench.image}


def test_a_step_without_workspaces_needs_no_helper(bench: Bench) -> None:
    """Nothing is transferred, so the image needs no shell."""
    assert bench.one("true", on=bench.pod(image=absent(bench, "sh"))).ok


# Files inherit the setgid bit of a volume with a group.
MODES = "stat -c '%a %n' f run d d/g | sed 's/^2//'"
CHANGES = "echo more >> f; mv d/g d/h; umask 077; mkdir own; echo mine > own/secret"


def test_a_helper_without_a_user_makes_files_writable(bench: Bench) -> None:
    """The user of the step's image is unknown, so files are 0666 and 0777: any user can change, and root read them."""
    bench.faults.clear()  # the image exists only in the embedded cluster
    result = bench.one(
        *("sh", "-c", f"id -u; {MODES}; {CHANGES}"),
        on=bench.pod(image=ORDINARY_USER, helper=bench.image),
        mounts=[project(bench).at("/w")],
        workdir="/w",
    )
    assert result.ok, bench.of(AttemptEnded)
    assert bench.log("w.s") == b"1000\n666 f\n777 run\n777 d\n666 d/g\n"
    assert bench.tree("src") == {
        "f": b"1\nmore\n",
        "run": BEFORE["run"],
        "d/h": BEFORE["d/g"],
        "own/secret": b"mine\n",
    }


@pytest.mark.parametrize("helped", [False, True], ids=["alone", "helped"])
def test_a_declared_user_owns_uploaded_files(bench: Bench, *, helped: bool) -> None:
    """Transfers run as the step's user, also in a helper image, so the modes are those of the workspace."""
    helper = {"helper": bench.image} if helped else {}
    result = bench.one(
        *("sh", "-c", f'id -u; id -g; stat -c %u f; cat "$TOKEN"; echo; {MODES}; {CHANGES}'),
        on=bench.pod(user=1000, group=2000, **helper),
        mounts=[project(bench).at("/w")],
        workdir="/w",
        secrets={"TOKEN": "token"},
        run={"secrets": {"token": secret.value("opensesame-0123")}},
    )
    assert result.ok, bench.of(AttemptEnded)
    assert bench.log("w.s").splitlines() == [
        *(b"1000", b"2000", b"1000", b"***"),
        *(b"644 f", b"755 run", b"755 d", b"644 d/g"),
    ]
    assert bench.tree("src")["own/secret"] == b"mine\n"


@pytest.mark.parametrize("image", [ORDINARY_USER, READ_ONLY_ROOT], ids=["non-root", "read-only-root"])
def test_an_image_with_few_rights(bench: Bench, image: str) -> None:
    """An unprivileged user, and a read-only root file system: both images transfer workspaces in both directions."""
    bench.faults.clear()  # the images exist only in the embedded cluster
    refused = "! touch /x 2>/dev/null; " if image == READ_ONLY_ROOT else ""
    script = f"set -e; {refused}id -u; echo more >> f; mv d/g d/h"
    result = bench.one(*("sh", "-c", script), on=bench.pod(image=image), mounts=[project(bench).at("/w")], workdir="/w")
    assert result.ok, bench.of(AttemptEnded)
    assert bench.log("w.s") == (b"1000\n" if image == ORDINARY_USER else b"0\n")
    assert bench.tree("src") == {"f": b"1\nmore\n", "run": BEFORE["run"], "d/h": BEFORE["d/g"]}


@pytest.fixture
def restricted_namespace(bench: Bench) -> Iterator[None]:
    """The namespace refuses every pod that does not meet the restricted standard."""
    label = "pod-security.kubernetes.io/enforce"
    bench.devcluster.label_namespace(bench.namespace, {label: "restricted"})
    yield
    bench.devcluster.label_namespace(bench.namespace, {label: "privileged"})


@pytest.mark.usefixtures("restricted_namespace")
def test_a_restricted_namespace(bench: Bench) -> None:
    """It admits `security="restricted"`, with and without a helper. A refusal is quoted."""
    for options in ({}, {"helper": bench.image}):
        result = bench.one(
            *("sh", "-c", "id -u; echo more >> f"),
            on=bench.pod(security="restricted", user=1000, **options),
            mounts=[project(bench).at("/w")] if not options else [senro.Workspace("src", path="project").at("/w")],
            workdir="/w",
        )
        assert result.ok, bench.of(AttemptEnded)
        assert (bench.log("w.s"), bench.tree("src")["f"]) == (b"1000\n", b"1\nmore\n")
    refused = bench.one("true", mounts=[senro.Workspace("src", path="project").at("/w")])
    outcome = refused.steps["w.s"].outcome
    assert outcome is not None
    assert "violates PodSecurity" in outcome.message
    assert bench.of(PodCreated) == []


@pytest.mark.parametrize("helped", [False, True], ids=["alone", "helped"])
def test_read_only_mounts(bench: Bench, *, helped: bool) -> None:
    """They are only uploaded: the step cannot write, nothing is downloaded, and no snapshot is taken."""
    helper = {"helper": bench.image} if helped else {}
    result = bench.one(
        *("sh", "-c", "cat f d/g; ! touch x 2>/dev/null; ! rm f 2>/dev/null"),
        on=bench.pod(**helper),
        mounts=[project(bench).at("/w", "ro")],
        workdir="/w",
    )
    assert result.ok
    assert bench.log("w.s") == b"1\n2\n"
    assert [event.direction for event in bench.of(TransferCompleted)] == ["upload"]
    assert bench.of(SnapshotTaken) == []
    assert bench.tree("src") == BEFORE


def test_a_second_run_of_the_init_container_is_refused(bench: Bench) -> None:
    """Its volumes were filled for the first run. The step does not run, and the next attempt is complete."""
    bench.faults.repeat_stage(step="w.s")
    result = bench.one(
        *("sh", "-c", "echo ran; echo more >> f"),
        mounts=[project(bench).at("/w")],
        workdir="/w",
        retry=retry.on_infra(attempts=2, delay=0.01),
    )
    first, second = (event.outcome for event in bench.of(AttemptEnded))
    assert (first.kind, first.infra_kind, first.did_run) == ("infra", "stage-failed", "no")
    assert (second.kind, result.state) == ("succeeded", "succeeded_with_recovery")
    assert bench.starts("senro-stage") == 3
    assert (bench.starts(), bench.log("w.s", 2)) == (1, b"ran\n")
    assert bench.tree("src")["f"] == b"1\nmore\n"
    assert bench.faults.pending() == 0
