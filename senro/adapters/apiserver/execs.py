"""Runs commands in containers, over a WebSocket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import NoReturn

import anyio
import httpx

from senro.adapters.apiserver.answers import check, close, read_bounded
from senro.adapters.apiserver.exec_session import WebSocketExec
from senro.adapters.apiserver.in_flight_requests import InFlightRequests
from senro.adapters.apiserver.request_task import IN_FLIGHT, RequestTask
from senro.adapters.apiserver.tokens import Authorization
from senro.adapters.apiserver.waiting import background
from senro.adapters.apiserver.websocket import check_handshake, handshake_headers
from senro.domain.errors import ProtocolError, Unauthorized
from senro.domain.kube import api_paths
from senro.domain.kube.exec_protocol import V4, V5, ExecProtocol
from senro.domain.kube.status import bounded
from senro.domain.requests.idempotency import RequestKind
from senro.ports.clock import Clock, Randomness

REFUSAL_LIMIT = 64 * 1024
"""How many bytes of the body of a refused handshake are read; kubectl reads as many."""

_SERVED_SINCE = {V5: "Kubernetes 1.30 or later, which serves v5.channel.k8s.io", V4: "a server of v4.channel.k8s.io"}


class Execs:
    """Implements `senro.ports.cluster.Execs` by the client for streams."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        authorization: Authorization,
        *,
        in_flight_requests: InFlightRequests,
        clock: Clock,
        randomness: Randomness,
    ) -> None:
        self._client = client
        self._in_flight = in_flight_requests
        self._slots = anyio.Semaphore(IN_FLIGHT)
        self._authorization = authorization
        self._clock = clock
        self._randomness = randomness

    @asynccontextmanager
    async def exec(
        self, namespace: str, name: str, container: str, command: Sequence[str], *, stdin: bool, idle_seconds: float
    ) -> AsyncIterator[WebSocketExec]:
        """See the port."""
        operation = f"exec {bounded(command[0], 60) if command else 'nothing'} in {container} of pod {namespace}/{name}"
        subprotocol = V5 if stdin else V4
        target = api_paths.exec_(namespace, name, container, command, stdin=stdin)
        answer = await self._open_exec(operation, target, subprotocol)
        try:
            session = WebSocketExec(
                operation,
                answer.extensions["network_stream"],
                ExecProtocol(operation, subprotocol=subprotocol, stdin=stdin),
                idle_seconds=idle_seconds,
                clock=self._clock,
            )
            async with background() as group:
                group.start_soon(session.run_keepalive)
                try:
                    yield session
                finally:
                    await session.send_close_frame()
        finally:
            await close(answer)

    async def _open_exec(self, operation: str, target: str, subprotocol: str) -> httpx.Response:
        """Returns the checked 101. Repeats a 401 once if the token file has changed."""
        try:
            return await self._upgrade(operation, target, subprotocol)
        except Unauthorized:
            if not self._authorization.refresh():
                raise
        return await self._upgrade(operation, target, subprotocol)

    async def _upgrade(self, operation: str, target: str, subprotocol: str) -> httpx.Response:
        nonce = self._randomness.token().encode("ascii")
        headers = {**handshake_headers(nonce, subprotocol), **self._authorization.headers()}
        task = RequestTask(
            operation,
            self._client,
            slots=self._slots,
            take=partial(_upgraded, operation, nonce, subprotocol),
            drop=close,
        )
        return await self._in_flight.send(task, RequestKind.EXEC.method, target, headers=headers)


async def _upgraded(operation: str, nonce: bytes, subprotocol: str, answer: httpx.Response) -> httpx.Response:
    """Returns the answer if it is a correct 101. Else closes it and raises."""
    try:
        if answer.status_code != 101:
            await _raise_refusal(operation, answer, subprotocol)
        check_handshake(operation, answer, nonce, subprotocol)
    except BaseException:
        await close(answer)
        raise
    return answer


async def _raise_refusal(operation: str, answer: httpx.Response, subprotocol: str) -> NoReturn:
    """Raise the error for an answer other than 101."""
    data = await read_bounded(operation, answer, REFUSAL_LIMIT)
    if answer.status_code == 403 and not data.strip():
        # A refusal by RBAC has a Status, that of the WebSocket server has no body (recording `exec-basics`).
        raise ProtocolError(operation, rule=_SERVED_SINCE[subprotocol], got="a refusal (403) without a word")
    check(operation, answer, data)
    raise ProtocolError(operation, rule="101 Switching Protocols", got=f"HTTP status {answer.status_code}")
