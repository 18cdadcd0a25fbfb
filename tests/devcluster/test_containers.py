"""What a container of the embedded cluster sees, in both modes, and that nothing of it stays."""

from __future__ import annotations

import copy
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from senro.devcluster import IMAGE, DevCluster, DevClusterThread
from senro.devcluster.containers.memory import own_folders
from tests.lib.harness.devcluster import Client, Object, pod_manifest, state_of

WORKSPACE = {
    "volumes": [{"name": "w", "emptyDir": {}}],
    "step": {"volumeMounts": [{"name": "w", "mountPath": "/senro/ws/0"}], "workingDir": "/senro/ws/0"},
}


def spec(**more: object) -> Object:
    """A fresh copy of the workspace's spec."""
    return {**copy.deepcopy(WORKSPACE), **more}


@pytest.fixture(params=["best", "mapped"])
def either(request: pytest.FixtureRequest) -> Client:
    """The client of the best mode that runs here, and of the mapped one."""
    client: Client = request.getfixturevalue("client" if request.param == "best" else "mapped")
    return client


def test_the_environment_is_never_the_coordinators(either: Client, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PATH, HOSTNAME, HOME, KUBERNETES_* and what the pod says; nothing of this process."""
    monkeypatch.setenv("SENRO_K8S_TOKEN", "never")
    monkeypatch.setenv("SOMETHING_OF_THE_HOST", "never")
    name = f"{name[:50]}-{either.cluster.mode[:4]}"
    either.create(pod_manifest(name, ["env"], step={"env": [{"name": "A", "value": "b$$c"}]}))
    either.finished(name)
    found = dict(line.split("=", 1) for line in either.log(name).text.splitlines())
    assert (found.pop("A"), found.pop("HOSTNAME")) == ("b$c", name)
    assert {key for key in found if not key.startswith("KUBERNETES_")} - {"PWD", "_", "SHLVL"} == {"PATH", "HOME"}


def test_containers_of_a_pod_share_a_volume(either: Client, name: str) -> None:
    """What an exec writes in one, the other reads at its own mount path; a fifo works across."""
    name = f"{name}-{either.cluster.mode[:4]}"
    reader = {
        "name": "senro-io",
        "image": IMAGE,
        "command": ["sh", "-c", "until [ -p /other/go ]; do sleep 0.02; done; read word < /other/go; echo got $word"],
        "volumeMounts": [{"name": "w", "mountPath": "/other", "readOnly": True}],
    }
    either.create(pod_manifest(name, ["sleep", "60"], **spec(more=[reader])))
    either.running(name)
    result = either.run(name, ["sh", "-c", "mkfifo /senro/ws/0/go && echo hello > /senro/ws/0/go"])
    assert result.exit_code == 0
    either.until(name, lambda pod: pod is not None and "terminated" in state_of(pod, "senro-io"))
    assert either.log(name, "senro-io").text == "got hello\n"
    either.delete(name, gracePeriodSeconds=0)


def test_secret_files_have_their_modes(either: Client, name: str) -> None:
    """defaultMode, and an item with a path and mode of its own."""
    name = f"{name}-{either.cluster.mode[:4]}"
    secret = {"metadata": {"name": name}, "stringData": {"a": "1", "b": "2"}}
    either.http.post("/api/v1/namespaces/ci/secrets", json=secret)
    items = [{"key": "a", "path": "a"}, {"key": "b", "path": "deep/b", "mode": 0o600}]
    volumes = [{"name": "s", "secret": {"secretName": name, "defaultMode": 0o400, "items": items}}]
    mounts = [{"name": "s", "mountPath": "/run/senro/secrets", "readOnly": True}]
    script = "cd /run/senro/secrets; cat a deep/b; stat -c ' %a' a deep/b"
    either.create(pod_manifest(name, ["sh", "-c", script], volumes=volumes, step={"volumeMounts": mounts}))
    either.finished(name)
    assert either.log(name).text == "12 400\n 600\n"


@pytest.mark.bubblewrap
def test_a_container_is_alone(client: Client, name: str) -> None:
    """It is process 1, sees neither the cluster's folder nor the host's /tmp, and its root is its own to write."""
    script = (
        f"echo $$$$; test -e {client.cluster.folder} || echo hidden; ls /tmp | wc -l; echo x > /made && cat /made;"
        " touch /usr/x 2>/dev/null || echo read-only; touch ~/.made && echo home"
    )
    client.create(pod_manifest(name, ["sh", "-c", script]))
    client.finished(name)
    assert client.log(name).text.split() == ["1", "hidden", "0", "x", "read-only", "home"]


@pytest.mark.bubblewrap
def test_pid_1_ignores_a_signal_without_a_handler(client: Client, name: str) -> None:
    """As in a real pod: sleep as process 1 does not end by TERM, and is killed after the grace."""
    client.create(pod_manifest(name, ["sleep", "60"]))
    client.running(name)
    client.delete(name, gracePeriodSeconds=1)
    client.until(name, lambda pod: pod is None)
    final = client.cluster.states("ci", name)[-1]
    assert state_of(final, "step")["terminated"]["exitCode"] == 137


@pytest.mark.bubblewrap
@pytest.mark.parametrize("mount", ["/usr/local/some/where", "/srv/x", "/var/run/x", "/senro/ws/0", "/tmp/w", "/opt"])
def test_a_volume_may_be_mounted_anywhere(client: Client, name: str, mount: str) -> None:
    """Below read-only folders of the host, over existing ones, behind symbolic links; the neighbours stay."""
    name = name[:40].strip("-") + mount.replace("/", "-")
    step = {"volumeMounts": [{"name": "w", "mountPath": mount}], "workingDir": f"{mount}/deep"}
    script = f"echo made > {mount}/file && cat {mount}/file && pwd && ls /usr/bin/env"
    client.create(pod_manifest(name, ["sh", "-c", script], volumes=[{"name": "w", "emptyDir": {}}], step=step))
    client.finished(name)
    lines = client.log(name).text.splitlines()
    assert (lines[0], Path(lines[1]).name, lines[2]) == ("made", "deep", "/usr/bin/env")


@pytest.mark.bubblewrap
def test_another_user_and_a_read_only_root(client: Client, name: str) -> None:
    """RunAsUser is who the command is, its volume is writable, the root is not, in an exec as well."""
    context = {"runAsUser": 1000, "runAsGroup": 1000, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    manifest = spec()
    manifest["step"]["securityContext"] = context
    script = "id -u; id -g; touch here && echo writable; touch /there 2>/dev/null || echo read-only; sleep 60"
    client.create(pod_manifest(name, ["sh", "-c", script], **manifest))
    client.running(name)
    wait = "until [ -e /senro/ws/0/here ]; do sleep 0.02; done"
    result = client.run(name, ["sh", "-c", f"{wait}; id -u; ls /senro/ws/0; touch /senro/ws/0/too && echo yes"])
    assert result.channel(1) == b"1000\nhere\nyes\n"
    client.delete(name, gracePeriodSeconds=0)


@pytest.mark.bubblewrap
def test_a_mount_below_a_file_is_a_start_error(client: Client, name: str) -> None:
    """create-container-error: StartError 128, `error mounting`, nothing of the command was tried."""
    step = {"volumeMounts": [{"name": "v", "mountPath": "/etc/hostname/x"}]}
    client.create(pod_manifest(name, ["true"], volumes=[{"name": "v", "emptyDir": {}}], step=step))
    terminated = state_of(client.finished(name), "step")["terminated"]
    assert (terminated["reason"], terminated["exitCode"]) == ("StartError", 128)
    assert 'error mounting "' in terminated["message"]
    assert client.cluster.starts("ci", name) == {}


@pytest.mark.bubblewrap
def test_what_is_no_program_is_a_start_error(client: Client, name: str) -> None:
    """A file without the bit, a folder, a text without an interpreter's line."""
    for number, (command, words) in enumerate(
        [(["/etc/passwd"], "permission denied"), (["/etc"], "is a directory"), (["nothing"], "not found in $PATH")]
    ):
        pod = f"{name}-{number}"
        client.create(pod_manifest(pod, command))
        assert words in state_of(client.finished(pod), "step")["terminated"]["message"]


def test_mapped_paths_stand_in_every_text(mapped: Client, name: str) -> None:
    """Command, arguments, environment and working directory; names that only begin alike are left alone."""
    manifest = spec()
    manifest["step"]["env"] = [{"name": "WHERE", "value": "/senro/ws/0/file:/senro/ws/01"}]
    script = "echo x > /senro/ws/0/file; cat file $(echo $WHERE | cut -d: -f1); echo $WHERE | cut -d: -f2; pwd"
    mapped.create(pod_manifest(name, ["sh", "-c", script.replace("$", "$$")], **manifest))
    mapped.finished(name)
    lines = mapped.log(name).text.splitlines()
    assert lines[:2] == ["x", "x"]
    # A name that only begins like a mount's is another one below the same folder.
    assert lines[2].endswith("/shared/senro/ws/01")
    assert lines[3].endswith("/shared/senro/ws/0")


def test_the_mode_says_why(cluster: DevCluster, mapped_cluster: DevCluster) -> None:
    """A word and a sentence."""
    assert cluster.mode in {"bubblewrap", "mapped"}
    assert (mapped_cluster.mode, mapped_cluster.mode_reason.split(";")[0]) == (
        "mapped",
        "SENRO_DEVCLUSTER_MODE is mapped",
    )


def test_a_mode_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable's two words, or an error that names them."""
    monkeypatch.setenv("SENRO_DEVCLUSTER_MODE", "docker")
    with pytest.raises(ValueError, match="may be 'mapped' or 'bubblewrap'"), DevClusterThread():
        pass


def marked(word: str) -> list[int]:
    """Processes of this machine whose command line holds that word."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if word.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


@pytest.mark.parametrize("mode", ["", "mapped"])
def test_nothing_is_left_behind(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """When the block ends, running pods, execs, children in the background and the folder are gone."""
    monkeypatch.setenv("SENRO_DEVCLUSTER_MODE", mode)
    word = f"31{os.getpid()}.{len(mode)}"
    with DevClusterThread() as cluster:
        client = Client(cluster)
        client.create(pod_manifest("left", ["sh", "-c", f"trap '' TERM; sleep {word} & sleep {word}"]))
        client.running("left")
        with client.exec("left", ["sh", "-c", f"sleep {word} & echo up; sleep {word}"]) as session:
            assert session.frame() == (2, b"\x01")
            assert session.frame() == (2, b"\x01up\n")
        assert marked(word)
        folder = cluster.folder
        client.close()
    assert marked(word) == []
    assert not folder.exists()


async def leave_by_cancelling(word: str) -> Path:
    with anyio.CancelScope() as scope:
        async with DevCluster() as cluster:
            client = Client(cluster)
            await anyio.to_thread.run_sync(
                lambda: (client.create(pod_manifest("left", ["sleep", word])), client.running("left"))
            )
            client.close()
            scope.cancel()
            await anyio.sleep_forever()
    return cluster.folder


def test_nothing_is_left_behind_by_a_cancellation() -> None:
    """The same when the block is cancelled."""
    word = f"32{os.getpid()}"
    folder = anyio.run(leave_by_cancelling, word)
    assert marked(word) == []
    assert not folder.exists()


@pytest.fixture(params=["", "mapped"])
def server(request: pytest.FixtureRequest) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """A cluster in a process of its own, as the command line serves it."""
    script = (
        "from senro.devcluster import serve\n"
        "def announce(cluster):\n"
        "    print(cluster.folder, cluster.port, *cluster.environment().values(), flush=True)\n"
        "serve(0, announce)\n"
    )
    environment = {**os.environ, "SENRO_DEVCLUSTER_MODE": request.param}
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    words = process.stdout.readline().split()
    yield process, dict(zip(("folder", "port", "server", "ca", "token"), words, strict=True))
    process.kill()
    process.wait()
    process.stdout.close()


class Served:
    """As much of a DevCluster as a client needs, for one in another process."""

    def __init__(self, words: dict[str, str]) -> None:
        self.server, self.port = words["server"], int(words["port"])
        self._environment = {"SENRO_K8S_CA_FILE": words["ca"], "SENRO_K8S_TOKEN_FILE": words["token"]}

    version = 0

    def environment(self) -> dict[str, str]:
        return self._environment

    def changed_since(self, version: int, *, within: float) -> bool:
        """Wait: a change in another process is not announced here."""
        del version
        return threading.Event().wait(within)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_behind_by_a_signal(
    server: tuple[subprocess.Popen[str], dict[str, str]], number: signal.Signals
) -> None:
    """TERM and INT end the server with 0; even after KILL its pods and its folder go away."""
    process, words = server
    word = f"33{process.pid}"
    client = Client(Served(words))  # type: ignore[arg-type]  # what a client needs of one
    limited = {"resources": {"limits": {"memory": "256Mi"}}}
    client.create(pod_manifest("left", ["sh", "-c", f"sleep {word} & sleep {word}"], step=limited))
    client.running("left")
    client.close()
    assert marked(word)
    cgroups = [parent / Path(words["folder"]).name for parent in own_folders()]
    process.send_signal(number)
    assert process.wait(10) == (-9 if number is signal.SIGKILL else 0)
    # Its end of file is what the watchman sees; it is soon, and the suite's own time limit is the bound.
    while marked(word) or Path(words["folder"]).exists() or any(cgroup.exists() for cgroup in cgroups):
        os.sched_yield()


@pytest.mark.bubblewrap
@pytest.mark.parametrize(
    ("capabilities", "held"),
    [({}, True), ({"drop": ["ALL"]}, False), ({"drop": ["ALL"], "add": ["DAC_OVERRIDE", "FOWNER"]}, True)],
)
def test_capabilities_are_what_was_asked_for(client: Client, name: str, capabilities: Object, *, held: bool) -> None:
    """Root without DAC_OVERRIDE cannot read what has no read bit, in the container and in an exec."""
    manifest = spec()
    manifest["step"]["securityContext"] = {"capabilities": capabilities}
    script = "echo secret > f; chmod 000 f; cat f 2>/dev/null || echo denied; sleep 60"
    client.create(pod_manifest(name, ["sh", "-c", script], **manifest))
    client.running(name)
    wanted = "secret" if held else "denied"
    with client.http.stream("GET", f"/api/v1/namespaces/ci/pods/{name}/log?follow=true") as log:
        assert next(log.iter_lines()) == wanted
    result = client.run(name, ["sh", "-c", "cat /senro/ws/0/f 2>/dev/null || echo denied"])
    assert result.channel(1).decode().strip() == wanted
    client.delete(name, gracePeriodSeconds=0)


def test_a_mapped_container_finds_its_volumes_below_a_folder(mapped: Client, name: str) -> None:
    """What stands above a mount path is a folder too, in every container of the pod, and holds the volume itself."""
    volumes = [{"name": "ws-0", "emptyDir": {}}]
    stage = {
        "name": "senro-stage",
        "image": IMAGE,
        "command": ["sh", "-c", "cd /senro/ws && echo in > 0/file && tar -cf - 0 | tar -tf - | sort"],
        "volumeMounts": [{"name": "ws-0", "mountPath": "/senro/ws/0"}],
    }
    step = {"volumeMounts": [{"name": "ws-0", "mountPath": "/project"}]}
    command = ["sh", "-c", "cd /project && cat file && cat /project/file"]
    mapped.create(pod_manifest(name, command, volumes=volumes, initContainers=[stage], step=step))
    mapped.finished(name)
    assert mapped.log(name, "senro-stage").text == "0/\n0/file\n"
    assert mapped.log(name).text == "in\nin\n"


def test_a_mapped_container_is_held_to_its_memory_limit(mapped: Client, name: str) -> None:
    """Without a cgroup its resident memory is watched: the process that grew is killed, and the reason says so."""
    grow = "import time; kept = bytearray(200 * 2**20); time.sleep(60)"
    step = {"resources": {"limits": {"memory": "64Mi"}}}
    mapped.create(pod_manifest(name, ["python3", "-c", grow], step=step))
    ended = state_of(mapped.finished(name), "step")["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)
