from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from senro.app.pod.claim_leases import Claims
from senro.app.pod.cleanup import CANCEL_GRACE, PodCleanup
from senro.app.pod.deletion import UNACKNOWLEDGED_SECONDS
from senro.app.pod.observer import PodObserver
from senro.domain.errors import ClusterError, Unreachable
from senro.domain.kube.pod import Pod, pod_from
from senro.domain.manifests.pod import pod_manifest, secret_manifest
from senro.domain.pipeline.targets import Pod as Target
from senro.domain.run.deletion import Deletion
from senro.domain.run.events import Noted, PodDeleted
from senro.domain.verdict import Answer, DidRun, Exited, Infra, InfraKind, Memory, Patience, Running
from tests.lib.builders.plans import IMAGE
from tests.lib.fakes.cluster import FakeCluster, ended, refusal, running, waiting
from tests.lib.harness.app import App, ScriptedWatch, pod_plan, until

pytestmark = pytest.mark.anyio

GRACE = 20


class Scene:
    """An attempt with a secret, whose objects are created as far as the test wants."""

    def __init__(self, folder: Path, *, auto: bool = True) -> None:
        plan = pod_plan(on=Target(IMAGE, namespace="ci", grace=GRACE), secrets={"TOKEN": "Token"})
        self.app = App(folder, plan, secrets={"Token": b"hunter2hunter2"}, auto=auto)
        self.cluster = FakeCluster(self.app.clock)
        self.attempt = self.app.attempt()
        self.removal = PodCleanup(self.attempt, self.cluster)
        self.observed: PodObserver | None = None
        self.manifest = pod_manifest(self.attempt.step, self.attempt.identity)
        self.secret = secret_manifest(self.attempt.step, self.attempt.identity, self.app.secrets)

    async def create(self) -> Pod:
        self.removal.secret, self.removal.manifest = self.secret, self.manifest
        await self.cluster.create_secret(self.secret)
        self.removal.pod = await self.cluster.create_pod(self.manifest)
        self.observed = self.observer(self.removal.pod)
        return self.removal.pod

    async def remove(self) -> Deletion:
        return await self.removal.run(self.observed)

    def observer(self, pod: Pod) -> PodObserver:
        clock = self.app.clock
        return PodObserver(ScriptedWatch(), pod, Memory.start(uid=pod.uid), Patience(began=clock.monotonic()), clock)

    @property
    def gone(self) -> bool:
        return not self.cluster.pods and not self.cluster.secrets

    @property
    def remedy(self) -> str:
        return f"kubectl --namespace ci delete pod {self.attempt.identity.name}"


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def test_pod_and_secret_are_removed(scene: Scene) -> None:
    """Both are deleted, the pod by uid with its own grace period, and recorded; the observer sees no disruption."""
    scene.cluster.stubborn = True
    await scene.create()
    assert await scene.remove() == "deleted"
    assert scene.gone
    assert scene.cluster.graces == [None]
    (event,) = scene.app.ledger.events
    assert isinstance(event, PodDeleted)
    assert (event.namespace, event.pod, event.confirmed, event.remedy) == (
        "ci",
        scene.attempt.identity.name,
        True,
        "",
    )


async def test_without_objects_nothing_is_deleted(scene: Scene) -> None:
    """Without created objects there is no request and no event."""
    assert await scene.remove() == "deleted"
    assert (scene.cluster.calls, scene.app.ledger.lines) == ([], [])


async def test_secret_without_a_pod_is_deleted(scene: Scene) -> None:
    """The Secret is deleted if the attempt ended before the pod's create was sent."""
    scene.removal.secret = scene.secret
    await scene.cluster.create_secret(scene.secret)
    assert await scene.remove() == "deleted"
    assert scene.gone
    assert scene.app.ledger.lines == []


async def test_late_secret_is_deleted_again(tmp_path: Path) -> None:
    """The apiserver may carry out a create late, without a pod that owns the Secret: it is deleted a second time."""
    scene = Scene(tmp_path, auto=False)
    scene.removal.secret = scene.secret
    async with anyio.create_task_group() as group:
        group.start_soon(scene.remove)
        await until(lambda: scene.app.clock.sleepers == 1)
        await scene.cluster.create_secret(scene.secret)
        await scene.app.clock.advance(UNACKNOWLEDGED_SECONDS)
    assert scene.gone


