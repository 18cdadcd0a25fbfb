"""The persistent workspaces of a run: opens what earlier runs left, and applies the bounds at the end.

Changes are recorded before they happen, so that the next run can recover from a killed one: it restores the last
snapshot of content that a step was changing, and evicts content without a usable record.
`senro.domain.caches.persistent` decides. Nothing is evicted while a step may run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from senro.app.runtime.recorder import Recorder
from senro.app.runtime.services import Services
from senro.app.workspaces.restore import restore_snapshot
from senro.domain.caches.persistent import Eviction, PersistentRecord, at_lease, exceeded
from senro.domain.errors import ContentLost, StoreError, TreeError
from senro.domain.pipeline.workspace import Workspace
from senro.domain.run.events import WorkspaceEvicted
from senro.ports.persistent import WorkspaceLock


class PersistentWorkspaces:
    """The persistent workspaces that this run has locked."""

    def __init__(self, services: Services, recorder: Recorder) -> None:
        self._services = services
        self._recorder = recorder
        self._records: dict[str, PersistentRecord] = {}
        self.evicted: set[str] = set()
        """The names of workspaces that were evicted at the end of the run."""

    @property
    def locks(self) -> Mapping[str, WorkspaceLock]:
        """The locks of the workspaces by name."""
        return self._services.persistent

    async def open(self, workspace: Workspace) -> bool:
        """Prepare the workspace. Returns whether it has content of earlier runs; if not, its folder does not exist."""
        lock = self.locks[workspace.name]
        bounds = workspace.bounds or (0.0, 0)
        exists, known = await lock.repair(), await lock.record()
        if exists and known is not None and known.changing:
            exists = await self._restore_last_snapshot(lock, known)
        if exists:
            eviction = at_lease(known, bounds, now=self._now(), size=await lock.measure())
            if eviction is not None:
                await self._evict(lock, eviction, "before_run")
                exists = False
        made = known.made if exists and known is not None else self._now()
        digest = known.digest if exists and known is not None else ""
        await self._write(
            lock,
            PersistentRecord(
                name=lock.name,
                made=made,
                max_age=bounds[0],
                max_size=bounds[1],
                run=self._services.ledger.run_id,
                digest=digest,
            ),
        )
        return exists

    async def record_change(self, name: str) -> None:
        """Record that a step may change the folder from now on. Ignores workspaces that are not persistent."""
        if name in self._records and not self._records[name].changing:
            await self._write(self.locks[name], msgspec.structs.replace(self._records[name], changing=True))

    async def record_snapshot(self, name: str, digest: str) -> None:
        """Record that the folder has the content of the snapshot `digest`, and that no step changes it."""
        if name in self._records:
            record = msgspec.structs.replace(self._records[name], digest=digest, changing=False)
            await self._write(self.locks[name], record)

    async def release(self) -> None:
        """Apply the bounds at the end of the run. Errors become notes; the next run applies the bounds then.

        Content that a step was changing when the run was cancelled is left to the next run too.
        """
        for name, record in self._records.items():
            if record.changing or not record.digest:
                continue
            lock = self.locks[name]
            try:
                eviction = exceeded(record, now=self._now(), size=await lock.measure())
                if eviction is None:
                    await lock.write(msgspec.structs.replace(record, released=True))
                else:
                    await self._evict(lock, eviction, "after_run")
            except (StoreError, TreeError) as error:
                await self._recorder.note(f"the workspace {name} could not be released; the next run does it: {error}")
        self._records.clear()

    async def _restore_last_snapshot(self, lock: WorkspaceLock, known: PersistentRecord) -> bool:
        """Restore the content from before the step that a killed run was executing. Returns False if it was evicted.

        It is evicted if the snapshot is lost. Raises `StoreError` or `TreeError`, and evicts nothing, for errors that
        may be temporary.
        """
        try:
            _, leftover = await restore_snapshot(self._services.content, known.digest, lock.folder)
        except ContentLost:
            await self._evict(lock, Eviction("unfinished"), "before_run")
            return False
        if leftover:
            await self._recorder.note(leftover)
        await self._recorder.note(
            f"the run {known.run} was killed while a step changed the workspace {lock.name}; "
            "its content from before that step was restored"
        )
        return True

    async def _evict(self, lock: WorkspaceLock, eviction: Eviction, when: Literal["before_run", "after_run"]) -> None:
        # Recorded first; the next run completes an eviction that is interrupted.
        if when == "after_run":
            self.evicted.add(lock.name)
        await self._recorder.record(
            WorkspaceEvicted(
                at=self._recorder.now(),
                workspace=lock.name,
                bound=eviction.bound,
                limit=eviction.limit,
                measured=eviction.measured,
                when=when,
            )
        )
        await lock.evict()

    async def _write(self, lock: WorkspaceLock, record: PersistentRecord) -> None:
        await lock.write(record)
        self._records[lock.name] = record

    def _now(self) -> float:
        return self._services.clock.now().timestamp()
