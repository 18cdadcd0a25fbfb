"""ConfigMaps as files and as variables of a container."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from senro.devcluster import DevCluster
from tests.lib.harness.devcluster import Client, Object, pod_manifest, state_of

MAPS = "/api/v1/namespaces/ci/configmaps"


@pytest.fixture
def admin(cluster: DevCluster) -> Iterator[Client]:
    admin = Client(cluster, token=cluster.access.admin_token)
    yield admin
    admin.http.delete(MAPS)
    admin.close()


def keep(admin: Client, name: str, **fields: Any) -> None:
    assert admin.http.post(MAPS, json={"metadata": {"name": name}, **fields}).status_code == 201


def with_files(name: str, source: Object, command: list[str]) -> Object:
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/settings"}]}
    return pod_manifest(name, command, step=mount, volumes=[{"name": "v", "configMap": source}])


def test_files_of_a_config_map(admin: Client, name: str) -> None:
    """Each key is a file, `binaryData` too; items choose and rename; the default mode is 0644."""
    keep(admin, name, data={"a": "text", "b": "other"}, binaryData={"c": "AP8="})
    admin.create(with_files(name, {"name": name}, ["sh", "-c", "cd /settings; cat a b; wc -c < c; stat -c %a a"]))
    admin.finished(name)
    assert admin.log(name).text.split() == ["textother2", "644"]
    items = {"name": name, "items": [{"key": "b", "path": "deep/er"}], "defaultMode": 0o400}
    admin.create(with_files(f"{name}-items", items, ["sh", "-c", "cd /settings; ls; cat deep/er"]))
    admin.finished(f"{name}-items")
    assert admin.log(f"{name}-items").text == "deep\nother"


@pytest.mark.bubblewrap
@pytest.mark.parametrize("kind", ["configMap", "secret"])
def test_their_files_are_read_only(client: Client, admin: Client, name: str, kind: str) -> None:
    """Whatever the mount says: the kubelet's files are not the container's to change."""
    assert client.cluster is admin.cluster
    keep(admin, name, data={"a": "text"})
    admin.http.post("/api/v1/namespaces/ci/secrets", json={"metadata": {"name": name}, "stringData": {"a": "text"}})
    source = {"name": name} if kind == "configMap" else {"secretName": name}
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/settings"}]}
    volumes = [{"name": "v", kind: source}]
    admin.create(pod_manifest(name, ["sh", "-c", "echo x > /settings/a"], step=mount, volumes=volumes))
    assert admin.finished(name)["status"]["phase"] == "Failed"
    assert "Read-only file system" in admin.log(name).text
    admin.http.delete(f"/api/v1/namespaces/ci/secrets/{name}")


def test_variables_of_a_config_map(admin: Client, name: str) -> None:
    """`envFrom` with its prefix, one key of `valueFrom`, and nothing for what is optional and not there."""
    keep(admin, name, data={"A": "one$(X)", "B": "two"})
    env = [
        {"name": "C", "valueFrom": {"configMapKeyRef": {"name": name, "key": "B"}}},
        {"name": "D", "valueFrom": {"configMapKeyRef": {"name": name, "key": "none", "optional": True}}},
        {"name": "E", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "B", "optional": True}}},
    ]
    source = [{"prefix": "P_", "configMapRef": {"name": name}}]
    show = 'echo "$P_A $P_B $C ${D-none} ${E-none}"'
    admin.create(pod_manifest(name, ["sh", "-c", show], step={"env": env, "envFrom": source}))
    admin.finished(name)
    assert admin.log(name).text == "one$(X) two two none none\n"


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ({"name": "none", "key": "a"}, 'configmap "none" not found'),
        ({"name": "{name}", "key": "a"}, "couldn't find key a in ConfigMap ci/{name}"),
    ],
)
def test_a_variable_of_what_is_not_there(admin: Client, name: str, reference: Object, words: str) -> None:
    """CreateContainerConfigError names the ConfigMap, or the key; the container starts once it is there."""
    keep(admin, name, data={"b": "x"})
    wanted = {**reference, "name": reference["name"].format(name=name)}
    env = [{"name": "C", "valueFrom": {"configMapKeyRef": wanted}}]
    admin.create(pod_manifest(name, ["true"], step={"env": env}))
    pod = admin.until(name, lambda found: found is not None and "Config" in str(state_of(found, "step")))[-1]
    assert pod is not None
    assert state_of(pod, "step") == {
        "waiting": {"reason": "CreateContainerConfigError", "message": words.format(name=name)}
    }
    admin.delete(name, gracePeriodSeconds=0)


def test_files_that_are_not_there(admin: Client, name: str) -> None:
    """The pod waits with an Event that says what for, and runs once it comes; what is optional is empty."""
    source = {"name": name, "items": [{"key": "a", "path": "a"}]}
    admin.create(with_files(name, source, ["cat", "/settings/a"]))

    def told(words: str) -> bool:
        return any(
            event["involvedObject"]["name"] == name and words in event["message"]
            for event in admin.cluster.events("ci")
        )

    admin.until(name, lambda _: told(f'MountVolume.SetUp failed for volume "v" : configmap "{name}" not found'))
    keep(admin, name, data={"b": "x"})
    admin.until(name, lambda _: told("configmap references non-existent config key: a"))
    admin.http.patch(
        f"{MAPS}/{name}", json={"data": {"a": "now"}}, headers={"content-type": "application/merge-patch+json"}
    )
    admin.finished(name)
    assert admin.log(name).text == "now"
    optional = {"name": "none", "optional": True}
    admin.create(with_files(f"{name}-2", optional, ["sh", "-c", 'test -z "$(ls /settings)"']))
    assert admin.finished(f"{name}-2")["status"]["phase"] == "Succeeded"


def test_a_volume_that_names_nothing(admin: Client, name: str) -> None:
    """422, with the field."""
    answer = admin.http.post("/api/v1/namespaces/ci/pods", json=with_files(name, {}, ["true"]))
    assert answer.status_code == 422
    assert answer.json()["details"]["causes"][0]["field"] == "spec.volumes[0].configMap.name"
