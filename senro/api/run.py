"""Running a plan from a program."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from types import MappingProxyType

import anyio

from senro._version import __version__
from senro.api.result import Result, StepResult, WorkspaceResult
from senro.api.run_summary import step_infos, summarise
from senro.api.wiring import Opened, open_services
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
"""Where the folders of runs are made, relative to the working folder."""


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
    """Carry the plan out and return what it came to; a step that fails is a result, not an exception.

    `secrets` maps the names that steps use to where each is read (`senro.secret.file(...)`); one that is missing there
    is read from `SENRO_SECRET_<NAME>`. `jobs` bounds how many attempts run at once. The cluster comes from
    `SENRO_K8S_*` in `environ`, the process's own environment by default.

    Cancelling the task that runs this ends every step and deletes what it created, within ten seconds. With
    `handle_signals`, SIGINT and SIGTERM do the same and the result says `cancelled`; a second one leaves at once
    what is still being put away.

    Raises `ConfigurationError`, `ClusterError` or `StoreError` before anything was started, `TreeError` for a workspace
    whose first content cannot be taken, `PlanError` for a `.senroignore` that has lines without a meaning, `RunBroken`
    where a run that had started cannot go on, such as on a full disk.
    """
    if jobs is not None and jobs < 1:
        raise ConfigurationError((Refusal("jobs", "jobs", f"at least one step must run at once, not {jobs}"),))
    reporter = reporter or Reporter()
    try:
        async with open_services(
            plan,
            references=secrets or {},
            run_dir=run_dir,
            reporter=reporter,
            environ=os.environ if environ is None else environ,
        ) as opened:
            return await _Run(plan, opened, jobs).carry_out(handle_signals=handle_signals)
    except BaseExceptionGroup as group:
        error = _single(group)
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
    """As `run`, for a program without an event loop."""

    async def call() -> Result:
        return await run(
            plan,
            secrets=secrets,
            run_dir=run_dir,
            jobs=jobs,
            reporter=reporter,
            environ=environ,
            handle_signals=handle_signals,
        )

    return anyio.run(call)


class _Run:
    def __init__(self, plan: Plan, opened: Opened, jobs: int | None) -> None:
        self._plan = plan
        self._opened = opened
        self._jobs = jobs
        self._cleanup_scopes = CleanupScopes()
        services = opened.services
        self._recorder = Recorder(
            plan, services.ledger, services.reporter, services.clock, Redactor(opened.values.values())
        )
        self._base = os.getcwd()  # noqa: PTH109 - a text, as the ports have it
        self._workspaces = Workspaces(services, self._recorder, self._base)

    async def carry_out(self, *, handle_signals: bool) -> Result:
        services = self._opened.services
        began = services.clock.monotonic()
        try:
            state = await self._run(handle_signals=handle_signals)
        except BaseExceptionGroup as group:
            error = _single(group)
            if isinstance(error, SenroError) and not isinstance(error, TreeError | PlanError):
                raise RunBroken(services.ledger.folder, error) from error
            raise error from error.__cause__
        result = self._result(state)
        services.reporter.run_ended(summarise(result, self._recorder, services.clock.monotonic() - began))
        return result

    async def _run(self, *, handle_signals: bool) -> RunState:
        services, recorder = self._opened.services, self._recorder
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
                # Before the files of secrets are written: a signal must not leave them behind.
                await group.start(self._listen, engine)
            state = await engine.run(SecretValues(values=self._opened.values, files=await self._secret_files()))
            group.cancel_scope.cancel()
        return state

    def _result(self, state: RunState) -> Result:
        services, recorder = self._opened.services, self._recorder
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
        """Files for the secrets of local steps, in a folder that the run removes."""
        names = {
            name
            for planned in self._plan.steps
            if isinstance(planned.step.on, Local)
            for name in planned.step.secrets.values()
        }
        if not names:
            return {}
        folder = self._opened.services.ledger.scratch("secrets")
        files = self._opened.secret_files
        return {name: await files.write(folder, name, self._opened.values[name]) for name in sorted(names)}

    async def _listen(
        self, engine: Engine, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            task_status.started()
            async for number in signals:
                if self._cleanup_scopes.shortened:
                    self._cleanup_scopes.cancel_all()
                    self._opened.services.processes.kill_all()
                    continue
                name = signal.Signals(number).name
                await self._recorder.record(CancelRequested(at=self._recorder.now(), reason=f"{name} was received"))
                engine.cancel()


def _single(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one error that a person should see: task groups wrap even a single one."""
    leaves = _leaves(group)
    own = [leaf for leaf in leaves if isinstance(leaf, SenroError)]
    return (own or leaves)[0]


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]
