"""Pods as a real cluster may show them: a grammar of their states, for hypothesis."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from senro.domain.cluster_event import ClusterEvent, ObjectReference
from senro.domain.pod import pod_from
from senro.domain.verdict import Observation
from senro.domain.verdict.table import ROWS, Where
from tests.support_verdict import NODE, UID

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
NEVER = "1970-01-01T00:00:00Z"


def stamp(moment: datetime) -> str:
    """As the apiserver writes it: whole seconds, cut off."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def words(where: Where) -> st.SearchStrategy[str]:
    """The reasons of one field, known and unknown."""
    known = sorted({word for row in ROWS if row.where is where for word in row.words})
    return st.sampled_from(known) | st.sampled_from(["", "SomethingNew", "a whole sentence: of an error"])


MESSAGES = st.sampled_from(
    [
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
    ]
)

TIMES = (
    st.none()
    | st.sampled_from([NEVER, "", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
    # Around one moment, so that ties of five seconds and a little more or less are drawn.
    | st.integers(-8, 8).map(lambda second: stamp(NOON + timedelta(seconds=second)))
)

CODES = st.sampled_from([0, 1, 3, 126, 127, 128, 137, 143, 255, -1]) | st.none()

RUNNING = st.fixed_dictionaries({"running": st.fixed_dictionaries({"startedAt": TIMES})})

WAITING = st.fixed_dictionaries(
    {"waiting": st.fixed_dictionaries({"reason": words(Where.WAITING), "message": MESSAGES})}
)

TERMINATED = st.fixed_dictionaries(
    {
        "terminated": st.fixed_dictionaries(
            {
                "exitCode": CODES,
                "reason": words(Where.TERMINATED),
                "message": MESSAGES,
                "startedAt": TIMES,
                "finishedAt": TIMES,
            }
        )
    }
)

STATES = st.one_of(RUNNING, WAITING, TERMINATED, TERMINATED, st.just({}), st.none())

CONDITION_REASONS = words(Where.CONDITION_REASON) | st.sampled_from(
    ["PodFailed", "PodCompleted", "ContainersNotReady", "ReadinessGatesNotReady"]
)


def conditions(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "type": st.just(kind),
            "status": st.sampled_from(["True", "False", "False", "Unknown"]),
            "reason": CONDITION_REASONS,
            "message": MESSAGES,
            "lastTransitionTime": TIMES,
        }
    )


KINDS = tuple(row.value for row in ROWS if row.where is Where.CONDITION)


@st.composite
def statuses(draw: st.DrawFn, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "state": draw(STATES),
        "lastState": draw(st.just({}) | TERMINATED),
        "containerID": draw(st.sampled_from(["", "containerd://1"])),
    }


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    """One pod, not always a sane one: the step may be missing, and others be there."""
    names = draw(st.sets(st.sampled_from(["step", "senro-io", "a-proxy"])).map(sorted))
    names = ["step", *names] if "step" not in names and draw(st.integers(0, 9)) else names
    inits = draw(st.lists(st.sampled_from(["senro-stage", "mesh-init", "sidecar"]), unique=True, max_size=2))
    deleted = draw(st.booleans())
    kinds = draw(st.sets(st.sampled_from(KINDS)).map(sorted))
    metadata: dict[str, Any] = {"name": "p", "namespace": "ci", "uid": UID}
    if deleted:
        metadata |= {"deletionTimestamp": draw(TIMES), "deletionGracePeriodSeconds": draw(st.integers(0, 60))}
    return {
        "metadata": metadata,
        "spec": {
            "nodeName": draw(st.sampled_from([NODE, ""])),
            "activeDeadlineSeconds": draw(st.none() | st.sampled_from([3, 60])),
            "containers": [{"name": name} for name in names],
            "initContainers": [
                {"name": name, "restartPolicy": "Always" if name == "sidecar" else None} for name in inits
            ],
            "volumes": draw(st.sampled_from([[], [{"name": "d", "emptyDir": {"sizeLimit": "8Mi"}}]])),
        },
        "status": {
            "phase": draw(st.sampled_from(["Pending", "Running", "Running", "Succeeded", "Failed", "Unknown"])),
            "reason": draw(st.just("") | words(Where.POD)),
            "message": draw(MESSAGES),
            "startTime": draw(TIMES),
            "conditions": [draw(conditions(kind)) for kind in kinds],
            "containerStatuses": draw(st.just(names).flatmap(lambda every: st.tuples(*map(statuses, every)))),
            "initContainerStatuses": [draw(statuses(name)) for name in inits],
        },
    }


EVENTS = st.lists(
    st.builds(
        ClusterEvent,
        reason=words(Where.EVENT) | st.sampled_from(["TriggeredScaleUp", "NotTriggerScaleUp", "Nominated"]),
        message=MESSAGES,
        involved_object=st.builds(
            ObjectReference,
            uid=st.sampled_from([UID, UID, "another"]),
            field_path=st.sampled_from(["", "spec.containers{step}"]),
        ),
        first_timestamp=TIMES,
        last_timestamp=TIMES,
    ),
    max_size=3,
).map(tuple)


@st.composite
def sightings(draw: st.DrawFn) -> list[Observation]:
    """Some sequence of what is seen of a pod, by a clock that does not go back."""
    count, at = draw(st.integers(1, 4)), 0.0
    seen: list[Observation] = []
    for _ in range(count):
        at += draw(st.sampled_from([0.0, 1.0, 19.0, 21.0, 400.0]))
        document = draw(st.none() | pods()) if seen else draw(pods())
        seen.append(
            Observation(
                pod=None if document is None else pod_from({**document, "status": _listed(document["status"])}),
                at=at,
                deletion_asked=draw(st.booleans()),
                node_silent=draw(st.sampled_from([False, False, True])),
                events=draw(st.none() | EVENTS),
            )
        )
    return seen


def _listed(status: dict[str, Any]) -> dict[str, Any]:
    """JSON has lists where a strategy draws tuples."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in status.items()}
