"""Every fault of a transfer, in both directions, compressed and not: the transfer is complete, repeated or reported.

`make soak` runs the whole matrix, `make test` a part, chosen by a seed. Both print its size and the results.

More than 500 lines: the cases, how each is caused and what each must give are read together.
"""

from __future__ import annotations

import errno
import itertools
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import anyio
import pytest

import senro
from senro.adapters.fs.copying import write_all
from senro.app.pod import transfer
from senro.app.pod.compression import CompressionChoice
from senro.devcluster import DevCluster, DevClusterThread
from senro.domain.kube.names import label_value
from senro.domain.run.events import AttemptEnded, PodCreated, TransferCompleted, TransferTryFailed
from senro.domain.transfer.compression import Coding, Direction, LinkRates, choose
from senro.domain.transfer.containers import IO_CONTAINER, STAGE_CONTAINER
from senro.testing import Bench

pytestmark = [pytest.mark.slow, pytest.mark.bubblewrap]

SOAK = os.environ.get("SENRO_TEST_PROFILE") == "soak"
SEED = 20261202
AT_ONCE = 8
"""Number of cases of a run, each with its own fault."""

BOUND = 240
"""Seconds after which a run counts as hanging, also on a slow machine."""

PARTS = 12 if SOAK else 1
"""Number of tests that share the cuts of one coding."""

SPREAD = 200
"""Bytes by which the size of a compressed archive may differ between runs, since it has times and a name."""

PLACES = 200
"""Number of cuts of a large archive, for each direction and coding."""

Content = Literal["small", "text", "noise"]

CODINGS: tuple[Coding, ...] = ("plain", "gzip", "zstd")
DIRECTIONS: tuple[Direction, ...] = ("upload", "download")
CONTENTS: dict[Coding, tuple[Content, ...]] = {
    "plain": ("small", "text", "noise"),
    "gzip": ("small", "text"),
    "zstd": ("small", "text"),
}
"""The contents for each coding; incompressible content is sent as it is on any link."""

CONTAINERS: dict[Direction, str] = {"upload": STAGE_CONTAINER, "download": IO_CONTAINER}
CHANNELS: dict[Direction, Literal["stdin", "stdout"]] = {"upload": "stdin", "download": "stdout"}

Counts = Callable[[str, object], None]


class Case(NamedTuple):
    """A fault of one step's transfer. `at`: the position of a cut, in bytes on the wire."""

    fault: str
    direction: Direction
    coding: Coding
    content: Content
    times: int = 1
    at: int = 0


# --- contents ----------------------------------------------------------------------------------------------------


def make_contents(folder: Path) -> None:
    """Creates a small project, some megabytes that compress well, and some that do not compress."""
    randomness = random.Random(SEED)
    lines = (b"%d times %d is %d\n" % (n, n, n * n) for n in range(70_000))
    for name, large in (("small", b""), ("text", b"".join(lines)), ("noise", randomness.randbytes(2_000_000))):
        root = folder / name
        (root / "deep" / "er").mkdir(parents=True)
        (root / "a.bin").write_bytes(bytes(range(256)) * 40)
        (root / "deep" / "er" / "b.txt").write_text("b\n" * 700)
        (root / "empty").write_bytes(b"")
        (root / "run").write_text("#!/bin/sh\n")
        (root / "run").chmod(0o755)
        (root / "link").symlink_to("deep/er/b.txt")
        if large:
            (root / "large").write_bytes(large)


COMMAND = ["sh", "-c", "echo ran; echo changed > changed; rm empty; mkdir made"]


def folder_contents(folder: Path) -> dict[str, object]:
    """Returns the content of a folder by path: of a file its bytes and whether it is executable."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = ("link", str(path.readlink()))
        elif path.is_dir():
            found[name] = "directory"
        else:
            found[name] = (path.read_bytes(), bool(path.stat().st_mode & 0o100))
    return found


def expected_contents(before: dict[str, object]) -> dict[str, object]:
    """Returns the contents after the step's command."""
    return {name: what for name, what in before.items() if name != "empty"} | {
        "changed": (b"changed\n", False),
        "made": "directory",
    }


