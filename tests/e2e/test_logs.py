"""Logs whose streams are cut: every line once and in order, or the result says that lines may be missing."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from senro import Reporter
from senro.devcluster import DevClusterThread
from senro.domain.run.events import LogEnded
from senro.ports.reporter import Stream
from senro.testing import Bench

LINES = 10_000
CUTS = 50
RESTARTS = (1, 600)
"""Lines at which the kubelet restarts, early enough that the step outlives both on a slow machine."""

SERVED = len("2026-11-29T10:00:00.000000000Z line 00001\n")
"""The size of a line as the kubelet serves it, in bytes."""
SEED = 20261130


class Acting(Reporter):
    """Calls each function once, when the line with its number is reported."""

    def __init__(self, acts: dict[int, Callable[[], None]]) -> None:
        self.acts = acts
        self.lines = 0

    def log_line(self, step_id: str, stream: Stream, text: str) -> None:
        del step_id, stream, text
        self.lines += 1
        if act := self.acts.pop(self.lines, None):
            act()


def test_ten_thousand_lines_through_fifty_cuts_and_two_restarts(bench: Bench) -> None:
    """Each line arrives once and in order, printed at full speed, cut at random places and with kubelet restarts."""
    for place in random.Random(SEED).sample(range(1, LINES * SERVED), CUTS):
        bench.faults.cut_log(place)
    cluster = bench.devcluster
    reporter = Acting(dict.fromkeys(RESTARTS, lambda: cluster.restart_kubelet(seconds=0.3)))
    result = bench.one("sh", "-c", f"seq -f 'line %05.0f' 1 {LINES}; sleep 4", run={"reporter": reporter})
    assert result.state == "succeeded"
    assert bench.log("w.s") == b"".join(b"line %05d\n" % number for number in range(1, LINES + 1))
    assert (reporter.lines, reporter.acts, bench.faults.pending()) == (LINES, {}, 0)
    assert [(event.complete, event.reason) for event in bench.of(LogEnded)] == [(True, "")]
    outcome = result.steps["w.s"].outcome
    assert (outcome.log_complete, outcome.log_reason) == (True, "")
    asked = [(method, path, status) for method, path, status in cluster.history if bench.pods()[0] in path]
    opened = [status for _, path, status in asked if path.endswith("/log")]
    drained = max(place for place, (_, path, _) in enumerate(asked) if path.endswith("/log"))
    assert drained < min(place for place, (method, _, _) in enumerate(asked) if method == "DELETE")
    assert (opened.count(200) > CUTS, 500 in opened) == (True, True)


def test_a_long_line_arrives_as_one(bench: Bench) -> None:
    """The runtime stores 100 KiB as seven parts, here over two seconds and with cuts. It arrives as one line."""
    for place in (5_000, 40_000, 102_490):
        bench.faults.cut_log(place)
    half = "head -c 51200 /dev/zero | tr '\\0' x"
    result = bench.one("sh", "-c", f"echo before; {half}; sleep 1.1; {half}; echo; echo after; sleep 0.5")
    assert result.state == "succeeded"
    assert bench.log("w.s") == b"before\n" + b"x" * 102_400 + b"\nafter\n"
    assert (bench.faults.pending(), [event.complete for event in bench.of(LogEnded)]) == (0, [True])


def test_a_rotation_during_a_cut_is_reported(tmp_path: Path) -> None:
    """Only the newest file can be read, so rotated lines are missing, and log_complete is False."""
    with DevClusterThread(log_limit=4096) as cluster:
        bench = Bench.embedded(tmp_path, cluster)
        reporter = Acting({1: lambda: cluster.restart_kubelet(seconds=0.5)})
        script = 'i=0; while [ $i -lt 150 ]; do seq -f "line $i %02.0f" 1 20; i=$((i+1)); sleep 0.01; done'
        result = bench.one("sh", "-c", script, run={"reporter": reporter})
        assert result.state == "succeeded"
        printed = [b"line %d %02d" % (turn, number) for turn in range(150) for number in range(1, 21)]
        written = bench.log("w.s").splitlines()
        assert written[-1] == printed[-1]
        assert len(written) < len(printed)
        assert written == sorted(set(written), key=printed.index)
        reason = "it was rotated while its stream was cut, so lines in between may be missing"
        assert [(event.complete, event.reason) for event in bench.of(LogEnded)] == [(False, reason)]
        outcome = result.steps["w.s"].outcome
        assert (outcome.log_complete, outcome.log_reason) == (False, reason)
        bench.check_nothing_is_left()
