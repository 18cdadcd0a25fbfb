"""Garbage collection of the cache folder: what it contains, which runs need it, and how items are removed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from senro.domain.caches.gc import Item, Sweep


@dataclass(frozen=True, slots=True)
class Keeper:
    """A run whose snapshots are kept.

    run: its id.
    folder: the path of its folder.
    why: `running`, `unfinished`, or the final state of the run.
    """

    run: str
    folder: str
    why: str


@dataclass(frozen=True, slots=True)
class Survey:
    """What the cache contains.

    items: snapshots, entries of scratch caches and persistent workspaces.
    bodies: the size in bytes of every file body, by its path in the cache.
    keepers: the runs whose snapshots are kept.
    """

    items: tuple[Item, ...]
    bodies: Mapping[str, int]
    keepers: tuple[Keeper, ...] = ()


class Collection(Protocol):
    """One garbage collection, which excludes others. Runs may go on meanwhile."""

    async def survey(self) -> Survey:
        """Returns what the cache contains, and which runs need their snapshots because they go on or have failed.

        Raises `StoreError` if it cannot be determined what is needed; the caller must not remove anything then.
        """

    async def drop(self, decision: Sweep) -> None:
        """Remove the items of `decision`, then its bodies, except what was stored or restored since the survey began.

        Waits while a snapshot is being stored or restored, and raises `StoreError` after a bounded time. If it is
        cancelled or killed, no incomplete snapshot is left. Call it once, after `survey`.
        """


class Cache(Protocol):
    """A cache folder."""

    def collecting(self) -> AbstractAsyncContextManager[Collection]:
        """Begin a collection, once no other process collects. Raises `StoreError` after a bounded time."""