# --- codings ----------------------------------------------------------------------------------------------------


def force_coding(monkeypatch: pytest.MonkeyPatch, coding: Coding) -> None:
    """Simulates a link so slow that compression always pays, or one that is not measured."""
    if coding == "plain":
        monkeypatch.setattr(LinkRates, "known", lambda _self, _direction, _at: None)
        return

    def first(known: CompressionChoice, direction: Direction) -> Coding:
        del direction
        return choose(known.has or (), 1.0 if known.ratio is None else known.ratio, 1e5)

    monkeypatch.setattr(CompressionChoice, "could_pay", lambda _self, _direction, _content: True)
    monkeypatch.setattr(CompressionChoice, "first", first)


PREAMBLE = """#!/bin/sh
for real in /run/.senro-programs/*/tar; do if [ -x "$real" ]; then break; fi; done
case "$1 $3" in '-x '*) way=upload ;; '-c -') way=download ;; *) way=none ;; esac
if [ "$way" != {way} ]; then exec "$real" "$@"; fi
tries=$(cat /tmp/tries 2>/dev/null || echo 0)
if [ "$tries" -ge {times} ]; then exec "$real" "$@"; fi
echo $((tries+1)) > /tmp/tries
"""

TALK = "i=0; while [ $i -lt 400 ]; do printf 'senro-members 7 0 %0900d\\n' $i; i=$((i+1)); done"
"""About 370 KB, more than a pipe holds."""

TARS: dict[str, dict[Direction, str]] = {
    "fails at once": {"upload": "echo sorry >&2; exit 2", "download": "echo sorry >&2; exit 2"},
    "fails midway": {
        "upload": 'head -c 9000 | "$real" "$@"; echo "tar: Exiting" >&2; exit 2',
        "download": '"$real" "$@" | head -c 9000; echo "tar: Exiting" >&2; exit 2',
    },
    "ends early with success": {
        "upload": "head -c 9000 > /dev/null; exit 0",
        "download": '"$real" "$@" | head -c 9216; exit 0',
    },
    "is killed": {
        "upload": "head -c 9000 > /dev/null; kill -9 $$",
        "download": '"$real" "$@" | head -c 9000; kill -9 $$',
    },
    "finds the volume full": {"upload": 'exec "$real" -x -O -f - > /dev/full'},
    "finds a file changed": {"download": '"$real" "$@"; echo "tar: 0/a: file changed as we read it" >&2; exit 1'},
    "is slow": {
        "upload": '{ i=0; while [ $i -lt 12 ]; do head -c 3000; sleep 0.05; i=$((i+1)); done; cat; } | "$real" "$@"',
        "download": '"$real" "$@" | { i=0; while [ $i -lt 12 ]; do head -c 3000; sleep 0.05; i=$((i+1)); done; cat; }',
    },
    "talks while it is fed": {
        "upload": f'exec 5>&1; {{ head -c 3000; {{ {TALK}; }} >&5; {{ {TALK}; }} >&2; cat; }} | "$real" "$@"',
        "download": f'{{ {TALK}; }} >&2 & "$real" "$@"; code=$?; wait; exit $code',
    },
    "is very slow": {
        "upload": '{ i=0; while [ $i -lt 200 ]; do head -c 3000; sleep 0.05; i=$((i+1)); done; cat; } | "$real" "$@"',
        "download": '"$real" "$@" | { i=0; while [ $i -lt 200 ]; do head -c 3000; sleep 0.05; i=$((i+1)); done; cat; }',
    },
    "is silent at first": {"upload": "exec sleep 600", "download": "exec sleep 600"},
    "stops midway": {
        "upload": "head -c 5000 > /dev/null; exec sleep 600",
        "download": '"$real" "$@" | head -c 5000; sleep 600',
    },
}
"""Faults of the remote tar in its first calls. Afterwards it is the machine's own."""

HARMLESS = frozenset({"is slow", "talks while it is fed"})
MIDWAY = "is very slow"
"""A tar that works for ten seconds, during which something else happens."""

