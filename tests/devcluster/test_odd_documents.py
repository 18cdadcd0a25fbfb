"""What a client may send that nobody means: refused or taken as Go takes it, and never more than one pod's affair."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from senro.devcluster.apiserver.schema import SCHEMAS, without_nulls
from senro.devcluster.clock import nanoseconds_text, seconds_text
from tests.lib.harness.devcluster import Client, Object, pod_manifest, state_of

PODS = "/api/v1/namespaces/ci/pods"
NUMBER_OF_DIGITS = "9" * 5000


@pytest.fixture
def admin(client: Client) -> Iterator[Client]:
    client = Client(client.cluster, token=client.cluster.access.admin_token)
    yield client
    client.close()


def with_null(schema: Any) -> Iterator[Any]:
    """Every document of a schema that holds one null and nothing else."""
    yield None
    if isinstance(schema, list):
        for below in with_null(schema[0]):
            yield [below]
    elif isinstance(schema, dict):
        for field, held in schema.items():
            for below in with_null(held):
                yield {"a" if field == "*" else field: below}


def test_nulls_are_left_out() -> None:
    """A field or an item that is null counts as absent: `kubectl create --dry-run=client -o yaml` writes such."""
    document = {"metadata": {"creationTimestamp": None, "finalizers": [None]}, "spec": {"a": [{"b": None}]}}
    assert without_nulls(document) == {"metadata": {"finalizers": []}, "spec": {"a": [{}]}}


def merged(base: Any, odd: Any) -> Any:
    """The one document with what the other says in its place."""
    if isinstance(base, dict) and isinstance(odd, dict):
        return {**base, **{key: merged(base.get(key), value) for key, value in odd.items()}}
    if isinstance(base, list) and isinstance(odd, list) and base and odd:
        return [merged(base[0], odd[0]), *base[1:]]
    return odd


def test_a_null_anywhere_is_no_error_of_the_clusters(admin: Client, name: str) -> None:
    """Wherever a null stands in an object of any kind, it is created or refused."""
    pod = pod_manifest("x", ["true"], volumes=[{"name": "v", "emptyDir": {}}], nodeName="nowhere")
    bases: dict[str, Object] = {
        "pods": pod,
        "secrets": {},
        "configmaps": {},
        "serviceaccounts": {},
        "persistentvolumeclaims": {
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        },
        "resourcequotas": {},
    }
    kinds = ["Pod", "Secret", "ConfigMap", "ServiceAccount", "PersistentVolumeClaim", "ResourceQuota"]
    namespace = f"n-{name}"[:50].strip("-")
    assert admin.http.post("/api/v1/namespaces", json={"metadata": {"name": namespace}}).status_code == 201
    number, wrong = 0, []
    for (plural, base), kind in zip(bases.items(), kinds, strict=True):
        path = f"/api/v1/namespaces/{namespace}/{plural}"
        for odd in with_null(SCHEMAS[kind]):
            number += 1
            named = {**base, "metadata": {"name": f"p{number}"}}
            document = merged(named, odd)
            answer = admin.http.post(path, content=json.dumps(document))
            if answer.status_code not in {201, 400, 403, 422}:
                wrong.append((plural, odd, answer.status_code))
            if answer.status_code == 201 and plural == "pods":
                admin.http.delete(f"{path}/p{number}")
    admin.http.delete(f"/api/v1/namespaces/{namespace}")
    assert number > 400
    assert wrong == []


@pytest.mark.parametrize("query", ["tailLines", "limitBytes", "sinceSeconds"])
@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("9223372036854775808", 400, "value out of range"),
        (NUMBER_OF_DIGITS, 400, "value out of range"),
        ("-" + NUMBER_OF_DIGITS, 400, "value out of range"),
        ("²", 400, "invalid syntax"),
        ("٣", 400, "invalid syntax"),
        ("--1", 400, "invalid syntax"),
        ("", 400, "invalid syntax"),
        ("-1", 422, "must be greater than"),
        ("99999999999999", 200, ""),
        ("9223372036854775807", 200, ""),
    ],
)
def test_numbers_of_a_query(client: Client, query: str, text: str, code: int, words: str) -> None:
    """Read as Go reads an int64: 400 for what is none, or is larger; the largest is taken."""
    if client.pod("numbers") is None:
        client.create(pod_manifest("numbers", ["echo", "told"]))
    client.finished("numbers")
    answer = client.log("numbers", **{query: text})
    assert (answer.status_code, words in answer.text) == (code, True)
    if code == 200:
        assert answer.text == "told\n"


def test_other_numbers_of_a_query(admin: Client, name: str) -> None:
    """A grace, a watch's time and its resourceVersion keep to the same rules."""
    admin.create(pod_manifest(name, ["sleep", "60"]))
    for text in (NUMBER_OF_DIGITS, "²", "x"):
        deleted = admin.http.delete(f"{PODS}/{name}", params={"gracePeriodSeconds": text})
        watched = admin.http.get(PODS, params={"watch": "1", "timeoutSeconds": text})
        versioned = admin.http.get(PODS, params={"watch": "1", "timeoutSeconds": "1", "resourceVersion": text})
        assert [answer.status_code for answer in (deleted, watched, versioned)] == [400, 400, 400], text
    admin.delete(name, gracePeriodSeconds=0)


