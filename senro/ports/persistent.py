"""Workspaces that live from run to run, one folder each, and one run at a time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from senro.domain.caches.persistent import PersistentRecord


@dataclass(frozen=True, slots=True)
class Found:
    """What `Lease.mend` would find, in bytes: the content, None where there is none, and what it would remove."""

    content: int | None
    leftover: int


class Lease(Protocol):
    """One workspace, held by this run until the context of `PersistentStore.lease` is left."""

    @property
    def name(self) -> str:
        """The workspace's name."""
        ...

    @property
    def folder(self) -> str:
        """Where its content lies, or will lie. Replace it by rename alone: built beside it, swapped."""
        ...

    async def held_by(self, run: str) -> None:
        """Tell the id of the run that has it, for whoever is refused meanwhile."""
        ...

    async def mend(self) -> bool:
        """Undo a swap that a killed process began, remove what it left beside; whether there is content. Call it first.

        The content is then whole as far as swaps go. That no step was changing it, the record tells.
        """
        ...

    async def look(self) -> Found:
        """What there is, mended or not; nothing is changed."""
        ...

    async def record(self) -> PersistentRecord | None:
        """What was written down last; None where that is nothing, or cannot be understood."""
        ...

    async def write(self, record: PersistentRecord) -> None:
        """Write down, whole, in place of what was: on disk when it returns."""
        ...

    async def measure(self) -> int:
        """Bytes of all files of the content, those too that no snapshot carries; what we may not read is nothing."""
        ...

    async def evict(self) -> None:
        """Remove the content and its record, whole: at no moment is there a part of it where the content was."""
        ...


class PersistentStore(Protocol):
    """The persistent workspaces of this machine's cache folder."""

    def lease(self, name: str, *, since: str) -> AbstractAsyncContextManager[Lease]:
        """Take the workspace for this run alone. `since` is the time of now, for people.

        Raises `ConfigurationError` (rule `persistent-held`) naming the holder, at once, where another run has it.
        """
        ...

    async def records(self) -> Sequence[PersistentRecord]:
        """What is written down about each, sorted by name, whoever has it: it may be another a moment later."""
        ...

    async def unsettled(self) -> Sequence[str]:
        """The names of those, sorted, of which whoever was killed has left what serves nobody.

        That is something beside the content, or a record without one; so too while a run that has it is at it.
        """
        ...
