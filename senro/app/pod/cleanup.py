"""Putting away what an attempt created: on every path, by uid, within a bound, and never silently undone."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal

import anyio

from senro.app.attempt import Attempt
from senro.app.pod.claim_leases import Claims
from senro.app.pod.objects import (
    UNACKNOWLEDGED_SECONDS,
    find_unacknowledged_pod,
    removal_command,
    remove_pod,
    remove_secret,
    see_go,
)
from senro.app.pod.observer import PodObserver
from senro.domain.errors import ClusterError, Throttled, Unavailable, Unreachable
from senro.domain.kube.pod import Pod
from senro.domain.manifests.pod import Manifest, pod_target
from senro.domain.run.events import PodDeleted
from senro.domain.transfer.scripts import STEP_CONTAINER
from senro.domain.verdict import Exited, Infra, InfraKind
from senro.ports.cluster import Cluster

CONFIRM_SECONDS = 45.0
"""What is waited for beyond the pod's own grace before its deletion counts as unconfirmed."""

CANCEL_GRACE = 3
"""The grace in seconds of a pod whose run is cancelled."""

ASK_SECONDS = 30.0
"""How long a deletion that a timeout asks for is asked for anew before the pod's own deadline has to do it. The last
request may be repeated by the adapter for another thirty."""

Gone = Literal["deleted", "forced", "already_gone", "unconfirmed"]
"""`put_away`: its deletion was accepted and it was seen gone, or it never was. `forced`: it was deleted without grace,
so its processes may live some seconds longer. `was_gone`: somebody else had removed the object, which says nothing of
its processes. `unconfirmed`: it may still be there."""


