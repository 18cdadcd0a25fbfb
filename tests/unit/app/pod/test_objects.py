"""Creating and deleting the objects of an attempt, although answers are lost.

More than 500 lines: creation and deletion share one site and one table of cancellations.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.app.pod.creation import PodNotCreated, WriteRetries, create_pod, create_secret, is_ours, own_secret
from senro.app.pod.deletion import (
    UNACKNOWLEDGED_SECONDS,
    find_unacknowledged_pod,
    removal_command,
    remove_pod,
    remove_secret,
)
from senro.domain.errors import (
    AlreadyExists,
    ClusterError,
    Forbidden,
    ProtocolError,
    Rejected,
    Throttled,
    Unauthorized,
    Unavailable,
    Unreachable,
)
from senro.domain.kube.pod import Metadata, Pod
from senro.domain.requests.absence import CREATE_LAG_SECONDS
from senro.domain.verdict.creation import TROUBLE_SECONDS, may_have_been_stored
from tests.lib.fakes.clock import FakeClock, FakeRandomness
from tests.lib.fakes.cluster import FakeCluster, refusal


def retries(clock: FakeClock, start_timeout: float = 300.0, notes: list[str] | None = None) -> WriteRetries:
    """How the writes are repeated: always after the shortest wait. What they wait for is added to `notes`."""
    return WriteRetries(clock, FakeRandomness(0.0), start_timeout, (notes if notes is not None else []).append)


pytestmark = pytest.mark.anyio

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "make-1", "namespace": "ci", "annotations": {"senro.dev/attempt-uid": "ours"}},
    "spec": {"terminationGracePeriodSeconds": 30, "containers": [{"name": "step", "image": "i", "command": ["make"]}]},
}
ANOTHER_ATTEMPTS_POD = {**POD, "metadata": {**POD["metadata"], "annotations": {"senro.dev/attempt-uid": "theirs"}}}
SECRET: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "make-1", "namespace": "ci"},
    "data": {"Token": "bWFkZS11cA=="},
}


def lost() -> Unreachable:
    return Unreachable("create", cause="reset by peer", sent=True)


def unsent() -> Unreachable:
    return Unreachable("create", cause="refused", sent=False)


def throttled(after: float | None = None) -> ClusterError:
    return refusal("create", 429, "TooManyRequests", "slow down", retry_after=after)


def unavailable(after: float | None = None) -> ClusterError:
    return refusal("create", 503, message="etcd has no leader", retry_after=after)


def answered(code: int) -> ClusterError:
    return refusal("create", code, message="who knows")


def site() -> tuple[FakeClock, FakeCluster]:
    clock = FakeClock(auto=True)
    return clock, FakeCluster(clock)


def waited(clock: FakeClock) -> float:
    return clock.monotonic() - FakeClock().monotonic()


async def create(cluster: FakeCluster, clock: FakeClock, given: WriteRetries | None = None) -> tuple[Pod, bool]:
    """Creates POD; raises the error that ended the creation."""
    try:
        return await create_pod(cluster, POD, "ours", given or retries(clock))
    except PodNotCreated as failure:
        raise failure.error from failure


async def test_pod_is_created() -> None:
    """One request returns the stored pod, which is not adopted."""
    clock, cluster = site()
    pod, adopted = await create(cluster, clock)
    assert (pod.name, adopted, cluster.calls, waited(clock)) == ("make-1", False, ["create_pod"], 0)


@pytest.mark.parametrize("error", [lost(), unavailable()], ids=["reset", "503"])
async def test_pod_with_a_lost_answer_is_adopted(error: ClusterError) -> None:
    """A pod that was stored without an answer is found by its nonce before another create."""
    clock, cluster = site()
    cluster.fail("create_pod", error, effect=True)
    pod, adopted = await create(cluster, clock)
    assert adopted
    assert cluster.pods["ci", "make-1"]["metadata"]["uid"] == pod.uid
    assert cluster.calls == ["create_pod", "read_pod"]


@pytest.mark.parametrize("error", [lost(), answered(504), answered(500), answered(502)], ids=str)
@pytest.mark.parametrize("count", [1, 100])
async def test_stored_pod_is_adopted_after_errors(error: ClusterError, count: int) -> None:
    """The first create took effect, and all creates are answered with an error: the pod is adopted."""
    clock, cluster = site()
    cluster.fail("create_pod", error, effect=True)
    for _ in range(count - 1):
        cluster.fail("create_pod", error)
    pod, adopted = await create(cluster, clock)
    assert adopted
    assert cluster.pods["ci", "make-1"]["metadata"]["uid"] == pod.uid


async def test_stored_pod_is_adopted_from_late_reads() -> None:
    """An unknown 500 ends the creates; the pod that it stored appears in the reads some seconds later."""
    clock, cluster = site()
    cluster.fail("create_pod", answered(500), effect=True)
    for _ in range(20):
        cluster.fail("read_pod", refusal("read pod", 404, "", "404 page not found"))
    _, adopted = await create(cluster, clock)
    assert adopted


@pytest.mark.parametrize("error", [lost(), answered(504), answered(500)], ids=str)
async def test_possibly_stored_pod_is_reported(error: ClusterError) -> None:
    """Ten seconds of reads show no pod, but some answer leaves open whether one was stored."""
    clock, cluster = site()
    for _ in range(100):
        cluster.fail("create_pod", error)
    with pytest.raises(PodNotCreated) as caught:
        await create_pod(cluster, POD, "ours", retries(clock))
    assert caught.value.may_exist


@pytest.mark.parametrize(
    "error", [lost(), unsent(), throttled(), unavailable()], ids=["reset", "refused", "429", "503"]
)
async def test_create_without_effect_is_repeated(error: ClusterError) -> None:
    """A create without an effect is repeated, and the pod is not adopted."""
    clock, cluster = site()
    cluster.fail("create_pod", error)
    pod, adopted = await create(cluster, clock)
    assert (pod.name, adopted) == ("make-1", False)
    assert [call for call in cluster.calls if call != "read_pod"] == ["create_pod", "create_pod"]


async def test_failed_read_is_repeated() -> None:
    """A failed read is repeated together with the create, and there is one pod."""
    clock, cluster = site()
    cluster.fail("create_pod", lost(), effect=True)
    cluster.fail("read_pod", unavailable())
    _, adopted = await create(cluster, clock)
    assert adopted
    assert len(cluster.pods) == 1


async def test_foreign_pod_raises_already_exists() -> None:
    """A pod of that name with another nonce raises AlreadyExists at once, and is not changed."""
    clock, cluster = site()
    await cluster.create_pod(ANOTHER_ATTEMPTS_POD)
    with pytest.raises(AlreadyExists, match="make-1"):
        await create(cluster, clock)
    assert (len(cluster.pods), waited(clock)) == (1, 0)


async def test_pod_in_deletion_is_not_adopted() -> None:
    """A pod of this attempt that is being deleted is not adopted."""
    clock, cluster = site()
    cluster.stubborn = True
    created = await cluster.create_pod(POD)
    await cluster.delete_pod("ci", "make-1", uid=created.uid)
    with pytest.raises(AlreadyExists):
        await create(cluster, clock)


async def test_vanished_pod_is_not_adopted() -> None:
    """A pod that existed for the create and not for the read is not adopted: its nonce is unknown."""
    clock, cluster = site()
    cluster.fail("create_pod", refusal("create", 409, "AlreadyExists", "taken"))
    with pytest.raises(AlreadyExists, match="taken"):
        await create(cluster, clock)


@pytest.mark.parametrize(("code", "error"), [(400, Rejected), (401, Unauthorized), (403, Forbidden), (422, Rejected)])
async def test_refusal_is_raised_at_once(code: int, error: type[ClusterError]) -> None:
    """A refusal is raised after one request."""
    clock, cluster = site()
    cluster.fail("create_pod", refusal("create", code, message="no"))
    with pytest.raises(error, match="no"):
        await create(cluster, clock)
    assert (cluster.calls, waited(clock)) == (["create_pod"], 0)


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (unsent(), 0.1),
        (unavailable(), 0.1),
        (unavailable(7), 7),
        (throttled(), 1),
        (throttled(0), 0.1),
        (throttled(12.5), 12.5),
    ],
    ids=str,
)
async def test_pause_before_a_retry(error: ClusterError, seconds: float) -> None:
    """The pause is the delay that the apiserver requested, a second for a 429 without one, at least half of 0.2 s."""
    clock, cluster = site()
    cluster.fail("create_pod", error)
    await create(cluster, clock)
    assert waited(clock) == pytest.approx(seconds)


async def test_pauses_double() -> None:
    """Each pause is twice the one before, up to five seconds; half of it is random."""
    clock, cluster = site()
    for _ in range(8):
        cluster.fail("create_pod", unsent())
    await create(cluster, clock)
    assert waited(clock) == pytest.approx((0.2 + 0.4 + 0.8 + 1.6 + 3.2 + 5 + 5 + 5) / 2)


async def test_quota_is_awaited() -> None:
    """A quota is retried after half of 5, 10, 20, 30, 30 s, though not before 5 s, and the wait is reported."""
    clock, cluster = site()
    notes: list[str] = []
    full = refusal("create", 403, "Forbidden", 'pods "x" is forbidden: exceeded quota: q, requested: pods=1')
    for _ in range(5):
        cluster.fail("create_pod", full)
    await create(cluster, clock, retries(clock, notes=notes))
    assert waited(clock) == pytest.approx(5 + 5 + 10 + 15 + 15)
    assert notes == [f"waiting for quota: {full}"] * 5


async def test_full_quota_ends_with_the_start_timeout() -> None:
    """The apiserver's refusal is raised at the start timeout."""
    clock, cluster = site()
    for _ in range(100):
        cluster.fail("create_pod", refusal("create", 403, "Forbidden", "exceeded quota: q"))
    with pytest.raises(Forbidden, match="exceeded quota: q"):
        await create(cluster, clock, retries(clock, 100.0))
    assert 60 < waited(clock) <= 100


