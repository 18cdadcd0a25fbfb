"""Sends the requests of one part of the adapter by one client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import anyio
import httpx

from senro.adapters.apiserver.in_flight_requests import InFlightRequests
from senro.adapters.apiserver.request_task import RequestTask
from senro.adapters.apiserver.tokens import Authorization
from senro.domain.errors import Unauthorized

IN_FLIGHT = 64
"""How many requests of one sender httpcore has at one time. The others wait before they begin."""

_T = TypeVar("_T")


class Sender:
    """Sends requests by `client`, with the headers of `authorization`, as tasks of `in_flight_requests`."""

    def __init__(
        self, client: httpx.AsyncClient, authorization: Authorization, in_flight_requests: InFlightRequests
    ) -> None:
        self._client = client
        self._authorization = authorization
        self._in_flight = in_flight_requests
        self._slots = anyio.Semaphore(IN_FLIGHT)

    @property
    def closed(self) -> bool:
        """Whether the cluster was left: no request is sent any more."""
        return self._in_flight.closed

    async def send(
        self,
        operation: str,
        method: str,
        target: str,
        *,
        headers: Mapping[str, str],
        take: Callable[[httpx.Response], Awaitable[_T]],
        drop: Callable[[_T], Awaitable[None]] | None = None,
        body: bytes | None = None,
        linger: float = 0.0,
    ) -> _T:
        """Send one request. Returns what `take` makes of its answer; see `RequestTask` for the other arguments."""
        task = RequestTask(operation, self._client, slots=self._slots, take=take, drop=drop, linger=linger)
        headers = {**headers, **self._authorization.headers()}
        return await self._in_flight.send(task, method, target, headers=headers, body=body)

    async def with_current_token(self, request: Callable[[], Awaitable[_T]]) -> _T:
        """Await `request`, and once more after a 401 if there is another token than the one that was sent.

        The apiserver authenticates first, so a 401 has changed nothing, and every kind of request may be repeated.
        """
        sent = self._authorization.headers()
        try:
            return await request()
        except Unauthorized:
            # Another request may have read the new token meanwhile.
            self._authorization.refresh()
            if self._authorization.headers() == sent:
                raise
        return await request()
