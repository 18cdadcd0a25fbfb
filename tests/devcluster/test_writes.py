"""Creating, replacing, patching and deleting over HTTP: what is stored, what is only tried, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from senro.devcluster import DevCluster
from tests.lib.harness.devcluster import Client, pod_manifest

MAPS = "/api/v1/namespaces/ci/configmaps"
PODS = "/api/v1/namespaces/ci/pods"


@pytest.fixture
def admin(cluster: DevCluster) -> Iterator[Client]:
    client = Client(cluster, token=cluster.access.admin_token)
    yield client
    client.close()


def config_map(name: str, **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **meta}, "data": {"k": "v"}}


def patch(client: Client, path: str, kind: str, document: Any, **query: str) -> httpx.Response:
    return client.http.patch(
        path, content=json.dumps(document), headers={"content-type": f"application/{kind}"}, params=query
    )


def test_a_dry_run_stores_nothing(admin: Client, name: str) -> None:
    """`dryRun=All` answers as a create, an update or a delete would, and changes nothing."""
    tried = admin.http.post(MAPS, json=config_map(name), params={"dryRun": "All"})
    assert (tried.status_code, tried.json()["data"]) == (201, {"k": "v"})
    assert admin.http.get(f"{MAPS}/{name}").status_code == 404
    pod = admin.http.post(PODS, json=pod_manifest(name, ["true"]), params={"dryRun": "All"})
    assert pod.json()["spec"]["schedulerName"] == "default-scheduler"
    assert admin.pod(name) is None
    admin.http.post(MAPS, json=config_map(name))
    tried = patch(admin, f"{MAPS}/{name}", "merge-patch+json", {"data": {"k": "w"}}, dryRun="All")
    assert tried.json()["data"] == {"k": "w"}
    assert admin.http.delete(f"{MAPS}/{name}", params={"dryRun": "All"}).status_code == 200
    assert admin.http.get(f"{MAPS}/{name}").json()["data"] == {"k": "v"}
    assert admin.http.post(MAPS, json=config_map("x"), params={"dryRun": "Some"}).status_code == 422


@pytest.mark.parametrize(
    ("validation", "status", "warned"),
    [("Strict", 400, False), ("Warn", 201, True), (None, 201, True), ("Ignore", 201, False), ("Other", 422, False)],
)
def test_how_unknown_fields_are_told(
    admin: Client, name: str, validation: str | None, status: int, *, warned: bool
) -> None:
    """Strict refuses them, Warn (which is the default) drops them with a Warning header, Ignore in silence."""
    document = {**config_map(name), "daata": {}}
    query = {} if validation is None else {"fieldValidation": validation}
    answer = admin.http.post(MAPS, json=document, params=query)
    assert (answer.status_code, "warning" in answer.headers) == (status, warned)
    if warned:
        assert answer.headers["warning"] == '299 - "unknown field \\"daata\\""'
    if status == 400:
        assert 'strict decoding error: unknown field "daata"' in answer.json()["message"]


def test_a_generated_name(admin: Client) -> None:
    """`generateName` is cut to 58 characters and given five more; two creates get two names."""
    made = [admin.http.post(MAPS, json={"metadata": {"generateName": "g" * 70}}).json() for _ in range(2)]
    names = [document["metadata"]["name"] for document in made]
    assert len(set(names)) == 2
    assert all(len(text) == 63 and text.startswith("g" * 58) for text in names)


def test_an_update_is_held_to_its_resource_version(admin: Client, name: str) -> None:
    """A PUT with an old resourceVersion is a conflict; without one it is unconditional; another uid is refused."""
    created = admin.http.post(MAPS, json=config_map(name)).json()
    fresh = {**created, "data": {"k": "2"}}
    assert admin.http.put(f"{MAPS}/{name}", json=fresh).json()["data"] == {"k": "2"}
    stale = admin.http.put(f"{MAPS}/{name}", json=created)
    assert (stale.status_code, stale.json()["reason"]) == (409, "Conflict")
    assert admin.http.put(f"{MAPS}/{name}", json=config_map(name)).json()["data"] == {"k": "v"}
    other = config_map(name, uid="00000000-0000-0000-0000-000000000000")
    assert admin.http.put(f"{MAPS}/{name}", json=other).status_code == 409
    assert admin.http.put(f"{MAPS}/{name}", json=config_map("another")).status_code == 400


def test_a_put_of_what_is_gone(admin: Client) -> None:
    """A PUT creates a Lease that there is none of, but not with the uid of one that was deleted: that is a conflict."""
    path = "/apis/coordination.k8s.io/v1/namespaces/ci/leases/put-of-what-is-gone"
    lease = {"metadata": {"name": "put-of-what-is-gone"}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 60}}
    created = admin.http.put(path, json=lease)
    assert created.status_code == 201
    assert admin.http.delete(path).is_success
    refused = admin.http.put(path, json=created.json())
    assert (refused.status_code, refused.json()["reason"]) == (409, "Conflict")
    assert admin.http.get(path).status_code == 404


def test_a_delete_is_held_to_its_resource_version(admin: Client, name: str) -> None:
    """Preconditions of a DELETE: 409 for another resourceVersion or uid, and the object stays; then it goes."""
    meta = admin.http.post(MAPS, json=config_map(name)).json()["metadata"]
    uid, version = meta["uid"], meta["resourceVersion"]
    for wrong in ({"resourceVersion": "1"}, {"uid": "another"}, {"uid": uid, "resourceVersion": "1"}):
        refused = admin.http.request("DELETE", f"{MAPS}/{name}", json={"preconditions": wrong})
        assert (refused.status_code, refused.json()["reason"]) == (409, "Conflict")
    right = {"preconditions": {"uid": uid, "resourceVersion": version}}
    assert admin.http.request("DELETE", f"{MAPS}/{name}", json=right).json()["status"] == "Success"
    assert admin.http.get(f"{MAPS}/{name}").status_code == 404


def test_a_patch_with_an_old_resource_version_is_a_conflict(admin: Client, name: str) -> None:
    """A resourceVersion inside a merge patch is a precondition; without one the patch is made to what is there."""
    created = admin.http.post(MAPS, json=config_map(name)).json()
    patch(admin, f"{MAPS}/{name}", "merge-patch+json", {"data": {"k": "2"}})
    old = {"metadata": {"resourceVersion": created["metadata"]["resourceVersion"]}, "data": {"k": "3"}}
    assert patch(admin, f"{MAPS}/{name}", "merge-patch+json", old).status_code == 409
    assert patch(admin, f"{MAPS}/{name}", "merge-patch+json", {"data": {"k": "4"}}).status_code == 200


def test_finalizers_hold_an_object(admin: Client, name: str) -> None:
    """A deleted object with a finalizer stays, marked, until the last one is taken off."""
    admin.http.post(MAPS, json=config_map(name, finalizers=["example.org/held"]))
    assert admin.http.delete(f"{MAPS}/{name}").status_code == 200
    assert "deletionTimestamp" in admin.http.get(f"{MAPS}/{name}").json()["metadata"]
    patch(admin, f"{MAPS}/{name}", "merge-patch+json", {"metadata": {"finalizers": None}})
    assert admin.http.get(f"{MAPS}/{name}").status_code == 404


def test_a_pod_with_a_finalizer_outlives_its_processes(admin: Client, name: str) -> None:
    """A pod that has ended its grace stays in the API until its finalizer is gone."""
    manifest = pod_manifest(name, ["sleep", "60"])
    manifest["metadata"]["finalizers"] = ["example.org/held"]
    admin.create(manifest)
    admin.running(name)
    admin.delete(name, gracePeriodSeconds=1)
    admin.until(name, lambda pod: pod is not None and pod["status"]["phase"] == "Failed")
    assert admin.pod(name) is not None
    patch(admin, f"{PODS}/{name}", "merge-patch+json", {"metadata": {"finalizers": None}})
    admin.until(name, lambda pod: pod is None)


def test_owners_take_their_dependents_along(admin: Client, name: str) -> None:
    """What an object owns is deleted with it, pods with their grace."""
    owner = admin.http.post(MAPS, json=config_map(f"{name}-a")).json()["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["name"], "uid": owner["uid"]}
    admin.http.post(MAPS, json=config_map(f"{name}-owned", ownerReferences=[reference]))
    manifest = pod_manifest(name, ["sleep", "60"])
    manifest["metadata"]["ownerReferences"] = [reference]
    admin.create(manifest)
    admin.running(name)
    admin.http.delete(f"{MAPS}/{name}-a")
    assert admin.http.get(f"{MAPS}/{name}-owned").status_code == 404
    admin.until(name, lambda pod: pod is None)


@pytest.mark.parametrize(
    ("path", "document", "field"),
    [
        ("/api/v1/namespaces", {"metadata": {"name": "not.a.label"}}, "metadata.name"),
        ("/api/v1/namespaces/ci/persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": {}}, "spec.accessModes"),
    ],
)
def test_what_cannot_be_one_of_its_kind(admin: Client, path: str, document: dict[str, Any], field: str) -> None:
    """Each kind's own rules are checked, and the 422 names the field."""
    answer = admin.http.post(path, json=document)
    assert (answer.status_code, answer.json()["details"]["causes"][0]["field"]) == (422, field)
