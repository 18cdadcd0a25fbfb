"""PersistentVolumeClaims: folders that outlive pods, and what keeps a pod from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from senro.devcluster import DevCluster, DevClusterThread
from tests.lib.harness.devcluster import Client, Object, pod_manifest, state_of

CLAIMS = "/api/v1/namespaces/ci/persistentvolumeclaims"


@pytest.fixture(scope="module")
def pair() -> Iterator[DevCluster]:
    """A cluster of two nodes."""
    with DevClusterThread(nodes=("one", "two"), capacity={"cpu": "4"}) as running:
        yield running


class Storing(Client):
    """An administrator who keeps claims."""

    def claim(self, name: str, mode: str = "ReadWriteOnce", **spec: Any) -> Object:
        """Create a claim; what is stored once the controllers have seen it."""
        wanted = {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}, **spec}
        answer = self.http.post(CLAIMS, json={"metadata": {"name": name}, "spec": wanted})
        assert answer.status_code == 201, answer.text
        assert answer.json()["status"] == {"phase": "Pending"}
        if wanted.get("storageClassName") in {None, "standard"}:
            self.until(name, lambda _: self.stored(name)["status"]["phase"] == "Bound")
        return self.stored(name)

    def stored(self, name: str) -> Object:
        """A claim as it is now; the Status of a 404 where there is none."""
        found: Object = self.http.get(f"{CLAIMS}/{name}").json()
        return found

    def without(self, name: str) -> None:
        """Delete a claim, and wait until it is gone."""
        self.http.delete(f"{CLAIMS}/{name}")
        self.until(name, lambda _: self.stored(name)["kind"] == "Status")

    def mounting(self, name: str, claim: str, script: str, **spec: Any) -> Object:
        """A pod that runs a script with the claim at /data."""
        read_only = {"readOnly": True} if spec.pop("read_only", False) else {}
        return self.create(
            pod_manifest(
                name,
                ["sh", "-c", script],
                step={"volumeMounts": [{"name": "v", "mountPath": "/data"}]},
                volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim, **read_only}}],
                **spec,
            )
        )

    def waiting_for_a_node(self, name: str) -> str:
        """The scheduler's words of a pod that it has no node for."""
        pod = self.until(name, lambda found: found is not None and bool(found["status"].get("conditions")))[-1]
        assert pod is not None
        assert pod["status"]["conditions"][0]["reason"] == "Unschedulable"
        return str(pod["status"]["conditions"][0]["message"])

    def event(self, name: str, reason: str) -> Object:
        """The first Event of that reason of a pod, waited for."""
        self.until(name, lambda _: bool(self.events(name, reason)))
        return self.events(name, reason)[0]

    def events(self, name: str, reason: str) -> list[Object]:
        """The Events of that reason of a pod."""
        return [
            event
            for event in self.cluster.events("ci")
            if (event["involvedObject"]["name"], event["reason"]) == (name, reason)
        ]


def storing(cluster: DevCluster) -> Iterator[Storing]:
    found = Storing(cluster, token=cluster.access.admin_token)
    yield found
    for pod in cluster.pods("ci"):
        found.delete(pod["metadata"]["name"], gracePeriodSeconds=0)
    found.http.delete(CLAIMS)
    found.close()


@pytest.fixture
def admin(cluster: DevCluster) -> Iterator[Storing]:
    yield from storing(cluster)


@pytest.fixture
def mapped_admin(mapped_cluster: DevCluster) -> Iterator[Storing]:
    yield from storing(mapped_cluster)


@pytest.fixture
def fresh_storage() -> Iterator[Storing]:
    """A cluster in which nothing happens but what the test does."""
    with DevClusterThread() as running:
        yield from storing(running)


@pytest.fixture
def two(pair: DevCluster) -> Iterator[Storing]:
    yield from storing(pair)


@pytest.mark.parametrize("runtime", ["admin", "mapped_admin"])
def test_what_a_pod_left_is_there_for_the_next(request: pytest.FixtureRequest, runtime: str, name: str) -> None:
    """A claim's files outlive their pod; a claim of the same name that comes after it is another, and empty."""
    admin: Storing = request.getfixturevalue(runtime)
    admin.claim(name)
    admin.mounting(f"{name}-a", name, "echo kept > /data/file")
    assert admin.finished(f"{name}-a")["status"]["phase"] == "Succeeded"
    admin.delete(f"{name}-a")
    admin.mounting(f"{name}-b", name, "cat /data/file")
    admin.finished(f"{name}-b")
    assert admin.log(f"{name}-b").text == "kept\n"
    admin.delete(f"{name}-b")
    admin.without(name)
    admin.claim(name)
    admin.mounting(f"{name}-c", name, 'test -z "$(ls -A /data)"')
    assert admin.finished(f"{name}-c")["status"]["phase"] == "Succeeded"