SILENT = frozenset({"is silent at first", "stops midway"})
IDLE = 4.0 if SOAK else 2.0
"""Seconds of silence that end an exec in some tests, instead of minutes."""


def image_of(bench: Bench, case: Case) -> str:
    """Returns the image of a case, with its compression programs and its tar."""
    absent = ["zstd"] if case.coding == "gzip" else []
    if case.fault not in TARS:
        return bench.devcluster.add_image(f"has-{case.coding}", absent=absent)
    word = f"{case.fault}-{case.direction}-{case.times}-{case.coding}".replace(" ", "-")
    script = PREAMBLE.format(way=case.direction, times=case.times) + TARS[case.fault][case.direction] + "\n"
    return bench.devcluster.add_image(word, programs={"tar": script}, absent=absent)


# --- faults -----------------------------------------------------------------------------------------------------

MISSING = {"small": 11_000, "text": 1_500_000, "noise": 1_500_000}
"""Bytes at the end of stdout that are lost or late, more than tar's last record of zeros."""


def arm(bench: Bench, case: Case, step: str) -> None:
    """Arms the fault of a case for its step."""
    faults = bench.faults
    of: dict[str, Any] = {"container": CONTAINERS[case.direction], "step": step, "times": case.times}
    last = MISSING[case.content] if case.direction == "download" else 5
    match case.fault:
        case "cut":
            faults.cut_exec(CHANNELS[case.direction], case.at, **of)
        case "status lost":
            faults.drop_status(**of)
        case "status late":
            faults.delay_status(1, **of)
        case "status before the last data":
            faults.hasten_status(last, **of)
        case "end of stdout missing with success":
            faults.truncate_stdout(last, **of)
        case "handshake refused":
            faults.refuse_handshake(**of)
        case "pod evicted" | "pod deleted" | "pod deleted by force":
            reason = {"pod evicted": "Evicted", "pod deleted": "Deleted"}.get(case.fault, "ForceDeleted")
            faults.fail_pod(step=step, reason=reason, at="stage" if case.direction == "upload" else "read-back")
        case "pod vanished":
            faults.vanish_pod(step=step, at="stage" if case.direction == "upload" else "read-back")
        case fault:
            assert fault in TARS


GONE = ("pod evicted", "pod deleted", "pod deleted by force", "pod vanished")
BLAMED = {"evicted", "deleted", "vanished", "stage-failed", "node-lost", "transfer"}
"""The valid kinds for a pod that was removed. If its step had ended, only its files are lost."""


UNSAID = frozenset({"status before the last data", "end of stdout missing with success"})
"""Faults that may withhold the line with the remote programs. Then the archive is not compressed."""


BREAKING = ({"cut", "status lost"} | UNSAID | TARS.keys()) - HARMLESS - {MIDWAY}
"""Faults that break a download each time. It is complete at the try after the last fault."""


def is_no_try(case: Case) -> bool:
    """Whether the remote command fails before its first byte, so that no try is counted."""
    return case.fault == "is silent at first" and case.direction == "download"


def expected_results(case: Case) -> set[str]:
    """Returns the valid results of a case: `whole` at a try, or `lost` with unchanged files."""
    if case.fault in GONE:
        # The grace period of a deletion may suffice to download a small archive.
        return {"whole", "lost"} if case.direction == "download" else {"lost"}
    if case.fault == MIDWAY:
        return {"whole", "lost"}
    if case.fault in HARMLESS | {"handshake refused", "status late"} or is_no_try(case):
        return {"whole"}
    if case.times < 3:
        return {"whole"}
    if case.direction == "upload" and case.fault not in TARS:
        # The upload may have been complete without an answer. Then the step is seen running.
        return {"whole", "lost"}
    return {"lost"}


# --- running and checking -----------------------------------------------------------------------------------------


