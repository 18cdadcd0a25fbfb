"""What a pipeline file writes down. Standard library only: the same file is imported inside a pod.

A `Pipeline` collects; nothing is checked before `build`, so that every refusal can be told at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from senro.domain.pipeline.durations import Duration, seconds
from senro.domain.pipeline.retry import Retry
from senro.domain.pipeline.targets import Local, Target
from senro.domain.pipeline.workspace import AnyMount

if TYPE_CHECKING:
    from senro.domain.plan.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One command, one pod, one container.

    `id` is `<workflow>.<name>`. `command` is run without a shell. `workdir` is absolute in a pod; on a local step
    a workdir at or under a mount's path is the workspace's folder, any other is relative to the working folder.
    Each mount's place is also told by the variable `SENRO_WORKSPACE_<NAME>`, in pods and locally alike.
    `secrets` maps an environment variable to the name of a secret: the variable holds the path of a file.
    `timeout` is seconds from the start of the command. With `continue_on_error` a failure does not stop what needs
    this step. With `no_snapshot` nothing that it does to its mounts is read back or kept: a later step sees each
    workspace as it was before. `pure` says that what the step leaves follows from its command, image, variables and
    mounts alone; `build` refuses it of a step that mounts a claim, and no step is skipped for it.
    """

    workflow: str
    name: str
    command: Sequence[str]
    needs: Sequence[str] = ()
    on: Target = field(default_factory=Local)
    mounts: Sequence[AnyMount] = ()
    workdir: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    retry: Retry | None = None
    timeout: float | None = None
    continue_on_error: bool = False
    no_snapshot: bool = False
    pure: bool = False

    @property
    def id(self) -> str:
        """`<workflow>.<name>`, what events, labels and `needs` of other workflows call it."""
        return f"{self.workflow}.{self.name}"


class Workflow:
    """Steps that share a target. Made by `Pipeline.workflow`."""

    def __init__(self, name: str, *, needs: Sequence[str], on: Target) -> None:
        self.name = name
        self.needs = _taken(needs)
        self.on = on
        self.steps: list[Step] = []

    def __repr__(self) -> str:
        return f"<Workflow {self.name!r} of {len(self.steps)} steps>"

    def step(
        self,
        name: str,
        command: Sequence[str],
        *,
        needs: Sequence[str] = (),
        on: Target | None = None,
        mounts: Sequence[AnyMount] = (),
        workdir: str | None = None,
        env: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        continue_on_error: bool = False,
        no_snapshot: bool = False,
        pure: bool = False,
    ) -> Step:
        """Add a step. It starts as soon as its needs are settled: steps of a workflow are not in a row by themselves.

        `needs` names steps of this workflow by name, of another one by id (`build.make`). `on` overrides the
        workflow's target. `timeout` is seconds, or a timedelta. The rest is as `Step` has it.
        """
        step = Step(
            workflow=self.name,
            name=name,
            command=_taken(command),
            needs=_taken(needs),
            on=self.on if on is None else on,
            mounts=_taken(mounts),
            workdir=workdir,
            env={} if env is None else _taken(env),
            secrets={} if secrets is None else _taken(secrets),
            retry=retry,
            timeout=None if timeout is None else seconds(timeout),
            continue_on_error=continue_on_error,
            no_snapshot=no_snapshot,
            pure=pure,
        )
        self.steps.append(step)
        return step


def _taken(value: Any) -> Any:
    """A copy of a list or a mapping, which its maker may change later. Anything else stays what it is, for `build`.

    A set stays too, to be refused: its order is another one in every process, and so would be the plan's.
    """
    kind = type(value)
    if issubclass(kind, Mapping):
        return dict(value)
    kept = (str, bytes, set, frozenset)
    return tuple(value) if issubclass(kind, Iterable) and not issubclass(kind, kept) else value


class Pipeline:
    """Workflows of steps. `build` freezes it into a plan, or says everything that is wrong with it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.workflows: list[Workflow] = []

    def __repr__(self) -> str:
        return f"<Pipeline {self.name!r} of {len(self.workflows)} workflows>"

    def workflow(self, name: str, *, needs: Sequence[str] = (), on: Target | None = None) -> Workflow:
        """Add a workflow. Its steps start when every step of the workflows in `needs` has settled well.

        `on` is `senro.local()`, the default, or a `senro.k8s.Pod(...)`.
        """
        workflow = Workflow(name, needs=needs, on=Local() if on is None else on)
        self.workflows.append(workflow)
        return workflow

    def build(self) -> Plan:
        """The plan, frozen and validated. Raises `PlanError` with every refusal; touches nothing."""
        from senro.domain.plan.plan import build_plan  # noqa: PLC0415 - a pod that imports the file never builds

        return build_plan(self)
