"""A step, as a pipeline file writes it down. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from senro.domain.pipeline.retry import Retry
from senro.domain.pipeline.targets import Local, Target
from senro.domain.pipeline.workspace import AnyMount


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