@pytest.mark.parametrize("grace", [2**63 - 1, 10**12])
def test_a_grace_without_an_end(client: Client, name: str, grace: int) -> None:
    """One past the year 9999 is stored as the last time there is."""
    client.create(pod_manifest(name, ["sleep", "60"], terminationGracePeriodSeconds=grace))
    client.running(name)
    answer = client.http.delete(f"{PODS}/{name}")
    assert answer.status_code == 200, answer.text
    assert answer.json()["metadata"]["deletionTimestamp"] == "9999-12-31T23:59:59Z"
    client.delete(name, gracePeriodSeconds=0)
    assert client.pod(name) is None


def test_times_outside_of_the_calendar() -> None:
    """The nearest that can be written."""
    assert (seconds_text(-(10**18)), seconds_text(10**18)) == ("1970-01-01T00:00:00Z", "9999-12-31T23:59:59Z")
    assert nanoseconds_text(-1).startswith("1970-01-01T00:00:00")


@pytest.mark.parametrize(
    "body",
    [
        '{"metadata":{"name":"x"},"spec":{"activeDeadlineSeconds":9223372036854775808}}',
        '{"metadata":{"name":"x"},"spec":{"activeDeadlineSeconds":' + NUMBER_OF_DIGITS + "}}",
        '{"metadata":{"name":"\\ud800"}}',
        '{"metadata":' * 5_000,
        "[" * 5_000,
        "1e999",
    ],
    ids=["too large", "thousands of digits", "half a letter", "deep", "deep list", "no number"],
)
def test_bodies_that_nothing_can_read(client: Client, body: str) -> None:
    """400, as for any body that does not decode."""
    answer = client.http.post(PODS, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400, answer.text


@pytest.mark.parametrize("media", ["application/yaml", "application/vnd.kubernetes.protobuf", "text/plain"])
def test_bodies_of_another_media_type(client: Client, media: str) -> None:
    """415: kubectl converts YAML to JSON itself."""
    assert client.http.post(PODS, content="{}", headers={"content-type": media}).status_code == 415


@pytest.mark.parametrize("patch", ["[]", "null", '{"metadata":{"ownerReferences":[1]}}'])
def test_patches_of_the_wrong_types(admin: Client, patch: str) -> None:
    """400, and nothing of the object changes."""
    path = "/api/v1/namespaces/ci/secrets"
    admin.http.post(path, json={"metadata": {"name": "patched"}})
    before = admin.http.get(f"{path}/patched").json()
    headers = {"content-type": "application/merge-patch+json"}
    answer = admin.http.patch(f"{path}/patched", content=patch, headers=headers)
    assert answer.status_code == 400, answer.text
    assert admin.http.get(f"{path}/patched").json() == before


@pytest.mark.parametrize("field", ["ports", "env", "volumeMounts", "envFrom", "volumeDevices", "resizePolicy"])
@pytest.mark.parametrize("odd", [[1], ["x"], [[]], {"a": 1}, 1])
def test_lists_of_the_wrong_types(client: Client, name: str, field: str, odd: object) -> None:
    """Refused where it is a list that is merged by its keys; what is not looked into is never more than refused."""
    answer = client.http.post(PODS, json=pod_manifest(name, ["true"], step={field: odd}))
    assert answer.status_code in ({201, 400} if field in {"volumeDevices", "resizePolicy"} else {400}), answer.text
    client.delete(name, gracePeriodSeconds=0)


# --- volumes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["../x", "/x", "a/b", ".", "..", "..x", "a=b", "a\0b", "", "x" * 254])
def test_keys_that_no_file_may_have(admin: Client, key: str) -> None:
    """422: a Secret's keys become names of files, and none of them leads out of the volume."""
    odd = {"metadata": {"name": "odd-keys"}, "data": {key: "AAAA"}}
    path = "/api/v1/namespaces/ci/secrets"
    answer = admin.http.post(path, json=odd)
    assert answer.status_code == 422, answer.text
    assert [cause["field"] for cause in answer.json()["details"]["causes"]] == [f"data[{key}]"]
    assert admin.http.post(path, json={"metadata": {"name": "odd-keys"}}).status_code == 201
    headers = {"content-type": "application/merge-patch+json"}
    patched = admin.http.patch(f"{path}/odd-keys", json={"data": {key: "AAAA"}}, headers=headers)
    admin.http.delete(f"{path}/odd-keys")
    assert patched.status_code == 422, patched.text


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ([("a", "x"), ("a", "x/y")], "file exists"),
        ([("a", "x/y"), ("a", "x")], "is a directory"),
        ([("a", ".")], "is a directory"),
        ([("a", "x" * 300)], "file name too long"),
        ([("a", "x\0y")], "invalid argument"),
    ],
)
def test_items_that_no_folder_can_hold(admin: Client, name: str, items: list[tuple[str, str]], words: str) -> None:
    """The volume is tried again and again, and an event says why; no path of the machine is in it."""
    admin.http.post("/api/v1/namespaces/ci/secrets", json={"metadata": {"name": "held"}, "stringData": {"a": "1"}})
    source = {"secretName": "held", "items": [{"key": key, "path": path} for key, path in items]}
    admin.create(pod_manifest(name, ["true"], volumes=[{"name": "v", "secret": source}]))

    def failed_mounts() -> set[str]:
        events = admin.cluster.events("ci")
        return {
            event["message"]
            for event in events
            if event["involvedObject"]["name"] == name and event["reason"] == "FailedMount"
        }

    admin.until(name, lambda _pod: bool(failed_mounts()))
    assert failed_mounts() == {f'MountVolume.SetUp failed for volume "v" : {words}'}
    admin.delete(name, gracePeriodSeconds=0)


