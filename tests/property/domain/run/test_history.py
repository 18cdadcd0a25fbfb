"""The history of a run by its ledger."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.domain.run.events import Event, RunEnded, RunStarted, SnapshotTaken, WorkspaceOpened, encode_event
from senro.domain.run.history import Chosen, choose_run, choose_workspace, history, read_ledger
from senro.domain.run.state_names import RunState
from tests.lib.builders.events import AT, events

RUNS = ["20261129T231308Z-5f0c9a", "20261129T231309Z-5f0c9a", "20261130T000000Z-aaaaaa", "20261201T000000Z-bbbbbb"]


def workspace_opened(name: str, digest: str) -> Event:
    return WorkspaceOpened(
        at=AT, workspace=name, digest=digest, files=1, bytes=2, omitted=1, omitted_sample=("a: a fifo",)
    )


def snapshot_taken(name: str, digest: str, step: str = "w.s") -> Event:
    return SnapshotTaken(at=AT, step=step, attempt=2, workspace=name, digest=digest, files=3, bytes=4)


@given(st.lists(events(), max_size=12), st.binary(max_size=30))
def test_a_ledger_is_decoded(written: list[Event], torn: bytes) -> None:
    """Every complete event is decoded in order; other lines are ignored."""
    data = b"".join(encode_event(event) + b"\n" for event in written)
    assert read_ledger(data) == tuple(written)
    noise = torn.replace(b"\n", b"").replace(b"{", b"")
    assert read_ledger(b'{"event":"of.later","at":""}\n' + data + noise) == tuple(written)
    last = encode_event(workspace_opened("src", "sha256:1"))
    assert read_ledger(data + last[:-1]) == tuple(written)


@given(st.lists(events(), max_size=20))
def test_any_events_have_a_history(told: list[Event]) -> None:
    """It has the snapshots of each workspace in order, and never raises."""
    known = history(told)
    found = [event for event in told if isinstance(event, WorkspaceOpened | SnapshotTaken)]
    assert {event.workspace for event in found} == known.workspaces.keys()
    for name, snapshots in known.workspaces.items():
        assert [one.digest for one in snapshots] == [event.digest for event in found if event.workspace == name]


def test_the_fields_of_a_history() -> None:
    """The run, its pipeline and its state, and the fields of each snapshot."""
    started = RunStarted(at=AT, run="r", pipeline="release", steps=("w.s",), senro_version="1")
    known = history(
        [started, workspace_opened("src", "d1"), snapshot_taken("src", "d2"), RunEnded(at=AT, state="failed")]
    )
    assert (known.run, known.pipeline, known.state) == ("r", "release", "failed")
    first, last = known.workspaces["src"]
    assert (first.digest, first.step, first.attempt, first.files, first.bytes) == ("d1", "", 0, 1, 2)
    assert (first.omitted, first.omitted_sample) == (1, ("a: a fifo",))
    assert (last.digest, last.step, last.attempt, last.files, last.bytes, last.at) == ("d2", "w.s", 2, 3, 4, AT)


@pytest.mark.parametrize(
    ("state", "needs"),
    [
        (None, True),
        ("failed", True),
        ("cancelled", True),
        ("succeeded", False),
        ("succeeded_with_recovery", False),
        ("partial", False),
    ],
)
def test_the_needed_snapshots(state: RunState | None, needs: bool) -> None:
    """Every snapshot of a run that failed, was cancelled or has not ended, none of a successful one."""
    told = [workspace_opened("src", "d1"), snapshot_taken("src", "d2"), snapshot_taken("out", "d3")]
    ended = [] if state is None else [RunEnded(at=AT, state=state)]
    assert history([*told, *ended]).needed == (frozenset({"d1", "d2", "d3"}) if needs else frozenset())


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("latest", RUNS[3]),
        (RUNS[0], RUNS[0]),
        ("20261201", RUNS[3]),
        (RUNS[2][:-1], RUNS[2]),
    ],
)
def test_a_run_is_chosen(asked: str, answer: str) -> None:
    """By its id, by the beginning of one id, or as the latest."""
    assert choose_run(asked, RUNS) == Chosen(answer)


@pytest.mark.parametrize(
    ("asked", "runs", "words"),
    [
        ("latest", [], "there is no run yet"),
        ("2026112", RUNS, f"2 runs begin with it: {RUNS[0]}, {RUNS[1]}"),
        ("2026", RUNS, f"4 runs begin with it: {RUNS[0]}, {RUNS[1]}, {RUNS[2]} and 1 more"),
        ("20261201T000000Z-bbbbba", RUNS, f"the nearest are {RUNS[3]}"),
        ("zzz", RUNS, f"the nearest are {RUNS[3]}, {RUNS[2]}, {RUNS[1]}, or write `latest`"),
        ("", RUNS, "there is no such run"),
    ],
)
def test_an_unknown_run(asked: str, runs: list[str], words: str) -> None:
    """It is refused with the nearest ids, else the latest ones."""
    chosen = choose_run(asked, runs)
    assert chosen.name == ""
    assert words in chosen.problem


def test_a_run_whose_id_begins_another() -> None:
    """The whole id of a run selects it, also if a longer id begins with it."""
    assert choose_run("ab", ["ab", "abc"]) == Chosen("ab")


@pytest.mark.parametrize(
    ("asked", "names", "answer"),
    [
        ("src", ["out", "src"], Chosen("src")),
        ("src", [], Chosen(problem="the run has no workspace")),
        ("scr", ["out", "src"], Chosen(problem="the run has no such workspace; it has src")),
        (
            "zzz",
            ["e", "d", "b", "a"],
            Chosen(problem="the run has no such workspace; it has a, b, d and 1 more"),
        ),
    ],
)
def test_a_workspace_is_chosen(asked: str, names: list[str], answer: Chosen) -> None:
    """By its name; another one is refused with the nearest names, or with all."""
    assert choose_workspace(asked, names) == answer
