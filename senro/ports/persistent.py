"""Persistent workspaces: each is one folder that lives from run to run, and one run at a time uses it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from senro.domain.caches.persistent import PersistentRecord


@dataclass(frozen=True, slots=True)
class Inspection:
    """What a workspace holds, repaired or not.

    `content`: the bytes of the content, as `WorkspaceLock.repair` would leave it; None if there is none.
    `leftover`: the bytes that `repair` would remove.
    """

    content: int | None
    leftover: int


class WorkspaceLock(Protocol):
    """One workspace, locked for this run until the context of `PersistentStore.lock` is left."""

    @property
    def name(self) -> str:
        """The name of the workspace."""

    @property
    def folder(self) -> str:
        """The folder of the content, which may not exist yet. Replace it by rename only: build a sibling, swap it."""

    async def record_holder(self, run: str) -> None:
        """Record the id of the run that has the lock, for the message to runs that are refused it."""

    async def repair(self) -> bool:
        """Undo a swap that a killed process began, and remove its siblings. Returns whether there is content.

        Call it first. Whether a step was changing the content when its run was killed is in the record.
        """

    async def inspect(self) -> Inspection:
        """What the workspace holds. Changes nothing."""

    async def record(self) -> PersistentRecord | None:
        """The record that was written last; None if there is none, or none that can be decoded."""

    async def write(self, record: PersistentRecord) -> None:
        """Replace the record atomically. It is on disk when this returns."""

    async def measure(self) -> int:
        """The bytes of all files of the content, also of those that no snapshot has. Unreadable ones count as 0."""

    async def evict(self) -> None:
        """Remove the content and its record. `folder` never shows a part of the content meanwhile."""


class PersistentStore(Protocol):
    """The persistent workspaces of this machine's cache folder."""

    def lock(self, name: str, *, since: str) -> AbstractAsyncContextManager[WorkspaceLock]:
        """Lock the workspace for this run. `since` is the present time, for messages.

        Raises `ConfigurationError` (rule `persistent-held`), naming the holder, at once if another run has it.
        """

    async def records(self) -> Sequence[PersistentRecord]:
        """The records of all workspaces, sorted by name, without locking them: a run may replace one meanwhile."""

    async def names_to_repair(self) -> Sequence[str]:
        """The sorted names of workspaces in which a killed process may have left something.

        They have siblings of the content, or a record without content. A workspace that a run is swapping just now is
        listed too.
        """
