"""What of a folder a workspace holds. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from senro.domain.pipeline.workspace import Links, Workspace
from senro.domain.tree.excludes import DEFAULT_EXCLUDES

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class ContentRules:
    """The same for a folder of this machine, for what comes back from a pod, and for what a local step leaves.

    What matches `exclude` (the words of `domain.excludes`) is not there: neither in a tree nor, once the rules have
    been applied, on disk. `links` says what becomes of links that are absolute or leave the folder. With `follow`
    every link is replaced by a copy of what it leads to in the folder.
    """

    exclude: tuple[str, ...] = ()
    links: Links = "refuse"
    follow: bool = False


DEFAULT_RULES = ContentRules()
"""Nothing is excluded, and no link may leave."""

KEEP_EVERYTHING = ContentRules(links="keep")
"""The rules of what has none, such as a scratch cache: everything is kept, links as the text that they are."""


def rules_of(workspace: Workspace, ignored: Sequence[str] = ()) -> ContentRules:
    """The rules of a workspace; `ignored` are the patterns of its `.senroignore`."""
    return ContentRules(
        exclude=(*DEFAULT_EXCLUDES, *workspace.exclude, *ignored),
        links=workspace.links,
        follow=not workspace.preserve_symlinks,
    )
