"""Requests to an object store, by the synchronous calls of obstore in worker threads.

The asynchronous calls of obstore sometimes crash the interpreter at exit; the synchronous ones do not. A thread cannot
be stopped: after a cancellation or a timeout the call continues, and ends within the timeouts of its requests.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import anyio
import obstore

from senro.adapters.bucket.failures import Failure, classify_failure
from senro.adapters.bucket.threads import run_in_daemon_thread
from senro.domain.errors import StoreUnavailable

if TYPE_CHECKING:
    from obstore import WritableFile
    from obstore.store import ObjectStore

    _Call = Callable[[Callable[[], object], int], Awaitable[object]]

T = TypeVar("T")

PIECE = 8 * 1024 * 1024
"""Bytes of one request. All parts of an upload but the last must have 5 MiB or more; at most 10,000 make 80 GiB."""

RETRIES = 2
"""How often obstore repeats a failed request. A call is given up once all repetitions could have timed out."""

PARTS_AT_ONCE = 2
"""Parts of one upload that are sent concurrently. With the part being filled, an upload holds 3 pieces in memory."""


class RequestRefused(Exception):
    """The store rejected the request, and a retry is useless. The text says why."""


class Bucket:
    """One prefix of one store. Every method raises `StoreUnavailable` or `RequestRefused`."""

    def __init__(self, store: ObjectStore, name: str, timeout: float) -> None:
        self._store = store
        self.name = name
        self._timeout = timeout

    async def get(self, path: str, limit: int) -> bytes | None:
        """The first `limit` bytes of an object, None if it does not exist."""
        try:
            return await self._call(partial(self._get, path, limit), 2)
        except _AbsentError:
            return None

    async def create(self, path: str, data: bytes) -> bool:
        """Create a small object. Returns False, and changes nothing, if it exists."""
        try:
            await self._call(partial(obstore.put, self._store, path, data, mode="create"))
        except _ExistsError:
            return False
        return True

    async def delete(self, path: str) -> None:
        """Remove an object, if it exists."""
        try:
            await self._call(partial(obstore.delete, self._store, path))
        except _AbsentError:
            return

    async def list_objects(self, folder: str) -> list[tuple[str, datetime]]:
        """The path and the modification time of each object below a folder."""
        return await self._call(partial(self._names, folder), _LISTING)

    def upload(self, path: str) -> Upload:
        """Begin an upload in pieces. The object exists once the upload is closed."""
        writer = obstore.open_writer(self._store, path, buffer_size=PIECE, max_concurrency=PARTS_AT_ONCE)
        return Upload(self._call, writer)

    def _get(self, path: str, limit: int) -> bytes:
        answer = obstore.get(self._store, path)
        if answer.meta["size"] <= limit:
            return bytes(answer.bytes())
        # The body is not read. A range request cannot come first: it fails for an empty object.
        del answer
        return bytes(obstore.get_range(self._store, path, start=0, end=limit))

    async def get_range(self, path: str, start: int, end: int) -> bytes | None:
        """The bytes from `start` up to but not including `end`, fewer at the object's end; None without an object."""
        try:
            return await self._call(lambda: bytes(obstore.get_range(self._store, path, start=start, end=end)))
        except _AbsentError:
            return None

    def _names(self, folder: str) -> list[tuple[str, datetime]]:
        pages = obstore.list(self._store, folder, chunk_size=1000)
        return [(entry["path"], entry["last_modified"]) for page in pages for entry in page]

    async def _call(self, work: Callable[[], T], calls: int = 1) -> T:
        """Call `work` in a thread, for at most the time that `calls` requests may take with their repetitions."""
        with anyio.move_on_after(calls * (RETRIES + 1) * self._timeout + 1):
            try:
                return await run_in_daemon_thread(work)
            except Exception as error:  # noqa: BLE001 - obstore raises its own errors, and several built-in ones
                failure = classify_failure(error, timeout=self._timeout)
            # Outside the handler: the text of obstore's error must not be chained to the new one.
            raise self._error(failure)
        raise StoreUnavailable(self.name, f"it did not answer within {self._timeout:g} s")

    def _error(self, failure: Failure) -> Exception:
        if failure.kind == "unreachable":
            return StoreUnavailable(self.name, failure.message)
        kinds = {"absent": _AbsentError, "exists": _ExistsError, "refused": RequestRefused}
        return kinds[failure.kind](failure.message)


class Upload:
    """Call `write` for each piece, then `close`. Without `close` no object is created."""

    def __init__(self, call: _Call, writer: WritableFile) -> None:
        self._call = call
        self._writer = writer

    async def write(self, data: bytes) -> None:
        """Append at most a piece."""
        await self._call(partial(self._writer.write, data), PARTS_AT_ONCE)

    async def close(self) -> None:
        """Create the object with all that was written."""
        await self._call(self._writer.close, PARTS_AT_ONCE + 2)


class _AbsentError(Exception):
    """The object does not exist."""


class _ExistsError(Exception):
    """The object exists already."""


_LISTING = 20
"""Requests that a listing may take: enough for 20,000 entries of one cache."""