@pytest.mark.parametrize(
    "error",
    [
        refusal("create", 409, "Conflict", 'Operation cannot be fulfilled on resourcequotas "q": it has been modified'),
        refusal("create", 500, "InternalError", 'failed calling webhook "p.example": context deadline exceeded'),
    ],
    ids=["resourcequotas", "webhook"],
)
async def test_errors_before_storage_are_repeated(error: ClusterError) -> None:
    """A conflict of the quota and an unanswered webhook are retried after a second."""
    clock, cluster = site()
    cluster.fail("create_pod", error)
    _, adopted = await create(cluster, clock)
    assert (adopted, cluster.calls) == (False, ["create_pod", "create_pod"])
    assert waited(clock) == pytest.approx(1.0)


@pytest.mark.parametrize("error", [lost(), throttled(), throttled(30), unavailable(600)], ids=str)
async def test_create_is_given_up_after_a_minute(error: ClusterError) -> None:
    """The last error is raised when the next pause would exceed the bound."""
    clock, cluster = site()
    for _ in range(100):
        cluster.fail("create_pod", error)
    with pytest.raises(type(error)):
        await create(cluster, clock)
    looked = CREATE_LAG_SECONDS + 1 if may_have_been_stored(error) else 0
    assert waited(clock) <= TROUBLE_SECONDS + looked


