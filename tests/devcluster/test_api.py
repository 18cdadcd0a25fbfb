"""What the embedded apiserver answers to everything that is no exec and no log."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from senro.devcluster import DevCluster
from senro.devcluster.apiserver.access import RUNNER_RULES, Rule
from tests.lib.harness.devcluster import Client, Object, pod_manifest, recording

LEASES = "/apis/coordination.k8s.io/v1/namespaces/ci/leases"


def tidied(document: Any) -> Any:
    """An answer without what differs from cluster to cluster."""
    if isinstance(document, dict):
        changing = {"uid", "resourceVersion", "creationTimestamp", "managedFields", "gitCommit"}
        return {key: tidied(value) for key, value in document.items() if key not in changing}
    return document


def replay(client: Client, scenario: str, names: set[str] | None = None) -> Iterator[tuple[Object, httpx.Response]]:
    """The recorded requests with a body, sent in their order; each with what was recorded, and the answer now."""
    for exchange in recording(scenario)["exchanges"]:
        request = exchange["request"]
        if "base64" in request or (
            names is not None and (request.get("json") or {}).get("metadata", {}).get("name") not in names
        ):
            continue
        if any(str(value).startswith("<") for value in _leaves(request.get("json"))):
            continue  # the recording left out what was too long
        headers = {"content-type": "application/merge-patch+json"} if request["method"] == "PATCH" else {}
        query = [(key, value) for key, value in request["query"]]
        yield (
            exchange,
            client.http.request(
                request["method"], request["path"], params=query, json=request.get("json"), headers=headers
            ),
        )


def _leaves(document: Any) -> Iterator[Any]:
    if isinstance(document, dict):
        for value in document.values():
            yield from _leaves(value)
    elif isinstance(document, list):
        for value in document:
            yield from _leaves(value)
    else:
        yield document


def test_leases_live_as_recorded(client: Client) -> None:
    """Every exchange of lease-lifecycle gets its recorded status and body, words and all."""
    versions: dict[str, str] = {}
    for exchange in recording("lease-lifecycle")["exchanges"]:
        request, recorded = exchange["request"], exchange["response"]["json"]
        body = request.get("json")
        if body and "resourceVersion" in body["metadata"]:
            body["metadata"]["resourceVersion"] = versions[body["metadata"]["resourceVersion"]]
        answer = client.http.request(request["method"], request["path"], json=body)
        assert answer.status_code == exchange["response"]["status"], answer.text
        assert tidied(answer.json()) == tidied(recorded)
        if recorded["kind"] == "Lease":
            versions[recorded["metadata"]["resourceVersion"]] = answer.json()["metadata"]["resourceVersion"]


REFUSED = {"r-bad-quantity", "r-limit-below", "Bad_Name", "r-dup-mount", "r-env-name", "r-no-sa", "r-label"}


def test_what_is_refused_is_refused_in_the_recorded_words(client: Client) -> None:
    """Quantities, names, mounts, env names, accounts, labels, tolerations, unknown fields: code, reason, message."""
    count = 0
    for exchange, answer in replay(client, "refused", REFUSED | {"r-toleration", "r-unknown-field"}):
        assert answer.json() == exchange["response"]["json"]
        assert answer.status_code == exchange["response"]["status"]
        count += 1
    assert count == 9


def test_a_duplicate_name_is_a_conflict(client: Client, name: str) -> None:
    """409 AlreadyExists in the recorded words."""
    client.create(pod_manifest(name, ["sleep", "60"]))
    answer = client.http.post("/api/v1/namespaces/ci/pods", json=pod_manifest(name, ["sleep", "60"]))
    assert (answer.status_code, answer.json()["reason"]) == (409, "AlreadyExists")
    assert answer.json()["message"] == f'pods "{name}" already exists'
    client.delete(name, gracePeriodSeconds=0)


def test_a_body_over_3_mib_is_too_large(client: Client, name: str) -> None:
    """413 in the recorded words, on HTTP/1.1 and HTTP/2."""
    manifest = pod_manifest(name, ["true"])
    manifest["metadata"]["annotations"] = {"big": "x" * 3_200_000}
    wanted = recording("refused")["exchanges"][-1]["response"]["json"]
    second = Client(client.cluster, http2=True)
    for speaker in (client, second):
        answer = speaker.http.post("/api/v1/namespaces/ci/pods", json=manifest)
        assert (answer.status_code, answer.json()) == (413, wanted)
    second.close()


def test_unknown_fields_are_refused(client: Client, name: str) -> None:
    """Every unknown field is named; a real apiserver refuses them with fieldValidation=Strict, which senro sends."""
    manifest = pod_manifest(name, ["true"], step={"noSuchThing": 1})
    manifest["spec"]["nope"] = {}
    answer = client.http.post("/api/v1/namespaces/ci/pods", json=manifest)
    assert answer.json()["message"] == (
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: '
        'unknown field "spec.containers[0].noSuchThing", unknown field "spec.nope"'
    )


def test_a_wrong_type_is_a_bad_request(client: Client, name: str) -> None:
    """A number where a string belongs does not decode."""
    manifest = pod_manifest(name, ["true"], activeDeadlineSeconds="3")
    answer = client.http.post("/api/v1/namespaces/ci/pods", json=manifest)
    assert answer.status_code == 400
    assert "cannot unmarshal string into Go struct field spec.activeDeadlineSeconds" in answer.json()["message"]


def test_a_created_pod_has_the_recorded_defaults(client: Client) -> None:
    """The answer to the POST of exit-zero, field by field, but for tolerations that a cluster may set otherwise."""
    client.delete("r-exit-three", gracePeriodSeconds=0)  # another test's
    for exchange, answer in replay(client, "exit-three", {"r-exit-three"}):
        recorded = exchange["response"]["json"]
        ours = tidied(answer.json())
        for document in (ours, tidied(recorded)):
            document["metadata"].pop("name")
        wanted = tidied(recorded)
        for pod in (ours, wanted):
            pod["spec"].pop("tolerations")
            pod["metadata"].pop("name", None)
        assert ours == wanted
    client.delete("r-exit-three", gracePeriodSeconds=0)


@pytest.mark.parametrize(
    ("number", "token"),
    [(0, None), (1, "wrong"), (2, ""), (3, None), (4, None), (5, None), (6, None)],
    ids=["version", "401", "anonymous", "list", "namespace", "404", "watch"],
)
def test_who_may_what_as_recorded(cluster: DevCluster, number: int, token: str | None) -> None:
    """The 401, the 403s and the 404 of the recording connection."""
    exchange = recording("connection")["exchanges"][number]
    client = Client(cluster, token=token)
    answer = client.http.get(exchange["request"]["path"], params=dict(exchange["request"]["query"]))
    assert answer.status_code == exchange["response"]["status"]
    assert tidied(answer.json()) == tidied(exchange["response"]["json"])
    client.close()


def test_an_absent_namespace(cluster: DevCluster) -> None:
    """403 for the runner, whose role is bound elsewhere; 404 for who may create pods everywhere."""
    manifest = pod_manifest("r-in-ns", ["true"])
    manifest["metadata"]["namespace"] = "senro-absent"
    for token, number in ((None, 3), (cluster.access.admin_token, 5)):
        client = Client(cluster, token=token)
        answer = client.http.post("/api/v1/namespaces/senro-absent/pods", json=manifest)
        assert answer.json() == recording("refused-namespaces")["exchanges"][number]["response"]["json"]
        client.close()


@pytest.mark.parametrize(("verb", "number"), [("create", 0), ("get", 1)])
def test_exec_needs_both_verbs(cluster: DevCluster, name: str, verb: str, number: int) -> None:
    """The two shapes of the 403 (recording exec-forbidden)."""
    client = Client(cluster)
    client.create(pod_manifest(name, ["sleep", "60"]))
    client.running(name)
    recorded = [
        exchange["response"]["json"]
        for exchange in recording("exec-forbidden")["exchanges"]
        if exchange["request"]["path"].endswith("/exec") and exchange["response"]["status"] == 403
    ][number]
    others = [rule for rule in RUNNER_RULES if rule.resources != ("pods/exec",)]
    cluster.access.set_runner_rules([*others, Rule("", ("pods/exec",), (verb,))])
    try:
        with client.exec(name, ["true"]) as session:
            assert session.status == 403
            assert session.body().decode().strip().replace(name, "r-exec-403") == _compact(recorded)
    finally:
        cluster.access.set_runner_rules(RUNNER_RULES)
    client.delete(name, gracePeriodSeconds=0)
    client.close()


def _compact(document: Object) -> str:
    return json.dumps(document, separators=(",", ":"))


def test_an_access_review_tells_the_truth(client: Client) -> None:
    """Allowed for what the rules hold, not for the rest."""
    for verb, resource, subresource, allowed in (
        ("create", "pods", "exec", True),
        ("get", "pods", "exec", True),
        ("list", "pods", "", False),
        ("get", "secrets", "", False),
    ):
        attributes = {"namespace": "ci", "verb": verb, "resource": resource, "subresource": subresource}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        answer = client.http.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", json=review)
        assert (answer.status_code, answer.json()["status"]["allowed"]) == (201, allowed)


def test_a_secret_lives_with_its_pod(client: Client) -> None:
    """secret-lifecycle: immutable, adopted, refused a change, never read, collected with the pod."""
    uid = ""
    for exchange in recording("secret-lifecycle")["exchanges"]:
        request, response = exchange["request"], exchange["response"]
        body = request.get("json")
        if any(str(value).startswith("<") for value in _leaves(body)) or "json" not in response:
            continue
        for owner in ((body or {}).get("metadata") or {}).get("ownerReferences", []):
            owner["uid"] = uid
        headers = {"content-type": "application/merge-patch+json"} if request["method"] == "PATCH" else {}
        if request["method"] == "GET" and "/pods/" in request["path"]:
            continue
        if request["method"] == "DELETE" and "/pods/" in request["path"]:
            client.finished("r-secret-pod")
            assert "made-up-value-1" in client.log("r-secret-pod").text
            assert "Read-only file system" in client.log("r-secret-pod").text or client.cluster.mode == "mapped"
        answer = client.http.request(
            request["method"], request["path"], params=dict(request["query"]), json=body, headers=headers
        )
        assert answer.status_code == response["status"], answer.text
        if response["json"]["kind"] == "Status":
            assert answer.json() == response["json"]
        if response["json"]["kind"] == "Pod":
            uid = answer.json()["metadata"]["uid"]
        if request["method"] == "PATCH" and response["status"] == 200:
            assert answer.json()["metadata"]["ownerReferences"][0]["uid"] == uid


def test_a_secret_of_an_owner_that_is_gone_is_collected_at_once(client: Client, name: str) -> None:
    """An ownerReference to nobody takes the object away."""
    secret = {"metadata": {"name": name}, "stringData": {"k": "v"}}
    assert client.http.post("/api/v1/namespaces/ci/secrets", json=secret).status_code == 201
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "nobody", "uid": "none"}
    client.http.patch(
        f"/api/v1/namespaces/ci/secrets/{name}",
        json={"metadata": {"ownerReferences": [owner]}},
        headers={"content-type": "application/merge-patch+json"},
    )
    assert not [secret for secret in client.cluster.secrets() if secret["metadata"]["name"] == name]


def test_a_delete_with_another_uid_is_a_conflict(client: Client, name: str) -> None:
    """409 Conflict, and the pod stays."""
    client.create(pod_manifest(name, ["sleep", "60"]))
    answer = client.delete(name, preconditions={"uid": "11111111-2222-3333-4444-555555555555"})
    assert (answer.status_code, answer.json()["reason"]) == (409, "Conflict")
    assert "the UID in the precondition" in answer.json()["message"]
    assert client.pod(name) is not None
    client.delete(name, gracePeriodSeconds=0)


def test_a_repeated_delete_can_only_shorten_the_grace(client: Client, name: str) -> None:
    """A longer grace changes nothing, a shorter one does."""
    client.create(pod_manifest(name, ["sh", "-c", "trap '' TERM; while true; do sleep 0.1; done"]))
    client.running(name)
    graces = [
        client.delete(name, gracePeriodSeconds=seconds).json()["metadata"]["deletionGracePeriodSeconds"]
        for seconds in (30, 60, 1)
    ]
    assert graces == [30, 30, 1]
    client.until(name, lambda pod: pod is None)


def test_nodes_are_listed_and_read(client: Client) -> None:
    """One node with the platform of this machine; another is not found."""
    listed = client.http.get("/api/v1/nodes").json()
    (node,) = listed["items"]
    assert (listed["kind"], node["status"]["nodeInfo"]["operatingSystem"]) == ("NodeList", "linux")
    assert client.http.get("/api/v1/nodes/senro-node").status_code == 200
    assert client.http.get("/api/v1/nodes/other").json()["message"] == 'nodes "other" not found'


def test_health_needs_no_token(cluster: DevCluster) -> None:
    """ok, for anybody."""
    client = Client(cluster, token="")
    assert [client.http.get(path).text for path in ("/healthz", "/livez", "/readyz")] == ["ok"] * 3
    assert client.http.get("/no/such/path").text == "404 page not found\n"
    client.close()


def test_the_same_over_http2(cluster: DevCluster, name: str) -> None:
    """A pod's life over one HTTP/2 connection, a followed log included."""
    client = Client(cluster, http2=True)
    assert client.http.get("/version").http_version == "HTTP/2"
    client.create(pod_manifest(name, ["sh", "-c", "seq 1 20000"]))
    client.finished(name)
    assert client.log(name, follow="true").text == "".join(f"{number}\n" for number in range(1, 20001))
    assert client.delete(name).status_code == 200
    client.close()


