"""Creates the pod and the Secret of an attempt exactly once, although answers may be lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from senro.domain.errors import AlreadyExists, ClusterError
from senro.domain.kube.names import ATTEMPT_UID_ANNOTATION
from senro.domain.kube.pod import Pod
from senro.domain.requests.absence import CREATE_LAG_SECONDS
from senro.domain.requests.backoff import Backoff, BackoffPolicy
from senro.domain.verdict.creation import (
    QUOTA_PAUSE,
    TROUBLE_SECONDS,
    GiveUp,
    classify_create_error,
    may_have_been_stored,
)
from senro.ports.clock import Clock, Randomness
from senro.ports.cluster import Cluster, Manifest

T = TypeVar("T")

TROUBLES = BackoffPolicy(first=0.2, longest=5.0, bound=TROUBLE_SECONDS)
"""The tries of a write while the control plane fails. The adapter sends each of them once."""

QUOTA = BackoffPolicy(first=QUOTA_PAUSE, longest=30.0)
"""The tries of a create while a quota is used up. Its bound is the step's start timeout."""

LOOKS = BackoffPolicy(first=0.2, longest=0.2, jitter=0.0, bound=CREATE_LAG_SECONDS)
"""The schedule of the polls for a pod that may have been stored."""


@dataclass(frozen=True, slots=True)
class WriteRetries:
    """What repeating the writes of one attempt needs.

    clock, randomness: the run's.
    start_timeout: how many seconds a create may wait for a quota.
    report: called with a message that says what a create waits for.
    """

    clock: Clock
    randomness: Randomness
    start_timeout: float
    report: Callable[[str], None]


class PodNotCreated(Exception):
    """No pod was created because of `error`.

    `error`: the apiserver's answer, or what `ready` raised.
    `may_exist`: whether some request may have been stored all the same, so that the pod has to be looked for.
    """

    def __init__(self, error: Exception, *, may_exist: bool) -> None:
        super().__init__(error)
        self.error = error
        self.may_exist = may_exist


async def create_pod(
    cluster: Cluster,
    manifest: Manifest,
    nonce: str,
    retries: WriteRetries,
    *,
    ready: Callable[[], None] = lambda: None,
) -> tuple[Pod, bool]:
    """Returns the pod, and whether it was adopted: created by a request whose answer was lost.

    Repeats by the table of `senro.domain.verdict.creation`. An existing pod of the same name is adopted if it carries
    the nonce and is not being deleted; after a request that may have stored the pod it is looked for, before the next
    request and at the end. `ready` is called before each request; what it raises ends the creation. Raises
    `PodNotCreated`.
    """
    create = _PodCreate(cluster, manifest, nonce, ready)
    try:
        return await _repeat(create.request, retries, create.note_failure)
    except Exception as error:
        pod = await create.look_for_stored_pod(retries.clock) if create.may_exist else None
        if pod is not None:
            return pod, True
        raise PodNotCreated(error, may_exist=create.may_exist) from error


@dataclass(slots=True)
class _PodCreate:
    """The requests of one create. `may_exist`: whether one that failed may have stored the pod."""

    cluster: Cluster
    manifest: Manifest
    nonce: str
    ready: Callable[[], None]
    may_exist: bool = False

    async def request(self, unanswered: int) -> tuple[Pod, bool]:
        """Look for the pod if an earlier request may have stored it, else create it; say whether it was found."""
        if unanswered and (pod := await self._find()) is not None:
            return pod, True
        self.ready()
        try:
            return await self.cluster.create_pod(self.manifest), False
        except AlreadyExists:
            pod = await self._read()
            if pod is None:
                raise
            return pod, True

    def note_failure(self, error: ClusterError) -> None:
        """Remember whether a request that failed with `error` may have stored the pod."""
        self.may_exist = self.may_exist or may_have_been_stored(error)

    async def look_for_stored_pod(self, clock: Clock) -> Pod | None:
        """The pod that a request stored although it failed, None if it does not appear in `CREATE_LAG_SECONDS`."""
        looks = Backoff(LOOKS, clock.monotonic())
        while (pod := await self._find()) is None and (wait := looks.next_wait(clock.monotonic())) is not None:
            await clock.sleep(wait)
        return pod

    async def _find(self) -> Pod | None:
        with suppress(ClusterError):
            return await self._read()
        return None

    async def _read(self) -> Pod | None:
        metadata = self.manifest["metadata"]
        pod = await self.cluster.read_pod(metadata["namespace"], metadata["name"])
        return pod if pod is not None and is_ours(pod, self.nonce) else None


async def create_secret(cluster: Cluster, manifest: Manifest, retries: WriteRetries) -> None:
    """Create the Secret.

    It cannot be read back, so a 409 is taken for this attempt's own only after a request that got no answer.
    """

    async def create(unanswered: int) -> None:
        try:
            await cluster.create_secret(manifest)
        except AlreadyExists:
            if not unanswered:
                raise

    await _repeat(create, retries)


async def own_secret(cluster: Cluster, name: str, owner: Pod, retries: WriteRetries) -> None:
    """Make the pod the owner of the Secret. The patch is idempotent, so it may be repeated."""

    async def own(_: int) -> None:
        await cluster.own_secret(owner.metadata.namespace, name, owner=owner)

    await _repeat(own, retries)


async def _repeat(
    request: Callable[[int], Awaitable[T]],
    retries: WriteRetries,
    note_failure: Callable[[ClusterError], None] = lambda _: None,
) -> T:
    """Await `request` until it succeeds or repeating is useless; its argument counts earlier unanswered requests.

    `note_failure` is called with the error of each request that failed.
    """
    clock, began, unanswered = retries.clock, retries.clock.monotonic(), 0
    backoffs = {
        "trouble": Backoff(TROUBLES, began),
        "quota": Backoff(replace(QUOTA, bound=retries.start_timeout), began),
    }
    while True:
        try:
            return await request(unanswered)
        except ClusterError as error:
            move = classify_create_error(error)
            note_failure(error)
            if isinstance(move, GiveUp):
                raise
            unanswered += move.may_exist
            fraction = retries.randomness.fraction()
            wait = backoffs[move.budget].next_wait(clock.monotonic(), fraction=fraction, requested=move.delay)
            if wait is None:
                raise
            if move.message:
                retries.report(f"{move.message}: {error}")
        await clock.sleep(wait)


def is_ours(pod: Pod, nonce: str) -> bool:
    """Whether the pod belongs to the attempt with this nonce and is not being deleted."""
    return pod.metadata.annotations.get(ATTEMPT_UID_ANNOTATION) == nonce and not pod.metadata.deletion_timestamp