@given(st.lists(st.tuples(st.sampled_from([lost, unsent, throttled, unavailable]), st.booleans()), max_size=6))
def test_lost_answers_create_one_pod_and_one_secret(
    faults: list[tuple[Callable[[], ClusterError], bool]],
) -> None:
    """After any sequence of errors, with effect or without, there is one pod and one Secret."""

    async def run() -> None:
        clock, cluster = site()
        for fault, took_effect in faults:
            cluster.fail("create_pod", fault(), effect=took_effect and fault in (lost, unavailable))
            cluster.fail("create_secret", fault(), effect=took_effect and fault in (lost, unavailable))
        pod, _ = await create(cluster, clock)
        await create_secret(cluster, SECRET, retries(clock))
        await own_secret(cluster, "make-1", pod, retries(clock))
        assert list(cluster.pods) == list(cluster.secrets) == [("ci", "make-1")]

    anyio.run(run)


@pytest.mark.parametrize("error", [lost(), unavailable()], ids=["reset", "503"])
async def test_secret_with_a_lost_answer(error: ClusterError) -> None:
    """A Secret cannot be read back: a 409 after an unanswered create means that the create took effect."""
    clock, cluster = site()
    cluster.fail("create_secret", error, effect=True)
    await create_secret(cluster, SECRET, retries(clock))
    assert list(cluster.secrets) == [("ci", "make-1")]


@pytest.mark.parametrize(
    ("errors", "may_exist"),
    [
        ([], False),
        ([unsent()], False),
        ([throttled()], False),
        ([lost()], True),
        ([lost(), unsent()], True),
        ([unavailable()], True),
    ],
)
async def test_failed_creation_says_whether_the_pod_may_exist(errors: list[ClusterError], *, may_exist: bool) -> None:
    """The pod may exist if some answer leaves it open, even if the last request was refused."""
    clock, cluster = site()
    for error in (*errors, refusal("create", 403, "Forbidden", "cannot create pods")):
        cluster.fail("create_pod", error)
    with pytest.raises(PodNotCreated) as caught:
        await create_pod(cluster, POD, "ours", retries(clock))
    assert isinstance(caught.value.error, Forbidden)
    assert caught.value.may_exist == may_exist


