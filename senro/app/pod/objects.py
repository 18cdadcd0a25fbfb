"""Creating an attempt's objects exactly once, and putting them away on every path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from senro.domain.errors import AlreadyExists, ClusterError, Throttled, Unauthorized, Unavailable, Unreachable
from senro.domain.kube.names import ATTEMPT_UID_ANNOTATION
from senro.domain.kube.pod import Pod
from senro.domain.verdict.creation import TROUBLE_SECONDS, GiveUp, classify_create_error, may_have_been_stored
from senro.ports.clock import Clock
from senro.ports.cluster import Cluster, Manifest

T = TypeVar("T")

FIRST_PAUSE, LONGEST_PAUSE, LONGEST_QUOTA_PAUSE = 0.2, 5.0, 30.0
"""Seconds between the repetitions; each pause is twice the one before, and a quota is asked more gently."""

UNACKNOWLEDGED_SECONDS = 2.0
"""How long a pod is looked for whose create was never answered."""

RETRYABLE = (Unreachable, Throttled, Unauthorized, Unavailable)
"""What does not end the putting away of an object: a token that is being rotated is refused for a moment too, and
giving up would leave the object behind. The caller's bound ends it, and names what is left."""

Removed = Literal["ended", "forced", "already_gone"]
"""`ended`: the deletion was accepted, and the object went once the kubelet had ended its processes, unless somebody
else took its grace away meanwhile, which nothing here tells. `forced`: it was deleted without grace, which takes the
object at once and may leave its processes alive for some seconds (docs/design/api-rules.md#grace-of-a-deletion).
`was_gone`: it was not there any more."""

LOOK_PAUSE, LONGEST_LOOK = 0.1, 1.0
"""Seconds between the looks at a pod that is being deleted."""

