"""What a step mounts. Standard library only: pipeline files make these values, also inside a pod."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from senro.domain.pipeline.durations import Duration, seconds

Mode = Literal["rw", "ro"]
"""`rw`: the step's changes become the workspace's content. `ro`: the pod itself refuses to write."""

Scope = Literal["run", "step", "persistent"]
"""`run`: one content for the whole run. `step`: every step that mounts it starts from the first content.
`persistent`: one content for all runs on this machine, within its bounds."""

Links = Literal["refuse", "keep"]
"""What becomes of a symbolic link that is absolute or leaves the workspace: `refuse` names it and fails what met it,
`keep` carries it as the text that it is. senro never follows one."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """Files that steps hand to each other, on whatever machine each runs.

    `path` is the folder of its first content, relative to the working folder of the process that runs the plan; it is
    copied and never written to. Without it the workspace starts empty. `exclude` are patterns in addition to `.git`,
    `node_modules` and what a `.senroignore` at the top of `path` names (see `senro.domain.tree.excludes`); they
    hold for the first content and for what steps leave.

    `links` decides about links that leave the workspace. With `preserve_symlinks=False` every link is replaced by a
    copy of what it leads to, inside the workspace.

    A `persistent` workspace lives from run to run in the cache folder, and has both bounds: `max_age` (seconds, or a
    timedelta) and `max_size` (bytes, or a quantity such as `"10Gi"`). What exceeds one is evicted, whole, between runs.
    """

    name: str
    path: str | None = field(default=None, kw_only=True)
    scope: Scope = field(default="run", kw_only=True)
    exclude: Sequence[str] = field(default=(), kw_only=True)
    links: Links = field(default="refuse", kw_only=True)
    preserve_symlinks: bool = field(default=True, kw_only=True)
    max_age: Duration | None = field(default=None, kw_only=True)
    max_size: int | str | None = field(default=None, kw_only=True)

    @property
    def bounds(self) -> tuple[float, int] | None:
        """`max_age` in seconds and `max_size` in bytes, as every persistent workspace of a plan has them; else None."""
        if self.max_age is None or not isinstance(self.max_size, int):
            return None  # a quantity is text until `Pipeline.build` has read it
        return seconds(self.max_age), self.max_size

    def at(self, path: str, mode: Mode = "rw") -> Mount:
        """This workspace, mounted at the absolute `path`."""
        return Mount(self, path, mode)


@dataclass(frozen=True, slots=True)
class Mount:
    """A workspace at a path of a step's container. On a local step the path is mapped: see `Step`."""

    workspace: Workspace
    path: str
    mode: Mode = "rw"

    @property
    def name(self) -> str:
        """The workspace's name."""
        return self.workspace.name


@dataclass(frozen=True, slots=True)
class ScratchCache:
    """Files that make a step faster and that it can do without, such as downloaded modules.

    `key` names the content, `"gomod-{{ hash_files('go.sum') }}"`, and is evaluated once a run. The step starts from the
    entry that was saved under the key, else from the newest whose key begins with the first of `restore_keys` that any
    begins with, else from nothing. What came back from the first step that succeeds is saved under the key, once.
    """

    name: str
    key: str = field(kw_only=True)
    restore_keys: Sequence[str] = field(default=(), kw_only=True)

    def at(self, path: str) -> ScratchMount:
        """This cache, mounted read-write at the absolute `path`."""
        return ScratchMount(self, path)


@dataclass(frozen=True, slots=True)
class ScratchMount:
    """A scratch cache at a path of a step's container; always read-write."""

    cache: ScratchCache
    path: str

    @property
    def name(self) -> str:
        """The cache's name."""
        return self.cache.name

    @property
    def mode(self) -> Mode:
        """What a mount's mode is."""
        return "rw"


AnyMount = Mount | ScratchMount
"""What stands in a step's `mounts`."""
