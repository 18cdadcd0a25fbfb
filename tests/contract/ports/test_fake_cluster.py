from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest

from senro.adapters.apiserver import watch_pod
from senro.domain.kube.exec_protocol import ExecFailure, ExecResult, ExitCode
from senro.domain.kube.pod import Pod
from senro.ports.cluster import Manifest
from tests.contract.ports.cluster_suite import ClusterSuite, Site
from tests.lib.fakes.clock import FakeClock
from tests.lib.fakes.cluster import FakeCluster, RemoteSide, ended, running, waiting

pytestmark = pytest.mark.anyio


def course(manifest: Manifest) -> Sequence[Mapping[str, Any]]:
    """The statuses that a kubelet would set for the commands of the suite."""
    if "initContainers" in manifest["spec"]:
        inits = [{"name": "first", "state": {"running": {}}}]
        return [waiting(), {**waiting("PodInitializing"), "initContainerStatuses": inits}]
    match manifest["spec"]["containers"][0]["command"]:
        case ["sh", "-c", "exit 3"]:
            return [waiting(), running(), ended(3)]
        case ["true"]:
            return [waiting(), ended()]
        case _:
            return [waiting(), running()]


class ScriptedCluster(FakeCluster):
    """Executes the commands of the suite, by their first word."""

    async def create_pod(self, manifest: Manifest) -> Pod:
        pod = await super().create_pod(manifest)
        script = manifest["spec"]["containers"][0]["command"][-1]
        if "line $n" in script:
            count = 6 if " 6;" in script else 3
            lines = [f"line {number}\n" for number in range(1, count + 1)] + ["end"] * ("end" in script)
            stamped = [f"2026-11-29T10:00:0{at}.123456789Z {line}" for at, line in enumerate(lines)]
            self.log(pod).add("".join(stamped).encode())
            self.log(pod).end()
        return pod

    async def carry_out(self, far: RemoteSide) -> ExecResult:
        match far.command:
            case ("true",):
                return ExitCode(0)
            case ("sh", "-c", "echo out; echo err >&2; exit 7"):
                await far.stdout(b"out\n")
                await far.stderr(b"err\n")
                return ExitCode(7)
            case ("sh", "-c", _, "sh", *words):
                await far.stdout("".join(f"<{word}>" for word in words).encode())
                return ExitCode(0)
            case ("cat", path):
                (secret,) = self.secrets.values()
                await far.stdout(secret["stringData"][path.rpartition("/")[2]].encode())
                return ExitCode(0)
            case ("head", "-c", size, _):
                for _ in range(int(size) // 65_536):
                    await far.stdout(bytes(65_536))
                return ExitCode(0)
            case ("cat",) | ("sh", "-c", "echo up; cat"):
                await far.stdout(b"up\n" if "sh" in far.command else b"")
                while data := await far.read():
                    await far.stdout(data)
                return ExitCode(0)
            case _:
                return ExecFailure("InternalError", "executable file not found in $PATH")


class TestFakeCluster(ClusterSuite):
    """The fake passes everything that needs no kubelet.

    It has no idle timeout of an exec, which the transport has, and no messages of a runtime about an ended container.
    """

    test_idle_exec_breaks = None  # type: ignore[assignment]  # see the class
    test_exec_in_an_ended_container = None  # type: ignore[assignment]  # see the class

    @pytest.fixture
    async def site(self) -> AsyncIterator[Site]:
        clock = FakeClock(auto=True)
        cluster = ScriptedCluster(clock, course=course)
        cluster.command = cluster.carry_out
        count = itertools.count(1)
        yield Site(
            cluster=cluster,
            namespace="ci",
            image="image",
            unique=lambda: f"suite-{next(count)}",
            watch=lambda pod: watch_pod(cluster, pod.namespace, pod.name, uid=pod.uid, clock=clock),
        )
        assert cluster.open_streams == 0
