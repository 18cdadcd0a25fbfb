"""The scratch caches of a run: restores them for the steps, and saves what the steps leave.

A cache is restored when the first step needs it, into a scratch folder of the run. Local steps work in that folder. A
pod gets a copy, so pods do not see each other's changes. What is downloaded from a pod goes to a folder of that step,
and a later local step starts from it.
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
    """A folder with the content of a cache. `tree` is its content when it was created: a local step may change it."""

    folder: str
    tree: Tree


@dataclass(slots=True)
class _Cache:
    """One cache in this run. `content`: what local steps and pods start from; None before the cache is restored."""

    name: str
    keys: CacheKeys
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    content: CacheContent | None = None
    local_content: CacheContent | None = None
    """What local steps left, walked for the first pod after them; None before, and once another local step starts."""

    exact: bool = False
    """Whether the entry of the key itself was restored, so that nothing is saved."""

    saver: str = ""
    """The step whose content is saved under the key, or is being saved; empty for none."""

    downloads: dict[str, CacheContent] = field(default_factory=dict)
    """Downloads by step, in the order of arrival, until a local step starts from the last one."""

    folders: int = 0
    """The number of folders created so far, which makes their names unique."""


@dataclass(frozen=True, slots=True)
class _StepResult:
    """What an attempt of a step left in a cache. `stable`: no step writes to the folder any more."""

    step: Step
    attempt: int
    content: CacheContent
    stable: bool


class ScratchCaches:
    """The scratch caches of one run. Call `open` first. Does nothing for a plan without scratch caches."""

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
        """Open the caches of the plan. Tasks in `uploads` save to the shared store while steps run."""
        if not plan.scratches:
            return
        scratch = self._services.scratch
        if scratch is None:
            raise RuntimeError("the plan has scratch caches, but there is no store for them")
        self._handover, self._uploads = cache_handover(plan), uploads
        self._stores = ScratchStores(scratch.local, scratch.remote, self._recorder)
        self._caches = {name: _Cache(name, keys) for name, keys in scratch.keys.items()}
        self._folder = self._services.ledger.scratch("scratch-caches")
        if scratch.unavailable is not None:
            await self._stores.disable_remote(scratch.unavailable.path, scratch.unavailable.message)

    async def prepare(self, step: Step) -> None:
        """Prepare the content from which the step's caches start. Call it before every attempt. Raises `TreeError`."""
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
        """The content that `prepare` made for the mount; a local step works in its folder."""
        return self._prepared[step.id, mount.name]

    async def download_folder(self, step: Step, attempt: int, name: str) -> str:
        """The folder into which to download the cache from the pod of a step that succeeded; "" for no download.

        A cache is only downloaded to be saved or to be passed on to a local step. If another step's content is saved
        already, that is recorded.
        """
        cache = self._caches[name]
        if self._handover.is_passed_on(step.id, name) or await self._may_save(cache, step, attempt):
            return self._new_folder(cache)
        return ""

    async def save_download(self, step: Step, attempt: int, name: str, content: CacheContent) -> None:
        """Save the downloaded content of the cache, and keep it for a local step that starts from it."""
        cache = self._caches[name]
        cache.downloads[step.id] = content
        await self._save(cache, _StepResult(step, attempt, content, stable=True))

    async def record_lost(self, step: Step, attempt: int, name: str, reason: str) -> None:
        """Record that the cache could not be downloaded from the step's pod."""
        await self._record_not_saved(self._caches[name], step, attempt, f"it was not downloaded: {reason}")

    async def save_local(self, step: Step, attempt: int) -> None:
        """Save what a local step that succeeded left in its caches."""
        if step.no_snapshot:
            return
        for name in cache_names(step):
            cache = self._caches[name]
            if not await self._may_save(cache, step, attempt):
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
        """The content for a local step: the shared folder, or a copy for a step whose changes are not kept."""
        cache.local_content = None
        given = [
            returned
            for pod, returned in cache.downloads.items()
            if pod in self._handover.providers[step.id, cache.name]
        ]
        if given:
            # Of several downloads, the last one.
            content = cache.content = CacheContent(await self._copy(cache, given[-1]), given[-1].tree)
            cache.downloads.clear()
        if not step.no_snapshot:
            return content
        try:
            # Another local step may be writing there.
            tree = await self._services.trees.walk(content.folder, rules=KEEP_EVERYTHING)
            return CacheContent(await self._copy(cache, CacheContent(content.folder, tree)), tree)
        except TreeError as error:
            return await self._empty_content(step, cache, error)

    async def _content_for_pod(self, step: Step, cache: _Cache, content: CacheContent) -> CacheContent:
        """The content that local steps left, for a pod. The plan's needs ensure that no local step runs now."""
        if cache.local_content is None:
            try:
                cache.local_content = CacheContent(
                    content.folder, await self._services.trees.walk(content.folder, rules=KEEP_EVERYTHING)
                )
            except TreeError as error:
                return await self._empty_content(step, cache, error)
        return cache.local_content

    async def _empty_content(self, step: Step, cache: _Cache, error: TreeError) -> CacheContent:
        """An empty folder, if what local steps left cannot be read: a cache never fails a step."""
        await self._recorder.note(
            f"scratch cache {cache.name}: it starts empty, since what local steps left cannot be read: {error}",
            step=step.id,
        )
        return CacheContent(await self._copy(cache, CacheContent(self._folder, Tree())), Tree())

    async def _may_save(self, cache: _Cache, step: Step, attempt: int) -> bool:
        """Whether the content that the step left is to be saved. If another step's was saved first, records that."""
        if cache.saver:
            await self._record_not_saved(cache, step, attempt, f"the content from {cache.saver} was saved first")
        return not (cache.exact or cache.saver)

    async def _save(self, cache: _Cache, result: _StepResult) -> None:
        """Save the content, unless another step's content is saved already."""
        if not await self._may_save(cache, result.step, result.attempt):
            return
        cache.saver = result.step.id
        entry = ScratchEntry(cache.keys.key, self._services.clock.now())
        try:
            saved = await self._stores.local.save(cache.name, entry, result.content.tree, result.content.folder)
        except BaseException as error:
            cache.saver = ""
            if not isinstance(error, StoreError | TreeError):
                raise
            await self._record_not_saved(cache, result.step, result.attempt, str(error))
            return
        if not saved:
            await self._record_not_saved(
                cache, result.step, result.attempt, "another run on this machine saved it first"
            )
            return
        await self._record_saved(cache, result, "local")
        if self._stores.saves_remotely:
            self._uploads.start_soon(self._share, cache, result, entry)

    async def _share(self, cache: _Cache, result: _StepResult, entry: ScratchEntry) -> None:
        """Save the content to the shared store too. A failure is recorded and does not fail the run."""
        remote, content = self._stores.remote, result.content
        if remote is None:
            return
        try:
            if not result.stable:
                # Local steps may change their folder; the local entry does not change.
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
