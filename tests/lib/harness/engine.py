"""A whole run with fakes: the engine, a cluster in memory, and a clock that the test or the harness advances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from senro.adapters.apiserver.watch import watch_pod
from senro.app.engine import Engine, SecretValues
from senro.app.runtime.services import ClusterServices, WatchPod
from senro.domain.kube.pod import Metadata, Pod
from senro.domain.run.events import AttemptEnded
from senro.domain.run.outcome import Outcome
from senro.domain.run.state_names import RunState
from senro.ports.cluster import Manifest
from senro.ports.pod_watch import PodWatch
from tests.lib.fakes.clock import FakeClock
from tests.lib.fakes.cluster import Course, FakeCluster, Log, ended, running, waiting
from tests.lib.harness.app import App

SECONDS = "%Y-%m-%dT%H:%M:%SZ"


def runs_for(code: int = 0) -> Course:
    """Returns a course of a pod that waits, runs and ends, each for one read."""
    return lambda _: [waiting(), running(), ended(code)]


def stays(*statuses: Mapping[str, Any]) -> Course:
    """Returns a course of a pod whose last status remains."""
    return lambda _: list(statuses)


def in_turn(*courses: Course) -> Course:
    """Returns a course that uses one course for each created pod, in order, and the last one for all others."""
    left = list(courses)

    def course(manifest: Manifest) -> Sequence[Mapping[str, Any]]:
        return (left.pop(0) if len(left) > 1 else left[0])(manifest)

    return course


def started_status(clock: FakeClock, before: float) -> dict[str, Any]:
    """Returns the status of a pod whose step has run for `before` seconds by the node's clock."""
    at = (clock.now() - timedelta(seconds=before)).strftime(SECONDS)
    return {"phase": "Running", "containerStatuses": [{"name": "step", "state": {"running": {"startedAt": at}}}]}


class Kubelet(FakeCluster):
    """A `FakeCluster` in which a container's log ends with the container."""

    def _read(self, namespace: str, name: str) -> Pod | None:
        pod = super()._read(namespace, name)
        status = pod.container("step") if pod is not None else None
        if pod is not None and status is not None and status.state.terminated is not None:
            self.log(pod).end()
        return pod

    def _remove(self, key: tuple[str, str]) -> None:
        super()._remove(key)
        self.logs.setdefault((*key, "step"), Log()).end()


class Site:
    """An engine and its cluster."""

    def __init__(
        self,
        folder: Path,
        plan: Any,
        *,
        course: Course | None = None,
        auto: bool = True,
        jobs: int | None = None,
        secrets: Mapping[str, bytes] | None = None,
        scripts: Mapping[tuple[str, ...], Any] | None = None,
        watch: WatchPod | None = None,
    ) -> None:
        self.app = App(folder, plan, secrets=secrets, scripts=scripts, auto=auto)
        self.clock = self.app.clock
        self.cluster = Kubelet(self.clock, course=course or runs_for())
        pods = ClusterServices(cluster=self.cluster, watch=watch or self._watch)
        object.__setattr__(self.app.services, "pods", pods)
        self.engine = Engine(
            plan,
            self.app.services,
            self.app.recorder,
            self.app.workspaces,
            self.app.cleanup_scopes,
            base=str(folder),
            jobs=jobs,
        )

    def _watch(self, namespace: str, name: str, uid: str) -> PodWatch:
        return watch_pod(self.cluster, namespace, name, uid=uid, clock=self.clock)

    async def run(self) -> RunState:
        return await self.engine.run(SecretValues(values=self.app.secrets, files={}))

    @property
    def outcomes(self) -> list[Outcome]:
        """Returns the outcomes of all attempts, in the order of the ledger."""
        return [event.outcome for event in self.app.ledger.events if isinstance(event, AttemptEnded)]

    @property
    def nothing_left(self) -> bool:
        return not self.cluster.pods and not self.cluster.secrets

    def pod(self) -> Pod:
        """Returns the only pod."""
        (stored,) = self.cluster.pods.values()
        return Pod(
            metadata=Metadata(
                namespace=stored["metadata"]["namespace"],
                name=stored["metadata"]["name"],
                uid=stored["metadata"]["uid"],
            )
        )
