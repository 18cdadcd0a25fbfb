"""Logs, followed and read."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from functools import partial

import anyio
import httpx

from senro.adapters.apiserver.answers import close, read_whole
from senro.adapters.apiserver.failures import TRANSPORT_ERRORS, describe_error
from senro.adapters.apiserver.in_flight_requests import InFlightRequests
from senro.adapters.apiserver.request_task import IN_FLIGHT, RequestTask
from senro.adapters.apiserver.tls import READ_SECONDS
from senro.adapters.apiserver.tokens import Authorization
from senro.domain.errors import StreamBroken, Unauthorized
from senro.domain.kube import api_paths
from senro.domain.requests.idempotency import RequestKind

SILENCE_SECONDS = 600.0
"""A followed log that says nothing for so long is cut and followed again: a connection may have died without a word,
and a load balancer cuts idle ones anyway. One request in ten minutes is no burden."""

READ_LIMIT = 64 * 1024 * 1024
"""Bytes of a log that is read without following. The kubelet keeps 10 MiB in the newest file by default."""


class LogStreams:
    """`senro.ports.cluster.Logs`, over the client for streams."""

    def __init__(
        self, client: httpx.AsyncClient, authorization: Authorization, *, in_flight_requests: InFlightRequests
    ) -> None:
        self._client = client
        self._in_flight = in_flight_requests
        self._slots = anyio.Semaphore(IN_FLIGHT)
        self._authorization = authorization

    @asynccontextmanager
    async def follow_log(
        self, namespace: str, name: str, container: str, *, since: str | None = None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Follow the log: its bytes as they come."""
        operation = f"follow the log of {container} in pod {namespace}/{name}"
        target = api_paths.log(namespace, name, container, follow=True, since=since)
        async with (
            self._open_log(operation, target, silence=SILENCE_SECONDS) as answer,
            aclosing(_pieces(operation, answer)) as pieces,
        ):
            yield pieces

    async def read_log(self, namespace: str, name: str, container: str, *, since: str | None = None) -> bytes:
        """Read what the newest log file holds, its end where that is more than READ_LIMIT."""
        operation = f"read the log of {container} in pod {namespace}/{name}"
        target = api_paths.log(namespace, name, container, follow=False, since=since)
        kept = bytearray()
        async with self._open_log(operation, target) as answer, aclosing(_pieces(operation, answer)) as pieces:
            async for piece in pieces:
                kept += piece
                if len(kept) > 2 * READ_LIMIT:
                    del kept[:-READ_LIMIT]
        return bytes(kept[-READ_LIMIT:])

    @asynccontextmanager
    async def _open_log(
        self, operation: str, target: str, *, silence: float = READ_SECONDS
    ) -> AsyncIterator[httpx.Response]:
        """The answer, its head read: a success. A 401 is asked again once if the token file has changed."""
        try:
            answer = await self._send(operation, target)
        except Unauthorized:
            if not self._authorization.refresh():
                raise
            answer = await self._send(operation, target)
        # Nothing may be late before the head; afterwards a quiet container is no trouble. The connection looks into
        # this very mapping when the body is read.
        answer.request.extensions["timeout"]["read"] = silence
        try:
            yield answer
        finally:
            await close(answer)

    async def _send(self, operation: str, target: str) -> httpx.Response:
        headers = {"Accept": "*/*", **self._authorization.headers()}
        task = RequestTask(operation, self._client, slots=self._slots, take=partial(_accepted, operation), drop=close)
        return await self._in_flight.send(task, RequestKind.LOG.method, target, headers=headers)


async def _accepted(operation: str, answer: httpx.Response) -> httpx.Response:
    """The answer if it is a success, its body unread; else it is read, closed and raised."""
    if not answer.is_success:
        await read_whole(operation, answer)
    return answer


async def _pieces(operation: str, answer: httpx.Response) -> AsyncGenerator[bytes]:
    """The body's pieces. A 204 says that the pod is not scheduled: no pieces."""
    received = 0
    try:
        async for piece in answer.aiter_raw():
            received += len(piece)
            if piece:
                yield piece
    except TRANSPORT_ERRORS as error:
        raise StreamBroken(operation, cause=describe_error(error), received=received) from error
