"""Runs commands in containers, over a WebSocket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import NoReturn

import httpx

from senro.adapters.apiserver.answers import check, close, read_bounded
from senro.adapters.apiserver.exec_session import WebSocketExec
from senro.adapters.apiserver.sender import Sender
from senro.adapters.apiserver.waiting import background
from senro.adapters.apiserver.websocket import check_handshake, handshake_headers
from senro.domain.errors import ProtocolError
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

    def __init__(self, sender: Sender, *, clock: Clock, randomness: Randomness) -> None:
        self._exec_sender = sender
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
        answer = await self._exec_sender.with_current_token(partial(self._upgrade, operation, target, subprotocol))
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

    async def _upgrade(self, operation: str, target: str, subprotocol: str) -> httpx.Response:
        """Returns the checked 101."""
        nonce = self._randomness.token().encode("ascii")
        headers, take = handshake_headers(nonce, subprotocol), partial(_check_upgrade, operation, nonce, subprotocol)
        method = RequestKind.EXEC.method
        return await self._exec_sender.send(operation, method, target, headers=headers, take=take, drop=close)


async def _check_upgrade(operation: str, nonce: bytes, subprotocol: str, answer: httpx.Response) -> httpx.Response:
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
        raise ProtocolError(operation, rule=_SERVED_SINCE[subprotocol], got="a 403 without a body")
    check(operation, answer, data)
    raise ProtocolError(operation, rule="101 Switching Protocols", got=f"HTTP status {answer.status_code}")
