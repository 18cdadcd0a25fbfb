"""Runs a plan: starts steps as soon as their needs and the limits allow it, and cleans up at the end."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import anyio

from senro.app.attempt import Attempt
from senro.app.local_attempt import LocalAttempt
from senro.app.pod.attempt import PodAttempt
from senro.domain.errors import TreeError
from senro.domain.manifests.identity import AttemptIdentity
from senro.domain.pipeline.step_mounts import claim_mounts, pod_target
from senro.domain.pipeline.targets import Pod, Target
from senro.domain.run.events import AttemptEnded, AttemptStarted, CancelRequested, RunEnded, StepEnded
from senro.domain.run.outcome import Outcome, repeats
from senro.domain.run.state import FINAL, Progress, final_run_state, final_state, next_moves
from senro.domain.run.state_names import RunState, StepState

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anyio.abc import TaskGroup

    from senro.app.runtime.recorder import Recorder
    from senro.app.runtime.services import Services
    from senro.app.runtime.shutdown import CleanupScopes
    from senro.app.workspaces.workspaces import Workspaces
    from senro.domain.pipeline.step import Step
    from senro.domain.plan.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretValues:
    """The values of a run's secrets, and the files that hold them for local steps. The repr shows neither."""

    values: Mapping[str, bytes]
    files: Mapping[str, str]

    def __repr__(self) -> str:
        return f"<SecretValues of {len(self.values)} secrets>"


