"""Pods that send what nobody should unpack: refused by name, the step not repeated, the coordinator's files untouched.

What each of some two hundred archives must come to is held by tests/contract/ports/test_hostile_archives.py; here a
few of them come from the tar of a real step's image, all the way.
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
"""A tar that unpacks as it should, and packs what it likes."""

Kind = bytes
Member = tuple[str, Kind, str]
"""A name, a kind of `tarfile`, and a link's target or a file's content."""


def tar_of(*members: Member) -> bytes:
    """An archive of any members, in the form that GNU tar writes."""
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
"""What is refused, and a piece of the sentence that says so."""


def run(bench: Bench, sent: bytes, attempts: int = 1) -> senro.Result:
    """A step that succeeds, in an image whose tar lies."""
    (bench.folder / "project").mkdir()
    (bench.folder / "project" / "f").write_text("mine\n")
    assert bench.cluster is not None
    lines = base64.encodebytes(sent).decode().rstrip("\n")
    image = bench.cluster.add_image("liar", programs={"tar": LIAR.format(sent=lines)})
    source = senro.Workspace("src", path="project")
    pipeline = senro.Pipeline("hostile")
    pipeline.workflow("w", on=bench.pod(image=image)).step(
        *("s", ["sh", "-c", "echo ran; echo changed > f"]),
        mounts=[source.at("/w")],
        workdir="/w",
        retry=retry.on_infra(attempts=attempts, delay=0.01) if attempts > 1 else None,
    )
    return bench.run(pipeline)


def around(folder: Path) -> set[str]:
    """Every path of the test's folder but those of the run's own files."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if "runs" not in path.parts}


def check_untouched(bench: Bench, result: senro.Result) -> None:
    """The workspace holds what it held, nothing lies beside it or anywhere else, and the command ran once."""
    assert bench.tree("src") == {"f": b"mine\n"}
    assert {path.name for path in Path(result.workspaces["src"].folder).parent.iterdir()} == {"src"}
    assert around(bench.folder) <= {"project", "project/f", "cache", *around_cache(bench.folder)}
    assert not list(bench.folder.rglob("*outside*"))
    assert not list(bench.folder.rglob("*owned*"))
    assert bench.of(SnapshotTaken) == []
    assert (bench.log("w.s"), bench.starts(), result.leftovers) == (b"ran\n", 1, ())


def around_cache(folder: Path) -> set[str]:
    """What the cache keeps of its own."""
    return {name for name in around(folder) if name.startswith("cache/")}


@pytest.mark.parametrize("name", REFUSED)
def test_what_must_not_be_unpacked_is_refused_by_name(bench: Bench, name: str) -> None:
    """It is the step's doing: told in a sentence, not tried again, the code kept; the files are as they were."""
    bench.faults.clear()  # a real cluster has no image that lies
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
def test_what_looks_damaged_is_read_three_times_and_lost(bench: Bench, name: str) -> None:
    """It may have been the connection: three tries, then Infra; so for files that nobody counted."""
    bench.faults.clear()  # as above
    result = run(bench, BROKEN[name]())
    (outcome,) = (event.outcome for event in bench.of(AttemptEnded))
    assert result.state == "failed"
    assert (outcome.kind, outcome.infra_kind, outcome.code, outcome.did_run) == ("infra", "transfer", 0, "yes")
    assert [event.tries for event in bench.of(TransferTryFailed)] == [1, 2, 3]
    assert [event.direction for event in bench.of(TransferCompleted)] == ["upload"]
    check_untouched(bench, result)
