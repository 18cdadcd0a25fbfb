"""Archives that must not be unpacked are refused by name, without a retry, and change nothing on the coordinator.

tests/contract/ports/test_hostile_archives.py has some two hundred such archives. Here the tar of a step's image sends a
few of them in a whole run.
"""

from __future__ import annotations

import base64
import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

import senro
from senro import retry
from senro.domain.run.events import AttemptEnded, SnapshotTaken, TransferCompleted, TransferTryFailed
from senro.testing import Bench

pytestmark = [pytest.mark.slow, pytest.mark.bubblewrap]

LIAR = """#!/bin/sh
case "$1 $3" in '-c -') ;; *) for real in /run/.senro-programs/*/tar; do exec "$real" "$@"; done ;; esac
base64 -d <<'.'
{sent}
.
"""
"""A tar that extracts normally, and prints a given archive instead of packing."""

Kind = bytes
Member = tuple[str, Kind, str]
"""A member: name, type of `tarfile`, and the target of a link or the content of a file."""


def tar_of(*members: Member) -> bytes:
    """Returns an archive with these members, in GNU format."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, kind, text in members:
            member = tarfile.TarInfo(name)
            member.type = kind
            if kind in {tarfile.SYMTYPE, tarfile.LNKTYPE}:
                member.linkname = text
            elif kind == tarfile.REGTYPE:
                member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return held.getvalue()


FILE, LINK, HARD, DIRECTORY, FIFO, SPARSE = (
    *(tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE),
    tarfile.GNUTYPE_SPARSE,
)

REFUSED: dict[str, tuple[bytes, str]] = {
    "up": (tar_of(("0/f", FILE, "x"), ("0/../../../outside", FILE, "owned")), "has a `..`"),
    "absolute": (tar_of(("/OUTSIDE", FILE, "owned")), "is absolute"),
    "through a link": (tar_of(("0/l", LINK, "/OUTSIDE"), ("0/l/owned", FILE, "x")), "which is a link"),
    "a link out": (tar_of(("0/l", LINK, "/etc/passwd")), "the link is absolute"),
    "a hard link out": (tar_of(("0/h", HARD, "/etc/passwd")), "is absolute"),
    "another mount": (tar_of(("7/f", FILE, "x")), "the number of a mount"),
    "the root as a link": (tar_of(("0", LINK, "/OUTSIDE")), "without a name"),
    "a sparse file": (tar_of(("0/f", SPARSE, "")), "a sparse file"),
    "a directory that becomes a link": (tar_of(("0/d", DIRECTORY, ""), ("0/d", LINK, "/OUTSIDE")), "and again as"),
    "up, packed": (gzip.compress(tar_of(("0/../outside", FILE, "owned"))), "has a `..`"),
}
"""Refused archives, and a part of the message."""


def run(bench: Bench, sent: bytes, attempts: int = 1) -> senro.Result:
    """Runs a successful step in an image whose tar prints the archive `sent`."""
    (bench.folder / "project").mkdir()
    (bench.folder / "project" / "f").write_text("mine\n")
    lines = base64.encodebytes(sent).decode().rstrip("\n")
    image = bench.devcluster.add_image("liar", programs={"tar": LIAR.format(sent=lines)})
    source = senro.Workspace("src", path="project")
    pipeline = senro.Pipeline("hostile")
    pipeline.workflow("w", on=bench.pod(image=image)).step(
        *("s", ["sh", "-c", "echo ran; echo changed > f"]),
        mounts=[source.at("/w")],
        workdir="/w",
        retry=retry.on_infra(attempts=attempts, delay=0.01) if attempts > 1 else None,
    )
    return bench.run(pipeline)


def paths_around(folder: Path) -> set[str]:
    """Returns every path of the test's folder except the files of the run."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if "runs" not in path.parts}


def check_untouched(bench: Bench, result: senro.Result) -> None:
    """Checks that the workspace is unchanged, nothing was written elsewhere, and the command ran once."""
    assert bench.tree("src") == {"f": b"mine\n"}
    assert {path.name for path in Path(result.workspaces["src"].folder).parent.iterdir()} == {"src"}
    assert paths_around(bench.folder) <= {"project", "project/f", "cache", *cache_files(bench.folder)}
    assert not list(bench.folder.rglob("*outside*"))
    assert not list(bench.folder.rglob("*owned*"))
    assert bench.of(SnapshotTaken) == []
    assert (bench.log("w.s"), bench.starts(), result.leftovers) == (b"ran\n", 1, ())


def cache_files(folder: Path) -> set[str]:
    """Returns the files that belong to the cache."""
    return {name for name in paths_around(folder) if name.startswith("cache/")}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_archive_fails_the_step(bench: Bench, name: str) -> None:
    """The step fails with a message, without a retry and with its exit code; the files are unchanged."""
    bench.faults.clear()  # skipped on a real cluster, which has no such image
    sent, words = REFUSED[name]
    result = run(bench, sent, attempts=3)
    (outcome,) = (event.outcome for event in bench.of(AttemptEnded))
    assert result.state == "failed"
    assert (outcome.code, outcome.did_run) == (0, "yes")
    assert words in outcome.message, outcome
    assert len(bench.of(TransferTryFailed)) == 1
    check_untouched(bench, result)


COMPLETE_ARCHIVE = tar_of(("0/f", FILE, "theirs"), ("0/g", FILE, "theirs"))

BROKEN: dict[str, Callable[[], bytes]] = {
    "cut": lambda: COMPLETE_ARCHIVE[:1500],
    "nothing": lambda: b"",
    "no tar": lambda: b"sh: tar: Permission denied\n" * 40,
    "another content than is there": lambda: COMPLETE_ARCHIVE,
    "a cut gzip": lambda: gzip.compress(COMPLETE_ARCHIVE)[:-9],
    "gzip with words behind it": lambda: gzip.compress(COMPLETE_ARCHIVE) + b"gzip: warning\n",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_damaged_archive_is_read_three_times(bench: Bench, name: str) -> None:
    """The connection may be at fault: Infra after three tries. Uncounted files are treated in the same way."""
    bench.faults.clear()  # see above
    result = run(bench, BROKEN[name]())
    (outcome,) = (event.outcome for event in bench.of(AttemptEnded))
    assert result.state == "failed"
    assert (outcome.kind, outcome.infra_kind, outcome.code, outcome.did_run) == ("infra", "transfer", 0, "yes")
    assert [event.tries for event in bench.of(TransferTryFailed)] == [1, 2, 3]
    assert [event.direction for event in bench.of(TransferCompleted)] == ["upload"]
    check_untouched(bench, result)
