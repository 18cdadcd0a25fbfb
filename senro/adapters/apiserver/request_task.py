"""One request, which whoever waits for it may give up at any moment without harm to the connection."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeVar

import anyio
import httpcore
import httpx

from senro.adapters.apiserver.failures import TRANSPORT_ERRORS, translate
from senro.domain.errors import Unreachable

REQUEST_SECONDS = 90.0
"""One try, from the connection to the last byte: the apiserver's own 60 s, a slow handshake, a slow link."""

IN_FLIGHT = 64
"""Requests that httpcore has at once from one part of the adapter; the others wait where they can be cancelled."""

_T = TypeVar("_T")


class RequestPhase(enum.Enum):
    """How far httpcore is with a request."""

    QUEUED = "not begun"
    CONNECTING = "waiting for a connection, or making one"
    HTTP11 = "speaking HTTP/1.1"
    HTTP2 = "speaking HTTP/2"


class RequestAbandoned(Exception):
    """Raised into httpcore in place of sending a request that nobody wants any more."""


class RequestTask(Generic[_T]):
    """One request in a task of its own, since httpcore must not be cancelled everywhere.

    While a connection is made, a cancellation leaves its socket open, or takes the connection from the pool while
    another request is about to use it. Within HTTP/2 it leaves the stream open and miscounts the others, until the
    connection refuses every request (encode/httpcore#1022, #943). All of it was seen here within 200 cancellations.
    So a waiter that is cancelled goes at once, and what becomes of the request depends on the step: while a connection
    is made it ends once that is done, unsent; over HTTP/1.1 it is cancelled; over HTTP/2 it is left to end by itself.
    What was not sent before is never sent after, and REQUEST_SECONDS bound all of it.

    The request obeys whoever waits in `result`, and `leave`; a scope around `connect` never reaches it. So a caller
    whose own scope is shielded, a clean-up above all, gets its answer while everything around is cancelled.

    `slots` bounds how many are begun. `take` makes the result of the answer, within the task; `drop` gets a result that
    nobody waits for. `linger` is how long, in seconds, a waiter that is cancelled stays for the answer to a request
    that was sent, before it gives up: for what must not be left with an unknown outcome.
    """

    def __init__(
        self,
        operation: str,
        client: httpx.AsyncClient,
        *,
        slots: anyio.Semaphore,
        take: Callable[[httpx.Response], Awaitable[_T]],
        drop: Callable[[_T], Awaitable[None]] | None = None,
        linger: float = 0.0,
    ) -> None:
        self._operation = operation
        self._client = client
        self._slots = slots
        self._take = take
        self._drop = drop
        self._linger = linger
        self._scope = anyio.CancelScope(shield=True)
        self._phase = RequestPhase.QUEUED
        self._connection: httpcore.AsyncNetworkStream | None = None
        self._sent = False
        self._given_up = False
        self._left = False
        self._results: list[_T] = []
        self._error: Exception | None = None
        self.ended = anyio.Event()
        """Set once httpcore has done with the request."""

    def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> httpx.Request:
        """What `run` sends."""
        # Not httpx' own joining of URLs, which would parse the target's escapes again.
        url = str(self._client.base_url).rstrip("/") + target
        return self._client.build_request(method, url, headers=headers, content=body, extensions={"trace": self._trace})

    async def run(self, request: httpx.Request) -> None:
        """Carry the request out. Never raises: `result` does."""
        try:
            with self._scope, anyio.fail_after(REQUEST_SECONDS):
                async with self._slots:
                    self._results.append(await self._take(await self._begin(request)))
        except RequestAbandoned:
            pass  # nobody waits
        except TRANSPORT_ERRORS as error:
            self._error = translate(self._operation, error)
            self._error.__cause__ = error
        except Exception as error:  # noqa: BLE001 - raised again where the request was asked for, not in the group
            self._error = error
        finally:
            self.ended.set()
            if self._given_up:
                await self._drop_result()

    async def result(self) -> _T:
        """Wait for the result; raises what the request came to. Cancelling it gives the request up."""
        try:
            await self.ended.wait()
        except BaseException:
            try:
                if self._sent:
                    with anyio.move_on_after(self._linger, shield=True):
                        await self.ended.wait()
            finally:
                await self._give_up()
            raise
        if self._results:
            return self._results[0]
        if self._error is not None and not self._left:
            raise self._error
        raise self.closed()

    async def leave(self) -> None:
        """End a request whose client is about to be closed, which ends those over HTTP/2; whoever waits is told."""
        if self.ended.is_set():
            return
        self._left = self._given_up = True
        if self._phase is RequestPhase.CONNECTING and self._connection is not None:
            # A cancelled TLS handshake would leave the socket open; without its socket it fails, and cleans up.
            await self._connection.aclose()
        elif self._phase is not RequestPhase.HTTP2:
            self._scope.cancel()

    def cancel(self) -> None:
        """End it in whatever step it is: for when the connection is of no more use to anyone."""
        self._scope.cancel()

    def closed(self) -> Unreachable:
        """What a request is told whose client was closed."""
        return Unreachable(self._operation, cause="the client was closed", sent=self._sent)

    async def _trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Httpcore's hook: called before and after each step, by name."""
        if event.startswith("http11."):
            self._phase = RequestPhase.HTTP11
        elif event.startswith("http2."):
            self._phase = RequestPhase.HTTP2
        elif event.endswith("start_tls.started"):
            self._phase = RequestPhase.CONNECTING  # also after a proxy's CONNECT, which is a request of its own
        elif event.endswith("connect_tcp.complete"):
            self._connection = info["return_value"]
        if event.endswith("send_request_headers.started"):
            if self._given_up:
                raise RequestAbandoned
            self._sent = info["request"].method != b"CONNECT"

    async def _begin(self, request: httpx.Request) -> httpx.Response:
        if self._given_up:
            raise RequestAbandoned  # while the slot was on its way: the cancellation would come in the middle
        self._phase = RequestPhase.CONNECTING
        return await self._client.send(request, stream=True)

    async def _give_up(self) -> None:
        self._given_up = True
        if self.ended.is_set():
            await self._drop_result()
        elif self._phase in (RequestPhase.QUEUED, RequestPhase.HTTP11):
            self._scope.cancel()

    async def _drop_result(self) -> None:
        if self._drop is not None and self._results:
            await self._drop(self._results.pop())