@pytest.mark.parametrize("errors", [[], [unsent()], [throttled()], [throttled(), unsent()]], ids=len)
async def test_foreign_secret_is_refused(errors: list[ClusterError]) -> None:
    """A 409 after requests without effect is about a foreign Secret, which is not changed."""
    clock, cluster = site()
    theirs = await cluster.create_secret(SECRET)
    for error in errors:
        cluster.fail("create_secret", error)
    with pytest.raises(AlreadyExists):
        await create_secret(cluster, SECRET, retries(clock))
    assert cluster.secrets["ci", "make-1"]["metadata"]["uid"] == theirs


async def test_owner_patch_is_repeated() -> None:
    """A lost answer and a 429 are repeated; the owned Secret is deleted with the pod."""
    clock, cluster = site()
    pod = await cluster.create_pod(POD)
    await cluster.create_secret(SECRET)
    cluster.fail("own_secret", lost(), effect=True)
    cluster.fail("own_secret", throttled())
    await own_secret(cluster, "make-1", pod, retries(clock))
    await remove_pod(cluster, pod, clock, grace_seconds=None, force=lambda: False)
    assert (cluster.pods, cluster.secrets) == ({}, {})


async def test_ignored_owner_is_raised() -> None:
    """If the answer does not contain the owner, the patch is not repeated."""
    clock, cluster = site()
    pod = await cluster.create_pod(POD)
    cluster.fail("own_secret", ProtocolError("own", rule="the owner", got="none"))
    with pytest.raises(ProtocolError):
        await own_secret(cluster, "make-1", pod, retries(clock))


Made = Callable[[FakeCluster, FakeClock, Pod], Coroutine[Any, Any, Any]]
CALLS: dict[str, tuple[Made, list[str]]] = {
    "create_pod": (lambda cluster, clock, _: create(cluster, clock), ["create_pod"]),
    "adopt": (lambda cluster, clock, _: create(cluster, clock), ["read_pod"]),
    "create_secret": (lambda cluster, clock, _: create_secret(cluster, SECRET, retries(clock)), ["create_secret"]),
    "own_secret": (lambda cluster, clock, pod: own_secret(cluster, "make-1", pod, retries(clock)), ["own_secret"]),
    "remove_pod": (
        lambda cluster, clock, pod: remove_pod(cluster, pod, clock, grace_seconds=None, force=lambda: False),
        ["delete_pod", "read_pod"],
    ),
    "find_unacknowledged_pod": (
        lambda cluster, clock, _: find_unacknowledged_pod(cluster, POD, "ours", clock),
        ["read_pod"],
    ),
    "remove_secret": (
        lambda cluster, clock, _: remove_secret(cluster, "ci", "make-1", clock, FakeRandomness()),
        ["delete_secret"],
    ),
}


@pytest.mark.parametrize(
    ("call", "method"), [(call, method) for call, (_, methods) in CALLS.items() for method in methods]
)
async def test_cancelled_request_ends_at_once(call: str, method: str) -> None:
    """A cancellation during a request ends it at once; nothing is repeated."""
    clock, cluster = site()
    pod = Pod(metadata=Metadata(name="make-1", namespace="ci", uid="uid-1"))
    if call not in ("create_pod", "create_secret"):
        pod = await cluster.create_pod(POD)
        cluster.stubborn = True
    cluster.hang(method)
    async with anyio.create_task_group() as group:
        group.start_soon(CALLS[call][0], cluster, clock, pod)
        await until(lambda: method in cluster.calls[1 if call not in ("create_pod", "create_secret") else 0 :])
        calls = len(cluster.calls)
        group.cancel_scope.cancel()
    assert len(cluster.calls) == calls


@pytest.mark.parametrize("call", ["create_pod", "create_secret", "own_secret", "remove_pod", "remove_secret"])
async def test_cancelled_pause_ends_at_once(call: str) -> None:
    """After a cancellation during a pause there is no other request."""
    clock = FakeClock()
    cluster = FakeCluster(clock)
    pod = await cluster.create_pod(POD) if call in ("own_secret", "remove_pod") else Pod()
    method = {"remove_pod": "delete_pod", "remove_secret": "delete_secret"}.get(call, call)
    cluster.fail(method, unsent())
    async with anyio.create_task_group() as group:
        group.start_soon(CALLS[call][0], cluster, clock, pod)
        await until(lambda: clock.sleepers == 1)
        calls = len(cluster.calls)
        group.cancel_scope.cancel()
    assert len(cluster.calls) == calls
    assert clock.sleepers == 0


