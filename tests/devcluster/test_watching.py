"""Lists, watches and tables: what a client is told, and in which order."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from senro.devcluster import DevCluster
from tests.lib.harness.devcluster import Client, pod_manifest

SECRETS = "/api/v1/namespaces/ci/secrets"
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}


@pytest.fixture
def admin(cluster: DevCluster) -> Iterator[Client]:
    client = Client(cluster, token=cluster.access.admin_token)
    yield client
    client.close()


def make(client: Client, name: str, **labels: str) -> None:
    answer = client.http.post(SECRETS, json={"metadata": {"name": name, "labels": labels}, "data": {"k": "dg=="}})
    assert answer.status_code == 201, answer.text


def relabel(client: Client, name: str, **labels: str | None) -> None:
    headers = {"content-type": "application/merge-patch+json"}
    client.http.patch(f"{SECRETS}/{name}", json={"metadata": {"labels": labels}}, headers=headers)


def watched(client: Client, headers: dict[str, str] | None = None, **query: str) -> list[tuple[str, Any]]:
    """Every event until the watch ends by itself."""
    query = {"watch": "1", "timeoutSeconds": "1", **query}
    with client.http.stream("GET", SECRETS, params=query, headers=headers or {}) as answer:
        assert answer.status_code == 200
        events = [json.loads(line) for line in answer.iter_lines()]
    return [(event["type"], event["object"]) for event in events]


def test_entering_and_leaving_a_selection(admin: Client, name: str) -> None:
    """An object that begins to fit is ADDED for the watcher, one that no longer fits is DELETED."""
    version = admin.http.get(SECRETS).json()["metadata"]["resourceVersion"]
    make(admin, name, of=name)
    relabel(admin, name, of=None)
    relabel(admin, name, of=name)
    admin.http.delete(f"{SECRETS}/{name}")
    events = watched(admin, labelSelector=f"of={name}", resourceVersion=version)
    kinds = [kind for kind, _ in events]
    assert kinds[:2] == ["ADDED", "DELETED"]
    assert kinds[-1] == "DELETED"


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"watch": "1", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}, 422),
        ({"watch": "1", "timeoutSeconds": "soon"}, 400),
        ({"watch": "1", "resourceVersion": "x"}, 400),
        ({"labelSelector": "a in (b"}, 400),
        ({"labelSelector": "=b"}, 400),
        ({"fieldSelector": "metadata.name"}, 400),
    ],
)
def test_a_question_that_makes_no_sense(admin: Client, query: dict[str, str], status: int) -> None:
    """Parameters that cannot be, and selectors that cannot be read, are refused before anything is sent."""
    assert admin.http.get(SECRETS, params=query).status_code == status


def test_a_version_that_is_too_old(admin: Client) -> None:
    """A watch from before the history is HTTP 200 and one ERROR event of code 410."""
    ((kind, status),) = watched(admin, resourceVersion="1")
    assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("tier=a", {"1"}),
        ("tier==a,of={name}", {"1"}),
        ("tier!=a,of={name}", {"2", "3"}),
        ("!tier,of={name}", {"3"}),
        ("tier,of={name}", {"1", "2"}),
    ],
)
def test_label_selectors(admin: Client, name: str, selector: str, expected: set[str]) -> None:
    """Equality, inequality, presence and absence select what the API's documentation says."""
    name = name[:40].strip("-")
    for number, labels in (("1", {"tier": "a"}), ("2", {"tier": "b"}), ("3", {})):
        make(admin, f"{name}-{number}", of=name, **labels)
    items = admin.http.get(SECRETS, params={"labelSelector": selector.format(name=name)}).json()["items"]
    assert {item["metadata"]["name"][-1] for item in items} == expected
    for number in "123":
        assert admin.http.delete(f"{SECRETS}/{name}-{number}").status_code == 200


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("metadata.name={name}-a", {"a"}),
        ("metadata.name!={name}-a", {"b"}),
        ("status.phase==Running,metadata.namespace=ci", {"a"}),
        ("spec.nodeName=", {"b"}),
        ("spec.restartPolicy=Never", {"a", "b"}),
    ],
)
def test_field_selectors(admin: Client, name: str, selector: str, expected: set[str]) -> None:
    """Equality and inequality of the fields that a pod may be selected by; one that is not there is empty."""
    name = name[:40].strip("-")
    admin.create(pod_manifest(f"{name}-a", ["sleep", "600"]))
    admin.create(pod_manifest(f"{name}-b", ["sleep", "600"], nodeSelector={"no": "where"}))
    admin.running(f"{name}-a")
    path, query = "/api/v1/namespaces/ci/pods", {"fieldSelector": selector.format(name=name)}
    items = admin.http.get(path, params=query).json()["items"]
    found = {item["metadata"]["name"] for item in items}
    assert {pod[-1] for pod in found & {f"{name}-a", f"{name}-b"}} == expected
    for letter in "ab":
        admin.delete(f"{name}-{letter}", gracePeriodSeconds=0)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("reason=Started,type=Normal", {"Started"}),
        ("involvedObject.kind!=Pod", set()),
    ],
)
def test_field_selectors_of_events(admin: Client, name: str, selector: str, expected: set[str]) -> None:
    """Events are selected by their object, as `kubectl describe` does, by reason and by type."""
    admin.create(pod_manifest(name, ["true"]))
    admin.finished(name)
    query = {"fieldSelector": f"involvedObject.name={name},{selector}"}
    items = admin.http.get("/api/v1/namespaces/ci/events", params=query).json()["items"]
    assert {item["reason"] for item in items} == expected


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (SECRETS, '"data.k" is not a known field selector: only "metadata.name", "metadata.namespace"'),
        ("/api/v1/namespaces/ci/pods", "field label not supported: data.k"),
    ],
)
def test_a_field_that_nothing_is_selected_by(admin: Client, path: str, words: str) -> None:
    """400, in the words of the resource: a selector that the server ignored would select too much."""
    refused = admin.http.get(path, params={"fieldSelector": "data.k=v"})
    assert (refused.status_code, refused.json()["message"]) == (400, words)