class Engine:
    """One run of one plan. Call `run` once; `cancel` may be called from another task at any time.

    `base`: the folder that relative paths of the plan are relative to.
    `jobs`: how many attempts run at the same time; None for no limit.
    """

    def __init__(
        self,
        plan: Plan,
        services: Services,
        recorder: Recorder,
        workspaces: Workspaces,
        cleanup_scopes: CleanupScopes,
        *,
        base: str,
        jobs: int | None,
    ) -> None:
        self._plan = plan
        self._services = services
        self._recorder = recorder
        self._workspaces = workspaces
        self._cleanup_scopes = cleanup_scopes
        self._secrets = SecretValues(values={}, files={})
        self._base = base
        self._steps = {planned.step.id: planned.step for planned in plan.steps}
        self._started: set[str] = set()
        self._jobs = None if jobs is None else anyio.CapacityLimiter(jobs)
        self._pods: list[tuple[Pod, anyio.CapacityLimiter]] = []
        """The limit of pods of each target. Targets contain mappings and cannot be hashed."""
        for target in (planned.step.on for planned in plan.steps):
            if isinstance(target, Pod) and target.max_pods is not None and self._limiter(target) is None:
                self._pods.append((target, anyio.CapacityLimiter(target.max_pods)))
        self._claim_locks: dict[tuple[str, str], anyio.Lock] = {}
        """One lock for each claim, by namespace and workspace name: one step of this run uses it at a time."""
        self._scope = anyio.CancelScope()

    def cancel(self) -> None:
        """Cancel all steps and clean up, within `SHORTENED_SECONDS`. The caller records the request first."""
        self._cleanup_scopes.shorten()
        self._scope.cancel()

    async def run(self, secrets: SecretValues) -> RunState:
        """Run the plan and return the state of the run. Every step has a final state then, also when cancelled."""
        self._secrets = secrets
        try:
            async with anyio.create_task_group() as removals:
                try:
                    with self._scope:
                        await self._workspaces.open(self._plan)
                        async with anyio.create_task_group() as steps:
                            await self._workspaces.scratch_caches.open(self._plan, steps)
                            await self._advance(steps, removals)
                        await self._workspaces.release()
                except BaseException:
                    # The caller waits for the deletions that are still going on in `removals`.
                    self._cleanup_scopes.shorten()
                    raise
        except BaseException as error:
            # Another error during the cleanup must not replace this one.
            with anyio.CancelScope(shield=True), suppress(Exception):
                if not self._recorder.progress.cancelling:
                    cancelled = isinstance(error, anyio.get_cancelled_exc_class())
                    reason = "its caller cancelled it" if cancelled else "the coordinator failed"
                    await self._recorder.record(CancelRequested(at=self._recorder.now(), reason=reason))
                await self._end_remaining()
            raise
        await self._end_remaining()
        return final_run_state(self._plan, self._recorder.progress)

    async def _end_remaining(self) -> None:
        for step, known in self._recorder.progress.steps.items():
            if known.state == "running":
                ran: Literal["yes", "maybe"] = "yes" if self._recorder.was_running(step) else "maybe"
                await self._end_attempt(step, known.attempts, Outcome(kind="cancelled", did_run=ran), None)
            if known.state not in FINAL:
                await self._end_step(step, "cancelled", known.attempts)
        state = final_run_state(self._plan, self._recorder.progress)
        await self._recorder.record(RunEnded(at=self._recorder.now(), state=state))

    async def _advance(self, steps: TaskGroup, removals: TaskGroup) -> None:
        """Start the steps that may start, again whenever a step has ended, until all have."""
        while True:
            settled = _settled(self._recorder.progress)
            moves = next_moves(self._plan, self._recorder.progress)
            for step, state in moves.end:
                await self._end_step(step, state, 0)
            for step in moves.start:
                if step not in self._started:
                    self._started.add(step)
                    steps.start_soon(self._run_step, self._steps[step], removals)
            if moves.end:
                continue
            if settled == len(self._steps):
                return
            await self._recorder.until(partial(_more_than, settled))

    async def _end_step(self, step: str, state: StepState, attempts: int) -> None:
        await self._recorder.record(StepEnded(at=self._recorder.now(), step=step, state=state, attempts=attempts))

    async def _end_attempt(self, step: str, number: int, outcome: Outcome, wait: float | None) -> None:
        await self._recorder.record(
            AttemptEnded(at=self._recorder.now(), step=step, attempt=number, outcome=outcome, retry_in=wait)
        )

    async def _run_step(self, step: Step, removals: TaskGroup) -> None:
        """Run attempts of a step until it has its final state."""
        number = 0
        while True:
            number += 1
            outcome, deleted = await self._run_attempt(step, number, removals)
            wait = None
            if step.retry is not None and repeats(outcome, attempt=number, retry=step.retry, deleted=deleted):
                delay = step.retry.delay_before(number + 1, self._services.randomness.fraction())
                wait = max(delay, outcome.least_wait)
            await self._end_attempt(step.id, number, outcome, wait)
            if wait is None:
                await self._end_step(step.id, final_state(outcome, number), number)
                return
            self._recorder.reporter.note(step.id, self._recorder.redactor.text(_retry_note(outcome, number, wait)))
            self._recorder.reporter.step_state(step.id, "pending", attempt=number + 1, phase=f"again in {wait:.1f} s")
            await self._services.clock.sleep(wait)

    async def _run_attempt(self, step: Step, number: int, removals: TaskGroup) -> tuple[Outcome, bool]:
        """Run one attempt. Returns its outcome, and whether nothing of it is left in the cluster."""
        async with self._limits(step):
            where = step.on.namespace or "" if isinstance(step.on, Pod) else "local"
            await self._recorder.record(
                AttemptStarted(at=self._recorder.now(), step=step.id, attempt=number, location=where)
            )
            try:
                mounts = await self._workspaces.prepare(step, again=number > 1)
            except TreeError as error:
                return Outcome(
                    kind="infra",
                    infra_kind="transfer",
                    did_run="no",
                    message=f"its workspaces could not be prepared on this machine: {error}",
                    hint="Fix what the message names; the step did not run.",
                ), True
            attempt = Attempt(
                step=step,
                identity=AttemptIdentity(
                    run_id=self._services.ledger.run_id,
                    step_id=step.id,
                    attempt=number,
                    nonce=self._services.randomness.token(),
                ),
                services=self._services,
                recorder=self._recorder,
                workspaces=self._workspaces,
                cleanup_scopes=self._cleanup_scopes,
                last=step.retry is None or step.retry.on == "infra" or number >= step.retry.attempts,
                mounts=mounts,
                secrets={name: self._secrets.values[name] for name in step.secrets.values()},
            )
            if isinstance(step.on, Pod):
                return await self._run_in_pod(attempt, removals)
            return await LocalAttempt(attempt, self._secrets.files, self._base).run(), True

    async def _run_in_pod(self, attempt: Attempt, removals: TaskGroup) -> tuple[Outcome, bool]:
        if self._services.pods is None:
            raise RuntimeError("the plan has a pod target, but there is no cluster")
        # Steps that need this one do not wait until its pod is deleted. Steps that wait for its claim, or for the
        # target's limit of pods, have to.
        background = None if self._limiter(attempt.step.on) or claim_mounts(attempt.step) else removals
        return await PodAttempt(attempt, self._services.pods, background).run()

    def _limiter(self, target: Target) -> anyio.CapacityLimiter | None:
        return next((limiter for known, limiter in self._pods if known == target), None)

    @asynccontextmanager
    async def _limits(self, step: Step) -> AsyncIterator[None]:
        """Hold the locks of the step's claims, one of the run's jobs and, for a pod, one of its target's pods."""
        async with AsyncExitStack() as turns:
            # Sorted, so that steps cannot deadlock; before a job, so that a waiting step takes none.
            for name in sorted(mount.name for mount, _ in claim_mounts(step)):
                key = (pod_target(step).namespace or "", name)
                await turns.enter_async_context(self._claim_locks.setdefault(key, anyio.Lock()))
            async with self._limiter(step.on) or nullcontext(), self._jobs or nullcontext():
                yield


def _settled(progress: Progress) -> int:
    return sum(known.state in FINAL for known in progress.steps.values())


def _more_than(settled: int, progress: Progress) -> bool:
    return _settled(progress) > settled


def _retry_note(outcome: Outcome, number: int, wait: float) -> str:
    ends = {"infra": f"was failed by the cluster ({outcome.infra_kind})", "timed_out": "timed out"}
    message = f": {outcome.message}" if outcome.message else ""
    return f"attempt {number} {ends.get(outcome.kind, f'exited {outcome.code}')}{message}; again in {wait:.1f} s"