def test_a_watch_goes_from_added_to_deleted(cluster: DevCluster, name: str) -> None:
    """One object a line, from ADDED over MODIFIED to DELETED, for who may watch."""
    client = Client(cluster, token=cluster.access.admin_token)
    created = client.create(pod_manifest(name, ["true"]))
    kinds: list[str] = []
    query = {"watch": "1", "fieldSelector": f"metadata.name={name}"}
    with client.http.stream("GET", "/api/v1/namespaces/ci/pods", params=query) as answer:
        for line in answer.iter_lines():
            event = httpx.Response(200, text=line).json()
            kinds.append(event["type"])
            assert event["object"]["metadata"]["uid"] == created["metadata"]["uid"]
            if event["object"]["status"]["phase"] == "Succeeded" and event["type"] == "MODIFIED":
                client.delete(name)
            if event["type"] == "DELETED":
                break
    assert (kinds[0], kinds[-1]) == ("ADDED", "DELETED")
    assert set(kinds[1:-1]) == {"MODIFIED"}
    client.close()


def test_lists_are_selected_by_labels(cluster: DevCluster, name: str) -> None:
    """Equality, inequality, presence, absence."""
    client = Client(cluster, token=cluster.access.admin_token)
    manifest = pod_manifest(name, ["sleep", "60"])
    manifest["metadata"]["labels"] = {"app": name, "tier": "one"}
    client.create(manifest)

    def names(selector: str) -> list[str]:
        found = client.http.get("/api/v1/namespaces/ci/pods", params={"labelSelector": selector}).json()
        return [item["metadata"]["name"] for item in found["items"]]

    for selector in (f"app={name}", f"app=={name},tier", f"app={name},tier!=two"):
        assert names(selector) == [name]
    for selector in (f"app={name},!tier", f"app={name},tier=two"):
        assert names(selector) == []
    client.delete(name, gracePeriodSeconds=0)
    client.close()


def test_tls_is_verified_by_the_clusters_own_authority(cluster: DevCluster) -> None:
    """Localhost and 127.0.0.1 are named in the certificate; another authority does not know it."""
    context = ssl.create_default_context(cafile=cluster.environment()["SENRO_K8S_CA_FILE"])
    with httpx.Client(verify=context, trust_env=False) as known:
        assert known.get(f"https://localhost:{cluster.port}/healthz").text == "ok"
    with httpx.Client(trust_env=False) as stranger, pytest.raises(httpx.ConnectError):
        stranger.get(f"{cluster.server}/healthz")
