"""Creates the pod and the Secret of an attempt exactly once, although answers may be lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from senro.domain.errors import AlreadyExists, ClusterError
from senro.domain.kube.names import ATTEMPT_UID_ANNOTATION
from senro.domain.kube.pod import Pod
from senro.domain.requests.absence import CREATE_LAG_SECONDS
from senro.domain.verdict.creation import TROUBLE_SECONDS, GiveUp, classify_create_error, may_have_been_stored
from senro.ports.clock import Clock
from senro.ports.cluster import Cluster, Manifest

T = TypeVar("T")

FIRST_PAUSE, LONGEST_PAUSE, LONGEST_QUOTA_PAUSE = 0.2, 5.0, 30.0
"""Seconds between repeated requests; each pause is twice the one before. Those for a quota may grow longer."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """How long a create may wait for a quota, in seconds, and the function that reports what it waits for."""

    start_timeout: float
    tell: Callable[[str], None]


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
    clock: Clock,
    waiting: Waiting,
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
        return await _repeat(create.request, clock, waiting, create.note_failure)
    except Exception as error:
        pod = await create.look_for_stored_pod(clock) if create.may_exist else None
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
        deadline = clock.monotonic() + CREATE_LAG_SECONDS
        while (pod := await self._find()) is None and clock.monotonic() < deadline:
            await clock.sleep(FIRST_PAUSE)
        return pod

    async def _find(self) -> Pod | None:
        with suppress(ClusterError):
            return await self._read()
        return None

    async def _read(self) -> Pod | None:
        metadata = self.manifest["metadata"]
        pod = await self.cluster.read_pod(metadata["namespace"], metadata["name"])
        return pod if pod is not None and is_ours(pod, self.nonce) else None


async def create_secret(cluster: Cluster, manifest: Manifest, clock: Clock, waiting: Waiting) -> None:
    """Create the Secret.

    It cannot be read back, so a 409 is taken for this attempt's own only after a request that got no answer.
    """

    async def create(unanswered: int) -> None:
        try:
            await cluster.create_secret(manifest)
        except AlreadyExists:
            if not unanswered:
                raise

    await _repeat(create, clock, waiting)


async def own_secret(cluster: Cluster, name: str, owner: Pod, clock: Clock, waiting: Waiting) -> None:
    """Make the pod the owner of the Secret. The patch is idempotent, so it may be repeated."""

    async def own(_: int) -> None:
        await cluster.own_secret(owner.metadata.namespace, name, owner=owner)

    await _repeat(own, clock, waiting)


async def _repeat(
    request: Callable[[int], Awaitable[T]],
    clock: Clock,
    waiting: Waiting,
    note_failure: Callable[[ClusterError], None] = lambda _: None,
) -> T:
    """Await `request` until it succeeds or repeating is useless; its argument counts earlier unanswered requests.

    `note_failure` is called with the error of each request that failed.
    """
    began, pause, unanswered = clock.monotonic(), FIRST_PAUSE, 0
    while True:
        try:
            return await request(unanswered)
        except ClusterError as error:
            move = classify_create_error(error)
            note_failure(error)
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
    """Whether the pod belongs to the attempt with this nonce and is not being deleted."""
    return pod.metadata.annotations.get(ATTEMPT_UID_ANNOTATION) == nonce and not pod.metadata.deletion_timestamp
