"""Runs a plan."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

import anyio

from senro._version import __version__
from senro.api.error_groups import single_error
from senro.api.result import Result, StepResult, WorkspaceResult
from senro.api.run_summary import step_infos, summarise
from senro.api.wiring import RunResources, open_resources
from senro.app.engine import Engine, SecretValues
from senro.app.runtime.recorder import Recorder
from senro.app.runtime.shutdown import CleanupScopes
from senro.app.workspaces.workspaces import Workspaces
from senro.domain.errors import ConfigurationError, PlanError, Refusal, RunBroken, SenroError, TreeError
from senro.domain.pipeline.secrets import SecretReference
from senro.domain.pipeline.targets import Local
from senro.domain.plan.document import plan_document
from senro.domain.plan.plan import Plan
from senro.domain.run.events import CancelRequested, RunStarted
from senro.domain.run.state_names import RunState
from senro.domain.text.redactor import Redactor
from senro.ports.reporter import Reporter

DEFAULT_RUN_DIR = ".senro/runs"
"""The folder in which runs create their folders, relative to the working folder."""


async def run(
    plan: Plan,
    *,
    secrets: Mapping[str, SecretReference] | None = None,
    run_dir: str = DEFAULT_RUN_DIR,
    jobs: int | None = None,
    reporter: Reporter | None = None,
    environ: Mapping[str, str] | None = None,
    handle_signals: bool = False,
) -> Result:
    """Runs the plan and returns the result. A step that fails is part of the result, not an exception.

    `secrets`: where the value of each secret is read, such as `senro.secret.file(...)`, by the name that steps use. A
    name that is missing is read from the variable `SENRO_SECRET_<NAME>`.
    `run_dir`: the folder in which the run creates its own folder.
    `jobs`: how many attempts may run at once; None is no limit.
    `reporter`: receives the progress.
    `environ`: the variables that name the cluster (`SENRO_K8S_*`) and configure senro; by default `os.environ`.
    `handle_signals`: SIGINT and SIGTERM cancel the run, and the result has the state `cancelled`. A second signal also
    cancels the cleanup.

    Cancelling the task that runs this function ends every step and deletes what the run created, within ten seconds.

    Raises `ConfigurationError`, `ClusterError` or `StoreError` before anything is started; `TreeError` if the first
    content of a workspace cannot be read; `PlanError` for invalid lines of a `.senroignore`; `RunBroken` if a run that
    was started cannot continue, for example because the disk is full.
    """
    if jobs is not None and jobs < 1:
        raise ConfigurationError((Refusal("jobs", "jobs", f"at least one step must run at once, not {jobs}"),))
    reporter = reporter or Reporter()
    try:
        async with open_resources(
            plan,
            references=secrets or {},
            run_dir=run_dir,
            reporter=reporter,
            environ=os.environ if environ is None else environ,
        ) as resources:
            return await _Run(plan, resources, jobs).execute(handle_signals=handle_signals)
    except BaseExceptionGroup as group:
        error = single_error(group)
        raise error from error.__cause__
    finally:
        reporter.close()


def run_sync(
    plan: Plan,
    *,
    secrets: Mapping[str, SecretReference] | None = None,
    run_dir: str = DEFAULT_RUN_DIR,
    jobs: int | None = None,
    reporter: Reporter | None = None,
    environ: Mapping[str, str] | None = None,
    handle_signals: bool = False,
) -> Result:
    """Does the same as `run`, for a program without an event loop."""
    return anyio.run(
        partial(
            run,
            plan,
            secrets=secrets,
            run_dir=run_dir,
            jobs=jobs,
            reporter=reporter,
            environ=environ,
            handle_signals=handle_signals,
        )
    )


class _Run:
    def __init__(self, plan: Plan, resources: RunResources, jobs: int | None) -> None:
        self._plan = plan
        self._resources = resources
        self._jobs = jobs
        self._cleanup_scopes = CleanupScopes()
        services = resources.services
        self._recorder = Recorder(
            plan, services.ledger, services.reporter, services.clock, Redactor(resources.values.values())
        )
        self._base = os.getcwd()  # noqa: PTH109 - the ports take a str
        self._workspaces = Workspaces(services, self._recorder, self._base)

    async def execute(self, *, handle_signals: bool) -> Result:
        services = self._resources.services
        began = services.clock.monotonic()
        try:
            state = await self._run(handle_signals=handle_signals)
        except BaseExceptionGroup as group:
            error = single_error(group)
            if isinstance(error, SenroError) and not isinstance(error, TreeError | PlanError):
                raise RunBroken(services.ledger.folder, error) from error
            raise error from error.__cause__
        result = self._result(state)
        services.reporter.run_ended(summarise(result, self._recorder, services.clock.monotonic() - began))
        return result

    async def _run(self, *, handle_signals: bool) -> RunState:
        services, recorder = self._resources.services, self._recorder
        await services.ledger.write_plan(plan_document(self._plan))
        services.reporter.run_started(services.ledger.run_id, services.ledger.folder, step_infos(self._plan))
        await recorder.record(
            RunStarted(
                at=recorder.now(),
                run=services.ledger.run_id,
                pipeline=self._plan.name,
                steps=tuple(planned.step.id for planned in self._plan.steps),
                senro_version=__version__,
            )
        )
        async with anyio.create_task_group() as group:
            engine = Engine(
                self._plan,
                services,
                recorder,
                self._workspaces,
                self._cleanup_scopes,
                jobs=self._jobs,
                base=self._base,
            )
            if handle_signals:
                # Before the files of secrets are written, so that a signal does not leave them behind.
                await group.start(self._listen, engine)
            state = await engine.run(SecretValues(values=self._resources.values, files=await self._secret_files()))
            group.cancel_scope.cancel()
        return state

    def _result(self, state: RunState) -> Result:
        services, recorder = self._resources.services, self._recorder
        return Result(
            run_id=services.ledger.run_id,
            state=state,
            folder=services.ledger.folder,
            steps=MappingProxyType(
                {
                    step: StepResult(step, known.state, known.attempts, known.outcome)
                    for step, known in recorder.progress.steps.items()
                }
            ),
            workspaces=MappingProxyType(
                {name: WorkspaceResult(*place) for name, place in self._workspaces.summary(self._plan).items()}
            ),
            leftovers=tuple(recorder.leftovers),
        )

    async def _secret_files(self) -> dict[str, str]:
        """Writes the secrets of local steps to a folder that the run removes. Returns the path of each by its name."""
        names = {
            name
            for planned in self._plan.steps
            if isinstance(planned.step.on, Local)
            for name in planned.step.secrets.values()
        }
        if not names:
            return {}
        folder = self._resources.services.ledger.scratch("secrets")
        files = self._resources.secret_files
        return {name: await files.write(folder, name, self._resources.values[name]) for name in sorted(names)}

    async def _listen(
        self, engine: Engine, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            task_status.started()
            async for number in signals:
                if self._cleanup_scopes.shortened:
                    self._cleanup_scopes.cancel_all()
                    self._resources.services.processes.kill_all()
                    continue
                name = signal.Signals(number).name
                await self._recorder.record(CancelRequested(at=self._recorder.now(), reason=f"{name} was received"))
                engine.cancel()
