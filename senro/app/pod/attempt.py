"""One attempt in a pod, exactly as design.md section 4 tells it: create, stage, follow, read back, always delete."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import anyio

from senro.app.attempt import Attempt
from senro.app.pod.cache_download import bring_caches_back
from senro.app.pod.claim_leases import ClaimRefused, Claims
from senro.app.pod.cleanup import PodCleanup
from senro.app.pod.compression import CompressionChoice
from senro.app.pod.download import Download, ReadBackLost, ReadBackRefused
from senro.app.pod.log_follower import LogFollower
from senro.app.pod.objects import Waiting, create_pod, create_secret, own_secret
from senro.app.pod.observer import PodObserver
from senro.app.pod.upload import Upload
from senro.app.runtime.services import ClusterServices
from senro.domain.claims.messages import given_up, waits_for
from senro.domain.errors import AlreadyExists, ClusterError, TreeError
from senro.domain.kube.names import label_value
from senro.domain.kube.pod import Pod, parse_time
from senro.domain.manifests.pod import Manifest, own_deadline, pod_manifest, pod_target, read_back, secret_manifest
from senro.domain.pipeline.durations import seconds
from senro.domain.pipeline.step_mounts import claim_names, claimed
from senro.domain.run.events import PodCreated, PodPending, StepRunning
from senro.domain.run.outcome import Outcome, outcome_of
from senro.domain.transfer.scripts import STAGE_CONTAINER, STEP_CONTAINER, sentinel_name
from senro.domain.verdict import (
    Answer,
    Cancelled,
    DidRun,
    Ending,
    Exited,
    Infra,
    InfraKind,
    Memory,
    Note,
    Patience,
    Pending,
    PendingKind,
    Running,
    TimedOut,
)
from senro.domain.verdict.creation import infra_from_error

LOG_DRAIN_SECONDS = 20.0
"""How long the end of a log is awaited after the verdict."""


@dataclass(slots=True)
class PodAttempt:
    """`run` carries the attempt out. `removal` knows what there is to put away, at every moment."""

    attempt: Attempt
    services: ClusterServices
    claims: Claims = field(init=False)
    removal: PodCleanup = field(init=False)
    packing: CompressionChoice = field(init=False)

    def __post_init__(self) -> None:
        self.claims = Claims(self.attempt, self.services)
        self.removal = PodCleanup(self.attempt, self.services.cluster, claims=self.claims)
        self.packing = CompressionChoice(self.services.link, self.attempt.services.clock)

    async def run(self) -> Outcome:
        """The outcome. Nothing that was created is deleted here: the caller calls `removal` on every path."""
        async with self.claims.renewed():
            try:
                await self.claims.acquire()
                outcome = await self._with_claims()
            except ClaimRefused as refusal:
                return outcome_of(refusal.answer)
        if self.claims.lost:
            return replace(outcome, notes=(*outcome.notes, str(Note.LEASE_LOST)))
        return outcome

    async def _with_claims(self) -> Outcome:
        attempt = self.attempt
        attempt.phase("creating")
        parts = attempt.workspaces.packed(attempt.step)
        staged = 0
        if parts:
            async with attempt.services.trees.pack(parts, sentinel=sentinel_name(attempt.identity.nonce)) as archive:
                staged = archive.length
        try:
            pod = await self._create(pod_manifest(attempt.step, attempt.identity, staged_bytes=staged))
        except ClusterError as error:
            return outcome_of(_not_created(error))
        self.claims.in_use = True
        observer = self._observer(pod, staged)
        self.removal.observer = observer
        async with (
            attempt.services.ledger.open_log(label_value(attempt.step.id), attempt.identity.attempt) as log,
            _beside(observer),
        ):
            following = LogFollower(attempt, pod, self.services.cluster, observer, log)
            async with anyio.create_task_group() as group:
                ended = anyio.Event()

                async def follow() -> None:
                    await following.run()
                    ended.set()

                group.start_soon(follow)
                group.start_soon(self._own_secret, pod)
                group.start_soon(self._tell, observer)
                group.start_soon(self._time_out, observer)
                answer = self._of_claims(await self._to_the_end(observer, pod, staged))
                outcome = await self._keep(pod, answer, observer.node, staged)
                with anyio.move_on_after(LOG_DRAIN_SECONDS) as bound:
                    if observer.seen_running:
                        await ended.wait()
                await following.end(drained=not bound.cancelled_caught)
                group.cancel_scope.cancel()
        return replace(outcome, log_complete=not following.reason, log_reason=following.reason)

    def _of_claims(self, answer: Answer) -> Answer:
        """The answer, which names the claim where the cluster's words are about one."""
        if isinstance(answer, Infra):
            return replace(answer, message=given_up(answer, claim_names(self.attempt.step)))
        return answer

    async def _create(self, manifest: Manifest) -> Pod:
        attempt, cluster, clock = self.attempt, self.services.cluster, self.attempt.services.clock
        waiting = Waiting(seconds(pod_target(attempt.step).start_timeout), attempt.phase)
        if attempt.step.secrets:
            secret = secret_manifest(attempt.step, attempt.identity, attempt.secrets)
            self.removal.secret = secret
            await create_secret(cluster, secret, clock, waiting)
        self.removal.manifest = manifest
        unseen: list[bool] = []
        try:
            pod, adopted = await create_pod(
                cluster,
                manifest,
                attempt.identity.nonce,
                clock,
                waiting,
                ready=self.claims.check,
                lost=lambda: unseen.append(True),
            )
        except (ClusterError, ClaimRefused):
            self.removal.refused = not unseen
            raise
        self.removal.pod = pod
        await attempt.recorder.record(
            PodCreated(
                **attempt.moment,
                namespace=pod.metadata.namespace,
                pod=pod.metadata.name,
                uid=pod.metadata.uid,
                adopted=adopted,
            )
        )
        return pod

    async def _own_secret(self, pod: Pod) -> None:
        """Give the Secret its owner, so that the cluster collects it should this coordinator die.

        The step runs meanwhile: a patch that fails says nothing of it, and the Secret is deleted with the pod anyway.
        """
        attempt = self.attempt
        if not attempt.step.secrets:
            return
        waiting = Waiting(seconds(pod_target(attempt.step).start_timeout), attempt.tell)
        name = attempt.identity.name
        try:
            await own_secret(self.services.cluster, name, pod, attempt.services.clock, waiting)
        except ClusterError as error:
            await attempt.recorder.note(
                f"the Secret {pod.metadata.namespace}/{name} was given no owner ({error}); it is deleted with its pod, "
                f"but would outlive a coordinator that is killed",
                step=attempt.step.id,
            )

    def _observer(self, pod: Pod, staged: int) -> PodObserver:
        target, clock = pod_target(self.attempt.step), self.attempt.services.clock
        return PodObserver(
            self.services.watch(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid),
            pod,
            Memory.start(
                uid=pod.metadata.uid,
                step=STEP_CONTAINER,
                stage=STAGE_CONTAINER,
                own_deadline=own_deadline(self.attempt.step, staged),
            ),
            Patience(began=clock.monotonic(), start_timeout=seconds(target.start_timeout)),
            clock,
            list_events=lambda: self.services.cluster.list_events(pod.metadata.namespace, uid=pod.metadata.uid),
        )

    async def _to_the_end(self, observer: PodObserver, pod: Pod, staged: int) -> Answer:
        """Stage, then wait for the answer."""
        released = not staged
        if staged:
            await observer.until(_staging)
            if not observer.answer.settled:
                self.attempt.phase("staging")
                parts = self.attempt.workspaces.packed(self.attempt.step)
                staging = Upload(self.attempt, pod, self.services.cluster, observer, parts, self.packing)
                failed = await staging.run()
                if failed is not None:
                    return failed
                released = staging.fed
        await observer.until(lambda _: False)
        answer = observer.answer
        # The pod alone cannot always tell, but a step that was never released has not run.
        return answer if released or not isinstance(answer, Infra) else replace(answer, did_run=DidRun.NO)

    async def _keep(self, pod: Pod, answer: Answer, node: str, staged: int) -> Outcome:
        """The outcome of `answer`, after what the step left in its workspaces was read back."""
        assert isinstance(answer, Exited | Infra | Cancelled | TimedOut)  # noqa: S101 - the closed set of settled answers
        outcome = outcome_of(answer, node=node)
        wanted = outcome.kind == "succeeded" or (outcome.kind == "failed" and self.attempt.last)
        if not (wanted and read_back(self.attempt.step)) or "start-error" in outcome.notes:
            return outcome
        folders = self.attempt.workspaces.returning(self.attempt.step)
        try:
            if folders:
                self.attempt.phase("reading back")
            trees = await self._reading(pod, folders, staged).run() if folders else {}
            await self.attempt.workspaces.returned(self.attempt.step, self.attempt.identity.attempt, trees)
        except ReadBackRefused as error:
            return _left_badly(outcome, str(error))
        except ReadBackLost as error:
            return _lost(outcome, str(error), repeatable=error.repeatable)
        except TreeError as error:
            return _lost(outcome, f"a workspace changed while its snapshot was taken: {error}", repeatable=False)
        if outcome.kind == "succeeded":
            await bring_caches_back(
                self.attempt, lambda index, folder, what: self._reading(pod, {index: folder}, staged, what)
            )
        return outcome

    def _reading(self, pod: Pod, folders: Mapping[int, str], staged: int, what: str = "the workspaces") -> Download:
        return Download(
            self.attempt,
            pod,
            self.services.cluster,
            folders,
            self.packing,
            what=what,
            staged=staged,
            rules=self.attempt.workspaces.rules(self.attempt.step),
        )

    async def _time_out(self, observer: PodObserver) -> None:
        """End the step when its timeout has passed since it was first seen running."""
        timeout = self.attempt.step.timeout
        if timeout is None:
            return
        await observer.until(lambda seen: seen.seen_running)
        await self.attempt.services.clock.sleep(max(0.0, timeout - self._ran_unseen(observer)))
        if observer.answer.settled:
            return
        observer.timed_out = True
        self.attempt.phase("timed out, ending")
        await self.removal.ask(observer, grace_seconds=None)
        observer.nudge()
        if claimed(self.attempt.step):
            await self.removal.see_go()  # while the end of its log is awaited it may end, and be gone

    def _ran_unseen(self, observer: PodObserver) -> float:
        """Seconds that the step ran before it was seen running, by its container's startedAt.

        That is another machine's clock, so it is believed only as far as the gap between two observations allows:
        the step's timeout neither grows by an outage of the control plane nor shrinks by a clock that is ahead.
        """
        status = observer.pod.container(STEP_CONTAINER) if observer.pod is not None else None
        running = status.state.running if status is not None else None
        started = parse_time(running.started_at) if running is not None else None
        if started is None:
            return 0.0
        elapsed = (self.attempt.services.clock.now() - started).total_seconds()
        return min(max(0.0, elapsed), observer.unobserved_seconds)

    async def _tell(self, observer: PodObserver) -> None:
        """Tell the ledger and the reporter what the pod waits for, and when the step runs."""
        attempt, told = self.attempt, ""
        claims = claim_names(attempt.step)
        while not observer.answer.settled:
            answer, seen = observer.answer, observer.observations
            words = _phase(answer, claims, observer.waiting_seconds)
            if words != told:
                told = words
                if isinstance(answer, Pending) and answer.kind is not PendingKind.STAGING:
                    attempt.phase(words)
                    await attempt.recorder.record(
                        PodPending(
                            **attempt.moment,
                            kind=str(answer.kind),
                            container=answer.container,
                            message=waits_for(answer, claims, waited=observer.waiting_seconds),
                        )
                    )
                elif isinstance(answer, Running) and not answer.finishing:
                    attempt.phase(words)
                    await attempt.recorder.record(
                        StepRunning(
                            **attempt.moment,
                            node=observer.node,
                        )
                    )
                elif isinstance(answer, Ending):
                    attempt.phase(words)
            await observer.until(_newer_than(seen))