@pytest.mark.parametrize("there", [True, False])
async def test_unacknowledged_pod_is_looked_for(scene: Scene, there: bool) -> None:
    """The pod of an unanswered create is found by its nonce and deleted; without one nothing is recorded."""
    scene.removal.manifest, scene.removal.may_exist = scene.manifest, True
    if there:
        await scene.cluster.create_pod(scene.manifest)
    assert await scene.remove() == "deleted"
    assert scene.gone
    assert len(scene.app.ledger.events) == there


async def test_forbidden_pod_deletion_is_reported(scene: Scene) -> None:
    """The cluster's message and the kubectl command are reported; the Secret is deleted all the same."""
    await scene.create()
    scene.cluster.fail("delete_pod", refusal("delete pod", 403, "Forbidden", 'cannot delete resource "pods"'))
    assert await scene.remove() == "unconfirmed"
    assert list(scene.cluster.secrets) == []
    deleted, note = scene.app.ledger.events
    assert isinstance(deleted, PodDeleted)
    assert (deleted.confirmed, deleted.remedy) == (False, scene.remedy)
    assert isinstance(note, Noted)
    assert 'cannot delete resource "pods"' in note.message
    assert note.message.endswith(f"delete it with: {scene.remedy}")


async def test_forbidden_secret_deletion_is_reported(scene: Scene) -> None:
    """The cluster's message and the kubectl command are reported; the pod is deleted."""
    await scene.create()
    scene.cluster.fail("delete_secret", refusal("delete secret", 403, "Forbidden", "cannot delete secrets"))
    assert await scene.remove() == "deleted"
    remedy = scene.remedy.replace("delete pod", "delete secret")
    assert scene.app.recorder.leftovers == [remedy]
    deleted, note = scene.app.ledger.events
    assert isinstance(deleted, PodDeleted)
    assert deleted.confirmed
    assert isinstance(note, Noted)
    assert "cannot delete secrets" in note.message
    assert note.message.endswith(f"delete it with: {remedy}")


async def test_failing_secret_deletion_is_reported(scene: Scene) -> None:
    """An endless 503 is retried until the bound, while the pod is deleted, and then reported."""
    await scene.create()
    for _ in range(10_000):
        scene.cluster.fail("delete_secret", refusal("delete secret", 503))
    async with anyio.create_task_group() as group:

        async def remove() -> None:
            assert await scene.remove() == "deleted"

        group.start_soon(remove)
        await until(lambda: not scene.cluster.pods and scene.cluster.calls.count("delete_secret") > 3)
        scene.attempt.cleanup_scopes.cancel_all()
    assert scene.app.recorder.leftovers == [scene.remedy.replace("delete pod", "delete secret")]


@pytest.mark.parametrize("secret", [True, False])
async def test_refused_pod_is_not_looked_for(scene: Scene, secret: bool) -> None:
    """After a refused create the pod is not looked for, and nothing is recorded; the Secret is deleted."""
    scene.removal.manifest, scene.removal.may_exist = scene.manifest, False
    if secret:
        scene.removal.secret = scene.secret
        await scene.cluster.create_secret(scene.secret)
    before = scene.app.clock.monotonic()
    assert await scene.remove() == "deleted"
    assert scene.gone
    assert scene.cluster.calls.count("read_pod") == 0
    assert (scene.app.clock.monotonic(), scene.app.ledger.lines, scene.app.recorder.leftovers) == (before, [], [])


async def test_pod_removed_by_another_client(scene: Scene) -> None:
    """The pod is gone without this cleanup's deletion, so its processes may be alive: `already_gone`."""
    pod = await scene.create()
    scene.cluster.vanish(pod)
    assert await scene.remove() == "already_gone"
    assert scene.gone
    (event,) = scene.app.ledger.events
    assert isinstance(event, PodDeleted)
    assert event.confirmed


async def test_pod_removed_by_the_timeout(scene: Scene) -> None:
    """A pod that is gone after the deletion that a timeout requested counts as deleted."""
    pod = await scene.create()
    assert scene.observed is not None
    await scene.removal.request_deletion(scene.observed)
    scene.cluster.vanish(pod)
    assert await scene.remove() == "deleted"