@pytest.mark.parametrize("runtime", ["admin", "mapped_admin"])
def test_two_pods_of_a_node_share_a_claim(request: pytest.FixtureRequest, runtime: str, name: str) -> None:
    """ReadWriteOnce is one node, not one pod: each sees what the other writes, while it runs."""
    admin: Storing = request.getfixturevalue(runtime)
    admin.claim(name)
    admin.mounting(f"{name}-a", name, "until [ -e /data/b ]; do sleep 0.02; done; touch /data/a")
    admin.mounting(f"{name}-b", name, "touch /data/b; until [ -e /data/a ]; do sleep 0.02; done")
    assert {admin.finished(f"{name}-{pod}")["status"]["phase"] for pod in "ab"} == {"Succeeded"}


def test_a_claim_is_bound_to_a_volume(admin: Storing, name: str) -> None:
    """Its class is the default, its volume has its uid in the name, its status says what it got."""
    found = admin.claim(name)
    assert found["spec"]["storageClassName"] == "standard"
    assert found["spec"]["volumeName"] == f"pvc-{found['metadata']['uid']}"
    assert found["status"] == {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}


def test_a_claim_without_the_api(admin: Storing, name: str) -> None:
    """A test makes a claim, which is bound then, and looks into it by the cluster itself; without one no folder."""
    cluster = admin.cluster
    with pytest.raises(LookupError, match=name):
        cluster.claim_folder("ci", name)
    admin.claim(f"{name}-fast", storageClassName="fast")
    with pytest.raises(LookupError, match=f"{name}-fast"):
        cluster.claim_folder("ci", f"{name}-fast")
    for number in range(50):
        cluster.create_claim("ci", f"{name}-{number}")
        assert cluster.claim_folder("ci", f"{name}-{number}").is_dir()
    cluster.create_claim("ci", name, access_mode="ReadWriteMany")
    admin.mounting(name, name, "echo made > /data/file")
    assert admin.finished(name)["status"]["phase"] == "Succeeded"
    assert (cluster.claim_folder("ci", name) / "file").read_text() == "made\n"
    assert admin.http.get(f"{CLAIMS}/{name}").json()["status"]["accessModes"] == ["ReadWriteMany"]


def test_a_claim_that_nothing_provides(admin: Storing, name: str) -> None:
    """One of an unknown class stays Pending, and so does its pod, in the scheduler's words."""
    assert admin.claim(name, storageClassName="fast")["status"]["phase"] == "Pending"
    admin.mounting(name, name, "true")
    words = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"
    assert admin.waiting_for_a_node(name) == words


def test_a_claim_that_comes_later(admin: Storing, name: str) -> None:
    """A pod whose claim is not there waits for it, and runs once it is (recording unschedulable-claim)."""
    admin.mounting(name, name, "true")
    words = f'0/1 nodes are available: persistentvolumeclaim "{name}" not found. not found'
    assert admin.waiting_for_a_node(name) == words
    admin.claim(name)
    assert admin.finished(name)["status"]["phase"] == "Succeeded"


def test_a_claim_in_use_is_protected(admin: Storing, name: str) -> None:
    """Deleted, it stays as long as a pod on a node mounts it; new pods do not get it any more; then it goes."""
    admin.claim(name)
    admin.mounting(f"{name}-a", name, "sleep 600")
    admin.running(f"{name}-a")
    gone = admin.http.delete(f"{CLAIMS}/{name}").json()
    assert (gone["kind"], "deletionTimestamp" in gone["metadata"]) == ("PersistentVolumeClaim", True)
    admin.mounting(f"{name}-b", name, "true")
    assert f'persistentvolumeclaim "{name}" is being deleted' in admin.waiting_for_a_node(f"{name}-b")
    assert admin.http.get(f"{CLAIMS}/{name}").status_code == 200
    admin.delete(f"{name}-a", gracePeriodSeconds=0)
    admin.until(f"{name}-a", lambda _: admin.http.get(f"{CLAIMS}/{name}").status_code == 404)


@pytest.mark.bubblewrap
def test_a_claim_that_is_mounted_read_only(client: Client, admin: Storing, name: str) -> None:
    """`readOnly` of the volume counts for every mount of it."""
    assert client.cluster is admin.cluster
    admin.claim(name)
    admin.mounting(name, name, "touch /data/x", read_only=True)
    assert admin.finished(name)["status"]["phase"] == "Failed"
    assert "Read-only file system" in admin.log(name).text


