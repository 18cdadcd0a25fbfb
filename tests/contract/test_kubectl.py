"""kubectl on the embedded cluster."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from senro.devcluster import IMAGE, DevCluster, DevClusterThread
from senro.devcluster.apiserver.access import Identity
from tests.lib.harness.devcluster import Client, pod_manifest

KUBECTL = Path(sys.executable).with_name("kubectl")
LABEL = "senro.dev/managed=true"
ROLE = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: ci}
rules:
- {apiGroups: [""], resources: [pods], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: ci}
subjects:
- {kind: User, name: ada, apiGroup: rbac.authorization.k8s.io}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
"""
AUDITOR = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: auditor}
rules:
- {apiGroups: [""], resources: [pods], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: auditor}
subjects:
- {kind: Group, name: auditors, apiGroup: rbac.authorization.k8s.io}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: auditor}
"""


@dataclass
class Kubectl:
    """Runs kubectl with the administrator's kubeconfig, in the namespace ci."""

    cluster: DevCluster
    folder: Path

    def argv(self, *words: str) -> list[str]:
        configuration = ["--kubeconfig", str(self.cluster.kubeconfig()), "--cache-dir", str(self.folder / "cache")]
        return [str(KUBECTL), *configuration, "--namespace", "ci", *words]

    def run(self, *words: str, code: int = 0, stdin: bytes | None = None) -> str:
        """Runs kubectl to its end and returns its stdout. Fails with all output for an exit code other than `code`."""
        done = subprocess.run(self.argv(*words), input=stdin, capture_output=True, timeout=60, check=False)
        assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        self.stderr = done.stderr.decode()
        return done.stdout.decode()

    def json(self, *words: str) -> Any:
        return json.loads(self.run(*words, "-o", "json"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    with DevClusterThread(namespaces=("ci",)) as running:
        yield running


@pytest.fixture
def kubectl(cluster: DevCluster, tmp_path: Path) -> Kubectl:
    return Kubectl(cluster, tmp_path)


@pytest.fixture
def client(cluster: DevCluster) -> Iterator[Client]:
    client = Client(cluster)
    yield client
    client.close()


@pytest.fixture
def pod(client: Client, request: pytest.FixtureRequest) -> Iterator[str]:
    """A running pod with the name of the test."""
    name = request.node.name.removeprefix("test_").replace("_", "-")
    client.create(pod_manifest(name, ["sh", "-c", "echo one; echo two >&2; trap 'exit 0' TERM; sleep 60 & wait"]))
    client.running(name)
    yield name
    client.delete(name, gracePeriodSeconds=0)


def test_get_as_a_table(kubectl: Kubectl, client: Client, pod: str) -> None:
    """`kubectl get pods,secrets,leases -l` shows each kind with the server's columns."""
    meta = {"namespace": "ci", "name": pod, "labels": {"senro.dev/managed": "true"}}
    assert client.http.post("/api/v1/namespaces/ci/secrets", json={"metadata": meta, "data": {"k": "eA=="}}).is_success
    lease = {"metadata": meta, "spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 5}}
    assert client.http.post("/apis/coordination.k8s.io/v1/namespaces/ci/leases", json=lease).is_success
    table = [line.split() for line in kubectl.run("get", "pods,secrets,leases", "-l", LABEL).splitlines() if line]
    assert ["NAME", "READY", "STATUS", "RESTARTS", "AGE"] in table
    assert [f"pod/{pod}", "1/1", "Running", "0"] in [row[:4] for row in table]
    assert [f"secret/{pod}", "Opaque", "1"] in [row[:3] for row in table]
    assert [f"lease.coordination.k8s.io/{pod}", "somebody"] in [row[:2] for row in table]
    assert kubectl.run("get", "pods", "-l", "senro.dev/managed=false") == ""
    client.http.delete(f"/api/v1/namespaces/ci/secrets/{pod}")
    client.http.delete(f"/apis/coordination.k8s.io/v1/namespaces/ci/leases/{pod}")


def test_get_as_documents(kubectl: Kubectl, pod: str) -> None:
    """`-o json` and `-o yaml` print the objects; a name, a jsonpath and all namespaces work too."""
    found = kubectl.json("get", "pods", "-l", LABEL)
    assert [item["metadata"]["name"] for item in found["items"]] == [pod]
    assert f"  name: {pod}\n" in kubectl.run("get", "pod", pod, "-o", "yaml")
    assert kubectl.run("get", "pod", pod, "-o", "jsonpath={.status.phase}") == "Running"
    assert pod in kubectl.run("get", "pods", "-A", "-o", "wide")


def test_get_and_watch(kubectl: Kubectl, client: Client, pod: str) -> None:
    """`kubectl get -w` prints the states of a pod as they occur, one line each."""
    # A watch of a list starts at its resourceVersion; that of one pod about now, perhaps after the deletion.
    with subprocess.Popen(
        kubectl.argv("get", "pods", "-l", LABEL, "-w"), stdout=subprocess.PIPE, text=True
    ) as watching:
        assert watching.stdout is not None
        lines = [watching.stdout.readline().split() for _ in range(2)]
        assert [line[:3] for line in lines] == [["NAME", "READY", "STATUS"], [pod, "1/1", "Running"]]
        client.delete(pod, gracePeriodSeconds=5)
        assert watching.stdout.readline().split()[:3] == [pod, "1/1", "Terminating"]
        watching.terminate()


def test_describe_a_pod(kubectl: Kubectl, pod: str) -> None:
    """`kubectl describe pod` shows its command, its conditions and its Events."""
    told = kubectl.run("describe", "pod", pod)
    assert IMAGE in told
    assert "Ready                       True" in told
    assert "Successfully assigned ci/" in told


def test_logs(kubectl: Kubectl, client: Client) -> None:
    """`kubectl logs -f --timestamps` follows the log to the end of the pod."""
    client.create(pod_manifest("logs", ["sh", "-c", "echo one; sleep 0.3; echo two"]))
    client.running("logs")
    lines = kubectl.run("logs", "-f", "--timestamps", "logs").splitlines()
    assert [line.split(" ", 1)[1] for line in lines] == ["one", "two"]
    assert kubectl.run("logs", "--tail=1", "logs") == "two\n"


def test_exec(kubectl: Kubectl, pod: str) -> None:
    """`kubectl exec` passes stdin, stdout, stderr and the command's exit code."""
    assert kubectl.run("exec", pod, "--", "sh", "-c", "echo out; echo err >&2; exit 7", code=7) == "out\n"
    assert "err\n" in kubectl.stderr
    data = os.urandom(300_000)
    told = subprocess.run(
        kubectl.argv("exec", "-i", pod, "--", "cat"), input=data, capture_output=True, timeout=60, check=True
    )
    assert told.stdout == data


@pytest.mark.bubblewrap
def test_exec_on_a_terminal(kubectl: Kubectl, cluster: DevCluster, pod: str) -> None:
    """`kubectl exec -it` gives the command a terminal with the size of the local one, and updates the size."""
    if cluster.mode != "bubblewrap":
        pytest.skip(f"bubblewrap cannot run: {cluster.mode_reason}")
    ours, theirs = pty.openpty()
    until = 'until [ "$(stty size)" = "{}" ]; do sleep 0.02; done; echo is {}; '
    script = f"test -t 0 || exit 1; {until.format('33 77', 'first')}{until.format('40 100', 'second')}exit 4"
    try:
        termios.tcsetwinsize(theirs, (33, 77))
        with subprocess.Popen(
            kubectl.argv("exec", "-it", pod, "--", "sh", "-c", script), stdin=theirs, stdout=theirs, stderr=theirs
        ) as running:
            shown = b""
            while b"is first" not in shown:
                shown += os.read(ours, 65_536)
            termios.tcsetwinsize(theirs, (40, 100))
            # The signal that the kernel sends to a process on its controlling terminal; here the test has the terminal.
            running.send_signal(signal.SIGWINCH)
            while b"is second" not in shown:
                shown += os.read(ours, 65_536)
            assert running.wait(timeout=30) == 4
    finally:
        os.close(theirs)
        os.close(ours)


@pytest.mark.bubblewrap
def test_cp(kubectl: Kubectl, cluster: DevCluster, pod: str, tmp_path: Path) -> None:
    """`kubectl cp` copies a folder into the pod and back."""
    if cluster.mode != "bubblewrap":
        pytest.skip(f"bubblewrap cannot run: {cluster.mode_reason}")
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.txt").write_text("some data")
    (source / "b.bin").write_bytes(os.urandom(200_000))
    kubectl.run("cp", str(source), f"ci/{pod}:/tmp/there")
    assert kubectl.run("exec", pod, "--", "cat", "/tmp/there/a.txt") == "some data"
    kubectl.run("cp", f"ci/{pod}:/tmp/there", str(tmp_path / "back"))
    assert (tmp_path / "back" / "b.bin").read_bytes() == (source / "b.bin").read_bytes()


def test_create_a_role(kubectl: Kubectl, cluster: DevCluster) -> None:
    """`kubectl create -f` of a Role and its binding grants access; `delete` removes it."""
    cluster.access.add_token("ada", Identity("ada", ("system:authenticated",)))
    may = ("auth", "can-i", "list", "pods", "--token", "ada")
    kubectl.run("create", "-f", "-", stdin=ROLE.encode())
    assert kubectl.run(*may) == "yes\n"
    kubectl.run("delete", "role/reader", "rolebinding/reader")


def test_a_misspelt_field_is_refused(kubectl: Kubectl) -> None:
    """`kubectl create` has the server check the fields, and prints what it refuses."""
    manifest = pod_manifest("typing-error", ["true"])
    manifest["spec"]["containers"][0]["comand"] = ["x"]
    kubectl.run("create", "-f", "-", stdin=json.dumps(manifest).encode(), code=1)
    assert 'unknown field "spec.containers[0].comand"' in kubectl.stderr


def test_can_i(kubectl: Kubectl, cluster: DevCluster) -> None:
    """`kubectl auth can-i` answers yes and no."""
    token = ["--token", cluster.access.runner_token]
    assert kubectl.run("auth", "can-i", "create", "pods", *token) == "yes\n"
    assert kubectl.run("auth", "can-i", "list", "pods", *token, code=1) == "no\n"


def test_a_client_certificate(kubectl: Kubectl, cluster: DevCluster) -> None:
    """A certificate's CN is the user and its O are the groups, which a ClusterRoleBinding may name."""
    certificate, key = cluster.client_certificate("grace", ["auditors"])
    as_grace = [
        *("--kubeconfig", "/dev/null", "--server", cluster.server),
        *("--certificate-authority", cluster.environment()["SENRO_K8S_CA_FILE"]),
        *("--client-certificate", str(certificate), "--client-key", str(key)),
    ]
    assert kubectl.run("get", "pods", "-n", "ci", *as_grace, code=1) == ""
    assert 'User "grace" cannot list resource "pods"' in kubectl.stderr
    kubectl.run("create", "-f", "-", stdin=AUDITOR.encode())
    kubectl.run("get", "pods", "-n", "ci", *as_grace)
    kubectl.run("delete", "clusterrole/auditor", "clusterrolebinding/auditor")


def test_delete(kubectl: Kubectl, client: Client, pod: str) -> None:
    """`kubectl delete` waits until the pod is gone."""
    assert kubectl.run("delete", "pod", pod, "--grace-period=5") == f'pod "{pod}" deleted from ci namespace\n'
    assert client.pod(pod) is None


def test_namespaces(kubectl: Kubectl) -> None:
    """A namespace is created with its default ServiceAccount, and deleted with all its objects."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "short-lived"}}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "short-lived"}}
    for document in (namespace, secret):
        kubectl.run("create", "-f", "-", "-n", "short-lived", stdin=json.dumps(document).encode())
    assert "default" in kubectl.run("get", "serviceaccounts", "-n", "short-lived")
    kubectl.run("delete", "namespace", "short-lived", "--timeout=20s")
    assert kubectl.run("get", "namespaces", "-o", "name").split() == [
        "namespace/ci",
        "namespace/default",
        "namespace/kube-system",
    ]
