"""Who asks, and what stored Roles and bindings let them do."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from senro.devcluster import DevCluster
from senro.devcluster.apiserver.access import Access, Asked, Identity, service_account
from senro.devcluster.apiserver.rbac import Rule
from senro.devcluster.apiserver.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from senro.devcluster.clock import SystemClock
from senro.devcluster.storage import Storage
from tests.lib.harness.devcluster import Client

ADA = Identity("ada", ("developers", "system:authenticated"))
GROUP = "rbac.authorization.k8s.io"


@pytest.fixture
def storage() -> Storage:
    return Storage(SystemClock())


@pytest.fixture
def access(storage: Storage) -> Access:
    access = Access(["ci"])
    access.bootstrap(storage)
    return access


def bind(storage: Storage, subject: dict[str, str], role: str, *, namespace: str = "") -> None:
    kind = "ClusterRole" if role.startswith("cluster-") else "Role"
    meta = {"name": f"b-{role}"} | ({"namespace": namespace} if namespace else {})
    binding = {"metadata": meta, "subjects": [subject], "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role}}
    storage.create(ROLE_BINDINGS if namespace else CLUSTER_ROLE_BINDINGS, binding)


def rules(*documents: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], **document} for document in documents]


def test_a_cluster_role_counts_where_it_is_bound(storage: Storage, access: Access) -> None:
    """A ClusterRole that a RoleBinding gives counts in that namespace alone; a ClusterRoleBinding's everywhere."""
    storage.create(CLUSTER_ROLES, {"metadata": {"name": "cluster-a"}, "rules": rules({})})
    bind(storage, {"kind": "User", "name": "ada"}, "cluster-a", namespace="ci")
    assert access.may(ADA, Asked("get", "", "pods", "ci"))
    assert not access.may(ADA, Asked("get", "", "pods", "default"))
    bind(storage, {"kind": "Group", "name": "developers"}, "cluster-a")
    assert access.may(ADA, Asked("get", "", "pods", "default"))
    assert access.may(ADA, Asked("get", "", "pods"))
    assert not access.may(Identity("eve", ()), Asked("get", "", "pods"))


def test_the_reason_names_binding_role_and_subject(storage: Storage, access: Access) -> None:
    """A review's reason tells which binding of which role allowed it, in the recorded form."""
    runner = service_account("ci", "senro-runner")
    assert access.why(runner, Asked("create", "", "pods/exec", "ci")) == (
        'RBAC: allowed by RoleBinding "senro-runner/ci" of Role "senro-runner" to ServiceAccount "senro-runner/ci"'
    )
    assert access.why(runner, Asked("list", "", "pods", "ci")) is None
    bind(storage, {"kind": "Group", "name": "developers"}, "senro-runner", namespace="ci")
    told = 'RBAC: allowed by RoleBinding "b-senro-runner/ci" of Role "senro-runner" to Group "developers"'
    assert access.why(ADA, Asked("create", "", "pods", "ci")) == told


@pytest.mark.parametrize(
    ("rule", "asked", "allowed"),
    [
        (Rule("", ("pods",), ("*",)), Asked("anything", "", "pods"), True),
        (Rule("", ("pods",), ("get",)), Asked("get", "", "pods/log"), False),
        (Rule("", ("*/log",), ("get",)), Asked("get", "", "pods/log"), True),
        (Rule("", ("*",), ("get",)), Asked("get", "", "pods/log"), True),
        (Rule("*", ("leases",), ("get",)), Asked("get", "coordination.k8s.io", "leases"), True),
        (Rule("", ("leases",), ("get",)), Asked("get", "coordination.k8s.io", "leases"), False),
        (Rule("", ("pods",), ("get",), ("a",)), Asked("get", "", "pods", "", "a"), True),
        (Rule("", ("pods",), ("get",), ("a",)), Asked("get", "", "pods", "", "b"), False),
        (Rule("", ("pods",), ("list",), ("a",)), Asked("list", "", "pods"), False),
    ],
)
def test_what_one_rule_allows(rule: Rule, asked: Asked, *, allowed: bool) -> None:
    """Verb, group, resource, subresource and name all have to fit; `*` fits what it stands for."""
    assert rule.allows(asked.verb, asked.group, asked.resource, asked.name) is allowed


