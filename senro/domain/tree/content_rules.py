"""Which entries of a folder belong to a workspace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from senro.domain.pipeline.workspace import Links, Workspace
from senro.domain.tree.excludes import DEFAULT_EXCLUDES


@dataclass(frozen=True, slots=True)
class ContentRules:
    """The rules for a folder of this machine, for a download from a pod, and for what a local step leaves.

    `exclude`: patterns (`senro.domain.tree.excludes`) of entries that do not belong to it.
    `links`: what happens to links that are absolute or leave the folder.
    `follow`: whether every link is replaced by a copy of what it leads to in the folder.
    """

    exclude: tuple[str, ...] = ()
    links: Links = "refuse"
    follow: bool = False


DEFAULT_RULES = ContentRules()
"""Nothing is excluded, and no link may leave the folder."""

KEEP_EVERYTHING = ContentRules(links="keep")
"""The rules of a scratch cache: everything is kept, links included."""


def rules_of(workspace: Workspace, ignored: Sequence[str] = ()) -> ContentRules:
    """The rules of a workspace; `ignored` has the patterns of its `.senroignore`."""
    return ContentRules(
        exclude=(*DEFAULT_EXCLUDES, *workspace.exclude, *ignored),
        links=workspace.links,
        follow=not workspace.preserve_symlinks,
    )
