"""One request in a task of its own, so that its caller can be cancelled at any time without harm to the connection."""

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
"""The bound of one request, from connecting to the last byte. The apiserver itself takes up to 60 s."""

_T = TypeVar("_T")


class RequestPhase(enum.Enum):
    """How far a request is."""

    QUEUED = "not begun"
    CONNECTING = "waiting for a connection, or making one"
    HTTP11 = "speaking HTTP/1.1"
    HTTP2 = "speaking HTTP/2"


class RequestAbandoned(Exception):
    """Raised inside httpcore to stop a request that was given up before it is sent."""


class RequestTask(Generic[_T]):
    """One request. `InFlightRequests` calls `run` in a task, and the caller waits in `result`.

    httpcore must not be cancelled in every phase of a request. While a connection is made, a cancellation leaves its
    socket open, or takes the connection from the pool although another request is about to use it. Within HTTP/2 it
    leaves the stream open and miscounts the others, until the connection refuses every request (encode/httpcore#1022,
    #943). All of it was seen within 200 cancellations. So a caller that is cancelled returns at once, and the phase
    decides what happens to the request: while a connection is made, the request ends after that, unsent; over HTTP/1.1
    it is cancelled; over HTTP/2 it goes on to its end. A request that was not sent by then is never sent.

    A cancellation around the whole cluster does not reach the request, so that a caller in a shielded scope, such as a
    cleanup, gets its answer.

    `operation`: the request in words, for messages.
    `slots`: limits how many requests have begun.
    `take`: makes the result from the answer, inside the task.
    `drop`: gets a result whose caller has given up.
    `linger`: how many seconds a cancelled caller still waits for the answer to a request that was sent. Writes have it,
    so that their outcome is known.
    `ended`: set once httpcore has ended the request.
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

    def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> httpx.Request:
        """Build the request for `run`."""
        # httpx would decode the escapes of the target if it joined the URLs.
        url = str(self._client.base_url).rstrip("/") + target
        return self._client.build_request(method, url, headers=headers, content=body, extensions={"trace": self._trace})

    async def run(self, request: httpx.Request) -> None:
        """Send the request and take its answer. Raises nothing: `result` does."""
        try:
            with self._scope, anyio.fail_after(REQUEST_SECONDS):
                async with self._slots:
                    self._results.append(await self._take(await self._begin(request)))
        except RequestAbandoned:
            pass  # the caller has given up
        except TRANSPORT_ERRORS as error:
            self._error = translate(self._operation, error)
            self._error.__cause__ = error
        except Exception as error:  # noqa: BLE001 - `result` raises it, since here it would cancel the whole group
            self._error = error
        finally:
            self.ended.set()
            if self._given_up:
                await self._drop_result()

    async def result(self) -> _T:
        """Wait for the request. Returns its result or raises its error. A cancellation gives the request up."""
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
        """End the request before its client is closed, which ends those over HTTP/2. `result` raises `closed`."""
        if self.ended.is_set():
            return
        self._left = self._given_up = True
        if self._phase is RequestPhase.CONNECTING and self._connection is not None:
            # A cancelled TLS handshake would leave the socket open. Closing the socket fails the handshake instead.
            await self._connection.aclose()
        elif self._phase is not RequestPhase.HTTP2:
            self._scope.cancel()

    def cancel(self) -> None:
        """Cancel the request in whatever phase it is, once its connection is not needed any more."""
        self._scope.cancel()

    def closed(self) -> Unreachable:
        """Returns the error of a request whose client was closed."""
        return Unreachable(self._operation, cause="the client was closed", sent=self._sent)

    async def _trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Receive the trace events of httpcore, two for each step of a request."""
        if event.startswith("http11."):
            self._phase = RequestPhase.HTTP11
        elif event.startswith("http2."):
            self._phase = RequestPhase.HTTP2
        elif event.endswith("start_tls.started"):
            self._phase = RequestPhase.CONNECTING  # also after the CONNECT of a proxy, which is an HTTP/1.1 request
        elif event.endswith("connect_tcp.complete"):
            self._connection = info["return_value"]
        if event.endswith("send_request_headers.started"):
            if self._given_up:
                raise RequestAbandoned
            self._sent = info["request"].method != b"CONNECT"

    async def _begin(self, request: httpx.Request) -> httpx.Response:
        if self._given_up:
            raise RequestAbandoned  # given up while it waited for a slot: the cancellation would arrive too late
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
