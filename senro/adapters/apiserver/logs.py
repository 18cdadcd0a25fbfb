"""Reads and follows the logs of containers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from functools import partial

import httpx

from senro.adapters.apiserver.answers import close, read_whole
from senro.adapters.apiserver.failures import TRANSPORT_ERRORS, describe_error
from senro.adapters.apiserver.sender import Sender
from senro.adapters.apiserver.tls import READ_SECONDS
from senro.domain.errors import StreamBroken
from senro.domain.kube import api_paths
from senro.domain.requests.idempotency import RequestKind

SILENCE_SECONDS = 600.0
"""The read timeout of a followed log, which is then followed again. A connection may be lost without notice, and load
balancers cut idle ones."""

READ_LIMIT = 64 * 1024 * 1024
"""How many bytes of a log are read without following. The newest file has 10 MiB by default."""


class LogStreams:
    """Implements `senro.ports.cluster.Logs` by the client for streams."""

    def __init__(self, sender: Sender) -> None:
        self._log_sender = sender

    @asynccontextmanager
    async def follow_log(
        self, namespace: str, name: str, container: str, *, since: str | None = None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """See the port."""
        operation = f"follow the log of {container} in pod {namespace}/{name}"
        target = api_paths.log(namespace, name, container, follow=True, since=since)
        async with (
            self._open_log(operation, target, silence=SILENCE_SECONDS) as answer,
            aclosing(_pieces(operation, answer)) as pieces,
        ):
            yield pieces

    async def read_log(self, namespace: str, name: str, container: str, *, since: str | None = None) -> bytes:
        """See the port. Returns the last `READ_LIMIT` bytes."""
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
        """Open a successful answer, whose body is not read yet."""
        sender, take = self._log_sender, partial(_require_success, operation)
        method, headers = RequestKind.LOG.method, {"Accept": "*/*"}
        answer = await sender.with_current_token(
            partial(sender.send, operation, method, target, headers=headers, take=take, drop=close)
        )
        # The usual timeout applies to the head of the answer, `silence` to its body. httpcore reads the timeout from
        # this mapping before each read of the body.
        answer.request.extensions["timeout"]["read"] = silence
        try:
            yield answer
        finally:
            await close(answer)


async def _require_success(operation: str, answer: httpx.Response) -> httpx.Response:
    """Returns a successful answer with its body unread. Else reads it, closes it and raises its error."""
    if not answer.is_success:
        await read_whole(operation, answer)
    return answer


async def _pieces(operation: str, answer: httpx.Response) -> AsyncGenerator[bytes]:
    """Yields the pieces of the body. A 204 has none: the pod is not scheduled."""
    received = 0
    try:
        async for piece in answer.aiter_raw():
            received += len(piece)
            if piece:
                yield piece
    except TRANSPORT_ERRORS as error:
        raise StreamBroken(operation, cause=describe_error(error), received=received) from error
