"""The two stores of scratch entries: that of this machine, and the shared one, which may fail at any time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field

from senro.app.runtime.recorder import Recorder
from senro.domain.caches.key import CacheKeys
from senro.domain.caches.lookup import Candidate, ScratchEntry, Where, ranked
from senro.domain.errors import StoreError, StoreUnavailable, TreeError
from senro.domain.run.events import RemoteCacheDisabled
from senro.domain.tree.tree import Tree
from senro.ports.scratch import ScratchStore

_Search = Callable[[ScratchStore], Awaitable[Sequence[ScratchEntry]]]
_STORES: tuple[Where, ...] = ("local", "remote")

TRIES = 5
"""How many entries are tried until one can be restored. Each failure is noted."""


@dataclass(frozen=True, slots=True)
class RestoredEntry:
    """The entry from which a cache starts, its store, and its content."""

    entry: ScratchEntry
    where: Where
    tree: Tree


@dataclass(slots=True)
class ScratchStores:
    """Uses both stores. Once the shared one was unavailable, the run continues without it."""

    local: ScratchStore
    remote: ScratchStore | None
    recorder: Recorder
    _disabled: bool = field(default=False, init=False)

    @property
    def saves_remotely(self) -> bool:
        """Whether entries are saved to the shared store too."""
        return self.remote is not None and not self.remote.read_only

    async def disable_remote(self, store: str, reason: str) -> None:
        """Continue without the shared store, and record that once."""
        self.remote = None
        if not self._disabled:
            self._disabled = True
            await self.recorder.record(RemoteCacheDisabled(at=self.recorder.now(), store=store, reason=reason))

    async def restore(self, cache: str, keys: CacheKeys, folder: str) -> RestoredEntry | None:
        """Restore the best matching entry into the folder; None, with nothing restored, if there is none.

        Searches the key in the local store, then in the shared one; then the restore keys in both. An entry of the
        shared store is saved to the local one too. Errors become notes, since a cache never fails a step.
        """

        async def exact(store: ScratchStore) -> Sequence[ScratchEntry]:
            entry = await store.find(cache, keys.key)
            return [] if entry is None else [entry]

        tried: set[tuple[str, Where]] = set()
        for where in _STORES:
            found = await self._search(cache, exact, [where])
            restored = await self._restore_best(cache, keys, found, folder, tried)
            if restored is not None:
                return restored
        if not keys.prefixes:
            return None
        found = await self._search(cache, lambda store: store.find_by_prefix(cache, keys.prefixes), _STORES)
        return await self._restore_best(cache, keys, found, folder, tried)

    async def _restore_best(
        self, cache: str, keys: CacheKeys, candidates: Sequence[Candidate], folder: str, tried: set[tuple[str, Where]]
    ) -> RestoredEntry | None:
        for candidate in ranked(keys.key, keys.prefixes, candidates):
            # Compared by key: a listing may report another time than the entry itself.
            if (candidate.entry.key, candidate.where) in tried or len(tried) >= TRIES:
                continue
            tried.add((candidate.entry.key, candidate.where))
            tree = await self._restore_from(cache, candidate, folder)
            if tree is not None:
                return RestoredEntry(candidate.entry, candidate.where, tree)
        return None

    async def _search(self, cache: str, search: _Search, places: Iterable[Where]) -> list[Candidate]:
        """The entries that `search` finds in the stores. Notes its errors."""
        found: list[Candidate] = []
        for where in places:
            store = self._store(where)
            if store is not None:
                try:
                    found += [Candidate(entry, where) for entry in await search(store)]
                except StoreError as error:
                    await self._note_failure(cache, error)
        return found

    async def _restore_from(self, cache: str, candidate: Candidate, folder: str) -> Tree | None:
        store = self._store(candidate.where)
        if store is None:
            return None
        try:
            tree = await store.restore(cache, candidate.entry.key, folder)
        except (StoreError, TreeError) as error:
            await self._note_failure(cache, error)
            return None
        if candidate.where == "remote":
            try:
                await self.local.save(cache, candidate.entry, tree, folder)
            except (StoreError, TreeError) as error:
                await self._note_failure(cache, error)
        return tree

    async def _note_failure(self, cache: str, error: StoreError | TreeError) -> None:
        if isinstance(error, StoreUnavailable):
            await self.disable_remote(error.path, error.message)
        else:
            await self.recorder.note(f"scratch cache {cache}: {error}")

    def _store(self, where: Where) -> ScratchStore | None:
        return self.local if where == "local" else self.remote