async def until(condition: Callable[[], bool]) -> None:
    """Let other tasks run until the condition holds."""
    for _ in range(1000):
        if condition():
            return
        await anyio.lowlevel.checkpoint()
    raise AssertionError("the others never came so far")


async def test_pod_is_deleted_and_seen_gone() -> None:
    """The pod is deleted with its own grace period and polled until it is gone."""
    clock, cluster = site()
    cluster.stubborn = True
    pod = await cluster.create_pod(POD)
    assert await remove_pod(cluster, pod, clock, grace_seconds=None, force=lambda: False) == "deleted"
    assert (cluster.pods, cluster.graces) == ({}, [None])
    assert 30 <= waited(clock) <= 31
    assert cluster.calls.count("delete_pod") == 1


async def test_missing_pod_is_already_gone() -> None:
    """A pod that does not exist is `already_gone`, without a wait."""
    clock, cluster = site()
    pod = await cluster.create_pod(POD)
    cluster.vanish(pod)
    assert await remove_pod(cluster, pod, clock, grace_seconds=3, force=lambda: False) == "already_gone"
    assert (cluster.calls, waited(clock)) == (["create_pod", "delete_pod"], 0)


async def test_other_uid_counts_as_gone() -> None:
    """A pod of the same name with another uid is not changed, before and after the deletion."""
    clock, cluster = site()
    pod = await cluster.create_pod(POD)
    cluster.vanish(pod)
    await cluster.create_pod(ANOTHER_ATTEMPTS_POD)
    await remove_pod(cluster, pod, clock, grace_seconds=None, force=lambda: False)
    cluster.fail("delete_pod", unavailable())
    assert list(cluster.pods) == [("ci", "make-1")]
    ours = await cluster.read_pod("ci", "make-1")
    assert ours is not None
    cluster.pods["ci", "make-1"]["metadata"]["uid"] = "another"
    await remove_pod(cluster, ours, clock, grace_seconds=None, force=lambda: False)
    assert cluster.pods["ci", "make-1"]["metadata"]["uid"] == "another"


async def test_pod_that_ignores_sigterm_is_forced() -> None:
    """Once `force` is true, the deletion is repeated without a grace period."""
    clock, cluster = site()
    cluster.stubborn = True
    pod = await cluster.create_pod(POD)
    assert await remove_pod(cluster, pod, clock, grace_seconds=3, force=lambda: waited(clock) >= 2) == "forced"
    assert cluster.graces == [3, 0]
    assert 2 <= waited(clock) < 3.5


async def test_failed_forced_deletion_is_repeated() -> None:
    """A forced request that got a 503 is repeated."""
    clock, cluster = site()
    cluster.stubborn = True
    pod = await cluster.create_pod(POD)
    forced = iter([False])
    cluster.fail("read_pod", unavailable())

    def force() -> bool:
        now = next(forced, True)
        if now and cluster.graces == [None]:
            cluster.graces.append(-1)
            cluster.fail("delete_pod", unavailable())
        return now

    assert await remove_pod(cluster, pod, clock, grace_seconds=None, force=force) == "forced"
    assert cluster.graces == [None, -1, 0]
    assert waited(clock) < 5


async def test_forced_from_the_start() -> None:
    """If `force` is true at the start, there is one request, without a grace period."""
    clock, cluster = site()
    cluster.stubborn = True
    pod = await cluster.create_pod(POD)
    assert await remove_pod(cluster, pod, clock, grace_seconds=3, force=lambda: True) == "forced"
    assert cluster.graces == [0]


async def test_forced_deletion_with_a_lost_answer() -> None:
    """An unanswered forced request may have taken effect; one that was sent after the pod was gone had none."""
    clock, cluster = site()
    pod = await cluster.create_pod(POD)
    cluster.fail("delete_pod", lost(), effect=True)
    assert await remove_pod(cluster, pod, clock, grace_seconds=3, force=lambda: True) == "forced"
    pod = await cluster.create_pod(POD)

    def force() -> bool:
        if cluster.graces[-1] is None:
            cluster.vanish(pod)
        return cluster.graces[-1] is None

    cluster.stubborn = True
    assert await remove_pod(cluster, pod, clock, grace_seconds=None, force=force) == "deleted"