def test_a_role_counts_from_the_moment_it_is_changed(storage: Storage, access: Access) -> None:
    """A Role that is changed or deleted changes what is allowed, at once."""
    runner = service_account("ci", "senro-runner")
    access.set_runner_rules([Rule("", ("pods",), ("get",))])
    assert access.may(runner, Asked("get", "", "pods", "ci"))
    assert not access.may(runner, Asked("create", "", "pods", "ci"))
    storage.remove(ROLES, "ci", "senro-runner")
    assert not access.may(runner, Asked("get", "", "pods", "ci"))


@pytest.fixture
def admin(cluster: DevCluster) -> Iterator[Client]:
    client = Client(cluster, token=cluster.access.admin_token)
    yield client
    client.close()


def test_a_token_that_is_added(cluster: DevCluster) -> None:
    """A token that was added is its user from then on; one that nobody has is answered with 401."""
    client = Client(cluster, token="of-a-test")
    assert client.http.get("/api/v1/nodes").status_code == 401
    cluster.access.add_token("of-a-test", service_account("ci", "senro-runner"))
    assert client.http.get("/api/v1/nodes").status_code == 200
    client.close()


def test_one_name_can_be_allowed(admin: Client, cluster: DevCluster, name: str) -> None:
    """A rule with resourceNames lets that object be read, and no other."""
    roles = f"/apis/{GROUP}/v1/namespaces/ci"
    rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"]}
    assert admin.http.post(f"{roles}/roles", json={"metadata": {"name": name}, "rules": [rule]}).status_code == 201
    subject = {"kind": "User", "name": "bob"}
    reference = {"apiGroup": GROUP, "kind": "Role", "name": name}
    binding = {"metadata": {"name": name}, "subjects": [subject], "roleRef": reference}
    assert admin.http.post(f"{roles}/rolebindings", json=binding).status_code == 201
    cluster.access.add_token(f"{name}-bob", Identity("bob", ()))
    as_bob = {"authorization": f"Bearer {name}-bob"}
    maps = "/api/v1/namespaces/ci/configmaps"
    assert admin.http.get(f"{maps}/mine", headers=as_bob).status_code == 404
    assert admin.http.get(f"{maps}/other", headers=as_bob).status_code == 403


def test_a_client_certificate_is_a_user_with_groups(cluster: DevCluster) -> None:
    """CN is the user, O are the groups: system:masters may do everything; nothing is known of anybody else."""
    for groups, status in ((["system:masters"], 200), (["nobody"], 403)):
        certificate, key = cluster.client_certificate("carol", groups)
        context = ssl.create_default_context(cafile=cluster.environment()["SENRO_K8S_CA_FILE"])
        context.load_cert_chain(certificate, key)
        with httpx.Client(base_url=cluster.server, verify=context, trust_env=False) as client:
            answer = client.get("/api/v1/namespaces/ci/pods")
            assert answer.status_code == status
            if status == 403:
                assert 'User "carol" cannot list' in answer.json()["message"]


def test_a_certificate_of_another_authority_is_refused(cluster: DevCluster, fresh_devcluster: DevCluster) -> None:
    """A certificate that this cluster's authority did not sign ends the connection."""
    certificate, key = fresh_devcluster.client_certificate("mallory", ["system:masters"])
    context = ssl.create_default_context(cafile=cluster.environment()["SENRO_K8S_CA_FILE"])
    context.load_cert_chain(certificate, key)
    with (
        httpx.Client(base_url=cluster.server, verify=context, trust_env=False) as client,
        pytest.raises(httpx.TransportError),
    ):
        client.get("/version")


def test_a_review_of_anything_but_a_resource(cluster: DevCluster) -> None:
    """It is refused: neither senro nor `kubectl auth can-i VERB RESOURCE` asks about paths."""
    runner = Client(cluster)
    reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    for spec in ({}, {"nonResourceAttributes": {"path": "/version", "verb": "get"}}):
        assert runner.http.post(reviews, json={"spec": spec}).status_code in {400, 422}
    runner.close()