@pytest.mark.parametrize("refuses", [True, False])
async def test_pod_whose_timeout_deletion_had_no_effect(scene: Scene, *, refuses: bool) -> None:
    """If the deletion after a timeout was refused or came too late, another client removed the pod."""
    pod = await scene.create()
    assert scene.observed is not None
    if refuses:
        scene.cluster.fail("delete_pod", refusal("delete pod", 403, "Forbidden", "no"))
    else:
        scene.cluster.vanish(pod)
    await scene.removal.request_deletion(scene.observed)
    await scene.removal.watch_until_gone()
    assert "read_pod" not in scene.cluster.calls
    if refuses:
        scene.cluster.vanish(pod)
    assert await scene.remove() == "already_gone"


class HeldClaims:
    """The attempt's claims, as far as the cleanup uses them."""

    def __init__(self) -> None:
        self.freed: list[bool] = []

    @asynccontextmanager
    async def keep_renewed(self) -> AsyncIterator[None]:
        yield

    async def release(self, *, gone: bool) -> None:
        self.freed.append(gone)


SILENT = Infra(InfraKind.NODE_LOST, DidRun.YES, may_be_alive=True)
RAN = Running()


STATUSES: dict[str, dict[str, Any]] = {
    "Pending": waiting(),
    "Running": running(),
    "Ended": {**ended(), "phase": "Running"},
    "Succeeded": ended(),
    "Failed": ended(1),
}


@pytest.mark.parametrize(
    ("goes", "answer", "phase", "freed"),
    [
        ("ended", Exited(0), "Ended", True),
        ("ended", RAN, "Pending", True),
        ("ended", RAN, "Running", True),
        ("ended", SILENT, "Running", False),
        ("ended", SILENT, "Failed", False),
        ("forced", RAN, "Running", False),
        ("forced", Exited(0), "Running", False),
        ("forced", Exited(0), "Ended", False),
        ("forced", Exited(0), "Succeeded", True),
        ("forced", SILENT, "Failed", False),
        ("was gone", RAN, "Running", False),
        ("was gone", Exited(0), "Ended", True),
        ("was gone", Infra(InfraKind.DELETED, DidRun.YES), "Running", True),
        ("was gone", Infra(InfraKind.VANISHED, DidRun.YES), "Running", False),
        ("was gone", Infra(InfraKind.VANISHED, DidRun.MAYBE), "Pending", False),
        ("was gone", SILENT, "Running", False),
        ("stays", Exited(0), "Succeeded", False),
    ],
)
async def test_claim_is_released_when_no_process_can_use_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, *, goes: str, answer: Answer, phase: str, freed: bool
) -> None:
    """Not released: a pod that may exist, one of a silent node, and one that was forced."""
    monkeypatch.setattr("senro.app.runtime.shutdown.FORCE_SECONDS", 0.0)
    claims = HeldClaims()
    scene.removal.claims = cast("Claims", claims)
    scene.cluster.stubborn = True
    pod = await scene.create()
    observer = scene.observed
    assert observer is not None
    observer.answer, observer.last = answer, pod_from({"metadata": {"uid": pod.uid}, "status": STATUSES[phase]})
    scene.cluster.show(pod, STATUSES[phase])
    if goes == "forced":
        scene.attempt.cleanup_scopes.shorten()
    if goes == "was gone":
        scene.cluster.vanish(pod)
    if goes == "stays":
        scene.cluster.fail("delete_pod", refusal("delete pod", 403, "Forbidden", "no"))
    expected = {"ended": "deleted", "forced": "forced", "was gone": "already_gone", "stays": "unconfirmed"}[goes]
    assert await scene.remove() == expected
    assert claims.freed == [freed]