def run(bench: Bench, cases: list[Case], reporter: senro.Reporter | None = None) -> senro.Result:
    """Runs a pipeline with a workflow for each case. Raises TimeoutError if it hangs."""
    pipeline = senro.Pipeline("matrix")
    for number, case in enumerate(cases):
        workspace = senro.Workspace(f"ws{number}", path=case.content)
        pipeline.workflow(f"w{number}", on=bench.pod(image=image_of(bench, case), grace=2)).step(
            "s", COMMAND, mounts=[workspace.at("/w")], workdir="/w"
        )
        arm(bench, case, f"w{number}.s")
    options: dict[str, Any] = {"run_dir": str(bench.folder / "runs"), "environ": bench.environ}

    async def bounded() -> senro.Result:
        with anyio.fail_after(BOUND):
            return await senro.run(pipeline.build(), reporter=reporter, **options)

    result = anyio.run(bounded)
    bench.results.append(result)
    return result


def judge(bench: Bench, number: int, case: Case, before: dict[str, object]) -> str:
    """Returns the result of a case in a few words. Fails if it is wrong, or if files are incomplete or changed."""
    may_come_to = expected_results(case)
    step, result = f"w{number}.s", bench.results[-1]
    (outcome,) = (event.outcome for event in bench.of(AttemptEnded) if event.step == step)
    broken = [event for event in bench.of(TransferTryFailed) if event.step == step]
    completed = {event.direction: event for event in bench.of(TransferCompleted) if event.step == step}
    folder = Path(result.workspaces[f"ws{number}"].folder)
    there, told = folder_contents(folder), (case, outcome, broken)
    starts = starts_of(bench, step)
    assert starts <= 1, told
    # A fault that did not occur proves nothing. A complete upload without an answer needs no other try.
    unused, may_arrive = (
        bench.faults.pending(step=step),
        case.direction == "upload" and case.fault != "handshake refused",
    )
    assert unused == 0 or (may_arrive and unused < case.times), (unused, told)
    # The log of a removed pod may be lost, which the outcome says.
    assert log_of(result, step) == b"ran\n" * starts or (not outcome.log_complete and not log_of(result, step)), told
    assert broken or case.fault != "cut" or case.direction == "upload", told
    if outcome.kind == "succeeded":
        assert "whole" in may_come_to, told
        assert (there, starts, set(completed)) == (expected_contents(before), 1, {"upload", "download"}), told
        if case.content != "noise" and case.fault not in {*GONE, *UNSAID}:
            assert completed[case.direction].coding == case.coding, told
        tries = len({event.tries for event in broken if event.tries and event.direction == case.direction}) + 1
        assert tries == case.times + 1 or case.direction == "upload" or case.fault not in BREAKING or is_no_try(case), (
            told
        )
        return "whole" if tries == 1 else f"whole at try {tries}"
    assert "lost" in may_come_to, told
    assert there == before, told
    assert outcome.kind == "infra", told
    assert outcome.infra_kind in (BLAMED if case.fault in {*GONE, MIDWAY} else {"transfer"}), told
    if case.direction == "download":
        assert (starts, "upload" in completed) == (1, True), told
    if outcome.infra_kind == "transfer" and case.direction == "download":
        assert (outcome.code, outcome.did_run) == (0, "yes"), told
    if starts == 0:
        assert outcome.did_run in {"no", "maybe"}, told
    return f"Infra {outcome.infra_kind}"


def starts_of(bench: Bench, step: str) -> int:
    """Returns how often the step's container was started, in all its pods."""
    pods = [event.pod for event in bench.of(PodCreated) if event.step == step]
    return sum(bench.devcluster.starts(bench.namespace, pod).get("step", 0) for pod in pods)


def log_of(result: senro.Result, step: str) -> bytes:
    """Returns the output of the step; b"" if it never ran."""
    path = Path(result.folder, "logs", label_value(step), "1.log")
    return path.read_bytes() if path.exists() else b""


def check_cases(bench: Bench, cases: list[Case], monkeypatch: pytest.MonkeyPatch, record_property: Counts) -> None:
    """Runs and judges the cases, of one coding, and checks that nothing is left in the cluster or on disk."""
    force_coding(monkeypatch, cases[0].coding)
    if SILENT & {case.fault for case in cases}:
        monkeypatch.setattr(transfer, "IDLE_SECONDS", IDLE)
    result = run(bench, cases)
    before = {content: folder_contents(bench.folder / content) for content in {case.content for case in cases}}
    counts: dict[str, Counter[str]] = {}
    for number, case in enumerate(cases):
        title = f"transfer {case.direction}, {case.fault}"
        counts.setdefault(title, Counter())[judge(bench, number, case, before[case.content])] += 1
    assert result.leftovers == ()
    assert leftovers(result) == []
    bench.check_nothing_is_left()
    bench.faults.clear()
    record_property("counts", {title: dict(counted) for title, counted in counts.items()})


