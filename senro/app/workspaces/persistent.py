"""The persistent workspaces of a run: what of earlier runs it starts from, and what it leaves to later ones.

What happens to one is written down before it happens, so that whoever comes after a coordinator that was killed knows
what it finds: content that a step was changing is put back to its last snapshot, content of which nothing is known is
evicted. Decisions are those of `senro.domain.caches.persistent`; nothing is evicted while a step may run.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
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
    """Those that this run has leased, all before its first step."""

    def __init__(self, services: Services, recorder: Recorder) -> None:
        self._services = services
        self._recorder = recorder
        self._records: dict[str, PersistentRecord] = {}
        self.evicted: set[str] = set()
        """The names of those that the end of the run has evicted."""

    @property
    def locks(self) -> Mapping[str, WorkspaceLock]:
        """By name."""
        return MappingProxyType(self._services.persistent)

    async def open(self, workspace: Workspace) -> bool:
        """Whether there is content of earlier runs to start from; else its folder is free for a first one."""
        lock = self.locks[workspace.name]
        bounds = workspace.bounds or (0.0, 0)
        there, known = await lock.repair(), await lock.record()
        if there and known is not None and known.changing:
            there = await self._restore_last_snapshot(lock, known)
        if there:
            eviction = at_lease(known, bounds, now=self._now(), size=await lock.measure())
            if eviction is not None:
                await self._evict(lock, eviction, "before_run")
                there = False
        made = known.made if there and known is not None else self._now()
        digest = known.digest if there and known is not None else ""
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
        return there

    async def record_change(self, name: str) -> None:
        """Call it before a step may change the folder itself. Nothing for a workspace that is not persistent."""
        if name in self._records and not self._records[name].changing:
            await self._write(self.locks[name], msgspec.structs.replace(self._records[name], changing=True))

    async def record_snapshot(self, name: str, digest: str) -> None:
        """Call it when the folder holds the snapshot `digest`, and no step changes it any more."""
        if name in self._records:
            record = msgspec.structs.replace(self._records[name], digest=digest, changing=False)
            await self._write(self.locks[name], record)

    async def release(self) -> None:
        """Apply the bounds at the end of the run. What cannot be done is a note, and is left to the next run.

        So is content that a step was changing when the run was cancelled.
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
        """The content as it was before the step that a killed run was in; evicted where that is not held any more.

        Raises `StoreError` or `TreeError`, with nothing evicted, where it may be had another time.
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
            "it is as it was before that step"
        )
        return True

    async def _evict(self, lock: WorkspaceLock, eviction: Eviction, when: Literal["before_run", "after_run"]) -> None:
        # Told first, as everything: an eviction that is cut is carried out by whoever leases it next.
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
