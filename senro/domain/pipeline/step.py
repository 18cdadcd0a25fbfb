"""A step of a pipeline file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from senro.domain.pipeline.retry import Retry
from senro.domain.pipeline.targets import Local, Target
from senro.domain.pipeline.workspace import AnyMount


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One command, in a container of its own pod or as a local process.

    `workflow`, `name`: the names, of which `id` consists.
    `command`: the command and its arguments; no shell interprets them.
    `needs`: the steps that run before it: names in this workflow, or ids.
    `on`: where the step runs.
    `mounts`: its workspaces and caches. `SENRO_WORKSPACE_<NAME>` has the path of each workspace, also locally.
    `workdir`: the working directory, absolute in a pod. For a local step a workdir at or below the path of a mount is
    in the folder of the workspace; any other is relative to the working directory of the coordinator.
    `env`: environment variables.
    `secrets`: names of secrets, by the environment variable that has the path of the file with the value.
    `retry`: when the step is repeated.
    `timeout`: seconds from the start of the command.
    `continue_on_error`: whether the steps that need this one run although it failed.
    `no_snapshot`: whether its changes to its mounts are dropped, so that later steps see each workspace as it was
    before.
    `pure`: whether its results depend on its command, image, variables and mounts alone. A step that mounts a claim
    cannot be pure. No step is skipped for it.
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
        """`<workflow>.<name>`, which events, labels and the `needs` of other workflows use."""
        return f"{self.workflow}.{self.name}"
