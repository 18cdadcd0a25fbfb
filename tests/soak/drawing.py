"""Draws a pipeline and what goes wrong in it from a seed: the same seed, the same run but for its timing."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import senro
from senro import k8s, retry
from senro.devcluster import POINTS, Faults

_DISRUPTIONS = ("Evicted", "Preempted", "Tainted", "Deleted", "ForceDeleted", "NodePressure", "NodeShutdown")
_REQUESTS = (
    ("GET", "/pods"),
    ("POST", "/pods"),
    ("DELETE", "/pods"),
    ("POST", "/secrets"),
    ("PATCH", "/secrets"),
    ("GET", "/log"),
    ("GET", "/version"),
)
_LOST = (("POST", "/pods"), ("DELETE", "/pods"), ("POST", "/secrets"), ("PATCH", "/secrets"), ("DELETE", "/secrets"))
FAILURE = 7
"""What a command that fails by itself exits with."""


@dataclass(frozen=True, slots=True)
class Draw:
    """A pipeline of steps that each add a line to one file; `failing` is the step that exits with FAILURE, or ""."""

    seed: int
    steps: tuple[str, ...]
    secret: str
    failing: str
    size: int
    faults: tuple[tuple[str, dict[str, Any]], ...]

    @property
    def expected(self) -> list[str]:
        """The steps whose work has to be in the workspace at the end, in order."""
        return list(self.steps[: self.steps.index(self.failing)] if self.failing else self.steps)

    def arm(self, faults: Faults) -> None:
        """Arm what was drawn."""
        for name, arguments in self.faults:
            getattr(faults, name)(**arguments)

    def pipeline(self, on: k8s.Pod) -> senro.Pipeline:
        """The pipeline; every step may be tried once more than there are faults, and nothing is waited for."""
        pipeline = senro.Pipeline("soak")
        source = senro.Workspace("source")
        again = retry.on_infra(attempts=len(self.faults) * 3 + 2, delay=0)
        workflow = pipeline.workflow("w", on=on)
        before: list[str] = []
        for step in self.steps:
            name = step.partition(".")[2]
            last = f"exit {FAILURE}" if step == self.failing else f"echo {step} >> /src/done"
            secrets = {"TOKEN": "Token"} if step == self.secret else {}
            check = 'test "$(cat "$TOKEN")" = made-up; ' if secrets else ""
            fill = f"head -c {self.size} /dev/urandom > /src/data; "
            workflow.step(
                name,
                ["sh", "-ec", f"{check}{fill}sleep 0.1; {last}"],
                mounts=[source.at("/src")],
                needs=before,
                retry=again,
                secrets=secrets,
            )
            before = [name]
        return pipeline


def draw(seed: int) -> Draw:
    """The draw of a seed."""
    random_source = random.Random(seed)
    steps = tuple(f"w.s{number}" for number in range(random_source.randint(1, 3)))
    kinds: list[Callable[[random.Random, tuple[str, ...]], tuple[str, dict[str, Any]]]] = [
        _disruption,
        _disruption,
        _broken_exec,
        _broken_exec,
        _broken_request,
        _broken_request,
        _lost_answer,
    ]
    return Draw(
        seed,
        steps,
        random_source.choice([*steps, "", ""]),
        random_source.choice([*steps, "", "", "", ""]),
        random_source.choice([0, 1_000, 300_000]),
        tuple(random_source.choice(kinds)(random_source, steps) for _ in range(random_source.randint(0, 3))),
    )


def _disruption(random_source: random.Random, steps: tuple[str, ...]) -> tuple[str, dict[str, Any]]:
    where = {"step": random_source.choice(steps), "at": random_source.choice(sorted(POINTS))}
    if random_source.random() < 0.2:
        return "vanish_pod", where
    return "fail_pod", {**where, "reason": random_source.choice(_DISRUPTIONS)}


def _broken_exec(random_source: random.Random, _steps: tuple[str, ...]) -> tuple[str, dict[str, Any]]:
    container = random_source.choice(["senro-stage", "senro-io"])
    kind = random_source.choice(["cut_exec", "drop_status", "hasten_status", "truncate_stdout", "refuse_handshake"])
    arguments: dict[str, dict[str, Any]] = {
        "cut_exec": {
            "direction": "stdin" if container == "senro-stage" else "stdout",
            "after_bytes": random_source.choice([1, 700, 40_000]),
            "container": container,
        },
        "drop_status": {"container": container},
        "hasten_status": {"last_bytes": random_source.choice([1, 20_000]), "container": "senro-io"},
        "truncate_stdout": {"last_bytes": random_source.choice([1, 1024]), "container": "senro-io"},
        "refuse_handshake": {"times": random_source.randint(1, 2)},
    }
    return kind, arguments[kind]


def _broken_request(random_source: random.Random, _steps: tuple[str, ...]) -> tuple[str, dict[str, Any]]:
    method, path = random_source.choice(_REQUESTS)
    where: dict[str, Any] = {"method": method, "path_contains": path, "times": random_source.randint(1, 2)}
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("throttle", {**where, "retry_after": 0}),
        ("answer", {**where, "status": random_source.choice([500, 502, 503, 504]), "text": "not now\n"}),
        ("drop_connection", where),
        ("refuse_connection", {"times": where["times"]}),
    ]
    return random_source.choice(kinds)


def _lost_answer(random_source: random.Random, _steps: tuple[str, ...]) -> tuple[str, dict[str, Any]]:
    method, path = random_source.choice(_LOST)
    return "lose_answer", {"method": method, "path_contains": path}


def troubles(seed: str) -> list[tuple[str, dict[str, Any]]]:
    """Troubles of requests that no run may notice, for a test that knows nothing of them."""
    random_source = random.Random(seed)
    return [_unnoticed(random_source) for _ in range(random_source.randint(1, 3))]


def _unnoticed(random_source: random.Random) -> tuple[str, dict[str, Any]]:
    where: dict[str, Any] = {"method": "GET", "path_contains": "/pods/", "times": random_source.randint(1, 2)}
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("throttle", {**where, "retry_after": 0}),
        ("answer", {**where, "status": random_source.choice([500, 502, 503, 504]), "text": "not now\n"}),
        ("drop_connection", where),
        ("refuse_connection", {"times": 1}),
    ]
    return random_source.choice(kinds)


__all__ = ["FAILURE", "Draw", "draw", "troubles"]