@dataclass(slots=True)
class PodCleanup:
    """What an attempt has created so far. `manifest` is set before its create is sent, `pod` once it is known.

    `refused`: each create that was sent was refused, or never left, so one look is enough. `accepted`: the deletion
    that a timeout asked for was. `last`: the pod as it was last there after that.
    """

    attempt: Attempt
    cluster: Cluster
    secret: Manifest | None = None
    manifest: Manifest | None = None
    pod: Pod | None = None
    refused: bool = False
    accepted: bool = False
    last: Pod | None = None
    observer: PodObserver | None = None
    claims: Claims | None = None

    async def run(self) -> Gone:
        """Delete pod and Secret, shielded and bounded. What could not be deleted is recorded with its remedy.

        Claims are kept until then, and given back only where no process of the pod can use them any more.
        """
        gone = await self._delete()
        if self.claims is not None:
            await self.claims.release(gone=self._is_over(gone))
        return gone

    def _is_over(self, gone: Gone) -> bool:
        """Whether it is known that no process of the pod can use a claim any more.

        Not of a node that fell silent, however its pod went, and not of an object that went without grace: a process
        may outlive that until the kubelet hears of it. A pod that had ended before has none.
        """
        answer = self.observer.answer if self.observer is not None else None
        if gone == "unconfirmed" or (isinstance(answer, Infra) and answer.may_be_alive):
            return False
        pod = self._last_seen()
        if gone == "deleted" or (pod is not None and pod.status.phase in {"Succeeded", "Failed"}):
            return True
        if gone == "forced":
            return False
        return isinstance(answer, Exited) or (isinstance(answer, Infra) and answer.kind is not InfraKind.VANISHED)

    def _last_seen(self) -> Pod | None:
        return self.last or (self.observer.last if self.observer is not None else self.pod)

    def _ended_by_its_timeout(self) -> bool:
        """Whether a pod that is gone before its removal went as the timeout had asked.

        A kubelet shows that a step has ended before it removes its pod. One that was last seen running went without
        grace, by whoever asked for that.
        """
        pod = self._last_seen()
        return self.accepted and pod is not None and not _runs(pod)

    async def _delete(self) -> Gone:
        if self.manifest is None and self.secret is None:
            return "deleted"
        if self.observer is not None:
            self.observer.deletion_asked = True
        grace = pod_target(self.attempt.step).grace
        gone, words, secret_words = _Outcome(), _Outcome(), _Outcome()
        with self.attempt.cleanup_scopes.scope(grace + CONFIRM_SECONDS):
            async with self._renewing(), anyio.create_task_group() as group:
                group.start_soon(self._remove_secret, secret_words)
                group.start_soon(self._remove_pod, grace, gone, words)
        result = gone.gone
        if self.pod is not None or result == "unconfirmed":
            await self._record(confirmed=result != "unconfirmed", words=words.words)
        if self.secret is not None and not secret_words.done:
            await self._tell_left("secret", secret_words.words)
        return result

    def _renewing(self) -> AbstractAsyncContextManager[None]:
        return nullcontext() if self.claims is None else self.claims.renewed()

    async def ask(self, observer: PodObserver, *, grace_seconds: int | None) -> None:
        """Ask for the pod's deletion and go on: the observer sees what becomes of it."""
        if self.pod is None:
            return
        observer.deletion_asked = True
        metadata, clock = self.pod.metadata, self.attempt.services.clock
        deadline = clock.monotonic() + ASK_SECONDS
        while clock.monotonic() < deadline:
            try:
                gone = await self.cluster.delete_pod(
                    metadata.namespace, metadata.name, uid=metadata.uid, grace_seconds=grace_seconds
                )
                self.accepted = not gone
            except (Unreachable, Throttled, Unavailable):
                await clock.sleep(1.0)
                continue
            except ClusterError as error:
                await self.attempt.recorder.note(str(error), step=self.attempt.step.id)
            return

    async def see_go(self) -> None:
        """Look at the pod until it is gone, once its deletion was accepted; the caller ends it."""
        if self.pod is not None and self.accepted:
            await see_go(self.cluster, self.pod, self.attempt.services.clock, seen=self._saw)

    def _saw(self, pod: Pod) -> None:
        self.last = pod

    async def _remove_pod(self, grace: int, gone: _Outcome, words: _Outcome) -> None:
        clock, cleanup_scopes = self.attempt.services.clock, self.attempt.cleanup_scopes
        try:
            if self.pod is None and self.manifest is not None:
                seconds = 0.0 if self.refused else UNACKNOWLEDGED_SECONDS
                nonce = self.attempt.identity.nonce
                self.pod = await find_unacknowledged_pod(self.cluster, self.manifest, nonce, clock, seconds=seconds)
            if self.pod is None:
                gone.gone = "deleted"
                return
            shortened = min(grace, CANCEL_GRACE) if cleanup_scopes.shortened else None
            removed = await remove_pod(
                self.cluster,
                self.pod,
                clock,
                grace_seconds=shortened,
                force=lambda: cleanup_scopes.force,
            )
        except ClusterError as error:
            words.words = str(error)
        else:
            if removed == "forced":
                gone.gone = "forced"
            else:
                gone.gone = "deleted" if removed == "ended" or self._ended_by_its_timeout() else "already_gone"

    async def _remove_secret(self, outcome: _Outcome) -> None:
        if self.secret is None:
            return
        metadata, clock = self.secret["metadata"], self.attempt.services.clock
        try:
            await remove_secret(self.cluster, metadata["namespace"], metadata["name"], clock)
            if self.manifest is None:
                # Its create was given up: the apiserver may still be at it, and without a pod nothing else collects it.
                await clock.sleep(UNACKNOWLEDGED_SECONDS)
                await remove_secret(self.cluster, metadata["namespace"], metadata["name"], clock)
        except ClusterError as error:
            outcome.words = str(error)
        else:
            outcome.done = True

    async def _record(self, *, confirmed: bool, words: str) -> None:
        attempt, identity = self.attempt, self.attempt.identity
        namespace = pod_target(attempt.step).namespace or ""
        await attempt.recorder.record(
            PodDeleted(
                **attempt.moment,
                namespace=namespace,
                pod=identity.name,
                confirmed=confirmed,
                remedy="" if confirmed else removal_command("pod", namespace, identity.name),
            )
        )
        if not confirmed:
            await self._tell_left("pod", words)

    async def _tell_left(self, kind: str, words: str) -> None:
        attempt = self.attempt
        namespace, name = pod_target(attempt.step).namespace or "", attempt.identity.name
        said = f" ({words})" if words else ""
        remedy = removal_command(kind, namespace, name)
        attempt.recorder.leftovers.append(remedy)
        await attempt.recorder.note(
            f"the {kind} {namespace}/{name} was not seen gone{said}; delete it with: {remedy}", step=attempt.step.id
        )


def _runs(pod: Pod) -> bool:
    """Whether the step, whose container alone mounts the claims, was running when the pod was looked at."""
    status = pod.container(STEP_CONTAINER)
    return status is not None and status.state.running is not None


@dataclass(slots=True)
class _Outcome:
    """What a task of a removal came to; a task that is cut off by the bound leaves it as it was."""

    gone: Gone = "unconfirmed"
    done: bool = False
    words: str = ""