def test_a_volume_of_another_node_is_waited_for(two: Storing, name: str) -> None:
    """ReadWriteOnce across two nodes: ContainerCreating and an Event, until the first pod has ended."""
    volume = two.claim(name)["spec"]["volumeName"]
    two.mounting(f"{name}-a", name, "sleep 600", nodeName="one")
    two.running(f"{name}-a")
    two.mounting(f"{name}-b", name, "true", nodeName="two")
    event = two.event(f"{name}-b", "FailedAttachVolume")
    assert event["message"] == f'Multi-Attach error for volume "{volume}" Volume is already used by pod(s) {name}-a'
    assert event["source"]["component"] == "attachdetach-controller"
    waiting = two.pod(f"{name}-b")
    assert waiting is not None
    assert waiting["status"]["phase"] == "Pending"
    assert state_of(waiting, "step") == {"waiting": {"reason": "ContainerCreating"}}
    two.delete(f"{name}-a", gracePeriodSeconds=0)
    assert two.finished(f"{name}-b")["status"]["phase"] == "Succeeded"


def test_a_volume_for_many_nodes(two: Storing, name: str) -> None:
    """ReadWriteMany is attached to both at once."""
    two.claim(name, "ReadWriteMany")
    two.mounting(f"{name}-a", name, "until [ -e /data/b ]; do sleep 0.02; done", nodeName="one")
    two.mounting(f"{name}-b", name, "touch /data/b", nodeName="two")
    assert {two.finished(f"{name}-{pod}")["status"]["phase"] for pod in "ab"} == {"Succeeded"}


@pytest.mark.parametrize("provided", [True, False], ids=["bound later", "never bound"])
def test_a_claim_that_comes_after_its_pods(two: Storing, name: str, *, provided: bool) -> None:
    """Two pods that are bound to nodes already: once it is there, one has it at a time; unbound, it is nobody's."""
    if not provided:
        two.claim(name, storageClassName="fast")
    script = "mkdir /data/held || exit 9; until [ -e /data/go ]; do sleep 0.02; done; rmdir /data/held"
    for node in ("one", "two"):
        two.mounting(f"{name}-{node}", name, script, nodeName=node)
    for node in ("one", "two"):
        two.event(f"{name}-{node}", "FailedMount")
    if provided:
        two.claim(name)
        two.until(
            f"{name}-one",
            lambda _: any(two.events(f"{name}-{node}", "FailedAttachVolume") for node in ("one", "two")),
        )
        (two.cluster.claim_folder("ci", name) / "go").touch()
        assert {two.finished(f"{name}-{node}")["status"]["phase"] for node in ("one", "two")} == {"Succeeded"}
    else:
        assert [two.cluster.starts("ci", f"{name}-{node}") for node in ("one", "two")] == [{}, {}]
        assert two.http.get("/api/v1/nodes").status_code == 200


def test_a_claim_goes_with_its_last_pod(fresh_storage: Storing, name: str) -> None:
    """Deleted while a process still had it, its folder is removed once that has ended, whatever else happens."""
    fresh_storage.claim(name)
    folder = fresh_storage.cluster.claim_folder("ci", name)
    fresh_storage.mounting(name, name, "trap '' TERM; echo up; sleep 600")
    fresh_storage.until(name, lambda found: found is not None and fresh_storage.log(name).text == "up\n")
    fresh_storage.delete(name, gracePeriodSeconds=0)
    fresh_storage.http.delete(f"{CLAIMS}/{name}")
    fresh_storage.until(name, lambda _: not folder.exists())


@pytest.mark.parametrize("given", [{}, {"storageClassName": None, "volumeMode": None}])
def test_a_claim_of_no_class(admin: Storing, name: str, given: dict[str, Any]) -> None:
    """Null is as nothing: the default class, and a file system; the class "" is one of its own, which nobody has."""
    found = admin.claim(name, **given)
    assert (found["spec"]["storageClassName"], found["spec"]["volumeMode"]) == ("standard", "Filesystem")
    assert found["status"]["phase"] == "Bound"
    assert admin.claim(f"{name}-x", storageClassName="")["status"]["phase"] == "Pending"


def test_a_claim_that_names_its_protection(admin: Storing, name: str) -> None:
    """The finalizer is there once, also where the client sent it: what was read can be created again."""
    protection = "kubernetes.io/pvc-protection"
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    meta = {"name": name, "finalizers": [protection]}
    created = admin.http.post(CLAIMS, json={"metadata": meta, "spec": spec}).json()
    assert created["metadata"]["finalizers"] == [protection]
    assert "deletionTimestamp" in admin.http.delete(f"{CLAIMS}/{name}").json()["metadata"]
    admin.until(name, lambda _: admin.http.get(f"{CLAIMS}/{name}").status_code == 404)


def test_a_waiting_pod_can_be_deleted(two: Storing, name: str) -> None:
    """While it waits for a volume of another node, too."""
    two.claim(name)
    two.mounting(f"{name}-a", name, "sleep 600", nodeName="one")
    two.running(f"{name}-a")
    two.mounting(f"{name}-b", name, "true", nodeName="two")
    two.event(f"{name}-b", "FailedAttachVolume")
    two.delete(f"{name}-b")
    two.until(f"{name}-b", lambda found: found is None)
