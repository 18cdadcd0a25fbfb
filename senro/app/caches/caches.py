"""The scratch caches of a run: what each step starts from, and what is saved of what came back.

A cache is restored when the first step needs it, into a folder of the run that is removed with it. Local steps work in
that folder. A pod gets a copy of it, so pods do not see each other's changes, ordered or not; what comes back from a
pod lies in a folder of that step's own, and a later local step starts from that.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field

import anyio
from anyio.abc import TaskGroup

from senro.app.caches.stores import RestoredEntry, ScratchStores
from senro.app.runtime.recorder import Recorder
from senro.app.runtime.services import Services
from senro.domain.caches.key import CacheKeys
from senro.domain.caches.lookup import ScratchEntry, Where
from senro.domain.errors import StoreError, StoreUnavailable, TreeError
from senro.domain.kube.names import label_value
from senro.domain.pipeline.step import Step
from senro.domain.pipeline.targets import Local
from senro.domain.pipeline.workspace import ScratchMount
from senro.domain.plan.cache_handover import CacheHandover, cache_handover, cache_names
from senro.domain.plan.plan import Plan
from senro.domain.run.events import ScratchMissed, ScratchNotSaved, ScratchRestored, ScratchSaved
from senro.domain.tree.content_rules import KEEP_EVERYTHING
from senro.domain.tree.tree import Tree


@dataclass(frozen=True, slots=True)
class CacheContent:
    """A folder with what it held when it was put there; a local step then works in it."""

    folder: str
    tree: Tree


@dataclass(slots=True)
class _Cache:
    """One cache in this run. `content` is what local steps and the next pod start from; None before it is restored."""

    name: str
    keys: CacheKeys
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    content: CacheContent | None = None
    local_content: CacheContent | None = None
    """What local steps left, as it was read for the first pod after them; None before, and once one works there."""

    exact: bool = False
    saver: str = ""
    """The step whose content is saved under the key, or is being saved."""

    downloads: dict[str, CacheContent] = field(default_factory=dict)
    """What came back from pods and no local step has got yet, in the order in which it came."""

    folders: int = 0


@dataclass(frozen=True, slots=True)
class _StepResult:
    """What came back from an attempt of a step. `stable`: nobody writes to its folder any more."""

    step: Step
    attempt: int
    content: CacheContent
    stable: bool


class ScratchCaches:
    """Made once a run; `open` it first. Without a scratch cache in the plan nothing of it does anything."""

    _stores: ScratchStores
    _handover: CacheHandover
    _uploads: TaskGroup
    _folder: str

    def __init__(self, services: Services, recorder: Recorder) -> None:
        self._services = services
        self._recorder = recorder
        self._caches: dict[str, _Cache] = {}
        self._prepared: dict[tuple[str, str], CacheContent] = {}

    async def open(self, plan: Plan, uploads: TaskGroup) -> None:
        """Begin. What is saved is shared by tasks of `uploads`, beside the steps: cancel it and they end."""
        if not plan.scratches:
            return
        scratch = self._services.scratch
        if scratch is None:
            raise RuntimeError("a plan with scratch caches is run without a store for them")
        self._handover, self._uploads = cache_handover(plan), uploads
        self._stores = ScratchStores(scratch.local, scratch.remote, self._recorder)
        self._caches = {name: _Cache(name, keys) for name, keys in scratch.keys.items()}
        self._folder = self._services.ledger.scratch("scratch-caches")
        if scratch.unavailable is not None:
            await self._stores.disable_remote(scratch.unavailable.path, scratch.unavailable.message)

    async def prepare(self, step: Step) -> None:
        """Give the step what its caches start from. Call it before every attempt. Raises `TreeError`."""
        for name in cache_names(step):
            cache = self._caches[name]
            async with cache.lock:
                content = await self._starting_content(cache)
                if isinstance(step.on, Local):
                    content = await self._local_content(step, cache, content)
                elif self._handover.starts_from_local(step.id, name):
                    content = await self._content_for_pod(step, cache, content)
                self._prepared[step.id, name] = content

    def content(self, step: Step, mount: ScratchMount) -> CacheContent:
        """What the step's mount starts from; a local step works there."""
        return self._prepared[step.id, mount.name]

    async def download_folder(self, step: Step, attempt: int, name: str) -> str:
        """The folder for what shall come back of the cache from the step's pod, which succeeded; "" for nothing.

        What nobody would save or get is not asked for; where another step's came first, the ledger says so.
        """
        cache = self._caches[name]
        if self._needs_save(cache) or self._handover.is_passed_on(step.id, name):
            return self._new_folder(cache)
        if cache.saver:
            await self._record_not_saved(cache, step, attempt, _saved_first(cache))
        return ""

    async def save_download(self, step: Step, attempt: int, name: str, content: CacheContent) -> None:
        """Save what came back of the cache from the step's pod, and keep it for a local step after it."""
        cache = self._caches[name]
        cache.downloads[step.id] = content
        await self._save(cache, _StepResult(step, attempt, content, stable=True))

    async def record_lost(self, step: Step, attempt: int, name: str, reason: str) -> None:
        """Nothing of the cache came back from the step's pod."""
        await self._record_not_saved(self._caches[name], step, attempt, f"it did not come back: {reason}")

    async def save_local(self, step: Step, attempt: int) -> None:
        """Save what a local step, which succeeded, left in its caches."""
        if step.no_snapshot:
            return
        for name in cache_names(step):
            cache = self._caches[name]
            if not self._needs_save(cache):
                if cache.saver:
                    await self._record_not_saved(cache, step, attempt, _saved_first(cache))
                continue
            folder = self._prepared[step.id, name].folder
            try:
                tree = await self._services.trees.walk(folder, rules=KEEP_EVERYTHING)
            except TreeError as error:
                await self._record_not_saved(cache, step, attempt, f"it cannot be read as the step left it: {error}")
            else:
                await self._save(cache, _StepResult(step, attempt, CacheContent(folder, tree), stable=False))

    async def _starting_content(self, cache: _Cache) -> CacheContent:
        if cache.content is None:
            folder = self._new_folder(cache)
            restored = await self._stores.restore(cache.name, cache.keys, folder)
            if restored is None:
                await self._services.trees.copy(Tree(), self._folder, folder)
            await self._record_restored(cache, restored)
            cache.exact = restored is not None and restored.entry.key == cache.keys.key
            cache.content = CacheContent(folder, Tree() if restored is None else restored.tree)
        return cache.content

    async def _local_content(self, step: Step, cache: _Cache, content: CacheContent) -> CacheContent:
        """The folder that local steps work in; one of its own for a step whose changes are not kept."""
        cache.local_content = None
        given = [
            returned
            for pod, returned in cache.downloads.items()
            if pod in self._handover.providers[step.id, cache.name]
        ]
        if given:
            # Of several pods before it, the one that came back last.
            content = cache.content = CacheContent(await self._copy(cache, given[-1]), given[-1].tree)
            cache.downloads.clear()
        if not step.no_snapshot:
            return content
        try:
            # Another local step may write there just now.
            tree = await self._services.trees.walk(content.folder, rules=KEEP_EVERYTHING)
            return CacheContent(await self._copy(cache, CacheContent(content.folder, tree)), tree)
        except TreeError as error:
            return await self._empty_content(step, cache, error)

    async def _content_for_pod(self, step: Step, cache: _Cache, content: CacheContent) -> CacheContent:
        """What local steps left, as a pod can be given it. No local step runs now: needs put them in order."""
        if cache.local_content is None:
            try:
                cache.local_content = CacheContent(
                    content.folder, await self._services.trees.walk(content.folder, rules=KEEP_EVERYTHING)
                )
            except TreeError as error:
                return await self._empty_content(step, cache, error)
        return cache.local_content

    async def _empty_content(self, step: Step, cache: _Cache, error: TreeError) -> CacheContent:
        """An empty folder for a step that cannot be given what local steps left: a cache fails no step."""
        await self._recorder.note(
            f"scratch cache {cache.name}: it starts empty, since what local steps left cannot be read: {error}",
            step=step.id,
        )
        return CacheContent(await self._copy(cache, CacheContent(self._folder, Tree())), Tree())

    def _needs_save(self, cache: _Cache) -> bool:
        return not (cache.exact or cache.saver)

    async def _save(self, cache: _Cache, result: _StepResult) -> None:
        """Save it, unless another step's came first."""
        if cache.exact:
            return
        if cache.saver:
            await self._record_not_saved(cache, result.step, result.attempt, _saved_first(cache))
            return
        cache.saver = result.step.id
        entry = ScratchEntry(cache.keys.key, self._services.clock.now())
        try:
            saved = await self._stores.local.save(cache.name, entry, result.content.tree, result.content.folder)
        except (StoreError, TreeError) as error:
            cache.saver = ""
            await self._record_not_saved(cache, result.step, result.attempt, str(error))
            return
        except BaseException:
            cache.saver = ""
            raise
        if not saved:
            await self._record_not_saved(
                cache, result.step, result.attempt, "another run on this machine saved it first"
            )
            return
        await self._record_saved(cache, result, "local")
        if self._stores.saves_remotely:
            self._uploads.start_soon(self._share, cache, result, entry)

    async def _share(self, cache: _Cache, result: _StepResult, entry: ScratchEntry) -> None:
        """Save it in the shared store too. A failure of that is no failure of the run."""
        remote, content = self._stores.remote, result.content
        if remote is None:
            return
        try:
            if not result.stable:
                # Local steps go on writing to their folder; what was saved here does not change.
                folder = self._new_folder(cache)
                content = CacheContent(folder, await self._stores.local.restore(cache.name, entry.key, folder))
            saved = await remote.save(cache.name, entry, content.tree, content.folder)
        except (StoreError, TreeError) as error:
            if isinstance(error, StoreUnavailable):
                await self._stores.disable_remote(error.path, error.message)
            await self._record_not_saved(cache, result.step, result.attempt, str(error), "remote")
            return
        if saved:
            await self._record_saved(cache, result, "remote")
        else:
            await self._record_not_saved(
                cache, result.step, result.attempt, "another coordinator saved it first", "remote"
            )

    async def _copy(self, cache: _Cache, content: CacheContent) -> str:
        folder = self._new_folder(cache)
        await self._services.trees.copy(content.tree, content.folder, folder)
        return folder

    def _new_folder(self, cache: _Cache) -> str:
        cache.folders += 1
        return posixpath.join(self._folder, label_value(f"{cache.name}-{cache.folders}"))

    async def _record_restored(self, cache: _Cache, restored: RestoredEntry | None) -> None:
        now = self._recorder.now()
        if restored is None:
            await self._recorder.record(ScratchMissed(at=now, cache=cache.name, key=cache.keys.key))
            return
        await self._recorder.record(
            ScratchRestored(
                at=now,
                cache=cache.name,
                key=cache.keys.key,
                entry_key=restored.entry.key,
                store=restored.where,
                files=restored.tree.files,
                bytes=restored.tree.size,
            )
        )

    async def _record_saved(self, cache: _Cache, result: _StepResult, where: Where) -> None:
        await self._recorder.record(
            ScratchSaved(
                at=self._recorder.now(),
                cache=cache.name,
                key=cache.keys.key,
                step=result.step.id,
                attempt=result.attempt,
                store=where,
                files=result.content.tree.files,
                bytes=result.content.tree.size,
            )
        )

    async def _record_not_saved(
        self, cache: _Cache, step: Step, attempt: int, reason: str, where: Where = "local"
    ) -> None:
        await self._recorder.record(
            ScratchNotSaved(
                at=self._recorder.now(),
                cache=cache.name,
                key=cache.keys.key,
                step=step.id,
                attempt=attempt,
                store=where,
                reason=reason,
            )
        )


def _saved_first(cache: _Cache) -> str:
    return f"what came back from {cache.saver} came first"
