"""The requests that are under way over the clients of one connection, and their end."""

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
"""For requests that are under way when the connection is left. Closing sockets takes no round trip."""

_T = TypeVar("_T")


class InFlightRequests:
    """Where requests run. Their tasks are neither the caller's nor cancelled with what surrounds the connection."""

    def __init__(self, group: anyio.abc.TaskGroup) -> None:
        self._group = group
        self._live: set[RequestTask[Any]] = set()
        self.closed = False
        """Whether the connection was left: then nothing is sent any more."""

    def __len__(self) -> int:
        """How many are under way, those that nobody waits for any more included."""
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
        """Send the request and wait for its result; raises what it came to."""
        if self.closed:
            raise task.closed()
        request = task.request(method, target, headers, body)
        self._live.add(task)
        self._group.start_soon(self._run, task, request)
        return await task.result()

    async def end(self, *clients: httpx.AsyncClient) -> None:
        """End what is under way and close the clients, whoever is cancelled, within LEAVE_SECONDS."""
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
    """A place for requests over `clients`; leaving it ends them all and closes the clients."""
    async with background() as group:
        live = InFlightRequests(group)
        try:
            yield live
        finally:
            await live.end(*clients)
