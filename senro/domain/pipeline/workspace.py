"""What a step mounts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from senro.domain.pipeline.durations import Duration, seconds

Mode = Literal["rw", "ro"]
"""`rw`: the changes of the step become the content of the workspace. `ro`: the kubelet refuses writes."""

Scope = Literal["run", "step", "persistent"]
"""`run`: one content for the whole run. `step`: every step starts with the initial content. `persistent`: one content
for all runs on this machine, within its bounds."""

Links = Literal["refuse", "keep"]
"""Symbolic links that are absolute or leave the workspace: `refuse` fails the step or the run, `keep` transfers the
link itself. senro follows none."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """Files that steps pass to each other, on whatever machine each runs.

    `name`: its name.
    `path`: the folder with the initial content, relative to the working directory of the coordinator. It is copied and
    never written to. By default the workspace starts empty.
    `scope`: which steps share one content.
    `exclude`: patterns of paths that do not belong to the workspace, besides `.git`, `node_modules` and those in a
    `.senroignore` at the top of `path` (see `senro.domain.tree.excludes`). They also hold for what steps create.
    `links`: what happens to links that leave the workspace.
    `preserve_symlinks`: if False, every link is replaced by a copy of what it leads to, within the workspace.
    `max_age`, `max_size`: the bounds, both required, of a `persistent` workspace: seconds or a timedelta, and bytes or
    a quantity such as `"10Gi"`. A workspace that exceeds one is deleted between runs.
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
        """`max_age` in seconds and `max_size` in bytes, which every persistent workspace of a plan has; else None."""
        if self.max_age is None or not isinstance(self.max_size, int):
            return None  # a quantity is text until `Pipeline.build` has parsed it
        return seconds(self.max_age), self.max_size

    def at(self, path: str, mode: Mode = "rw") -> Mount:
        """This workspace, mounted at the absolute `path`."""
        return Mount(self, path, mode)


@dataclass(frozen=True, slots=True)
class Mount:
    """A workspace at a path of a step's container. For a local step see `Step`."""

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

    The step starts with the entry of its key, else with the newest entry whose key begins with the first restore key
    that has one, else with nothing. The content that the first successful step leaves is saved under the key, once.

    `name`: its name.
    `key`: the key, such as `"gomod-{{ hash_files('go.sum') }}"`, which is evaluated once per run.
    `restore_keys`: beginnings of other keys.
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
        """Always `rw`."""
        return "rw"


AnyMount = Mount | ScratchMount
