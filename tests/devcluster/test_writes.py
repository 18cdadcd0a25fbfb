"""Creating, replacing, patching and deleting over HTTP: what is stored, what a dry run answers, what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from senro.devcluster import DevCluster
from tests.lib.harness.devcluster import Client, pod_manifest

MAPS = "/api/v1/namespaces/ci/configmaps"
PODS = "/api/v1/namespaces/ci/pods"
SECRETS = "/api/v1/namespaces/ci/secrets"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/ci/leases"


@pytest.fixture
def admin(cluster: DevCluster) -> Iterator[Client]:
    client = Client(cluster, token=cluster.access.admin_token)
    yield client
    client.close()


def config_map(name: str, **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **meta}, "data": {"k": "v"}}


def patch(client: Client, path: str, document: Any) -> httpx.Response:
    return client.http.patch(path, json=document, headers={"content-type": "application/merge-patch+json"})


def test_a_dry_run_stores_nothing(admin: Client, name: str) -> None:
    """`dryRun=All` answers as the create would, and stores nothing; a delete has no dry run and is refused."""
    tried = admin.http.post(MAPS, json=config_map(name), params={"dryRun": "All"})
    assert (tried.status_code, tried.json()["data"]) == (201, {"k": "v"})
    assert admin.http.get(f"{MAPS}/{name}").status_code == 404
    pod = admin.http.post(PODS, json=pod_manifest(name, ["true"]), params={"dryRun": "All"})
    assert pod.json()["spec"]["schedulerName"] == "default-scheduler"
    assert admin.pod(name) is None
    assert admin.http.post(MAPS, json=config_map("x"), params={"dryRun": "Some"}).status_code == 422
    admin.http.post(MAPS, json=config_map(name))
    assert admin.http.delete(f"{MAPS}/{name}", params={"dryRun": "All"}).status_code == 400
    assert admin.http.request("DELETE", f"{MAPS}/{name}", json={"dryRun": ["All"]}).status_code == 400
    assert admin.http.get(f"{MAPS}/{name}").status_code == 200


def test_an_update_is_held_to_its_resource_version(admin: Client, name: str) -> None:
    """A PUT of a Lease is a conflict with an old resourceVersion or another uid, and 400 with another name."""
    path = f"{LEASES}/{name}"
    lease = {"metadata": {"name": name}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 60}}
    created = admin.http.post(LEASES, json=lease).json()
    fresh = {**created, "spec": {**created["spec"], "holderIdentity": "b"}}
    stored = admin.http.put(path, json=fresh).json()
    assert stored["spec"]["holderIdentity"] == "b"
    stale = admin.http.put(path, json=created)
    assert (stale.status_code, stale.json()["reason"]) == (409, "Conflict")
    other = {**stored, "metadata": {**stored["metadata"], "uid": "00000000-0000-0000-0000-000000000000"}}
    assert admin.http.put(path, json=other).status_code == 409
    another = {**stored, "metadata": {**stored["metadata"], "name": "another"}}
    assert admin.http.put(path, json=another).status_code == 400


def test_updates_of_anything_else_are_not_served(admin: Client, name: str) -> None:
    """PUT is for Leases and PATCH for Secrets: senro sends no others; the answer for the rest is 405."""
    assert admin.http.post(MAPS, json=config_map(name)).status_code == 201
    assert admin.http.put(f"{MAPS}/{name}", json=config_map(name)).status_code == 405
    assert patch(admin, f"{MAPS}/{name}", {"data": {"k": "w"}}).status_code == 405
    assert admin.http.get(f"{MAPS}/{name}").json()["data"] == {"k": "v"}


def test_a_put_of_what_is_gone(admin: Client) -> None:
    """A PUT creates a Lease that there is none of, but not with the uid of one that was deleted: that is a conflict."""
    path = f"{LEASES}/put-of-what-is-gone"
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
    """A resourceVersion inside a merge patch is a precondition; without one the patch applies to what is stored."""
    created = admin.http.post(SECRETS, json={"metadata": {"name": name}, "stringData": {"k": "1"}}).json()
    path = f"{SECRETS}/{name}"
    patch(admin, path, {"stringData": {"k": "2"}})
    old = {"metadata": {"resourceVersion": created["metadata"]["resourceVersion"]}, "stringData": {"k": "3"}}
    assert patch(admin, path, old).status_code == 409
    assert patch(admin, path, {"stringData": {"k": "4"}}).json()["data"] == {"k": "NA=="}


def test_finalizers_hold_an_object(admin: Client, name: str) -> None:
    """A deleted object with a finalizer stays, marked, until the last one is taken off."""
    path = f"{SECRETS}/{name}"
    admin.http.post(SECRETS, json={"metadata": {"name": name, "finalizers": ["example.org/held"]}})
    assert admin.http.delete(path).status_code == 200
    assert "deletionTimestamp" in admin.http.get(path).json()["metadata"]
    assert patch(admin, path, {"metadata": {"finalizers": None}}).status_code == 200
    assert admin.http.get(path).status_code == 404


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
