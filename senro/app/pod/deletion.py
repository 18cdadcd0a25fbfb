"""Deletes the pod and the Secret of an attempt, and watches a pod until it is gone. The caller bounds the time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from senro.domain.errors import ClusterError, Throttled, Unauthorized, Unavailable, Unreachable
from senro.domain.kube.names import ATTEMPT_UID_ANNOTATION
from senro.domain.kube.pod import Pod
from senro.domain.requests.backoff import BackoffPolicy
from senro.domain.requests.idempotency import requested_delay
from senro.ports.clock import Clock, Randomness
from senro.ports.cluster import Cluster, Manifest

UNACKNOWLEDGED_SECONDS = 2.0
"""How long a pod is looked for whose create was never answered."""

RETRYABLE = (Unreachable, Throttled, Unauthorized, Unavailable)
"""Errors after which a deletion is tried again until the caller's bound. A token that is being rotated is refused for
a moment too, and giving up would leave the object behind."""

PodRemoval = Literal["deleted", "forced", "already_gone"]
"""How `remove_pod` ended.

- `deleted`: the deletion was accepted, and the pod was seen gone. Its kubelet had ended its containers, unless another
  client removed the grace period meanwhile, which cannot be seen here.
- `forced`: the pod was deleted without a grace period, which removes the object at once and may leave its processes
  alive for some seconds.
- `already_gone`: the pod did not exist any more.
"""

DELETION_POLLS = BackoffPolicy(first=0.1, longest=1.0, factor=1.5, jitter=0.0)
"""The schedule of the polls of a pod that is being deleted."""

END_POLLS = BackoffPolicy(first=0.05, longest=0.5, factor=1.2, jitter=0.0)
"""The schedule of the polls for the end of a pod: its kubelet shows it ended for 0.8 s before it removes the object
(recordings deleted-trap-zero, deleted-ignores-term and evicted-api-trap-zero)."""

SECRET_DELETIONS = BackoffPolicy(first=0.1, longest=1.0, factor=1.5)
"""The waits after deletions of a Secret that failed although the adapter has repeated them, and after a 401."""


async def remove_pod(
    cluster: Cluster, pod: Pod, clock: Clock, *, grace_seconds: int | None, force: Callable[[], bool]
) -> PodRemoval:
    """Delete the pod by uid and return once it is seen gone; errors in `RETRYABLE` are retried.

    As soon as `force` returns True, the deletion is repeated without a grace period, which ends a process that ignores
    SIGTERM.
    """
    namespace, name, uid = pod.metadata.namespace, pod.metadata.name, pod.metadata.uid
    waits, requested, forced = DELETION_POLLS.waits(), False, False
    may_be_forced = False  # a request without a grace period was sent, and may have taken effect unanswered
    while True:
        delay = 0.0
        try:
            now = force()
            if not requested or (now and not forced):
                before, may_be_forced = may_be_forced, may_be_forced or now
                if await cluster.delete_pod(namespace, name, uid=uid, grace_seconds=0 if now else grace_seconds):
                    return "forced" if before else "deleted" if requested else "already_gone"
                requested, forced = True, now
            found = await cluster.read_pod(namespace, name)
            if found is None or found.metadata.uid != uid:
                return "forced" if may_be_forced else "deleted"
        except RETRYABLE as error:
            delay = requested_delay(error)
        await clock.sleep(max(next(waits), delay))


async def watch_until_gone(cluster: Cluster, pod: Pod, clock: Clock, *, seen: Callable[[Pod], None]) -> None:
    """Poll a pod that is being deleted until it is gone, and call `seen` with each pod that a poll returned.

    Errors in `RETRYABLE` are retried; another error ends the watch.
    """
    waits = END_POLLS.waits()
    while True:
        delay = 0.0
        try:
            found = await cluster.read_pod(pod.metadata.namespace, pod.metadata.name)
            if found is None or found.metadata.uid != pod.metadata.uid:
                return
            seen(found)
        except RETRYABLE as error:
            delay = requested_delay(error)
        except ClusterError:
            return
        await clock.sleep(max(next(waits), delay))


async def find_unacknowledged_pod(cluster: Cluster, manifest: Manifest, nonce: str, clock: Clock) -> Pod | None:
    """Returns the pod of a create that was not answered, None if it does not appear in `UNACKNOWLEDGED_SECONDS`.

    A pod of that name with another nonce is not returned. The apiserver may carry out a request some time after the
    coordinator has given it up.
    """
    metadata = manifest["metadata"]
    deadline = clock.monotonic() + UNACKNOWLEDGED_SECONDS
    waits = DELETION_POLLS.waits()
    while True:
        delay = 0.0
        try:
            pod = await cluster.read_pod(metadata["namespace"], metadata["name"])
            if pod is not None:
                return pod if pod.metadata.annotations.get(ATTEMPT_UID_ANNOTATION) == nonce else None
            if clock.monotonic() >= deadline:
                return None
        except RETRYABLE as error:
            delay = requested_delay(error)
        await clock.sleep(max(next(waits), delay))


async def remove_secret(cluster: Cluster, namespace: str, name: str, clock: Clock, randomness: Randomness) -> None:
    """Delete the Secret. Errors in `RETRYABLE` are retried; another one, such as a 403, is raised."""
    waits = SECRET_DELETIONS.waits(randomness.fraction)
    while True:
        try:
            await cluster.delete_secret(namespace, name)
        except RETRYABLE as error:
            await clock.sleep(max(next(waits), requested_delay(error)))
        else:
            return


def removal_command(kind: str, namespace: str, name: str) -> str:
    """The kubectl command that deletes an object which senro could not delete."""
    return f"kubectl --namespace {namespace} delete {kind} {name}"
