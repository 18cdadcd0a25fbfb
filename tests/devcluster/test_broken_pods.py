"""What goes wrong with one pod, or with one request, is the affair of that one alone: the cluster lives on."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import anyio
import httpx
import pytest

from senro.devcluster import DevCluster, DevClusterThread
from senro.devcluster.apiserver.certificates import serving_context, write_serving_files
from senro.devcluster.apiserver.http import Request, Response
from senro.devcluster.apiserver.serving import listen, serve
from tests.lib.harness.devcluster import Client, pod_manifest, state_of

LOGGER = "senro.devcluster"


@pytest.fixture
def own() -> Iterator[DevCluster]:
    """A cluster of the test's own, whose folders it may spoil."""
    with DevClusterThread() as running:
        yield running


@pytest.fixture
def client(own: DevCluster) -> Iterator[Client]:
    client = Client(own)
    yield client
    client.close()


def assert_lives(client: Client) -> None:
    client.create(pod_manifest("after", ["true"]))
    assert client.finished("after")["status"]["phase"] == "Succeeded"


def test_an_error_of_the_kubelets_own_before_a_start(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    """The pod is Failed as one that its kubelet does not take; it is logged whole, and the pod can be deleted."""
    folder = client.cluster.folder / "pods"
    folder.write_text("in the way")
    client.create(pod_manifest("broken", ["true"]))
    status = client.finished("broken")["status"]
    folder.unlink()
    assert (status["phase"], status["reason"]) == ("Failed", "UnexpectedAdmissionError")
    assert status["message"].startswith("Pod was rejected: the embedded cluster failed: NotADirectoryError: ")
    assert "containerStatuses" not in status
    assert [record.getMessage() for record in caplog.records if record.name == LOGGER] == ["pod ci/broken failed"]
    assert caplog.records[0].exc_info
    assert client.cluster.starts("ci", "broken") == {}
    client.delete("broken")
    assert client.pod("broken") is None
    assert_lives(client)


def spoil(client: Client) -> None:
    """A pod whose init container has run when its kubelet fails."""
    first = {**pod_manifest("x", ["sh", "-c", "until test -e /data/go; do sleep 0.02; done"])["spec"]["containers"][0]}
    mounts = {"volumeMounts": [{"name": "v", "mountPath": "/data"}]}
    manifest = pod_manifest(
        "broken",
        ["true"],
        initContainers=[{**first, **mounts, "name": "first"}],
        volumes=[{"name": "v", "emptyDir": {}}],
    )
    uid = client.create(manifest)["metadata"]["uid"]
    client.running("broken", "first")
    (client.cluster.folder / "pods" / uid / "containers" / "step").write_text("in the way")
    client.run("broken", ["touch", "/data/go"], container="first")


def test_an_error_of_the_kubelets_own_after_a_start(client: Client) -> None:
    """What has run is not denied: its statuses stay, and what never started ends unknown."""
    spoil(client)
    pod = client.finished("broken")
    assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", "InternalError")
    assert pod["status"]["message"].startswith("the embedded cluster failed: FileExistsError: ")
    assert state_of(pod, "first")["terminated"]["exitCode"] == 0
    assert state_of(pod, "step")["terminated"]["reason"] == "ContainerStatusUnknown"
    client.delete("broken")
    assert client.pod("broken") is None
    assert_lives(client)


@pytest.mark.anyio
async def test_an_error_of_one_connections_own(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The client is cut off and the log says why; the next one is served."""
    files = write_serving_files(tmp_path)
    answers: list[RuntimeError | Response] = [RuntimeError("odd"), Response(200, (), b"fine")]

    async def handle(_request: Request) -> Response:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    listener, port = await listen(0)
    trusted = ssl.create_default_context(cafile=files.authority)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve, listener, serving_context(files), handle, lambda: True, tasks)
        async with httpx.AsyncClient(base_url=f"https://127.0.0.1:{port}", verify=trusted, trust_env=False) as http:
            with pytest.raises(httpx.RemoteProtocolError):
                await http.get("/version")
            assert (await http.get("/version")).text == "fine"
        tasks.cancel_scope.cancel()
    assert [record.getMessage() for record in caplog.records if record.name == LOGGER] == ["a connection failed"]