def leftovers(result: senro.Result) -> list[str]:
    """Returns the temporary folders that are still next to a workspace's folder."""
    return [path.name for path in Path(result.folder).rglob(".*.senro-*")]


def sample(cases: list[Case], at_most: int) -> list[Case]:
    """Returns all cases in `make soak`, else a tenth of them, always the same, and at most `at_most`."""
    if SOAK:
        return cases
    randomness = random.Random(SEED)
    return randomness.sample(cases, min(at_most, max(1, len(cases) // 10)))


def batches(cases: Iterable[Case]) -> Iterator[list[Case]]:
    """Yields the cases of one coding in batches. Cases that end by silence are apart, since it may end others too."""
    known = list(cases)
    for coding, silent in itertools.product(CODINGS, (False, True)):
        same = [case for case in known if (case.coding, case.fault in SILENT) == (coding, silent)]
        for at in range(0, len(same), AT_ONCE):
            yield same[at : at + AT_ONCE]


def name_of(batch: list[Case]) -> str:
    """Returns the name of a test for its cases."""
    return f"{batch[0].coding}-{'-'.join(sorted({case.fault.replace(' ', '_') for case in batch}))[:60]}"


def all_faults() -> list[Case]:
    """Returns every fault except the cuts, in both directions, up to as many times as a transfer is tried."""
    found: list[Case] = []
    where = [(way, coding, content) for way in DIRECTIONS for coding in CODINGS for content in CONTENTS[coding]]
    for way, coding, content in where:
        for fault, tars in TARS.items():
            counts = () if fault == MIDWAY else (1,) if fault in HARMLESS else (1, 2, 3)
            found += [Case(fault, way, coding, content, times) for times in counts if way in tars]
        for fault in ("status lost", "status before the last data", "end of stdout missing with success"):
            found += [Case(fault, way, coding, content, times) for times in (1, 2, 3)]
        found += [Case("handshake refused", way, coding, content, times) for times in (1, 4)]
        found += [Case(fault, way, coding, content) for fault in (*GONE, "status late")]
    return found


FAULTS = all_faults()
CHOSEN = sample(FAULTS, 16)


def skip_without(coding: Coding) -> None:
    """Skips the test if this machine lacks the program of the coding, which the embedded cluster's images use."""
    if coding != "plain" and shutil.which(coding) is None:
        pytest.skip(f"no {coding} on PATH")


@pytest.fixture(autouse=True)
def projects(bench: Bench) -> None:
    """The contents to transfer."""
    make_contents(bench.folder)


@pytest.mark.parametrize("batch", list(batches(CHOSEN)), ids=name_of)
def test_a_fault_leaves_files_complete_or_unchanged(
    bench: Bench, batch: list[Case], monkeypatch: pytest.MonkeyPatch, record_property: Counts
) -> None:
    """Whatever breaks a transfer and how often: it is complete or reported, and the command runs once."""
    skip_without(batch[0].coding)
    check_cases(bench, batch, monkeypatch, record_property)
    title = f"{len(FAULTS)} faults of transfers"
    record_property("counts", {title: dict(Counter(case.coding for case in batch))})


# --- cuts --------------------------------------------------------------------------------------------------------


def wire_sizes(bench: Bench, coding: Coding, monkeypatch: pytest.MonkeyPatch) -> dict[tuple[Content, Direction], int]:
    """Returns the bytes on the wire in each direction without a fault."""
    force_coding(monkeypatch, coding)
    cases = [Case("status late", "upload", coding, content) for content in CONTENTS[coding]]
    run(bench, cases)
    found: dict[tuple[Content, Direction], int] = {}
    for event in bench.of(TransferCompleted):
        case = cases[int(event.step.removeprefix("w").removesuffix(".s"))]
        assert event.coding == coding
        found[case.content, event.direction] = event.wire_bytes
    return found


def cuts(coding: Coding, lengths: dict[tuple[Content, Direction], int]) -> dict[tuple[Content, Direction], list[Case]]:
    """Returns the positions of cuts: each KiB of the small archive, and random ones of the large ones."""
    found: dict[tuple[Content, Direction], list[Case]] = {}
    for (content, direction), length in lengths.items():
        if content == "small":
            last = length - 1 if coding == "plain" else length - SPREAD
            places = sorted({1, 5, *range(1024, length, 1024), last})
            cases = [Case("cut", direction, coding, content, at=place) for place in places]
        else:
            randomness = random.Random(f"{SEED} {direction} {coding} {content}")
            count = PLACES // 2 if coding == "plain" else PLACES
            places = [randomness.randrange(1, length - SPREAD) for _ in range(count)]
            cases = [Case("cut", direction, coding, content, randomness.choice((1, 1, 1, 2, 3)), at) for at in places]
        found[content, direction] = cases
    return found


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("coding", CODINGS)
def test_a_transfer_that_is_cut(
    bench: Bench, coding: Coding, part: int, monkeypatch: pytest.MonkeyPatch, record_property: Counts
) -> None:
    """It is complete after one or two cuts anywhere. After three cuts it is reported, and nothing has changed."""
    skip_without(coding)
    lengths = wire_sizes(bench, coding, monkeypatch)
    randomness = random.Random(SEED)
    chosen: list[Case] = []
    for (content, direction), cases in cuts(coding, lengths).items():
        some_of = cases[part::PARTS] if SOAK else randomness.sample(cases, 1)
        chosen += some_of
        title = f"{len(cases)} cuts of the {content} archive {direction}, {coding}"
        record_property("counts", {title: {"made": len(some_of)}})
        if part == 0:
            record_property("summary", f"{lengths[content, direction]:,} bytes {direction} ({content}, {coding})")
    for batch in batches(chosen):
        check_cases(bench, batch, monkeypatch, record_property)


# --- single cases --------------------------------------------------------------------------------------------------


def test_a_download_that_is_cut_twice_succeeds_at_the_third_try(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two failed tries are recorded, and the command runs once."""
    force_coding(monkeypatch, "plain")
    for place in (700_000, 1_500_000):
        bench.faults.cut_exec("stdout", place, container=IO_CONTAINER, step="w0.s")
    case = Case("status late", "download", "plain", "noise")
    result = run(bench, [case])
    assert result.ok
    assert [(event.direction, event.tries) for event in bench.of(TransferTryFailed)] == [
        ("download", 1),
        ("download", 2),
    ]
    assert [(event.direction, event.tries) for event in bench.of(TransferCompleted)] == [("upload", 1), ("download", 3)]
    assert judge(bench, 0, case, folder_contents(bench.folder / "noise")) == "whole at try 3"
    assert bench.faults.pending() == 0


def test_missing_megabytes_with_a_success_status(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """v5 can lose output of slow readers. The missing end blocks are detected three times, and reported."""
    force_coding(monkeypatch, "plain")
    bench.faults.truncate_stdout(1_500_000, times=3, container=IO_CONTAINER)
    result = run(bench, [Case("status late", "upload", "plain", "noise")])
    outcome = result.steps["w0.s"].outcome
    assert outcome is not None
    assert (outcome.kind, outcome.infra_kind, outcome.code, outcome.did_run) == ("infra", "transfer", 0, "yes")
    assert all("the transfer was cut" in event.message for event in bench.of(TransferTryFailed))
    assert folder_contents(Path(result.workspaces["ws0"].folder)) == folder_contents(bench.folder / "noise")
    assert (starts_of(bench, "w0.s"), bench.faults.pending(), leftovers(result)) == (1, 0, [])


@pytest.mark.parametrize("coding", ["plain", "zstd"])
def test_a_full_disk_of_the_coordinator(bench: Bench, coding: Coding, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error quotes the system, nothing is retried, and the old files stay without leftovers."""
    skip_without(coding)
    force_coding(monkeypatch, coding)
    room = 1_000_000

    def filling(opened: int, data: bytes | memoryview) -> None:
        nonlocal room
        room -= len(data)
        if room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_all(opened, data)

    monkeypatch.setattr("senro.adapters.fs.unpack.write_all", filling)
    result = run(bench, [Case("status late", "upload", coding, "text")])
    outcome = result.steps["w0.s"].outcome
    assert outcome is not None
    assert (outcome.kind, outcome.infra_kind, outcome.code, outcome.did_run) == ("infra", "transfer", 0, "yes")
    assert "No space left on device" in outcome.message
    assert len(bench.of(TransferTryFailed)) == 1
    assert folder_contents(Path(result.workspaces["ws0"].folder)) == folder_contents(bench.folder / "text")
    assert (starts_of(bench, "w0.s"), leftovers(result)) == (1, [])


class Midway(senro.Reporter):
    """Calls `act` once a transfer has moved `done` bytes in a direction."""

    def __init__(self, direction: Direction, done: int, act: Callable[[], object]) -> None:
        self._direction = direction
        self._done = done
        self._act: Callable[[], object] | None = act

    def transfer(
        self, step_id: str, direction: Direction, done_bytes: int, total_bytes: int | None, files: int = 0
    ) -> None:
        """Called by the run."""
        del step_id, total_bytes, files
        if direction == self._direction and done_bytes >= self._done and self._act is not None:
            act, self._act = self._act, None
            act()


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_kubelet_that_restarts_midway(bench: Bench, direction: Direction, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its execs break, and are refused until it is back. The transfer is repeated, and the step runs once."""
    force_coding(monkeypatch, "plain")
    cluster = bench.devcluster
    case = Case(MIDWAY, direction, "plain", "small")
    midway = Midway(direction, 3000, lambda: cluster.restart_kubelet(seconds=0.3))
    assert run(bench, [case], midway).ok
    assert any(event.direction == direction for event in bench.of(TransferTryFailed))
    assert judge(bench, 0, case, folder_contents(bench.folder / "small")).startswith("whole")


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("reason", ["Deleted", "ForceDeleted", "NodeShutdown"] if SOAK else ["ForceDeleted"])
def test_a_pod_that_is_removed_midway(
    bench: Bench, direction: Direction, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step is Infra, the files are unchanged, the command ran at most once, and nothing is left."""
    force_coding(monkeypatch, "plain")
    cluster = bench.devcluster

    def take() -> None:
        (pod,) = cluster.pods(bench.namespace)
        cluster.evict(bench.namespace, pod["metadata"]["name"], reason=reason)

    case = Case(MIDWAY, direction, "plain", "small")
    run(bench, [case], Midway(direction, 3000, take))
    assert judge(bench, 0, case, folder_contents(bench.folder / "small")).startswith("Infra")
    assert leftovers(bench.results[-1]) == []


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_node_that_is_removed_midway(tmp_path: Path, direction: Direction, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its kubelet never answers again. The pod is lost with it, and the files are unchanged."""
    force_coding(monkeypatch, "plain")
    with DevClusterThread(namespaces=("ci",), nodes=("one", "two"), time_scale=0.02, toleration_seconds=1) as cluster:
        bench = Bench.embedded(tmp_path, cluster)
        case = Case(MIDWAY, direction, "plain", "small")
        run(bench, [case], LosingTheNode(cluster, direction))
        assert judge(bench, 0, case, folder_contents(bench.folder / "small")).startswith("Infra")
        assert leftovers(bench.results[-1]) == []


class LosingTheNode(Midway):
    """Silences the node of the only pod during a transfer and removes it, so that the pod cannot be reached."""

    def __init__(self, cluster: DevCluster, direction: Direction) -> None:
        super().__init__(direction, 3000, self._silence)
        self._cluster = cluster

    def _silence(self) -> None:
        (pod,) = self._cluster.pods("ci")
        node = pod["spec"]["nodeName"]
        self._cluster.silence_node(node)
        self._cluster.remove_node(node)