def test_a_table(admin: Client, name: str) -> None:
    """`as=Table` gives columns and rows, the whole objects where they are asked for; a watch tells columns once."""
    make(admin, name, of=name)
    table = admin.http.get(SECRETS, params={"labelSelector": f"of={name}"}, headers=TABLE).json()
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Type", "Data", "Age"]
    assert table["rows"][0]["cells"][0] == name
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    whole = admin.http.get(f"{SECRETS}/{name}", params={"includeObject": "Object"}, headers=TABLE).json()
    assert whole["rows"][0]["object"]["data"] == {"k": "dg=="}
    make(admin, f"{name}-b", of=name)
    events = watched(admin, TABLE, labelSelector=f"of={name}")
    assert [event["columnDefinitions"] is None for _, event in events] == [False, True]


def test_nothing_is_missed_while_the_client_reads_slowly(admin: Client, cluster: DevCluster, name: str) -> None:
    """Changes that happen while a watcher's events are on their way to it come as well, and in order."""
    version = admin.http.get(SECRETS).json()["metadata"]["resourceVersion"]
    writer = Client(cluster, token=cluster.access.admin_token)

    def write() -> None:
        make(writer, name, of=name)
        for number in range(50):
            relabel(writer, name, number=str(number))

    thread = threading.Thread(target=write)
    thread.start()
    seen: list[int] = []
    query = {"watch": "1", "timeoutSeconds": "10", "labelSelector": f"of={name}", "resourceVersion": version}
    with admin.http.stream("GET", SECRETS, params=query) as answer:
        for line in answer.iter_lines():
            labels = json.loads(line)["object"]["metadata"]["labels"]
            seen += [int(labels["number"])] if "number" in labels else []
            if seen and seen[-1] == 49:
                break
    thread.join()
    writer.close()
    assert seen == list(range(50))
