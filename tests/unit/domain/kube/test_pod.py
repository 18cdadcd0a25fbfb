"""Any JSON is decoded into a pod; what has a wrong type is absent."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from senro.domain.kube.event import ClusterEvent, ObjectReference, decode_events
from senro.domain.kube.pod import (
    Condition,
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    Metadata,
    Pod,
    PodStatus,
    decode_pod,
    parse_time,
    pod_from,
)
from tests.lib.verdict.observations import recorded_pod, recorded_pods


def test_recorded_pods() -> None:
    """Every recorded pod decodes into the same value in one pass and through `pod_from`."""
    for scenario, name in recorded_pods():
        for document in recorded_pod(scenario, name).documents:
            if document is not None:
                assert decode_pod(json.dumps(document).encode()) == pod_from(document)


def test_fields_of_a_recorded_pod() -> None:
    """The fields have their values, containerID included."""
    pod = recorded_pod("exit-three", "r-exit-three").observations[5].pod
    assert pod is not None
    assert (pod.name, pod.namespace, pod.metadata.labels["senro.dev/managed"]) == ("r-exit-three", "ci", "true")
    assert pod.spec.node_name == "senro-node"
    assert [container.name for container in pod.spec.containers] == ["step"]
    step = pod.container("step")
    assert step is not None
    assert step.container_id.startswith("containerd://")
    terminated = step.state.terminated
    assert terminated is not None
    assert (terminated.exit_code, terminated.reason) == (3, "Error")
    assert terminated.container_id == step.container_id


def test_lookups_by_name() -> None:
    """Containers, init containers and conditions are found by name in any order; absent ones are None."""
    pod = pod_from(
        {
            "status": {
                "conditions": [{"type": "Ready"}, {"type": "PodScheduled", "status": "True"}],
                "containerStatuses": [{"name": "a"}, {"name": "step", "containerID": "c"}],
                "initContainerStatuses": [{"name": "senro-stage", "containerID": "s"}],
            }
        }
    )
    assert pod.condition("PodScheduled") == Condition(type="PodScheduled", status="True")
    assert pod.container("step") == ContainerStatus(name="step", container_id="c")
    assert pod.init_container("senro-stage") == ContainerStatus(name="senro-stage", container_id="s")
    assert (pod.condition("x"), pod.container("senro-stage"), pod.init_container("step")) == (None, None, None)


def test_nulls_and_wrong_types_are_absent() -> None:
    """A null or a value of a wrong type removes only its field, or its entry of a list."""
    document = {
        "metadata": {
            "name": "p",
            "uid": 7,
            "labels": {"a": 1, "b": "c"},
            "annotations": None,
            "ownerReferences": {},
            "deletionGracePeriodSeconds": 2.0,
        },
        "spec": {"activeDeadlineSeconds": 1.5, "terminationGracePeriodSeconds": True},
        "status": {
            "phase": "Failed",
            "conditions": None,
            "containerStatuses": [
                None,
                {"name": "step", "containerID": 1, "state": None},
                {"name": "b", "state": {"terminated": {"exitCode": "0", "startedAt": None}}},
            ],
        },
    }
    expected = Pod(
        metadata=Metadata(name="p", labels={"b": "c"}, deletion_grace_period_seconds=2),
        status=PodStatus(
            phase="Failed",
            container_statuses=(
                ContainerStatus(name="step"),
                ContainerStatus(name="b", state=ContainerState(terminated=ContainerStateTerminated(exit_code=None))),
            ),
        ),
    )
    assert decode_pod(json.dumps(document).encode()) == expected
    assert pod_from(document) == expected


@pytest.mark.parametrize(
    "data",
    [
        b"null",
        b"[]",
        b'"pod"',
        b"1e400",
        b"9" * 5_000,
        b'{"status": 1e400}',
        b'{"spec": null, "metadata": null, "status": null}',
        b'{"kind": "Status", "status": "Failure", "code": 404}',
    ],
)
def test_json_that_is_no_pod(data: bytes) -> None:
    """Valid JSON without the fields of a pod is an empty pod, also with huge numbers."""
    assert decode_pod(data) == Pod()


def test_half_a_surrogate_pair() -> None:
    """Text that UTF-8 cannot encode is replaced, so that it can be written to a log."""
    assert decode_pod(b'{"status": {"message": "a\\ud800b"}}').status.message == "a?b"


@pytest.mark.parametrize("data", [b"", b"{", b'"\xff"', b"NaN", b"[" * 20_000, b'{"a":' * 20_000, b"{'a': 1}"])
def test_what_is_no_json_is_refused(data: bytes) -> None:
    """Bytes that are not JSON, or are nested too deep, raise ValueError."""
    with pytest.raises(ValueError, match=r"."):
        decode_pod(data)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-29T23:13:08Z", datetime(2026, 11, 29, 23, 13, 8, tzinfo=UTC)),
        ("2026-11-29T23:13:08.123456Z", datetime(2026, 11, 29, 23, 13, 8, 123456, tzinfo=UTC)),
        ("2026-11-29T23:13:08.123456789Z", datetime(2026, 11, 29, 23, 13, 8, 123456, tzinfo=UTC)),
        ("2026-11-30T01:13:08+02:00", datetime(2026, 11, 29, 23, 13, 8, tzinfo=UTC)),
        ("1970-01-01T00:00:00Z", datetime(1970, 1, 1, tzinfo=UTC)),
        ("2026-11-29T23:13:08", None),
        ("0001-01-01T00:00:00+05:00", None),
        ("yesterday", None),
        ("", None),
        (None, None),
    ],
)
def test_times(text: str | None, moment: datetime | None) -> None:
    """RFC 3339 times are parsed in UTC; any other text, and a time without a zone, is None."""
    assert parse_time(text) == moment


def test_events() -> None:
    """An EventList gives its Events with their first times; an invalid entry removes only itself."""
    document = {
        "items": [
            {"reason": "Evicted", "involvedObject": {"uid": "u"}, "firstTimestamp": "2026-11-29T23:18:26Z"},
            {"reason": "Killing", "eventTime": "2026-11-29T23:18:26.000001Z", "firstTimestamp": None, "message": 3},
            None,
        ]
    }
    evicted, killing = decode_events(json.dumps(document).encode())
    assert evicted == ClusterEvent(
        reason="Evicted", involved_object=ObjectReference(uid="u"), first_timestamp="2026-11-29T23:18:26Z"
    )
    assert evicted.moment == datetime(2026, 11, 29, 23, 18, 26, tzinfo=UTC)
    assert killing.moment == datetime(2026, 11, 29, 23, 18, 26, 1, tzinfo=UTC)
    assert decode_events(b"[]") == ()
