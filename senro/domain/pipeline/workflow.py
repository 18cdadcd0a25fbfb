"""A workflow, as a pipeline file writes it down. Standard library only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from senro.domain.pipeline.durations import Duration, seconds
from senro.domain.pipeline.retry import Retry
from senro.domain.pipeline.step import Step
from senro.domain.pipeline.targets import Target
from senro.domain.pipeline.workspace import AnyMount


class Workflow:
    """Steps that share a target. Made by `Pipeline.workflow`."""

    def __init__(self, name: str, *, needs: Sequence[str], on: Target) -> None:
        self.name = name
        self.needs = copy_value(needs)
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
            command=copy_value(command),
            needs=copy_value(needs),
            on=self.on if on is None else on,
            mounts=copy_value(mounts),
            workdir=workdir,
            env={} if env is None else copy_value(env),
            secrets={} if secrets is None else copy_value(secrets),
            retry=retry,
            timeout=None if timeout is None else seconds(timeout),
            continue_on_error=continue_on_error,
            no_snapshot=no_snapshot,
            pure=pure,
        )
        self.steps.append(step)
        return step


def copy_value(value: Any) -> Any:
    """A copy of a list or a mapping, which its maker may change later. Anything else stays what it is, for `build`.

    A set stays too, to be refused: its order is another one in every process, and so would be the plan's.
    """
    kind = type(value)
    if issubclass(kind, Mapping):
        return dict(value)
    kept = (str, bytes, set, frozenset)
    return tuple(value) if issubclass(kind, Iterable) and not issubclass(kind, kept) else value
