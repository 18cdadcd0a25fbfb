"""The cache folder as a whole: what lies there, who needs it, and how something of it is dropped."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from senro.domain.caches.gc import Item, Sweep


@dataclass(frozen=True, slots=True)
class Keeper:
    """A run that needs snapshots: `why` is `running` or `unfinished`, or what it came to; `folder` is the run's."""

    run: str
    folder: str
    why: str


@dataclass(frozen=True, slots=True)
class Survey:
    """What the cache holds: `items`, and under `bodies` every content with its size in bytes, whoever has it."""

    items: tuple[Item, ...]
    bodies: Mapping[str, int]
    keepers: tuple[Keeper, ...] = ()


class Collection(Protocol):
    """The cache, and the one that clears it. Runs may go on."""

    async def survey(self) -> Survey:
        """What is there, and what of it is needed by runs that go on or did not end well, or by what else lives here.

        Raises `StoreError` where it cannot be told what somebody needs: then nothing may be dropped.
        """
        ...

    async def drop(self, decision: Sweep) -> None:
        """Remove what was decided upon, items first, but nothing that was put or restored since the survey began.

        Waits, a bounded time, whenever a snapshot is being put or restored, and raises `StoreError` after that.
        Cancelled or killed in between, what is left is whole. Call it once, after `survey`.
        """
        ...


class Cache(Protocol):
    """The cache folder."""

    def collecting(self) -> AbstractAsyncContextManager[Collection]:
        """Be the only one who clears it; wait, a bounded time, for another. Raises `StoreError` after that."""
        ...
