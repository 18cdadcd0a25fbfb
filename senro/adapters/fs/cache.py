"""`ports.cache.Cache` for a cache folder: finds the snapshots and scratch entries that no run needs, and removes them.

A snapshot is needed if

- the ledger of a run in progress names it, or it was used since that run began: the ledger may not name it yet;
- the ledger of a run that did not succeed names it, and the folder of the run exists;
- it is the last snapshot of a persistent workspace, which is restored after a run was killed.

An item consists of files below `index/` and `body/`; a scratch entry consists of those of its snapshot.

Runs continue meanwhile. The survey takes seconds for millions of files and holds no lock. Files are removed in slices
of `SLICE_SECONDS` under the cache's lock. A snapshot that was put or restored after the survey began has a newer index:
each slice looks for such indexes first, and keeps them with all of their files.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from senro.adapters.fs.layout import BODY, INDEX, body_path, digest_at, index_path, read_index
from senro.adapters.fs.locks import LOCK_FILE, FileLock, acquire
from senro.adapters.fs.persistent import read_records
from senro.adapters.fs.registry import RegisteredRun, list_runs, unregister
from senro.adapters.fs.scratch_store import FOLDER as SCRATCH
from senro.adapters.fs.scratch_store import read_record
from senro.adapters.fs.store_writer import STALE_SECONDS
from senro.adapters.fs.work import run_in_slices, store_errors
from senro.domain.caches.gc import Item
from senro.domain.errors import ContentLost
from senro.ports.cache import Collection, Keeper, Survey

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterator

    from senro.domain.caches.gc import Sweep
    from senro.domain.caches.record import ScratchRecord

_LOCK_SECONDS = 60.0
"""Seconds to wait for the lock. A run that writes snapshots holds it for one snapshot at a time."""

SLICE_SECONDS = 0.5
"""Seconds for which the lock is held at a time. Removing a file takes 20 us to 2 ms, depending on the disk."""

_MIN_REMOVAL_SHARE = 0.2
"""The share of `SLICE_SECONDS` in which files are removed, however long the search for newer indexes takes."""

_PAUSE_SECONDS = 0.05
"""Seconds between two slices: longer than the pause between two tries to get the lock (`adapters.fs.locks`)."""

_COLLECTOR_LOCK = "gc.lock"


class FolderCache:
    """The cache folder `root`, which may not exist yet. `patience`: the seconds to wait for a lock."""

    def __init__(self, root: str, *, patience: float = _LOCK_SECONDS) -> None:
        self._root = Path(root).absolute()
        self._patience = patience

    @asynccontextmanager
    async def collecting(self) -> AsyncIterator[Collection]:
        """See `ports.cache.Cache.collecting`."""
        message = "the cache cannot be locked: {}; check SENRO_CACHE_DIR"
        with store_errors(self._root, message):
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            collector_lock = FileLock(self._root / _COLLECTOR_LOCK)
        with closing(collector_lock):
            with store_errors(self._root, message):
                await run_in_slices(acquire(collector_lock, self._patience, exclusive=True))
            yield FolderCollection(self._root, collector_lock, self._patience)


class FolderCollection:
    """See `ports.cache.Collection`. Created by `FolderCache.collecting`.

    `collector_lock`: the lock that one collector at a time holds.
    `patience`: the seconds to wait for the cache's lock.
    """

    def __init__(self, root: Path, collector_lock: FileLock, patience: float) -> None:
        self._root = root
        self._collector_lock = collector_lock
        self._patience = patience
        self._survey_began = 0.0
        self._ended: list[RegisteredRun] = []
        self._stale: list[Path] = []
        self._trees: dict[str, frozenset[str]] = {}
        """The files of each snapshot by the path of its index. An index never changes."""

    async def survey(self) -> Survey:
        """See `ports.cache.Collection.survey`."""
        with store_errors(self._root, "it cannot be read: {}", name_file=True):
            return await run_in_slices(self._survey())

    async def drop(self, decision: Sweep) -> None:
        """See `ports.cache.Collection.drop`.

        Also removes the entries of runs that need nothing any more, and files that a killed process left half written.
        """
        with store_errors(self._root, "it cannot be removed: {}", name_file=True):
            await run_in_slices(self._drop(decision))

    def _survey(self) -> Generator[None, None, Survey]:
        self._survey_began = yield from self._new_tick()
        digests, since, keepers = self._find_needed()
        bodies: dict[str, int] = {}
        used: dict[str, float] = {}
        for path, status in self._files(INDEX, BODY):
            bodies[sys.intern(path)] = status.st_size
            if path.startswith(INDEX):
                used[path] = status.st_mtime
            yield
        trees: dict[str, frozenset[str]] = {}
        for path in [path for path in bodies if path.startswith(f"{INDEX}/")]:
            contents = self._contents(path)
            if contents is not None:
                self._trees[path] = trees[digest_at(path)] = contents & bodies.keys()
            yield
        items = []
        named = set()
        for path, status in self._scratch_records():
            record = self._record(path)
            if record is None or record.tree not in trees:
                items.append(Item("scratch", path, status.st_mtime, status.st_size))
                continue
            named.add(record.tree)
            last = max(status.st_mtime, used[index_path(record.tree)])
            needed = record.tree in digests or last >= since
            items.append(Item("scratch", path, last, status.st_size, trees[record.tree], needed))
            yield
        for digest, contents in trees.items():
            if digest not in named:
                last = used[index_path(digest)]
                items.append(Item("snapshot", digest, last, 0, contents, digest in digests or last >= since))
        return Survey(tuple(items), bodies, keepers)

    def _scratch_records(self) -> Iterator[tuple[str, os.stat_result]]:
        """The files of scratch entries. Collects old temporary files, which a killed process has left, in `_stale`."""
        for path, status in self._files(SCRATCH):
            if path.endswith(".json"):
                yield path, status
            elif status.st_mtime < self._survey_began - STALE_SECONDS:
                self._stale.append(self._root / path)

    def _find_needed(self) -> tuple[set[str], float, tuple[Keeper, ...]]:
        """The digests that are needed, the time since which everything is needed, and the runs that need them."""
        digests = {record.digest for record in read_records(self._root)}
        since = float("inf")
        keepers = []
        for run in list_runs(self._root):
            if run.running:
                since = min(since, run.began)
                keepers.append(Keeper(run.run, run.folder, "running"))
                if run.history is not None:
                    digests |= {one.digest for snapshots in run.history.workspaces.values() for one in snapshots}
            elif run.history is not None and run.history.needed:
                digests |= run.history.needed
                keepers.append(Keeper(run.run, run.folder, run.history.state or "unfinished"))
            elif run.run or run.began < self._survey_began - STALE_SECONDS:  # otherwise the run is just registering
                self._ended.append(run)
        return digests, since, tuple(keepers)

    def _contents(self, path: str) -> frozenset[str] | None:
        """The files of a snapshot, including its index; None if the index is missing or damaged."""
        try:
            tree = read_index(self._root / path)
        except ContentLost:
            return None
        names = (body_path(entry.digest) for entry in tree.entries if entry.digest)
        # Interned: a hundred snapshots of the same hundred thousand files share each string.
        return frozenset([path, *map(sys.intern, names)])

    def _files(self, *folders: str) -> Iterator[tuple[str, os.stat_result]]:
        """Yields every file two levels below the folders: its path relative to the cache, and its status."""
        for folder in folders:
            for parent in _list_folder(self._root / folder):
                for file in _list_folder(Path(parent.path)):
                    with suppress(FileNotFoundError):
                        yield f"{folder}/{parent.name}/{file.name}", file.stat(follow_symlinks=False)

    def _new_tick(self) -> Generator[None, None, float]:
        """Wait for the file system's clock to tick, and return its time: no file touched later has an earlier one."""
        before = self._touch()
        while (now := self._touch()) == before:
            time.sleep(0.001)
            yield
        return now

    def _touch(self) -> float:
        os.utime(self._collector_lock.fd)
        return os.fstat(self._collector_lock.fd).st_mtime

    def _drop(self, decision: Sweep) -> Generator[None, None, None]:
        scratches = [item.name for item in decision.items if item.kind == "scratch"]
        # Indexes before bodies: if this is interrupted, no index exists whose bodies are missing.
        pending = deque([*scratches, *sorted(decision.bodies, key=lambda path: (not path.startswith(INDEX), path))])
        with closing(FileLock(self._root / LOCK_FILE)) as lock:
            while pending:
                yield from acquire(lock, self._patience, exclusive=True)
                yield from self._drop_slice(pending)
                lock.release()
                time.sleep(_PAUSE_SECONDS)
        for run in self._ended:
            unregister(run)
        for path in self._stale:
            path.unlink(missing_ok=True)

    def _drop_slice(self, pending: deque[str]) -> Generator[None, None, None]:
        """Remove pending files for one slice of time, except those that were used since the survey."""
        began = time.monotonic()
        kept = yield from self._used_since_survey()
        # The search takes time too, but some time must remain for removing, or this would never end.
        end = max(began + SLICE_SECONDS, time.monotonic() + SLICE_SECONDS * _MIN_REMOVAL_SHARE)
        while pending:
            path = pending.popleft()
            if path not in kept:
                (self._root / path).unlink(missing_ok=True)
            yield
            if time.monotonic() >= end:
                return

    def _used_since_survey(self) -> Generator[None, None, set[str]]:
        """The paths of snapshots and scratch entries that were used since the survey began, with all of their files."""
        kept: set[str] = set()
        for path, status in self._files(INDEX, SCRATCH):
            if status.st_mtime >= self._survey_began:
                kept.add(path)
                index = self._index_of(path)
                if index not in self._trees and (contents := self._contents(index)) is not None:
                    self._trees[index] = contents
                kept |= self._trees.get(index, frozenset())
            yield
        return kept

    def _index_of(self, path: str) -> str:
        """The path of the index of a scratch entry; any other path is returned unchanged."""
        record = self._record(path) if path.startswith(f"{SCRATCH}/") else None
        try:
            return path if record is None else index_path(record.tree)
        except ContentLost:
            return path

    def _record(self, path: str) -> ScratchRecord | None:
        return read_record(self._root / path, path.split("/")[1], None)


def _list_folder(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as listing:
            return sorted(listing, key=lambda item: item.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
