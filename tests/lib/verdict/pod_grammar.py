"""A grammar of the pods that a real cluster may show.

Everything is drawn by one function, `choose`, which returns one of several options: hypothesis in the tests, so that a
failure shrinks to the first options, and a random generator for many thousands of examples (tests/fuzz).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st

from senro.domain.kube.event import ClusterEvent, ObjectReference
from senro.domain.kube.pod import pod_from
from senro.domain.verdict import Observation
from senro.domain.verdict.signals.known_states import ROWS, Where
from tests.lib.verdict.observations import NODE, UID

T = TypeVar("T")


class Choose(Protocol):
    """Returns one of the options, of which the first are the simplest."""

    def __call__(self, options: Sequence[T], /) -> T: ...


@cache
def _below(count: int) -> st.SearchStrategy[int]:
    return st.integers(0, count - 1)


@st.composite
def choosers(draw: st.DrawFn) -> Choose:
    """Draws a `Choose` of hypothesis."""

    def choose(options: Sequence[T], /) -> T:
        return options[draw(_below(len(options)))]

    return choose


NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
NEVER = "1970-01-01T00:00:00Z"
MAYBE = (False, True)


def stamp(second: int) -> str:
    """Returns a time as the apiserver writes it."""
    return (NOON + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _words(where: Where) -> tuple[str, ...]:
    known = sorted({word for row in ROWS if row.where is where for word in row.words})
    return ("", *known, "SomethingNew", "a whole sentence: of an error")


WORDS = {where: _words(where) for where in Where}
"""The values of each field, known and unknown."""

MESSAGES = (
    "",
    'secret "s" not found',
    "failed to sync secret cache: timed out",
    "manifest unknown",
    "429 Too Many Requests",
    'Back-off pulling image "x"',
    'Back-off pulling image "x": ErrImagePull: pull access denied',
    'unable to start container process: exec: "x": permission denied',
    "unable to start container process: error mounting /a",
    "The node was low on resource: memory. ",
    'Usage of EmptyDir volume "d" exceeds the limit "8Mi". ',
    "Pod was rejected: The node had condition: [DiskPressure]. ",
    "0/1 nodes are available: 1 Insufficient cpu.",
    "Stopping container step",
)

# Around one moment, so that differences of about five seconds are drawn.
TIMES = (
    None,
    *(stamp(second) for second in range(-8, 9)),
    NEVER,
    "",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
)

CODES = (0, 1, 3, 126, 127, 128, 137, 143, 255, -1, None)

CONDITION_REASONS = (*WORDS[Where.CONDITION_REASON], "PodFailed", "PodCompleted", "ContainersNotReady")

CONDITIONS = tuple(row.value for row in ROWS if row.where is Where.CONDITION)


def a_state(choose: Choose) -> dict[str, Any] | None:
    kind = choose(("running", "waiting", "terminated", "terminated", "empty", "null"))
    if kind == "running":
        return {"running": {"startedAt": choose(TIMES)}}
    if kind == "waiting":
        return {"waiting": {"reason": choose(WORDS[Where.WAITING]), "message": choose(MESSAGES)}}
    if kind == "terminated":
        return {"terminated": an_end(choose)}
    return {} if kind == "empty" else None


def an_end(choose: Choose) -> dict[str, Any]:
    return {
        "exitCode": choose(CODES),
        "reason": choose(WORDS[Where.TERMINATED]),
        "message": choose(MESSAGES),
        "startedAt": choose(TIMES),
        "finishedAt": choose(TIMES),
    }


def a_status(choose: Choose, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "state": a_state(choose),
        "lastState": {"terminated": an_end(choose)} if choose((False, False, True)) else {},
        "containerID": choose(("", "containerd://1")),
    }


def a_condition(choose: Choose, kind: str) -> dict[str, Any]:
    return {
        "type": kind,
        "status": choose(("True", "False", "False", "Unknown")),
        "reason": choose(CONDITION_REASONS),
        "message": choose(MESSAGES),
        "lastTransitionTime": choose(TIMES),
    }


def a_pod(choose: Choose) -> dict[str, Any]:
    """Draws a pod, not always a valid one: the step may be missing, and other containers present."""
    names = choose(
        (("step",), ("senro-io", "step"), ("a-proxy", "step"), ("a-proxy", "senro-io", "step"), ("a-proxy",))
    )
    inits = choose(((), ("senro-stage",), ("sidecar", "senro-stage"), ("mesh-init", "senro-stage")))
    metadata: dict[str, Any] = {"name": "p", "namespace": "ci", "uid": UID}
    if choose(MAYBE):
        metadata |= {"deletionTimestamp": choose(TIMES), "deletionGracePeriodSeconds": choose((0, 1, 30, 60))}
    return {
        "metadata": metadata,
        "spec": {
            "nodeName": choose((NODE, "")),
            "activeDeadlineSeconds": choose((None, 3, 60)),
            "containers": [{"name": name} for name in names],
            "initContainers": [
                {"name": name, "restartPolicy": "Always" if name == "sidecar" else None} for name in inits
            ],
            "volumes": choose(([], [{"name": "d", "emptyDir": {"sizeLimit": "8Mi"}}])),
        },
        "status": {
            "phase": choose(("Running", "Pending", "Succeeded", "Failed", "Unknown")),
            "reason": choose(WORDS[Where.POD]) if choose(MAYBE) else "",
            "message": choose(MESSAGES),
            "startTime": choose(TIMES),
            "conditions": [a_condition(choose, kind) for kind in CONDITIONS if choose((False, False, True))],
            "containerStatuses": [a_status(choose, name) for name in names if choose((True, True, True, False))],
            "initContainerStatuses": [a_status(choose, name) for name in inits],
        },
    }


def some_events(choose: Choose) -> tuple[ClusterEvent, ...] | None:
    count = choose((None, 0, 1, 2, 3))
    if count is None:
        return None
    reasons = (*WORDS[Where.EVENT], "TriggeredScaleUp", "NotTriggerScaleUp", "Nominated")
    return tuple(
        ClusterEvent(
            reason=choose(reasons),
            message=choose(MESSAGES),
            involved_object=ObjectReference(
                uid=choose((UID, UID, "another")), field_path=choose(("", "spec.containers{step}"))
            ),
            first_timestamp=choose(TIMES),
            last_timestamp=choose(TIMES),
        )
        for _ in range(count)
    )


def some_observations(choose: Choose) -> list[Observation]:
    """Draws observations of a pod in order of time."""
    at, count = 0.0, choose((1, 2, 3, 4))
    seen = []
    for index in range(count):
        at += choose((0.0, 1.0, 19.0, 21.0, 400.0))
        gone = index > 0 and choose((False, False, False, True))
        seen.append(
            Observation(
                pod=None if gone else pod_from(a_pod(choose)),
                at=at,
                deletion_asked=choose(MAYBE),
                events=some_events(choose),
            )
        )
    return seen