END_PAUSE, LONGEST_END_PAUSE = 0.05, 0.5
"""Seconds between two looks for the end of a pod: its kubelet shows it ended for 0.8 s before it removes it (recordings
deleted-trap-zero, deleted-ignores-term and evicted-api-trap-zero)."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """How long a create may wait for a quota, in seconds, and who is told what it waits for."""

    start_timeout: float
    tell: Callable[[str], None]


async def create_pod(
    cluster: Cluster,
    manifest: Manifest,
    nonce: str,
    clock: Clock,
    waiting: Waiting,
    *,
    ready: Callable[[], None] | None = None,
    lost: Callable[[], None] = lambda: None,
) -> tuple[Pod, bool]:
    """The pod, and whether it was adopted: created by a request whose answer was lost.

    Repeats by the table of `senro.domain.verdict.creation`. A pod that has the name already is ours if it carries the
    nonce and is not being deleted; any other raises the apiserver's `AlreadyExists`. `ready` is called before each
    request: what it raises ends the creation, unless an earlier request has made the pod already. `lost` is called
    after each request that may have made it, or may yet, whatever was answered: who gives up then has to look for it.
    """
    metadata = manifest["metadata"]

    async def made() -> Pod | None:
        pod = await cluster.read_pod(metadata["namespace"], metadata["name"])
        return pod if pod is not None and is_ours(pod, nonce) else None

    async def create(unanswered: int) -> tuple[Pod, bool]:
        try:
            if ready is not None:
                ready()
        except Exception:
            pod = await made() if unanswered else None
            if pod is None:
                raise
            return pod, True
        try:
            return await cluster.create_pod(manifest), False
        except AlreadyExists:
            pod = await made()
            if pod is None:
                raise
            return pod, True

    return await _repeat(create, clock, waiting, lost)


async def create_secret(cluster: Cluster, manifest: Manifest, clock: Clock, waiting: Waiting) -> None:
    """Create the Secret. It cannot be read back: a 409 is ours only on the repeat of a request that got no answer."""

    async def create(lost: int) -> None:
        try:
            await cluster.create_secret(manifest)
        except AlreadyExists:
            if not lost:
                raise

    await _repeat(create, clock, waiting)


async def own_secret(cluster: Cluster, name: str, owner: Pod, clock: Clock, waiting: Waiting) -> None:
    """Give the Secret its owner. The patch says the same each time, so it may be repeated."""

    async def own(_: int) -> None:
        await cluster.own_secret(owner.metadata.namespace, name, owner=owner)

    await _repeat(own, clock, waiting)


async def _repeat(
    request: Callable[[int], Awaitable[T]], clock: Clock, waiting: Waiting, lost: Callable[[], None] = lambda: None
) -> T:
    """Call `request` until it is answered; it is told how many earlier calls may have taken effect unanswered.

    `lost` is called after each of those.
    """
    began, pause, unanswered = clock.monotonic(), FIRST_PAUSE, 0
    while True:
        try:
            return await request(unanswered)
        except ClusterError as error:
            move = classify_create_error(error)
            if may_have_been_stored(error):
                lost()
            if isinstance(move, GiveUp):
                raise
            unanswered += move.may_exist
            wait = max(pause, move.delay)
            limit = waiting.start_timeout if move.budget == "quota" else TROUBLE_SECONDS
            if clock.monotonic() + wait > began + limit:
                raise
            if move.message:
                waiting.tell(f"{move.message}: {error}")
        await clock.sleep(wait)
        pause = min(pause * 2, LONGEST_PAUSE) if move.budget == "trouble" else min(wait * 2, LONGEST_QUOTA_PAUSE)


def is_ours(pod: Pod, nonce: str) -> bool:
    """Whether the pod belongs to the attempt that drew `nonce` and may still be used."""
    return pod.metadata.annotations.get(ATTEMPT_UID_ANNOTATION) == nonce and not pod.metadata.deletion_timestamp


async def remove_pod(
    cluster: Cluster, pod: Pod, clock: Clock, *, grace_seconds: int | None, force: Callable[[], bool]
) -> Removed:
    """Delete the pod by uid and return when it was seen gone; the caller bounds it.

    Troubles of the control plane are sat out. Once `force` says so the deletion is asked for again without grace, which
    ends what ignores SIGTERM.
    """
    namespace, name, uid = pod.metadata.namespace, pod.metadata.name, pod.metadata.uid
    pause, asked, forced = LOOK_PAUSE, False, False
    without = False  # a request without grace was sent, and may have taken effect unanswered
    while True:
        try:
            now = force()
            if not asked or (now and not forced):
                before, without = without, without or now
                if await cluster.delete_pod(namespace, name, uid=uid, grace_seconds=0 if now else grace_seconds):
                    return "forced" if before else "ended" if asked else "already_gone"
                asked, forced = True, now
            found = await cluster.read_pod(namespace, name)
            if found is None or found.metadata.uid != uid:
                return "forced" if without else "ended"
        except RETRYABLE:
            pass  # the caller's bound ends this, and names the pod
        await clock.sleep(pause)
        pause = min(pause * 1.5, LONGEST_LOOK)


async def see_go(cluster: Cluster, pod: Pod, clock: Clock, *, seen: Callable[[Pod], None]) -> None:
    """Look at a pod whose deletion was asked for until it is gone; the caller bounds it. `seen` is told each look."""
    pause = END_PAUSE
    while True:
        try:
            found = await cluster.read_pod(pod.metadata.namespace, pod.metadata.name)
            if found is None or found.metadata.uid != pod.metadata.uid:
                return
            seen(found)
        except RETRYABLE:
            pass  # the caller's bound ends this
        except ClusterError:
            return
        await clock.sleep(pause)
        pause = min(pause * 1.2, LONGEST_END_PAUSE)


async def find_unacknowledged_pod(
    cluster: Cluster, manifest: Manifest, nonce: str, clock: Clock, *, seconds: float = UNACKNOWLEDGED_SECONDS
) -> Pod | None:
    """The pod of a create that was never answered, where there is one and it is ours; it has to be removed.

    It is looked for so many seconds: the apiserver may still be at a request that the coordinator has given up.
    """
    metadata = manifest["metadata"]
    deadline = clock.monotonic() + seconds
    pause = LOOK_PAUSE
    while True:
        try:
            pod = await cluster.read_pod(metadata["namespace"], metadata["name"])
            if pod is not None:
                return pod if pod.metadata.annotations.get(ATTEMPT_UID_ANNOTATION) == nonce else None
            if clock.monotonic() >= deadline:
                return None
        except RETRYABLE:
            pass  # the caller's bound ends this, and names the pod
        await clock.sleep(pause)
        pause = min(pause * 1.5, LONGEST_LOOK)


async def remove_secret(cluster: Cluster, namespace: str, name: str, clock: Clock) -> None:
    """Delete the Secret; the caller bounds it. Troubles of the control plane are sat out, a refusal is raised."""
    pause = LOOK_PAUSE
    while True:
        try:
            await cluster.delete_secret(namespace, name)
        except RETRYABLE:
            await clock.sleep(pause)
            pause = min(pause * 1.5, LONGEST_LOOK)
            continue
        return


def removal_command(kind: str, namespace: str, name: str) -> str:
    """What a person types to delete what senro could not."""
    return f"kubectl --namespace {namespace} delete {kind} {name}"
