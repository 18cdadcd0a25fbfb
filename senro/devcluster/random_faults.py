"""Draws faults from a seed: the same seed gives the same faults."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from senro.devcluster.fault_points import FAULT_POINTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    FaultSpec = tuple[str, dict[str, Any]]
    """A method of `Faults`, and its keyword arguments."""

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


def draw_faults(seed: int | str, steps: Sequence[str], *, at_most: int = 3) -> tuple[FaultSpec, ...]:
    """Draw up to `at_most` faults: a disrupted pod, or an exec, a request or an answer that breaks.

    `steps`: the ids of the steps whose pods may be disrupted; if empty, any step's.
    """
    source = random.Random(seed)  # noqa: S311 - it is to be repeatable, not secret
    kinds: list[Callable[[random.Random, Sequence[str]], FaultSpec]] = [
        _disruption,
        _disruption,
        _broken_exec,
        _broken_exec,
        _broken_request,
        _broken_request,
        _lost_answer,
    ]
    return tuple(source.choice(kinds)(source, steps) for _ in range(source.randint(0, at_most)))


def random_troubles(seed: int | str) -> tuple[FaultSpec, ...]:
    """Draw one to three failures of reads that no run may notice."""
    source = random.Random(seed)  # noqa: S311 - as above
    return tuple(_unnoticed(source) for _ in range(source.randint(1, 3)))


def _disruption(source: random.Random, steps: Sequence[str]) -> FaultSpec:
    where = {"step": source.choice(steps) if steps else "", "at": source.choice(sorted(FAULT_POINTS))}
    if source.random() < 0.2:
        return "vanish_pod", where
    return "fail_pod", {**where, "reason": source.choice(_DISRUPTIONS)}


def _broken_exec(source: random.Random, _steps: Sequence[str]) -> FaultSpec:
    container = source.choice(["senro-stage", "senro-io"])
    arguments: dict[str, dict[str, Any]] = {
        "cut_exec": {
            "direction": "stdin" if container == "senro-stage" else "stdout",
            "after_bytes": source.choice([1, 700, 40_000]),
            "container": container,
        },
        "drop_status": {"container": container},
        "hasten_status": {"last_bytes": source.choice([1, 20_000]), "container": "senro-io"},
        "truncate_stdout": {"last_bytes": source.choice([1, 1024]), "container": "senro-io"},
        "refuse_handshake": {"times": source.randint(1, 2)},
    }
    kind = source.choice(sorted(arguments))
    return kind, arguments[kind]


def _broken_request(source: random.Random, _steps: Sequence[str]) -> FaultSpec:
    method, path = source.choice(_REQUESTS)
    return _trouble(source, {"method": method, "path_contains": path, "times": source.randint(1, 2)})


def _unnoticed(source: random.Random) -> FaultSpec:
    where = {"method": "GET", "path_contains": "/pods/", "times": source.randint(1, 2)}
    name, arguments = _trouble(source, where)
    # A connection is anybody's: one that is refused may be the one of an exec.
    return name, {"times": 1} if name == "refuse_connection" else arguments


def _trouble(source: random.Random, where: dict[str, Any]) -> FaultSpec:
    kinds: list[FaultSpec] = [
        ("throttle", {**where, "retry_after": 0}),
        ("answer", {**where, "status": source.choice([500, 502, 503, 504]), "text": "etcdserver: request timed out\n"}),
        ("drop_connection", where),
        ("refuse_connection", {"times": where["times"]}),
    ]
    return source.choice(kinds)


def _lost_answer(source: random.Random, _steps: Sequence[str]) -> FaultSpec:
    method, path = source.choice(_LOST)
    return "lose_answer", {"method": method, "path_contains": path}
