"""Runs the requests over the clients of one cluster, and ends them all when it is left."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anyio
import anyio.abc
import httpx

from senro.adapters.apiserver.request_task import RequestTask
from senro.adapters.apiserver.waiting import background

LEAVE_SECONDS = 2.0
"""How long ending the requests may take. Closing sockets needs no round trip."""

_T = TypeVar("_T")


class InFlightRequests:
    """Runs requests in tasks that a cancellation of their callers, or of the scope around them, does not reach."""

    def __init__(self, group: anyio.abc.TaskGroup) -> None:
        self._group = group
        self._live: set[RequestTask[Any]] = set()
        self.closed = False
        """Whether `end` was called: nothing is sent any more."""

    def __len__(self) -> int:
        """The number of requests under way, including those that were given up."""
        return len(self._live)

    async def send(
        self,
        task: RequestTask[_T],
        method: str,
        target: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
    ) -> _T:
        """Send the request. Returns its result or raises its error."""
        if self.closed:
            raise task.closed()
        request = task.request(method, target, headers, body)
        self._live.add(task)
        self._group.start_soon(self._run, task, request)
        return await task.result()

    async def end(self, *clients: httpx.AsyncClient) -> None:
        """End all requests and close the clients within `LEAVE_SECONDS`, also while the caller is cancelled."""
        self.closed = True
        try:
            with anyio.move_on_after(LEAVE_SECONDS, shield=True):
                for task in tuple(self._live):
                    await task.leave()
                for client in clients:
                    await client.aclose()
                for task in tuple(self._live):
                    await task.ended.wait()
        finally:
            for task in self._live:
                task.cancel()

    async def _run(self, task: RequestTask[Any], request: httpx.Request) -> None:
        try:
            await task.run(request)
        finally:
            self._live.discard(task)


@asynccontextmanager
async def in_flight_requests(*clients: httpx.AsyncClient) -> AsyncIterator[InFlightRequests]:
    """Open a place for requests over `clients`. Leaving the context ends them all and closes the clients."""
    async with background() as group:
        live = InFlightRequests(group)
        try:
            yield live
        finally:
            await live.end(*clients)
