"""A mount of a step together with the files on the coordinator that it starts from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from senro.domain.pipeline.workspace import AnyMount, Mount
from senro.domain.tree.content_rules import ContentRules
from senro.domain.tree.tree import Tree
from senro.ports.trees import Packed


@dataclass(frozen=True, slots=True, kw_only=True)
class MountTransfer:
    """One mount of a step, as `Workspaces.prepare` made it ready for an attempt.

    `index`: the number of its volume in the pod, and of its folder in an archive.
    `mount`: the mount, of a workspace or of a scratch cache.
    `folder`: the folder on the coordinator: its files are uploaded, and a download replaces it.
    `tree`: the content of `folder`.
    `rules`: which files of a download are kept.
    `returns`: whether a pod's changes are downloaded.
    """

    index: int
    mount: AnyMount
    folder: str
    tree: Tree
    rules: ContentRules
    returns: bool

    @property
    def packed(self) -> Packed:
        """The files, for `Trees.pack`."""
        return Packed(self.index, self.folder, self.tree)


def returning_workspaces(mounts: Sequence[MountTransfer]) -> tuple[MountTransfer, ...]:
    """The mounts of workspaces, without scratch caches, whose changes are downloaded."""
    return tuple(each for each in mounts if each.returns and isinstance(each.mount, Mount))
