"""Who owns which field of an object, and what server-side apply makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.devcluster import DevCluster
from senro.devcluster.apiserver.field_sets import decode, encode, fields, shown
from tests.lib.harness.devcluster import Client, Object, pod_manifest, recording
from tests.lib.replay.surroundings import with_mapped_commands

MAPS = "/api/v1/namespaces/ci/configmaps"


@pytest.fixture
def admin(cluster: DevCluster) -> Iterator[Client]:
    admin = Client(cluster, token=cluster.access.admin_token)
    yield admin
    admin.http.delete(MAPS)
    admin.close()


def apply(admin: Client, name: str, manager: str, document: Object, **query: str) -> httpx.Response:
    return admin.http.patch(
        f"{MAPS}/{name}",
        json={**document, "metadata": {"name": name, **document.get("metadata", {})}},
        params={"fieldManager": manager, **query},
        headers={"content-type": "application/apply-patch+yaml"},
    )


def merge(admin: Client, name: str, manager: str, document: Object) -> Object:
    headers = {"content-type": "application/merge-patch+json"}
    answer = admin.http.patch(f"{MAPS}/{name}", json=document, params={"fieldManager": manager}, headers=headers)
    assert answer.status_code == 200, answer.text
    found: Object = answer.json()
    return found


def owned(document: Object) -> dict[tuple[str, str], Object]:
    return {(one["manager"], one["operation"]): one["fieldsV1"] for one in document["metadata"]["managedFields"]}


@pytest.mark.parametrize(
    ("scenario", "path"),
    [
        ("secret-lifecycle", "/secrets"),
        ("workspace-round-trip", "/pods"),
        ("evicted-kubelet-killed", "/pods"),
        ("variable-expansion", "/pods"),
        ("tainted-trap-zero", "/pods"),
        ("unschedulable-selector", "/pods"),
        ("lease-lifecycle", "/leases"),
    ],
)
def test_what_a_create_owns_as_recorded(admin: Client, scenario: str, path: str) -> None:
    """The first managedFields of a recorded object are what the same request gets here: manager, kind and fields."""
    exchange = next(
        one
        for one in recording(scenario)["exchanges"]
        if one["request"]["method"] == "POST" and one["request"]["path"].endswith(path)
    )
    sent = with_mapped_commands(exchange["request"]["json"])
    answer = admin.http.post(exchange["request"]["path"], json=sent, params={"dryRun": "All"})
    assert answer.status_code == 201, answer.text
    (expected,), (got,) = (
        exchange["response"]["json"]["metadata"]["managedFields"],
        answer.json()["metadata"]["managedFields"],
    )
    assert {**got, "time": ""} == {**expected, "time": ""}


def test_an_apply_owns_what_it_says(admin: Client, name: str) -> None:
    """Its entry has the leaves alone; applying the same again changes nothing at all, not even the version."""
    first = apply(admin, name, "a", {"data": {"k": "1"}, "metadata": {"labels": {"x.io/l": "v"}}})
    assert first.status_code == 201
    assert owned(first.json()) == {
        ("a", "Apply"): {"f:data": {"f:k": {}}, "f:metadata": {"f:labels": {"f:x.io/l": {}}}}
    }
    again = apply(admin, name, "a", {"data": {"k": "1"}, "metadata": {"labels": {"x.io/l": "v"}}})
    assert again.json() == first.json()


def test_what_is_applied_no_more_goes(admin: Client, name: str) -> None:
    """A field that only its applier owned is removed with the map that is empty then; a shared one stays."""
    apply(admin, name, "a", {"data": {"k": "1", "both": "x"}, "metadata": {"labels": {"l": "v"}}})
    apply(admin, name, "b", {"data": {"both": "x"}})
    left = apply(admin, name, "a", {"data": {"new": "2"}}).json()
    assert left["data"] == {"new": "2", "both": "x"}
    assert "labels" not in left["metadata"]
    assert owned(left) == {
        ("a", "Apply"): {"f:data": {"f:new": {}}},
        ("b", "Apply"): {"f:data": {"f:both": {}}},
    }


def test_one_conflict(admin: Client, name: str) -> None:
    """Another value for a field of somebody else is 409 with a cause, and nothing changes; the same value is shared."""
    merge_made = admin.http.post(MAPS, json={"metadata": {"name": name}, "data": {"k": "1"}})
    assert apply(admin, name, "a", {"data": {"k": "1"}}).status_code == 200
    refused = apply(admin, name, "b", {"data": {"k": "2"}}).json()
    assert (refused["code"], refused["reason"]) == (409, "Conflict")
    assert refused["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "a"', "field": ".data.k"},
        {"reason": "FieldManagerConflict", "message": 'conflict with "python-httpx" using v1', "field": ".data.k"},
    ]
    assert refused["message"] == (
        'Apply failed with 2 conflicts: conflicts with "a":\n- .data.k\n'
        'conflicts with "python-httpx" using v1:\n- .data.k'
    )
    assert admin.http.get(f"{MAPS}/{name}").json()["data"] == merge_made.json()["data"]


def test_force_takes_the_field(admin: Client, name: str) -> None:
    """With `force=true` the field changes, and is the applier's alone."""
    apply(admin, name, "a", {"data": {"k": "1", "l": "1"}})
    refused = apply(admin, name, "b", {"data": {"k": "2"}})
    assert refused.json()["message"] == 'Apply failed with 1 conflict: conflict with "a": .data.k'
    taken = apply(admin, name, "b", {"data": {"k": "2"}}, force="true").json()
    assert taken["data"] == {"k": "2", "l": "1"}
    assert owned(taken) == {("a", "Apply"): {"f:data": {"f:l": {}}}, ("b", "Apply"): {"f:data": {"f:k": {}}}}


