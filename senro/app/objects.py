"""Creating an attempt's objects exactly once, and putting them away on every path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from senro.domain.errors import AlreadyExists, ClusterError, Throttled, Unavailable, Unreachable
from senro.domain.names import ATTEMPT_UID_ANNOTATION
from senro.domain.pod import Pod
from senro.ports.clock import Clock
from senro.ports.cluster import Cluster, Manifest

T = TypeVar("T")

CREATE_SECONDS = 60.0
"""How long a create is repeated whose answer does not come. The steps of a run must not wait for ever to begin."""

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0
"""Seconds between the repetitions; each pause is twice the one before."""

THROTTLED_PAUSE = 1.0
"""Seconds after a 429 that names none, as `Throttled` has it."""

UNSEEN_SECONDS = 1.0
"""How long a pod is looked for whose create was never answered."""

LOOK_PAUSE, LONGEST_LOOK = 0.1, 1.0
"""Seconds between the looks at a pod that is being deleted."""


async def create_pod(cluster: Cluster, manifest: Manifest, nonce: str, clock: Clock) -> tuple[Pod, bool]:
    """The pod, and whether it was adopted: created by a request whose answer was lost.

    Repeats through lost answers, 429 and 5xx for a minute. A pod that has the name already is ours if it carries the
    nonce and is not being deleted; any other raises the apiserver's `AlreadyExists`.
    """

    async def create(_: int) -> tuple[Pod, bool]:
        try:
            return await cluster.create_pod(manifest), False
        except AlreadyExists:
            metadata = manifest["metadata"]
            pod = await cluster.read_pod(metadata["namespace"], metadata["name"])
            if pod is None or not is_ours(pod, nonce):
                raise
            return pod, True

    return await _repeat(create, clock)


async def create_secret(cluster: Cluster, manifest: Manifest, clock: Clock) -> None:
    """Create the Secret. It cannot be read back: a 409 is ours only on the repeat of a request that got no answer."""

    async def create(lost: int) -> None:
        try:
            await cluster.create_secret(manifest)
        except AlreadyExists:
            if not lost:
                raise

    await _repeat(create, clock)


async def own_secret(cluster: Cluster, namespace: str, name: str, owner: Pod, clock: Clock) -> None:
    """Give the Secret its owner. The patch says the same each time, so it may be repeated."""

    async def own(_: int) -> None:
        await cluster.own_secret(namespace, name, owner=owner)

    await _repeat(own, clock)


async def _repeat(request: Callable[[int], Awaitable[T]], clock: Clock) -> T:
    """Call `request` until it is answered; it is told how many earlier calls may have taken effect unanswered."""
    deadline = clock.monotonic() + CREATE_SECONDS
    pause, lost = FIRST_PAUSE, 0
    while True:
        try:
            return await request(lost)
        except (Unreachable, Throttled, Unavailable) as error:
            untouched = isinstance(error, Throttled) or (isinstance(error, Unreachable) and not error.sent)
            lost += 0 if untouched else 1
            asked = error.answer.retry_after if isinstance(error, Throttled | Unavailable) else None
            if asked is None and isinstance(error, Throttled):
                asked = THROTTLED_PAUSE
            wait = max(pause, asked or 0.0)
            if clock.monotonic() + wait > deadline:
                raise
        await clock.sleep(wait)
        pause = min(pause * 2, LONGEST_PAUSE)


def is_ours(pod: Pod, nonce: str) -> bool:
    """Whether the pod belongs to the attempt that drew `nonce` and may still be used."""
    return pod.metadata.annotations.get(ATTEMPT_UID_ANNOTATION) == nonce and not pod.metadata.deletion_timestamp


async def remove_pod(
    cluster: Cluster, pod: Pod, clock: Clock, *, grace_seconds: int | None, force: Callable[[], bool]
) -> None:
    """Delete the pod by uid and return when it was seen gone; the caller bounds it.

    Troubles of the control plane are sat out. Once `force` says so the deletion is asked for again without grace, which
    ends what ignores SIGTERM.
    """
    namespace, name, uid = pod.metadata.namespace, pod.metadata.name, pod.metadata.uid
    pause, asked, forced = LOOK_PAUSE, False, False
    while True:
        try:
            now = force()
            if not asked or (now and not forced):
                if await cluster.delete_pod(namespace, name, uid=uid, grace_seconds=0 if now else grace_seconds):
                    return
                asked, forced = True, now
            found = await cluster.read_pod(namespace, name)
            if found is None or found.metadata.uid != uid:
                return
        except (Unreachable, Throttled, Unavailable):
            pass  # the caller's bound ends this, and names the pod
        await clock.sleep(pause)
        pause = min(pause * 1.5, LONGEST_LOOK)


async def find_unseen(cluster: Cluster, manifest: Manifest, nonce: str, clock: Clock) -> Pod | None:
    """The pod of a create that was never answered, where there is one and it is ours; it has to be removed.

    It is looked for a second: the apiserver may still be at a request that the coordinator has given up.
    """
    metadata = manifest["metadata"]
    deadline = clock.monotonic() + UNSEEN_SECONDS
    pause = LOOK_PAUSE
    while True:
        try:
            pod = await cluster.read_pod(metadata["namespace"], metadata["name"])
            if pod is not None:
                return pod if pod.metadata.annotations.get(ATTEMPT_UID_ANNOTATION) == nonce else None
            if clock.monotonic() >= deadline:
                return None
        except (Unreachable, Throttled, Unavailable):
            pass  # the caller's bound ends this, and names the pod
        await clock.sleep(pause)
        pause = min(pause * 1.5, LONGEST_LOOK)


async def remove_secret(cluster: Cluster, namespace: str, name: str, clock: Clock) -> None:
    """Delete the Secret; the caller bounds it. What an apiserver forbids is left to the owner's garbage collection."""
    pause = LOOK_PAUSE
    while True:
        try:
            await cluster.delete_secret(namespace, name)
        except (Unreachable, Throttled, Unavailable):
            await clock.sleep(pause)
            pause = min(pause * 1.5, LONGEST_LOOK)
            continue
        except ClusterError:
            return
        return


def removal_command(kind: str, namespace: str, name: str) -> str:
    """What a person types to delete what senro could not."""
    return f"kubectl --namespace {namespace} delete {kind} {name}"