@pytest.mark.parametrize("method", ["delete_pod", "read_pod"])
async def test_deletion_retries_errors(method: str) -> None:
    """However often requests fail, the pod is deleted in the end."""
    clock, cluster = site()
    pod = await cluster.create_pod(POD)
    expired = refusal("delete", 401, "Unauthorized", "Unauthorized")
    for error in [unsent(), lost(), throttled(), unavailable(), expired] * 5:
        cluster.fail(method, error)
    await remove_pod(cluster, pod, clock, grace_seconds=None, force=lambda: False)
    assert cluster.pods == {}


async def test_deletion_with_a_lost_answer_is_already_gone() -> None:
    """If the pod is gone after an unanswered deletion, it is `already_gone`."""
    clock, cluster = site()
    pod = await cluster.create_pod(POD)
    cluster.fail("delete_pod", lost(), effect=True)
    assert await remove_pod(cluster, pod, clock, grace_seconds=0, force=lambda: False) == "already_gone"


async def test_forbidden_deletion_is_raised() -> None:
    """A 403 is raised at once."""
    clock, cluster = site()
    pod = await cluster.create_pod(POD)
    cluster.fail("delete_pod", refusal("delete", 403, "Forbidden", "no"))
    with pytest.raises(Forbidden):
        await remove_pod(cluster, pod, clock, grace_seconds=None, force=lambda: False)


async def test_pod_of_an_unanswered_create_is_found() -> None:
    """The pod is found at once, despite errors, and also if the create is carried out late."""
    clock, cluster = site()
    cluster.fail("read_pod", unavailable())
    pod = await cluster.create_pod(POD)
    found = await find_unacknowledged_pod(cluster, POD, "ours", clock)
    assert found is not None
    assert found.uid == pod.uid
    cluster.vanish(pod)
    async with anyio.create_task_group() as group:
        late = FakeClock()

        async def look() -> None:
            found = await find_unacknowledged_pod(cluster, POD, "ours", late)
            assert found is not None

        group.start_soon(look)
        await until(lambda: late.sleepers == 1)
        await cluster.create_pod(POD)
        await late.advance(1)


async def test_no_pod_of_an_unanswered_create() -> None:
    """Without a pod the result is None after two seconds; at once if the name is another's."""
    clock, cluster = site()
    assert await find_unacknowledged_pod(cluster, POD, "ours", clock) is None
    assert UNACKNOWLEDGED_SECONDS <= waited(clock) <= UNACKNOWLEDGED_SECONDS + 1
    before = waited(clock)
    await cluster.create_pod(ANOTHER_ATTEMPTS_POD)
    assert await find_unacknowledged_pod(cluster, POD, "ours", clock) is None
    assert waited(clock) == before


async def test_secret_is_deleted() -> None:
    """The Secret is deleted despite errors; a missing one is no error."""
    clock, cluster = site()
    await cluster.create_secret(SECRET)
    for error in (unsent(), lost(), throttled(), unavailable()):
        cluster.fail("delete_secret", error)
    await remove_secret(cluster, "ci", "make-1", clock, FakeRandomness())
    await remove_secret(cluster, "ci", "make-1", clock, FakeRandomness())
    assert cluster.secrets == {}


async def test_forbidden_secret_deletion_is_raised() -> None:
    """A 403 is raised at once."""
    clock, cluster = site()
    await cluster.create_secret(SECRET)
    cluster.fail("delete_secret", refusal("delete", 403, "Forbidden", "no"))
    with pytest.raises(Forbidden):
        await remove_secret(cluster, "ci", "make-1", clock, FakeRandomness())
    assert (cluster.calls.count("delete_secret"), waited(clock)) == (1, 0)


def test_is_ours_needs_the_nonce_and_no_deletion() -> None:
    """A pod belongs to the attempt if it has the nonce and is not being deleted."""
    annotations = {"senro.dev/attempt-uid": "ours"}
    assert is_ours(Pod(metadata=Metadata(annotations=annotations)), "ours")
    assert not is_ours(Pod(metadata=Metadata(annotations=annotations)), "theirs")
    assert not is_ours(Pod(), "ours")
    assert not is_ours(
        Pod(metadata=Metadata(annotations=annotations, deletion_timestamp="2026-11-29T10:00:00Z")), "ours"
    )


def test_removal_command() -> None:
    """The command is complete."""
    assert removal_command("pod", "ci", "make-1") == "kubectl --namespace ci delete pod make-1"
    assert {Throttled, Unavailable} <= {type(throttled()), type(unavailable())}