def test_an_update_takes_what_it_changes(admin: Client, name: str) -> None:
    """Whoever patches owns the fields that changed; an applier who wants another value is told of it."""
    apply(admin, name, "a", {"data": {"k": "1", "l": "1"}})
    changed = merge(admin, name, "m", {"data": {"k": "2", "n": "3"}})
    assert owned(changed) == {
        ("a", "Apply"): {"f:data": {"f:l": {}}},
        ("m", "Update"): {"f:data": {"f:k": {}, "f:n": {}}},
    }
    refused = apply(admin, name, "a", {"data": {"k": "1", "l": "1"}})
    assert refused.json()["message"] == 'Apply failed with 1 conflict: conflict with "m" using v1: .data.k'
    gone = merge(admin, name, "m", {"data": {"n": None}})
    assert owned(gone)[("m", "Update")] == {"f:data": {"f:k": {}}}
    assert merge(admin, name, "z", {"data": {"k": "2"}}) == gone


def test_apply_to_the_items_of_a_list(admin: Client, name: str) -> None:
    """A pod's tolerations are one field, its labels are many; a container is known by its name."""
    path = f"/api/v1/namespaces/ci/pods/{name}"
    manifest = pod_manifest(name, ["sleep", "600"])
    headers = {"content-type": "application/apply-patch+yaml"}
    applied = admin.http.patch(path, json=manifest, params={"fieldManager": "a"}, headers=headers)
    assert applied.status_code == 201
    container = owned(applied.json())[("a", "Apply")]["f:spec"]["f:containers"]['k:{"name":"step"}']
    assert container == {".": {}, "f:command": {}, "f:image": {}, "f:name": {}}
    other = {"spec": {"containers": [{"name": "step", "image": "other"}]}}
    refused = admin.http.patch(path, json=other, params={"fieldManager": "b"}, headers=headers).json()
    assert refused["details"]["causes"][0]["field"] == '.spec.containers[name="step"].image'
    admin.delete(name, gracePeriodSeconds=0)


def test_managed_fields_cannot_be_applied(admin: Client, name: str) -> None:
    """400: they are the server's to write."""
    entry = {"manager": "a", "operation": "Apply", "fieldsV1": {}}
    answer = apply(admin, name, "a", {"metadata": {"managedFields": [entry]}})
    assert (answer.status_code, answer.json()["message"]) == (400, "metadata.managedFields must be nil")


_TEXTS = st.text('ab."', min_size=1, max_size=3)
_ARGS = st.none() | st.lists(_TEXTS)
_CONTAINERS: st.SearchStrategy[list[Object]] = st.dictionaries(_TEXTS, _ARGS, max_size=3).map(
    lambda named: [{"name": name, "args": args, "resources": {}} for name, args in named.items()]
)
_OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "data": st.dictionaries(_TEXTS, _TEXTS, max_size=3),
        "metadata": st.fixed_dictionaries({"name": _TEXTS}, optional={"finalizers": st.lists(_TEXTS, unique=True)}),
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "containers": _CONTAINERS,
                "nodeSelector": st.dictionaries(_TEXTS, _TEXTS, max_size=2),
            },
        ),
    },
)


@given(_OBJECTS)
def test_a_set_of_fields_survives_its_writing(document: dict[str, Any]) -> None:
    """FieldsV1 stands for exactly the paths that went in, and every path has its own words."""
    paths = set(fields(document))
    assert decode(encode(paths)) == paths
    assert all(shown(path).startswith(".") for path in paths)
