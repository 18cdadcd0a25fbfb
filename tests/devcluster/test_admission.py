"""What admission says of a new object: quota, PodSecurity, the namespace's state, the priority."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import takewhile
from typing import Any

import httpx
import pytest

from senro.devcluster import DevCluster
from tests.lib.harness.devcluster import Client, pod_manifest


class Home:
    """A namespace of the test's own, as an administrator."""

    def __init__(self, client: Client, name: str) -> None:
        self.client = client
        self.name = name
        self.path = f"/api/v1/namespaces/{name}"

    def post(self, plural: str, document: dict[str, Any]) -> httpx.Response:
        return self.client.http.post(f"{self.path}/{plural}", json=document)

    def pod(self, name: str, **spec: Any) -> httpx.Response:
        manifest = pod_manifest(name, ["sleep", "60"], **spec)
        manifest["metadata"]["namespace"] = self.name
        return self.post("pods", manifest)

    def quota(self, **hard: str) -> None:
        hard = {key.replace("__", "."): value for key, value in hard.items()}
        assert self.post("resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard}}).status_code == 201


def new_home(client: Client, name: str, **labels: str) -> Home:
    home = Home(client, f"n-{name}"[:60].strip("-"))
    document = {"metadata": {"name": home.name, "labels": labels}}
    assert client.http.post("/api/v1/namespaces", json=document).status_code == 201
    return home


@pytest.fixture
def admin(cluster: DevCluster) -> Iterator[Client]:
    client = Client(cluster, token=cluster.access.admin_token)
    yield client
    client.close()


@pytest.fixture
def home(admin: Client, name: str) -> Iterator[Home]:
    home = new_home(admin, name)
    yield home
    admin.http.delete(home.path)


def message(answer: httpx.Response) -> str:
    assert answer.status_code == 403, answer.text
    return str(answer.json()["message"]).partition("is forbidden: ")[2]


def test_a_quota_of_pods(home: Home) -> None:
    """A quota counts the pods that are not over, and refuses one too many."""
    home.quota(pods="1")
    assert home.pod("one").status_code == 201
    assert message(home.pod("two")) == "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"
    home.client.http.delete(f"{home.path}/pods/one", params={"gracePeriodSeconds": 0})
    assert home.pod("two").status_code == 201


def test_pod_security_is_enforced_by_a_label(admin: Client, name: str) -> None:
    """The namespace's label decides the level; a pod that keeps its rules is accepted."""
    level = "pod-security.kubernetes.io/enforce"
    home = new_home(admin, name, **{level: "baseline", f"{level}-version": "v1.36"})
    refused = message(home.pod("p", step={"securityContext": {"privileged": True}}))
    assert refused == (
        'violates PodSecurity "baseline:v1.36": privileged (container "step" must not set '
        "securityContext.privileged=true)"
    )
    assert home.pod("p").status_code == 201
    admin.http.delete(home.path)


def test_a_namespace_that_is_being_deleted(home: Home) -> None:
    """It takes nothing new, deletes what it holds, and is gone when that is gone."""
    home.post("secrets", {"metadata": {"name": "held", "finalizers": ["example.org/held"]}})
    home.post("secrets", {"metadata": {"name": "s"}})
    version = home.client.http.get("/api/v1/namespaces").json()["metadata"]["resourceVersion"]
    assert home.client.http.delete(home.path).json()["status"]["phase"] == "Terminating"
    refused = home.post("configmaps", {"metadata": {"name": "late"}})
    assert refused.json()["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    headers = {"content-type": "application/merge-patch+json"}
    home.client.http.patch(f"{home.path}/secrets/held", json={"metadata": {"finalizers": None}}, headers=headers)
    with home.client.http.stream(
        "GET",
        "/api/v1/namespaces",
        params={"watch": "1", "fieldSelector": f"metadata.name={home.name}", "resourceVersion": version},
    ) as events:
        kinds = (json.loads(line)["type"] for line in events.iter_lines())
        assert list(takewhile(lambda kind: kind != "DELETED", kinds)) == ["MODIFIED"]
    assert home.client.http.get(home.path).status_code == 404


def test_a_priority_class_gives_the_priority(home: Home, name: str) -> None:
    """A pod has the value of its class; one of a class that is not there is refused."""
    assert message(home.pod("p", priorityClassName="nothing")) == "no PriorityClass with name nothing was found"
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    home.client.http.post(classes, json={"metadata": {"name": name}, "value": 1000})
    assert home.pod("p", priorityClassName=name).json()["spec"]["priority"] == 1000
    home.client.http.delete(f"{classes}/{name}")