def test_references_without_a_key(client: Client, name: str) -> None:
    """422 where a variable or an item does not say of what it is."""
    variables = [
        {"name": "A", "valueFrom": {"fieldRef": {}}},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s"}}},
    ]
    volume = {"name": "v", "secret": {"secretName": "s", "items": [{"path": "x"}]}}
    manifest = pod_manifest(name, ["true"], step={"env": variables}, volumes=[volume])
    answer = client.http.post(PODS, json=manifest)
    assert answer.status_code == 422, answer.text
    assert [cause["field"] for cause in answer.json()["details"]["causes"]] == [
        "spec.volumes[0].secret.items[0].key",
        "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath",
        "spec.containers[0].env[1].valueFrom.secretKeyRef.key",
    ]


# --- what the API takes, and no kernel does --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["client", "mapped"])
@pytest.mark.parametrize(
    "step",
    [
        {"command": ["a\0b"]},
        {"command": ["/bin/a\0b"]},
        {"command": ["true", "a\0b"]},
        {"command": ["true", "x" * 200_000]},
        {"command": ["x" * 5000]},
        {"command": ["/" + "x" * 5000]},
        {"env": [{"name": "B", "value": "a\0b"}]},
        {"workingDir": "/a\0"},
        {"workingDir": "/" + "x" * 300},
        {"workingDir": "/" + "x/" * 5000},
    ],
    ids=lambda step: json.dumps(step)[:40],
)
def test_what_no_kernel_takes(request: pytest.FixtureRequest, name: str, kind: str, step: Object) -> None:
    """The container ends with StartError, as where a runtime refuses it; no path of the machine is in its words."""
    client: Client = request.getfixturevalue(kind)
    manifest = pod_manifest(name, ["true"], step=step, volumes=[{"name": "v", "emptyDir": {}}])
    client.create(manifest)
    pod = client.finished(name)
    ended = state_of(pod, "step")["terminated"]
    assert (pod["status"]["phase"], ended["reason"], ended["exitCode"]) == ("Failed", "StartError", 128)
    assert str(client.cluster.folder) not in ended["message"]


@pytest.mark.parametrize("path", ["/a\0b", "/" + "a" * 5000, "/" + "a" * 300 + "/b"], ids=["NUL", "path", "name"])
def test_mount_points_that_no_kernel_takes(client: Client, name: str, path: str) -> None:
    """The container ends with StartError, as for any other path."""
    if client.cluster.mode != "bubblewrap":
        pytest.skip(client.cluster.mode_reason)
    mounted = {"volumeMounts": [{"name": "v", "mountPath": path}]}
    client.create(pod_manifest(name, ["true"], step=mounted, volumes=[{"name": "v", "emptyDir": {}}]))
    ended = state_of(client.finished(name), "step")["terminated"]
    assert ended["reason"] == "StartError"
    assert str(client.cluster.folder) not in ended["message"]


@pytest.mark.parametrize("kind", ["client", "mapped"])
def test_commands_that_no_kernel_takes(request: pytest.FixtureRequest, name: str, kind: str) -> None:
    """An exec of one fails alone, and the container runs on."""
    client: Client = request.getfixturevalue(kind)
    client.create(pod_manifest(name, ["sleep", "60"]))
    client.running(name)
    for command in (["a\0b"], ["true", "a\0b"], ["/bin/a\0b"], ["x" * 5000], ["/" + "x" * 5000]):
        status = client.run(name, command).status
        assert status is not None
        assert status["status"] == "Failure", command
    assert client.run(name, ["true"]).exit_code == 0
    client.delete(name, gracePeriodSeconds=0)
