"""A workflow of a pipeline file."""

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
        """Adds a step, which starts once its needs are satisfied, whatever its place in the workflow is.

        `needs` has names of steps of this workflow and ids of others (`build.make`). `on` overrides the target of the
        workflow. `timeout` is seconds or a timedelta. For the rest see `Step`.
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
    """A copy of a list or mapping, which the caller may change later. Other values are returned, for `build` to refuse.

    So are sets, whose order differs from process to process.
    """
    kind = type(value)
    if issubclass(kind, Mapping):
        return dict(value)
    kept = (str, bytes, set, frozenset)
    return tuple(value) if issubclass(kind, Iterable) and not issubclass(kind, kept) else value
