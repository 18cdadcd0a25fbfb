"""`ports.scratch.ScratchStore` on an object store.

::

    <prefix>/senro-scratch                       the marker that `check` writes
    <prefix>/scratch/<cache>/entry/<key>.json    a `domain.caches.record.ScratchRecord`, a few hundred bytes
    <prefix>/scratch/<cache>/archive/<name>.tar  the content of an entry; its random name is in the record

The archive is uploaded first. Its record is then created by a conditional put: of two coordinators one succeeds, and
the other removes its own archive. Nothing else is ever changed or removed, so a killed upload leaves an archive, or
unfinished parts, that no record names. A lifecycle rule of the bucket that removes old objects removes those too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

import anyio

from senro.adapters.bucket.objects import PIECE, Bucket, RequestRefused
from senro.domain.caches.lookup import ScratchEntry
from senro.domain.caches.record import FORMAT, LARGEST, ScratchRecord, decode_record, encode_record
from senro.domain.errors import ConfigurationError, Refusal, StoreError, StoreUnavailable, TreeError
from senro.domain.transfer.retry_policy import LOCAL_RULES
from senro.domain.tree.content_rules import KEEP_EVERYTHING
from senro.ports.trees import Packed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from senro.domain.tree.tree import Tree
    from senro.ports.trees import Trees, Unpacking

T = TypeVar("T")

MARKER = "senro-scratch"
_NOWHERE = "senro-scratch.none"
"""A folder that never exists: listing it checks the right to list at no cost."""

_MARK = f"{FORMAT}\n".encode()

_WRITE = 1024 * 1024
"""Bytes of an archive that are handed to a thread at a time."""

_UNPACK = 128 * 1024
"""Bytes unpacked at a time, of which the unpacking buffers several."""

RECORDS_AT_ONCE = 8
"""Records that are read concurrently."""

_DELETE_SECONDS = 5.0
"""How long the removal of an unused archive may take; one that stays does no harm."""


class BucketScratchStore:
    """The entries in one bucket. `token` returns random names for archives; `trees` packs and unpacks them."""

    def __init__(self, bucket: Bucket, trees: Trees, token: Callable[[], str], *, read_only: bool) -> None:
        self._bucket = bucket
        self._trees = trees
        self._token = token
        self.name = bucket.name
        self.read_only = read_only
        self._found: dict[tuple[str, str], ScratchRecord] = {}
        """Records that `find` has read, for `restore`. A record never changes."""

    async def check(self, where: str) -> None:
        """Check the rights that a run needs: to list, to read and, unless `read_only`, to put conditionally.

        Raises `ConfigurationError`, naming the variable `where`, if one is missing, `StoreUnavailable` if the store
        does not answer.
        """
        try:
            await self._bucket.list_objects(_NOWHERE)
            await self._bucket.get(MARKER, LARGEST)
            exchanged = False
            if not self.read_only and await self._bucket.create(MARKER, _MARK):
                exchanged = await self._bucket.create(MARKER, _MARK)
        except RequestRefused as refused:
            message = f"{self.name} cannot be used: {refused}"
            raise ConfigurationError((Refusal(where, "refused", message),)) from None
        if exchanged:
            message = (
                f"{self.name} ignores If-None-Match, so one run could replace the entry of another; use another store, "
                f"or set {where}_READ_ONLY"
            )
            raise ConfigurationError((Refusal(where, "conditional-put", message),))

    async def find(self, cache: str, key: str) -> ScratchEntry | None:
        """See `ports.scratch.ScratchStore.find`."""
        record = await self._or_unavailable(self._record(cache, key))
        if record is None:
            return None
        self._found[cache, key] = record
        return ScratchEntry(record.key, record.created)

    async def find_by_prefix(self, cache: str, prefixes: Sequence[str]) -> Sequence[ScratchEntry]:
        """See `ports.scratch.ScratchStore.find_by_prefix`. The time of an entry is when the store received it."""
        found = []
        for path, written in await self._or_unavailable(self._bucket.list_objects(_entries(cache))):
            name = path.rpartition("/")[2]
            key = name.removesuffix(".json")
            if key != name and key.startswith(tuple(prefixes)):
                found.append(ScratchEntry(key, written))
        return await self._order_by_creation(cache, found)

    async def restore(self, cache: str, key: str, folder: str) -> Tree:
        """See `ports.scratch.ScratchStore.restore`. Holds one piece of the archive in memory."""
        record = self._found.pop((cache, key), None) or await self._or_unavailable(self._record(cache, key))
        if record is None:
            raise StoreError(_entry(cache, key), "the entry does not exist any more")
        async with self._trees.unpack({0: folder}, rules={0: KEEP_EVERYTHING}) as unpacking:
            try:
                tree = await self._receive(record, unpacking)
            except TreeError as error:
                if error.rule in LOCAL_RULES:
                    raise
                raise self._damaged(record, str(error)) from error
            if tree.digest != record.tree:
                raise self._damaged(record, "its tree has another digest")
            await unpacking.replace()
        return tree

    async def save(self, cache: str, entry: ScratchEntry, tree: Tree, folder: str) -> bool:
        """See `ports.scratch.ScratchStore.save`."""
        if await self._or_unavailable(self._record(cache, entry.key)) is not None:
            return False
        archive = f"scratch/{cache}/archive/{self._token()}.tar"
        try:
            sha256, length = await self._send(archive, tree, folder)
        except StoreUnavailable:
            raise
        except BaseException:
            await self._remove(archive)
            raise
        record = ScratchRecord(
            format=FORMAT,
            cache=cache,
            key=entry.key,
            created=entry.created,
            tree=tree.digest,
            archive=archive,
            sha256=sha256,
            length=length,
        )
        # After this request the record may exist even if an error is raised, so the archive must stay.
        if await self._or_unavailable(self._bucket.create(_entry(cache, entry.key), encode_record(record))):
            return True
        # obstore repeats a put whose answer was lost, and the repetition finds the record of the first request.
        try:
            is_own = await self._or_unavailable(self._record(cache, entry.key)) == record
        except StoreUnavailable:
            raise
        except StoreError:
            await self._remove(archive)
            raise
        if not is_own:
            await self._remove(archive)
        return is_own

    async def _record(self, cache: str, key: str) -> ScratchRecord | None:
        data = await self._bucket.get(_entry(cache, key), LARGEST)
        if data is None:
            return None
        record = decode_record(data, cache, key)
        if record is None or not record.archive.startswith(f"scratch/{cache}/archive/"):
            raise StoreError(
                f"{self.name}/{_entry(cache, key)}", "this is not an entry of senro, and prevents saving one; remove it"
            )
        return record

    async def _order_by_creation(self, cache: str, entries: list[ScratchEntry]) -> list[ScratchEntry]:
        """The entries, with times that keep those of the same second in the order in which they were created.

        Most stores report times in whole seconds; the records have the exact ones.
        """
        seconds: dict[datetime, list[ScratchEntry]] = {}
        for entry in entries:
            seconds.setdefault(entry.created.replace(microsecond=0), []).append(entry)
        alike = [entry.key for together in seconds.values() if len(together) > 1 for entry in together]
        records = await self._records(cache, alike)
        ordered = []
        for second, together in seconds.items():
            if len(together) == 1:
                ordered += together
                continue
            made = sorted((records[entry.key].created, entry.key) for entry in together if entry.key in records)
            ordered += [
                ScratchEntry(key, second + timedelta(microseconds=place)) for place, (_, key) in enumerate(made)
            ]
        return ordered

    async def _records(self, cache: str, keys: Sequence[str]) -> dict[str, ScratchRecord]:
        """The valid records of the keys, by key. Raises `StoreUnavailable`."""
        records: dict[str, ScratchRecord] = {}
        failed: list[StoreUnavailable] = []
        waiting = iter(keys)

        async def read() -> None:
            for key in waiting:
                try:
                    record = await self._or_unavailable(self._record(cache, key))
                except StoreUnavailable as error:
                    failed.append(error)
                    tasks.cancel_scope.cancel()
                    return
                except StoreError:
                    continue
                if record is not None:
                    records[key] = record

        async with anyio.create_task_group() as tasks:
            for _ in range(min(RECORDS_AT_ONCE, len(keys))):
                tasks.start_soon(read)
        if failed:
            raise failed[0]
        return records

    async def _receive(self, record: ScratchRecord, unpacking: Unpacking) -> Tree:
        digest, at = hashlib.sha256(), 0
        while at < record.length:
            end = min(record.length, at + PIECE)
            data = await self._or_unavailable(self._bucket.get_range(record.archive, at, end))
            if data is None or len(data) != end - at:
                raise self._damaged(record, f"{record.archive} is missing or shorter than {record.length} bytes")
            digest.update(data)
            for start in range(0, len(data), _UNPACK):
                await unpacking.write(data[start : start + _UNPACK])
            at = end
        if digest.hexdigest() != record.sha256:
            raise self._damaged(record, f"the bytes of {record.archive} differ from those that were saved")
        trees = await unpacking.finish()
        return trees[0]

    async def _send(self, path: str, tree: Tree, folder: str) -> tuple[str, int]:
        digest, length = hashlib.sha256(), 0
        upload = self._bucket.upload(path)
        async with self._trees.pack([Packed(0, folder, tree)]) as archive:
            waiting = bytearray()
            while data := await archive.read():
                digest.update(data)
                length += len(data)
                waiting += data
                if len(waiting) >= _WRITE:
                    await self._or_unavailable(upload.write(bytes(waiting)))
                    waiting.clear()
            await self._or_unavailable(upload.write(bytes(waiting)))
        await self._or_unavailable(upload.close())
        return digest.hexdigest(), length

    async def _remove(self, archive: str) -> None:
        with anyio.move_on_after(_DELETE_SECONDS, shield=True):
            try:
                await self._bucket.delete(archive)
            except (StoreUnavailable, RequestRefused):
                return

    async def _or_unavailable(self, answer: Awaitable[T]) -> T:
        try:
            return await answer
        except RequestRefused as refused:
            raise StoreUnavailable(self.name, str(refused)) from None

    def _damaged(self, record: ScratchRecord, how: str) -> StoreError:
        entry = f"{self.name}/{_entry(record.cache, record.key)}"
        return StoreError(entry, f"the entry is damaged, and prevents saving a new one: {how}; remove it")


def _entries(cache: str) -> str:
    return f"scratch/{cache}/entry"


def _entry(cache: str, key: str) -> str:
    return f"{_entries(cache)}/{key}.json"
