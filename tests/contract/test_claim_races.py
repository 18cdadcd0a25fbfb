"""Two coordinators with clocks of their own compete for a claim on the embedded cluster, and are killed at any point.

`make soak` runs two hundred races, `make test` a tenth, chosen by a seed. Each prints its result.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from senro.adapters.apiserver import connect, read_configuration, watch_pod
from senro.adapters.clock import SystemClock, SystemRandomness
from senro.app.engine import Engine, SecretValues
from senro.app.runtime.recorder import Recorder
from senro.app.runtime.services import ClusterServices
from senro.app.workspaces.workspaces import Workspaces
from senro.devcluster import DevCluster
from senro.domain.claims.lease import Lease
from senro.domain.claims.lease_protocol import EXCLUSIVE_FRACTION
from senro.domain.kube.pod import Pod
from senro.domain.pipeline.targets import Pod as Target
from senro.domain.pipeline.workspace import Workspace
from senro.domain.plan.pipeline import Pipeline
from senro.domain.plan.plan import Plan
from senro.domain.run.events import AttemptEnded, LeaseAcquired, LeaseLost
from senro.domain.run.outcome import Outcome
from senro.domain.text.redactor import Redactor
from senro.ports.cluster import Cluster, Manifest
from tests.lib.harness.app import App

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SOAK = os.environ.get("SENRO_TEST_PROFILE") == "soak"
SEED = 20261130
RACES = 200
AT_ONCE = 10
LEASE_SECONDS = 3
"""The duration of a lease in these tests, so that the lease of a killed coordinator expires soon."""

LAST_CALL = 24
"""About the number of requests of such a step. A coordinator is killed at one of them, or survives."""

CLAIM = "raced"
DRAWN = sorted(random.Random(SEED).sample(range(RACES), RACES if SOAK else RACES // 10))
BATCHES = [DRAWN[place : place + AT_ONCE] for place in range(0, len(DRAWN), AT_ONCE)]


class OwnClock(SystemClock):
    """A wall clock that is wrong, and a monotonic clock with its own origin and rate."""

    def __init__(self, draw: random.Random) -> None:
        self.rate = draw.uniform(0.96, 1.04)
        self._skew = timedelta(seconds=draw.uniform(-600, 600))
        self._origin = draw.uniform(0, 1e6)

    def now(self) -> datetime:
        return datetime.now(UTC) + self._skew

    def monotonic(self) -> float:
        return self._origin + self.rate * time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / self.rate)


class Killed(Exception):
    """The coordinator was killed at this call."""


@dataclass
class Racer:
    """A coordinator that may be killed at one of its requests."""

    cluster: Cluster
    clock: OwnClock
    dies_at: int | None
    dies_after: bool
    """Whether its last request takes effect, without an answer."""

    calls: int = 0
    died: float | None = None
    is_exclusive: list[tuple[float, float]] = field(default_factory=list)
    """The exclusive periods by the protocol: from each answer to nine tenths of the duration after its request."""

    pods: dict[str, tuple[float, float]] = field(default_factory=dict)
    """By uid, from the request for the pod until the pod was seen gone."""

    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    moved: anyio.Event = field(default_factory=anyio.Event)
    """Set at its next request, or at its end."""

    over: bool = False
    app: App = field(init=False)
    ended: bool = False

    @property
    def outcome(self) -> Outcome:
        return next(event.outcome for event in reversed(self.app.ledger.events) if isinstance(event, AttemptEnded))

    def saw(self, kind: type[Any]) -> bool:
        return any(isinstance(event, kind) for event in self.app.ledger.events)

    def exclusive_until(self, moment: float) -> None:
        """Ends the exclusive periods at `moment`."""
        self.is_exclusive = [(start, min(end, moment)) for start, end in self.is_exclusive if start < moment]

    async def call(self, request: Callable[[], Any]) -> Any:
        """Sends a request. The one before its death may take effect."""
        if self.died is not None:
            await anyio.sleep_forever()
        self.calls += 1
        self._move()
        if self.calls != self.dies_at:
            return await request()
        if self.dies_after:
            with anyio.CancelScope(shield=True):
                await request()
        self.died = time.monotonic()
        self.exclusive_until(self.died)
        self.app.cleanup_scopes.cancel_all()
        self.scope.cancel()
        return await anyio.sleep_forever()

    def _move(self) -> None:
        moved, self.moved = self.moved, anyio.Event()
        moved.set()

    async def reach(self, call: int) -> None:
        """Returns at its request with that number, or at its end."""
        while self.calls < call and not self.over:
            await self.moved.wait()

    async def race(self, folder: Path, plan: Plan) -> None:
        try:
            await self._race(folder, plan)
        finally:
            self.over = True
            self._move()

    async def _race(self, folder: Path, plan: Plan) -> None:
        self.app = app = App(folder, plan)
        pods = ClusterServices(cluster=self._dying(), watch=self._watch, lease_seconds=LEASE_SECONDS)
        services = replace(app.services, clock=self.clock, randomness=SystemRandomness(), pods=pods)
        recorder = Recorder(plan, app.ledger, app.reporter, self.clock, Redactor([]))
        workspaces = Workspaces(services, recorder, str(folder))
        engine = Engine(plan, services, recorder, workspaces, app.cleanup_scopes, base=str(folder), jobs=None)
        with self.scope:
            await engine.run(SecretValues(values={}, files={}))
            self.ended = True

    def _dying(self) -> Cluster:
        return cast("Cluster", MortalCluster(self))

    def _watch(self, namespace: str, name: str, uid: str) -> Any:
        return watch_pod(self._dying(), namespace, name, uid=uid, clock=self.clock)


class MortalCluster:
    """The cluster of a racer until it dies, with the methods that a step without secrets and workspaces needs."""

    def __init__(self, racer: Racer) -> None:
        self._racer, self._cluster = racer, racer.cluster

    @property
    def address(self) -> str:
        return self._cluster.address

    async def create_pod(self, manifest: Manifest) -> Pod:
        asked = time.monotonic()

        async def create() -> Pod:
            pod = await self._cluster.create_pod(manifest)
            self._racer.pods[pod.uid] = (asked, float("inf"))
            return pod

        pod: Pod = await self._racer.call(create)
        return pod

    async def read_pod(self, namespace: str, name: str) -> Pod | None:
        pod: Pod | None = await self._racer.call(lambda: self._cluster.read_pod(namespace, name))
        if pod is None:
            now = time.monotonic()
            self._racer.pods = {uid: (asked, min(gone, now)) for uid, (asked, gone) in self._racer.pods.items()}
        return pod

    async def delete_pod(self, namespace: str, name: str, *, uid: str, grace_seconds: int | None = None) -> bool:
        deleted: bool = await self._racer.call(
            lambda: self._cluster.delete_pod(namespace, name, uid=uid, grace_seconds=grace_seconds)
        )
        return deleted

    @asynccontextmanager
    async def follow_log(
        self, namespace: str, name: str, container: str, *, since: str | None = None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        await self._racer.call(anyio.lowlevel.checkpoint)
        async with self._cluster.follow_log(namespace, name, container, since=since) as pieces:
            yield pieces

    async def read_log(self, namespace: str, name: str, container: str, *, since: str | None = None) -> bytes:
        log: bytes = await self._racer.call(lambda: self._cluster.read_log(namespace, name, container, since=since))
        return log

    async def list_events(self, namespace: str, *, uid: str) -> Any:
        return await self._racer.call(lambda: self._cluster.list_events(namespace, uid=uid))

    async def read_lease(self, namespace: str, name: str) -> Lease | None:
        lease: Lease | None = await self._racer.call(lambda: self._cluster.read_lease(namespace, name))
        return lease

    async def create_lease(self, manifest: Manifest) -> Lease:
        return await self._write_lease(lambda: self._cluster.create_lease(manifest))

    async def replace_lease(self, manifest: Manifest) -> Lease:
        return await self._write_lease(lambda: self._cluster.replace_lease(manifest))

    async def delete_lease(self, namespace: str, name: str, *, uid: str, version: str) -> None:
        self._racer.exclusive_until(time.monotonic())
        await self._racer.call(lambda: self._cluster.delete_lease(namespace, name, uid=uid, version=version))

    async def _write_lease(self, write: Callable[[], Any]) -> Lease:
        asked = time.monotonic()
        lease: Lease = await self._racer.call(write)
        self._racer.is_exclusive.append(
            (time.monotonic(), asked + EXCLUSIVE_FRACTION * LEASE_SECONDS / self._racer.clock.rate)
        )
        return lease


def plan_of(cluster: DevCluster, number: int) -> Plan:
    """Returns a plan with a step that fails if another step uses the claim at the same time."""
    script = f"mkdir /c/{number} || exit 9; sleep 0.1; rmdir /c/{number}"
    target = Target(cluster.image, namespace="ci", grace=1, claims={f"raced-{number}": CLAIM})
    pipeline = Pipeline("race")
    workspace = Workspace(f"raced-{number}")
    pipeline.workflow("w").step("s", ["sh", "-c", script], mounts=[workspace.at("/c")], on=target)
    return pipeline.build()


@pytest.mark.parametrize("batch", BATCHES, ids=lambda batch: f"{batch[0]}-{batch[-1]}")
async def test_two_coordinators_compete_for_a_claim(
    batch: list[int], tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """One has the claim at a time; a survivor gets its turn and leaves nothing; a lease is freed or expires."""
    counted: Counter[str] = Counter()
    async with DevCluster(time_scale=0.05) as dev:
        dev.create_claim("ci", CLAIM, access_mode="ReadWriteMany")
        configuration = read_configuration(dev.environment(), now=datetime.now(UTC))
        async with (
            connect(configuration, clock=SystemClock(), randomness=SystemRandomness()) as cluster,
            anyio.create_task_group() as group,
        ):
            for number in batch:
                group.start_soon(race, dev, cluster, number, tmp_path / str(number), counted)
        assert dev.pods() == dev.leases() == dev.secrets() == []
    record_property("summary", f"races {batch[0]} to {batch[-1]} of {RACES}: {dict(sorted(counted.items()))}")
    record_property("counts", {f"{len(DRAWN)} races for a claim": dict(counted)})


async def race(dev: DevCluster, cluster: Cluster, number: int, folder: Path, counted: Counter[str]) -> None:
    draw, plan = random.Random(f"{SEED} {number}"), plan_of(dev, number)

    def racer(*, mortal: bool) -> Racer:
        dies = draw.randint(1, LAST_CALL) if mortal and draw.random() < 0.5 else None
        return Racer(cluster, OwnClock(draw), dies, draw.random() < 0.5)

    two, third = [racer(mortal=True), racer(mortal=True)], racer(mortal=False)
    late = draw.choice([0, draw.randint(1, LAST_CALL // 3), draw.randint(1, LAST_CALL)])

    async def run(one: Racer, after: int, place: str) -> None:
        await two[0].reach(after)
        await one.race(folder / place, plan)

    with anyio.fail_after(90):
        async with anyio.create_task_group() as group:
            group.start_soon(run, two[0], 0, "a")
            group.start_soon(run, two[1], late, "b")
        # A lease that the two left is free or expires.
        await run(third, 0, "c")
    check_holders([*two, third])
    check_pods([*two, third], counted)
    for one in (*two, third):
        judge(one, two, counted)
    await remove_what_the_dead_left(dev, cluster, number)


def check_holders(racers: list[Racer]) -> None:
    """Checks that the exclusive periods of the two never overlap."""
    for one, other in itertools.combinations(racers, 2):
        for here, there in itertools.product(one.is_exclusive, other.is_exclusive):
            assert here[1] <= there[0] or there[1] <= here[0], (here, there)


def check_pods(racers: list[Racer], counted: Counter[str]) -> None:
    """Checks that the pods of living coordinators with a valid lease do not overlap."""
    for one, other in itertools.combinations(racers, 2):
        for here, there in itertools.product(one.pods.values(), other.pods.values()):
            if here[1] > there[0] and there[1] > here[0]:
                assert any(each.died is not None or each.saw(LeaseLost) for each in (one, other)), (here, there)
                counted["pods beside a dead one's"] += 1


def judge(one: Racer, two: list[Racer], counted: Counter[str]) -> None:
    """Returns what became of one of them."""
    if one.died is not None:
        counted["killed holding" if one.is_exclusive else "killed waiting"] += 1
        return
    assert one.ended
    assert one.saw(LeaseAcquired)
    if one.outcome.code == 9:
        # It found files of a pod whose coordinator was dead, since a lease does not fence the storage.
        assert any(other.died is not None for other in two), one.outcome
        counted["met a dead one's step"] += 1
        return
    assert one.outcome.kind == "succeeded", one.outcome
    assert all(gone < float("inf") for _, gone in one.pods.values())
    previous = next(event.previous_holder for event in one.app.ledger.events if isinstance(event, LeaseAcquired))
    counted["took over" if previous else "had its turn"] += 1
    counted["lost its lease"] += one.saw(LeaseLost)


async def remove_what_the_dead_left(dev: DevCluster, cluster: Cluster, number: int) -> None:
    """Deletes the pods of killed coordinators, which it finds by senro's labels."""
    for pod in dev.pods():
        claims = [volume.get("persistentVolumeClaim") for volume in pod["spec"]["volumes"]]
        if claims and f"mkdir /c/{number} " in str(pod["spec"]["containers"]):
            meta = pod["metadata"]
            assert meta["labels"]["senro.dev/managed"] == "true"
            await cluster.delete_pod(meta["namespace"], meta["name"], uid=meta["uid"], grace_seconds=0)
