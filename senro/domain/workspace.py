"""What a step mounts. Standard library only: pipeline files make these values, also inside a pod."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Mode = Literal["rw", "ro"]
"""`rw`: the step's changes become the workspace's content. `ro`: the pod itself refuses to write."""

Scope = Literal["run", "step"]
"""`run`: one content for the whole run. `step`: every step that mounts it starts from the first content."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """Files that steps hand to each other, on whatever machine each runs.

    `path` is the folder of its first content, relative to the working folder of the process that runs the plan; it is
    copied and never written to. Without it the workspace starts empty. `exclude` are patterns in addition to `.git` and
    `node_modules` (see `senro.domain.excludes`).
    """

    name: str
    path: str | None = field(default=None, kw_only=True)
    scope: Scope = field(default="run", kw_only=True)
    exclude: Sequence[str] = field(default=(), kw_only=True)

    def at(self, path: str, mode: Mode = "rw") -> Mount:
        """This workspace, mounted at the absolute `path`."""
        return Mount(self, path, mode)


@dataclass(frozen=True, slots=True)
class Mount:
    """A workspace at a path of a step's container. On a local step the path is mapped: see `Step`."""

    workspace: Workspace
    path: str
    mode: Mode = "rw"