@pytest.mark.parametrize("forced", [True, False])
async def test_claim_after_a_timeout(scene: Scene, *, forced: bool) -> None:
    """A pod that is gone before its cleanup was polled meanwhile: the claim is released if it was seen ended."""
    claims = HeldClaims()
    scene.removal.claims = cast("Claims", claims)
    scene.cluster.stubborn, scene.cluster.shows_ends = forced, True
    pod = await scene.create()
    assert scene.observed is not None
    scene.observed.last = pod_from({"metadata": {"uid": pod.uid}, "status": running()})
    scene.cluster.show(pod, running())
    await scene.removal.request_deletion(scene.observed)
    scene.cluster.fail("read_pod", refusal("read pod", 503))
    async with anyio.create_task_group() as group:
        group.start_soon(scene.removal.watch_until_gone)
        await until(lambda: scene.cluster.calls.count("read_pod") > 1)
        if forced:
            scene.cluster.vanish(pod)
    assert await scene.remove() == ("already_gone" if forced else "deleted")
    assert claims.freed == [not forced]


async def test_forbidden_poll_ends_the_watch(scene: Scene) -> None:
    """A refused poll ends the watch and nothing else."""
    await scene.create()
    assert scene.observed is not None
    await scene.removal.request_deletion(scene.observed)
    scene.cluster.fail("read_pod", refusal("read pod", 403, "Forbidden", "no"))
    await scene.removal.watch_until_gone()
    assert scene.cluster.calls.count("read_pod") == 1


@pytest.mark.parametrize("looked_at", [True, False])
async def test_claim_of_an_unobserved_pod(scene: Scene, looked_at: bool) -> None:
    """The claim of a pod that was never observed is released after its deletion, not if it was already gone."""
    claims = HeldClaims()
    scene.removal.claims = cast("Claims", claims)
    pod = await scene.create()
    scene.observed = None
    if not looked_at:
        scene.cluster.vanish(pod)
    await scene.remove()
    assert claims.freed == [looked_at]


@pytest.mark.parametrize("method", ["delete_pod", "read_pod", "delete_secret"])
async def test_cancelled_cleanup_reports_what_remains(scene: Scene, method: str) -> None:
    """A cleanup that is cancelled ends at once, unconfirmed, with the kubectl command."""
    scene.cluster.stubborn = True
    await scene.create()
    scene.cluster.hang(method)
    async with anyio.create_task_group() as group:

        async def remove() -> None:
            assert await scene.remove() == "unconfirmed"

        group.start_soon(remove)
        await until(lambda: method in scene.cluster.calls[2:])
        scene.attempt.cleanup_scopes.cancel_all()
    assert isinstance(scene.app.ledger.events[0], PodDeleted)
    assert scene.remedy in scene.app.recorder.leftovers
    assert any(scene.remedy in message for _, message in scene.app.reporter.notes)


async def test_cleanup_is_shielded(scene: Scene) -> None:
    """The cancellation of the run does not stop the cleanup."""
    scene.cluster.stubborn = True
    await scene.create()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await scene.remove()
    assert scene.gone


async def test_cancelled_run_shortens_the_grace_period(scene: Scene) -> None:
    """In a cancelled run the pod gets three seconds."""
    scene.cluster.stubborn = True
    await scene.create()
    scene.attempt.cleanup_scopes.shorten()
    assert await scene.remove() == "deleted"
    assert scene.cluster.graces == [CANCEL_GRACE]


async def test_request_deletion_does_not_wait_for_its_effect(scene: Scene) -> None:
    """The deletion is requested once, since the adapter repeats it; the observer attributes it to senro."""
    pod = await scene.create()
    observer = scene.observer(pod)
    scene.cluster.stubborn = True
    await scene.removal.request_deletion(observer)
    assert observer._observation(None).deletion_asked
    assert scene.cluster.graces == [None]
    assert len(scene.cluster.pods) == 1


@pytest.mark.parametrize(
    "error", [Unreachable("delete", cause="refused", sent=False), refusal("delete", 403, "Forbidden", "no")], ids=str
)
async def test_request_deletion_is_given_up(scene: Scene, error: ClusterError) -> None:
    """An error that the adapter raises is noted, and the pod's own deadline has to end the pod."""
    pod = await scene.create()
    scene.cluster.fail("delete_pod", error)
    await scene.removal.request_deletion(scene.observer(pod))
    assert scene.cluster.calls.count("delete_pod") == 1
    assert str(error) in scene.app.reporter.notes[-1][1]


async def test_request_deletion_without_a_pod(scene: Scene) -> None:
    """Without a pod there is no request."""
    await scene.removal.request_deletion(scene.observer(Pod()))
    assert scene.cluster.calls == []
