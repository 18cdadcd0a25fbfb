"""One request, which whoever waits for it may give up at any moment without harm to the connection."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeVar

import anyio
import anyio.abc
import httpx

from senro.adapters.apiserver.failures import FOREIGN, translate
from senro.domain.errors import Unreachable

REQUEST_SECONDS = 90.0
"""One try, from the connection to the last byte: the apiserver's own 60 s, a slow handshake, a slow link."""

IN_FLIGHT = 64
"""Requests that httpcore has at once from one part of the adapter; the others wait where they can be cancelled."""

_T = TypeVar("_T")


class Step(enum.Enum):
    """How far httpcore is with a request."""

    QUEUED = "not begun"
    CONNECTING = "waiting for a connection, or making one"
    HTTP11 = "speaking HTTP/1.1"
    HTTP2 = "speaking HTTP/2"


class GivenUp(Exception):
    """Raised into httpcore in place of sending a request that nobody wants any more."""


class Exchange(Generic[_T]):
    """One request in a task of its own, since httpcore must not be cancelled everywhere.

    While a connection is made, a cancellation leaves its socket open, or takes the connection from the pool while
    another request is about to use it. Within HTTP/2 it leaves the stream open and miscounts the others, until the
    connection refuses every request (encode/httpcore#1022, #943). All of it was seen here within 200 cancellations.
    So a waiter that is cancelled goes at once, and what becomes of the request depends on the step: while a connection
    is made it ends once that is done, unsent; over HTTP/1.1 it is cancelled; over HTTP/2 it is left to end by itself.
    What was not sent before is never sent after, and REQUEST_SECONDS bound all of it.

    `slots` bounds how many are begun. `take` makes the result of the answer, within the task; `drop` gets a result that
    nobody waits for.
    """

    def __init__(
        self,
        asked: str,
        client: httpx.AsyncClient,
        *,
        slots: anyio.Semaphore,
        take: Callable[[httpx.Response], Awaitable[_T]],
        drop: Callable[[_T], Awaitable[None]] | None = None,
    ) -> None:
        self._asked = asked
        self._client = client
        self._slots = slots
        self._take = take
        self._drop = drop
        self._scope = anyio.CancelScope()
        self._step = Step.QUEUED
        self._given_up = False
        self._done = anyio.Event()
        self._results: list[_T] = []
        self._error: Exception | None = None

    async def send(
        self,
        group: anyio.abc.TaskGroup,
        method: str,
        target: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
    ) -> _T:
        """Send the request in a task of `group` and wait for the result; raises what it came to."""
        # Not httpx' own joining of URLs, which would parse the target's escapes again.
        url = str(self._client.base_url).rstrip("/") + target
        request = self._client.build_request(
            method, url, headers=headers, content=body, extensions={"trace": self._trace}
        )
        group.start_soon(self._run, request)
        try:
            await self._done.wait()
        except BaseException:
            await self._give_up()
            raise
        if self._error is not None:
            raise self._error
        if not self._results:
            raise Unreachable(self._asked, cause="the client was closed", sent=True)
        return self._results[0]

    async def _trace(self, event: str, _: Mapping[str, Any]) -> None:
        """Httpcore's hook: called before and after each step, by name."""
        if event.startswith("http11."):
            self._step = Step.HTTP11
        elif event.startswith("http2."):
            self._step = Step.HTTP2
        elif event.endswith("start_tls.started"):
            self._step = Step.CONNECTING  # also after a proxy's CONNECT, which is a request of its own
        # Leaving the cluster cancels from outside, and must not do so while a connection is made either.
        self._scope.shield = self._step is Step.CONNECTING
        if self._given_up and event.endswith("send_request_headers.started"):
            raise GivenUp

    async def _run(self, request: httpx.Request) -> None:
        try:
            with self._scope, anyio.fail_after(REQUEST_SECONDS):
                async with self._slots:
                    self._results.append(await self._take(await self._begin(request)))
        except GivenUp:
            pass  # nobody waits
        except FOREIGN as error:
            self._error = translate(self._asked, error)
            self._error.__cause__ = error
        except Exception as error:  # noqa: BLE001 - raised again where the request was asked for, not in the group
            self._error = error
        finally:
            self._done.set()
            if self._given_up:
                await self._drop_result()

    async def _begin(self, request: httpx.Request) -> httpx.Response:
        if self._given_up:
            raise GivenUp  # while the slot was on its way: the cancellation would come in the middle
        self._step, self._scope.shield = Step.CONNECTING, True
        return await self._client.send(request, stream=True)

    async def _give_up(self) -> None:
        self._given_up = True
        if self._done.is_set():
            await self._drop_result()
        elif self._step in (Step.QUEUED, Step.HTTP11):
            self._scope.cancel()

    async def _drop_result(self) -> None:
        if self._drop is not None and self._results:
            await self._drop(self._results.pop())
