"""The conformance suite of `senro.ports.cluster`, for an adapter with some cluster, and for a fake.

A subclass has the fixture `site`: a cluster to use, a namespace in it, and an image with sh, cat, head and sleep.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest

from senro.domain.claims.lease import Terms
from senro.domain.errors import AlreadyExists, ClusterError, Conflict, Forbidden, NotFound, Rejected, StreamBroken
from senro.domain.kube.exec_protocol import Ended, ExecFailure, ExecResult, ExitCode, StatusLost, Stderr, Stdout
from senro.domain.kube.pod import Pod
from senro.domain.manifests.identity import AttemptIdentity
from senro.domain.text.kubelet_log import LogLine, LogLines
from senro.ports.cluster import Cluster, ExecSession
from senro.ports.pod_watch import PodWatch

pytestmark = pytest.mark.anyio

PATIENCE = 60.0
"""The bound in seconds of every step of a test; a real cluster may have to pull an image."""


@dataclass(frozen=True)
class Site:
    """The cluster, the namespace and the image of the suite. `unique` returns an unused name; `watch` watches a pod."""

    cluster: Cluster
    namespace: str
    image: str
    unique: Callable[[], str]
    watch: Callable[[Pod], PodWatch]

    def pod(self, *command: str, volumes: Mapping[str, str] | None = None, **spec: Any) -> dict[str, Any]:
        """A pod with one container, `step`; `volumes` maps mount paths to Secrets."""
        secrets = list((volumes or {}).items())
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": self.unique(),
                "namespace": self.namespace,
                "labels": {"senro.dev/managed": "true"},
                "annotations": {"senro.dev/attempt-uid": "nonce"},
            },
            "spec": {
                "restartPolicy": "Never",
                "automountServiceAccountToken": False,
                "terminationGracePeriodSeconds": 1,
                "volumes": [{"name": f"v{n}", "secret": {"secretName": name}} for n, (_, name) in enumerate(secrets)],
                "containers": [
                    {
                        "name": "step",
                        "image": self.image,
                        "command": list(command),
                        "volumeMounts": [
                            {"name": f"v{n}", "mountPath": path, "readOnly": True}
                            for n, (path, _) in enumerate(secrets)
                        ],
                    }
                ],
                **spec,
            },
        }

    def secret(self, **data: str) -> dict[str, Any]:
        """A Secret with text values."""
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "immutable": True,
            "metadata": {"name": self.unique(), "namespace": self.namespace},
            "stringData": data,
        }

    @asynccontextmanager
    async def running(self, *command: str, **more: Any) -> AsyncIterator[Pod]:
        """A pod whose container runs; it is deleted at the end."""
        pod = await self.cluster.create_pod(self.pod(*command, **more))
        try:
            yield await self.until(pod, lambda seen: state_of(seen) == "running")
        finally:
            with anyio.move_on_after(PATIENCE, shield=True):
                await self.cluster.delete_pod(self.namespace, pod.name, uid=pod.uid, grace_seconds=0)
                await self.until_gone(pod)

    async def until(self, pod: Pod, wanted: Callable[[Pod], bool]) -> Pod:
        """Watch the pod until `wanted` holds."""
        watch = self.watch(pod)
        with anyio.fail_after(PATIENCE):
            while True:
                seen = await watch.next()
                assert seen is not None, "the pod vanished"
                if wanted(seen):
                    return seen

    async def until_gone(self, pod: Pod) -> None:
        """Read the pod until the answer is 404 or another pod. A watch would wait until the 404s are a proof."""
        with anyio.fail_after(PATIENCE):
            while True:
                found = await self.cluster.read_pod(self.namespace, pod.name)
                if found is None or found.uid != pod.uid:
                    return
                await anyio.sleep(0.05)


def state_of(pod: Pod) -> str:
    """Returns the state of the container `step`."""
    status = pod.container("step")
    if status is None:
        return "unknown"
    state = status.state
    return "running" if state.running else "terminated" if state.terminated else "waiting"


async def drain(session: ExecSession) -> tuple[bytes, bytes, ExecResult]:
    """Returns stdout, stderr and the end of an exec."""
    out, err = b"", b""
    while True:
        event = await session.receive()
        match event:
            case Stdout(data):
                out += data
            case Stderr(data):
                err += data
            case Ended(result):
                return out, err, result


class ClusterSuite:
    """The conformance suite of `senro.ports.cluster.Cluster` and of `senro.ports.pod_watch.PodWatch`."""

    async def run(self, site: Site, pod: Pod, *command: str) -> tuple[bytes, bytes, ExecResult]:
        """Run a command without stdin to its end."""
        async with site.cluster.exec(
            site.namespace, pod.name, "step", command, stdin=False, idle_seconds=PATIENCE
        ) as session:
            return await drain(session)

    async def test_version(self, site: Site) -> None:
        """`version` returns that of the cluster, and the address has no credential."""
        assert (await site.cluster.version()).startswith("v1.")
        assert site.cluster.address.startswith("https://")

    async def test_life_of_a_pod(self, site: Site) -> None:
        """A pod is created as requested, runs, ends with its exit code, is deleted, and is gone."""
        manifest = site.pod("sh", "-c", "exit 3")
        created = await site.cluster.create_pod(manifest)
        assert (created.name, created.namespace) == (manifest["metadata"]["name"], site.namespace)
        assert created.uid
        assert created.metadata.annotations["senro.dev/attempt-uid"] == "nonce"
        ended = await site.until(created, lambda seen: state_of(seen) == "terminated")
        status = ended.container("step")
        assert status is not None
        assert status.state.terminated is not None
        assert status.state.terminated.exit_code == 3
        read = await site.cluster.read_pod(site.namespace, created.name)
        assert read is not None
        assert read.uid == created.uid
        deleted = await site.cluster.delete_pod(site.namespace, created.name, uid=created.uid)
        assert deleted in (True, False)
        await site.until_gone(created)
        assert await site.cluster.read_pod(site.namespace, created.name) is None
        assert await site.cluster.delete_pod(site.namespace, created.name, uid=created.uid) is True

    async def test_second_create_is_refused(self, site: Site) -> None:
        """A second create of a name raises `AlreadyExists`, and the nonce of the stored pod can be read."""
        manifest = site.pod("sleep", "60")
        created = await site.cluster.create_pod(manifest)
        with pytest.raises(AlreadyExists):
            await site.cluster.create_pod(manifest)
        read = await site.cluster.read_pod(site.namespace, created.name)
        assert read is not None
        assert read.metadata.annotations["senro.dev/attempt-uid"] == "nonce"
        await site.cluster.delete_pod(site.namespace, created.name, uid=created.uid, grace_seconds=0)
        await site.until_gone(created)

    async def test_delete_with_another_uid(self, site: Site) -> None:
        """A delete with another uid returns True, and the pod of that name is not deleted."""
        async with site.running("sleep", "60") as pod:
            other = "00000000-0000-0000-0000-000000000000"
            assert await site.cluster.delete_pod(site.namespace, pod.name, uid=other) is True
            read = await site.cluster.read_pod(site.namespace, pod.name)
            assert read is not None
            assert read.metadata.deletion_timestamp is None

    async def test_missing_pod(self, site: Site) -> None:
        """A pod that does not exist is read as None and deleted as gone, and has neither log nor exec."""
        name = site.unique()
        assert await site.cluster.read_pod(site.namespace, name) is None
        assert await site.cluster.delete_pod(site.namespace, name, uid="00000000-0000-0000-0000-000000000000") is True
        with pytest.raises(NotFound):
            await site.cluster.read_log(site.namespace, name, "step")
        with pytest.raises(NotFound):
            async with site.cluster.exec(site.namespace, name, "step", ["true"], stdin=False, idle_seconds=10):
                pass

    async def test_unknown_field_is_refused(self, site: Site) -> None:
        """A misspelt field of a manifest is refused and not dropped."""
        manifest = site.pod("true")
        manifest["spec"]["containers"][0]["comand"] = ["true"]
        with pytest.raises(Rejected, match="comand"):
            await site.cluster.create_pod(manifest)

    async def test_forbidden_namespace(self, site: Site) -> None:
        """A refusal by RBAC has the message of the cluster."""
        with pytest.raises(Forbidden, match="cannot get resource"):
            await site.cluster.read_pod("kube-system", "any")

    async def test_forbidden_leases(self, site: Site) -> None:
        """An identity without the rights can neither read nor write Leases."""
        attempt, now = AttemptIdentity("run", "w.s", 1, "nonce"), datetime(2026, 11, 29, 12, tzinfo=UTC)
        ours = Terms(site.namespace, site.unique(), "claim", attempt)
        theirs = Terms("kube-system", ours.workspace, "claim", attempt)
        lease = await site.cluster.create_lease(ours.manifest_to_create(now))
        uid, version = lease.state
        with pytest.raises(Forbidden, match="cannot get resource"):
            await site.cluster.read_lease("kube-system", theirs.name)
        with pytest.raises(Forbidden, match="cannot create resource"):
            await site.cluster.create_lease(theirs.manifest_to_create(now))
        with pytest.raises(Forbidden, match="cannot update resource"):
            await site.cluster.replace_lease(theirs.manifest_to_renew(lease, now))
        with pytest.raises(Forbidden, match="cannot delete resource"):
            await site.cluster.delete_lease("kube-system", theirs.name, uid=uid, version=version)
        await site.cluster.delete_lease(site.namespace, ours.name, uid=uid, version=version)

    async def test_followed_log(self, site: Site) -> None:
        """A followed log has each line with its time, and ends with the container."""
        async with site.running("sh", "-c", "for n in 1 2 3; do echo line $n; sleep 0.1; done; printf end") as pod:
            lines = LogLines()
            with anyio.fail_after(PATIENCE):
                async with site.cluster.follow_log(site.namespace, pod.name, "step") as pieces:
                    got = [line async for piece in pieces for line in lines.feed(piece)]
            got += lines.finish()
            assert [line.text for line in got if isinstance(line, LogLine)] == [b"line 1", b"line 2", b"line 3", b"end"]
            assert all(line.timestamp for line in got if isinstance(line, LogLine))
            whole = await site.cluster.read_log(site.namespace, pod.name, "step")
            assert [line.split(b" ", 1)[1] for line in whole.splitlines()] == [b"line 1", b"line 2", b"line 3", b"end"]

    async def test_log_followed_again(self, site: Site) -> None:
        """A log that is followed again from its last time repeats lines, which `LogLines` drops."""
        async with site.running("sh", "-c", "for n in 1 2 3 4 5 6; do echo line $n; sleep 0.1; done") as pod:
            lines, got = LogLines(), list[bytes]()
            with anyio.fail_after(PATIENCE):
                async with site.cluster.follow_log(site.namespace, pod.name, "step") as pieces:
                    async for piece in pieces:
                        got += [line.text for line in lines.feed(piece) if isinstance(line, LogLine)]
                        if len(got) >= 2:
                            break
                lines.broke_off()
                async with site.cluster.follow_log(site.namespace, pod.name, "step", since=lines.since) as pieces:
                    async for piece in pieces:
                        got += [line.text for line in lines.feed(piece) if isinstance(line, LogLine)]
            assert got == [f"line {number}".encode() for number in range(1, 7)]

    async def test_log_before_the_start(self, site: Site) -> None:
        """The log of a container that has not started is refused with 400."""
        manifest = site.pod("true")
        manifest["spec"]["initContainers"] = [
            {**manifest["spec"]["containers"][0], "name": "first", "command": ["sleep", "60"]}
        ]
        pod = await site.cluster.create_pod(manifest)
        try:
            await site.until(pod, lambda seen: bool(seen.status.init_container_statuses))
            with pytest.raises(Rejected, match="waiting to start"):
                await site.cluster.read_log(site.namespace, pod.name, "step")
        finally:
            await site.cluster.delete_pod(site.namespace, pod.name, uid=pod.uid, grace_seconds=0)
            await site.until_gone(pod)

    async def test_exec_streams_and_codes(self, site: Site) -> None:
        """Stdout, stderr and the exit code are separate, and no shell interprets the command."""
        async with site.running("sleep", "60") as pod:
            assert await self.run(site, pod, "true") == (b"", b"", ExitCode(0))
            assert await self.run(site, pod, "sh", "-c", "echo out; echo err >&2; exit 7") == (
                b"out\n",
                b"err\n",
                ExitCode(7),
            )
            words = ["a b", "$HOME", "ü", "'\"", "x&y=z+%20", "*", "-n"]
            out, _, end = await self.run(site, pod, "sh", "-c", 'for w; do printf "<%s>" "$w"; done', "sh", *words)
            assert (out.decode(), end) == ("".join(f"<{word}>" for word in words), ExitCode(0))

    async def test_exec_of_a_missing_program(self, site: Site) -> None:
        """A missing program is a failure with the server's message, or an exit code with some runtimes."""
        async with site.running("sleep", "60") as pod:
            _, _, end = await self.run(site, pod, "no-such-program")
            assert isinstance(end, ExecFailure | ExitCode)
            assert end != ExitCode(0)

    async def test_exec_with_stdin(self, site: Site) -> None:
        """Stdin arrives byte for byte, closing it ends it, and the complete output comes back."""
        payload = bytes(range(256)) * 4_096
        async with (
            site.running("sleep", "60") as pod,
            site.cluster.exec(site.namespace, pod.name, "step", ["cat"], stdin=True, idle_seconds=PATIENCE) as session,
            anyio.create_task_group() as group,
        ):

            async def feed() -> None:
                for start in range(0, len(payload), 100_000):
                    await session.send(payload[start : start + 100_000])
                await session.close_stdin()
                await session.close_stdin()

            group.start_soon(feed)
            out, err, end = await drain(session)
            assert (out == payload, err, end) == (True, b"", ExitCode(0))
            with pytest.raises(StreamBroken):
                await session.send(b"late")

    async def test_wait_until_received(self, site: Site) -> None:
        """It returns once the server has read everything, and raises if the exec has ended."""
        async with (
            site.running("sleep", "60") as pod,
            site.cluster.exec(site.namespace, pod.name, "step", ["cat"], stdin=True, idle_seconds=PATIENCE) as session,
            anyio.create_task_group() as group,
        ):

            async def feed() -> None:
                for _ in range(3):
                    await session.send(bytes(50_000))
                    await session.wait_until_received()
                await session.close_stdin()

            group.start_soon(feed)
            out, _, end = await drain(session)
            assert (len(out), end) == (150_000, ExitCode(0))
            with pytest.raises(StreamBroken):
                await session.wait_until_received()

    async def test_exec_output_is_complete(self, site: Site) -> None:
        """Megabytes of output arrive completely, also for a slow reader."""
        size = 4 * 1024 * 1024
        async with site.running("sleep", "60") as pod:
            out, _, end = await self.run(site, pod, "head", "-c", str(size), "/dev/zero")
            assert (len(out), end) == (size, ExitCode(0))

    async def test_leaving_a_running_exec(self, site: Site) -> None:
        """Leaving a running exec is quick, and the next one works."""
        async with site.running("sleep", "60") as pod:
            with anyio.fail_after(PATIENCE):
                async with site.cluster.exec(
                    site.namespace, pod.name, "step", ["sh", "-c", "echo up; cat"], stdin=True, idle_seconds=PATIENCE
                ) as session:
                    assert await session.receive() == Stdout(b"up\n")
            assert (await self.run(site, pod, "true"))[2] == ExitCode(0)

    async def test_idle_exec_breaks(self, site: Site) -> None:
        """An exec without data for `idle_seconds` raises `StreamBroken`."""
        async with (
            site.running("sleep", "60") as pod,
            site.cluster.exec(
                site.namespace, pod.name, "step", ["sleep", "30"], stdin=False, idle_seconds=0.2
            ) as session,
        ):
            with pytest.raises(StreamBroken, match="no data"):
                await session.receive()

    async def test_exec_in_an_ended_container(self, site: Site) -> None:
        """It raises an error or ends with a failure, and has no exit code."""
        pod = await site.cluster.create_pod(site.pod("true"))
        await site.until(pod, lambda seen: state_of(seen) == "terminated")
        came_to: ExecResult | ClusterError
        try:
            _, _, came_to = await self.run(site, pod, "true")
        except ClusterError as error:
            came_to = error
        finally:
            await site.cluster.delete_pod(site.namespace, pod.name, uid=pod.uid, grace_seconds=0)
            await site.until_gone(pod)
        assert isinstance(came_to, ExecFailure | StatusLost | ClusterError)

    async def test_life_of_a_secret(self, site: Site) -> None:
        """A Secret is mounted as a file, belongs to the pod, and can be deleted twice."""
        manifest = site.secret(Token="made-up")
        name = manifest["metadata"]["name"]
        assert await site.cluster.create_secret(manifest)
        with pytest.raises(AlreadyExists):
            await site.cluster.create_secret(manifest)
        async with site.running("sleep", "60", volumes={"/run/senro/secrets": name}) as pod:
            await site.cluster.own_secret(site.namespace, name, owner=pod)
            assert await self.run(site, pod, "cat", "/run/senro/secrets/Token") == (b"made-up", b"", ExitCode(0))
        await site.cluster.delete_secret(site.namespace, name)
        await site.cluster.delete_secret(site.namespace, name)
        with pytest.raises(NotFound):
            await site.cluster.own_secret(site.namespace, name, owner=pod)

    async def test_life_of_a_lease(self, site: Site) -> None:
        """A Lease is created once, and replaced and deleted only in the state that was read."""
        terms = Terms(site.namespace, site.unique(), "claim", AttemptIdentity("run", "w.s", 1, "nonce"), seconds=7)
        rival = Terms(site.namespace, terms.workspace, "claim", AttemptIdentity("other", "w.s", 1, "nonce"))
        now = datetime(2026, 11, 29, 12, tzinfo=UTC)
        assert await site.cluster.read_lease(site.namespace, terms.name) is None
        created = await site.cluster.create_lease(terms.manifest_to_create(now))
        with pytest.raises(AlreadyExists):
            await site.cluster.create_lease(rival.manifest_to_create(now))
        assert await site.cluster.read_lease(site.namespace, terms.name) == created
        assert (created.holder, created.seconds, created.spec.lease_transitions) == (terms.holder, 7, 0)
        assert created.metadata.annotations["senro.dev/workspace"] == terms.workspace
        renewed = await site.cluster.replace_lease(terms.manifest_to_renew(created, now + timedelta(seconds=2)))
        assert (renewed.metadata.uid, renewed.spec.acquire_time) == (created.metadata.uid, created.spec.acquire_time)
        assert renewed.state != created.state
        with pytest.raises(Conflict):
            await site.cluster.replace_lease(rival.manifest_to_take_over(created, now))
        taken = await site.cluster.replace_lease(rival.manifest_to_take_over(renewed, now))
        assert (taken.holder, taken.spec.lease_transitions) == (rival.holder, 1)
        for uid, version in (("00000000-0000-0000-0000-000000000000", taken.state[1]), renewed.state):
            with pytest.raises(Conflict):
                await site.cluster.delete_lease(site.namespace, terms.name, uid=uid, version=version)
        for _ in range(2):
            await site.cluster.delete_lease(site.namespace, terms.name, uid=taken.state[0], version=taken.state[1])
        assert await site.cluster.read_lease(site.namespace, terms.name) is None
        with pytest.raises((Conflict, NotFound)):
            await site.cluster.replace_lease(rival.manifest_to_renew(taken, now))
        assert await site.cluster.read_lease(site.namespace, terms.name) is None

    async def test_nudged_watch(self, site: Site) -> None:
        """A nudged watch polls at once, and returns None for a pod with another uid."""
        async with site.running("sleep", "60") as pod:
            watch = site.watch(pod)
            for _ in range(3):
                watch.nudge()
                with anyio.fail_after(PATIENCE):
                    seen = await watch.next()
                assert seen is not None
                assert seen.uid == pod.uid
            other = Pod(metadata=type(pod.metadata)(name=pod.name, namespace=pod.namespace, uid="another"))
            assert await site.watch(other).next() is None