def _newer_than(seen: int) -> Callable[[PodObserver], bool]:
    """That more was observed than these so many times."""
    return lambda observer: observer.observations > seen


@asynccontextmanager
async def _beside(observer: PodObserver) -> AsyncIterator[None]:
    """Run the observer while the context is open."""
    async with anyio.create_task_group() as group:
        group.start_soon(observer.run)
        yield
        group.cancel_scope.cancel()


def _staging(observer: PodObserver) -> bool:
    answer = observer.answer
    return isinstance(answer, Pending) and answer.kind is PendingKind.STAGING


def _phase(answer: Answer, claims: tuple[str, ...], waited: float) -> str:
    match answer:
        case Pending(kind=kind):
            message = waits_for(answer, claims, waited=waited)
            return f"waiting: {kind}" + (f" ({message})" if message else "")
        case Running():
            return "running"
        case Ending(kind=kind):
            return f"the cluster is taking the pod away: {kind}"
        case _:
            return ""


def _not_created(error: ClusterError) -> Infra:
    if isinstance(error, AlreadyExists):
        # The name holds a hash of the nonce: somebody made this pod on purpose, or copied ours.
        return Infra(InfraKind.ADMISSION, DidRun.NO, message=f"{error}; it is not this attempt's, delete it")
    return infra_from_error(error)


def _lost(outcome: Outcome, message: str, *, repeatable: bool) -> Outcome:
    """A failed command stays one; a success whose files are lost was failed by what lost them."""
    if outcome.kind == "failed":
        return _left_badly(outcome, message)
    lost = Infra(InfraKind.TRANSFER, DidRun.YES, message=message, node=outcome.node, code=outcome.code)
    return replace(outcome_of(lost), repeatable=repeatable)


def _left_badly(outcome: Outcome, message: str) -> Outcome:
    """The command's own verdict stands; a success that left what cannot be kept is none."""
    said = f"{outcome.message}. {message}" if outcome.message else message
    return Outcome(
        kind="failed",
        code=outcome.code,
        notes=outcome.notes,
        message=said,
        hint=outcome.hint or "Look at what the step left in its workspace; the coordinator's copy is as it was before.",
        node=outcome.node,
    )
