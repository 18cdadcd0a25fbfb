"""Requests with a whole answer, repeated where that is harmless."""

from __future__ import annotations

from functools import partial

import anyio
import httpx

from senro.adapters.apiserver.answers import Reply, read_whole
from senro.adapters.apiserver.exchange import IN_FLIGHT, Exchange
from senro.adapters.apiserver.exchanges import Exchanges
from senro.adapters.apiserver.failures import certificate_problem
from senro.adapters.apiserver.tokens import Authorization
from senro.domain.errors import ApiError, ClusterError, Unauthorized, Unreachable
from senro.ports.clock import Chance, Clock

BUDGET_SECONDS = 30.0
"""How long tries go on in all: short troubles. Whoever waits for longer has a clock of their own."""

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds between tries: doubled each time, and half of it by chance, so that clients do not march in step."""

PASSING = frozenset({429, 502, 503, 504})
"""Answers that may be another one soon. A 500 is repeated only where it says when (reason ServerTimeout)."""


class Rest:
    """Requests over one client. `asked` is what a person would say of a request: `read pod ci/make-1f`."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        authorization: Authorization,
        *,
        exchanges: Exchanges,
        clock: Clock,
        chance: Chance,
    ) -> None:
        self._client = client
        self._exchanges = exchanges
        self._slots = anyio.Semaphore(IN_FLIGHT)
        self._authorization = authorization
        self._clock = clock
        self._chance = chance

    async def once(
        self,
        asked: str,
        method: str,
        target: str,
        *,
        body: bytes | None = None,
        content_type: str = "application/json",
        linger: float = 0.0,
    ) -> Reply:
        """Send once, for what may not be repeated blindly. A 401 is asked again once if the token file has changed.

        Cancelled while the request is on its way, it stays for the answer `linger` seconds before it goes.
        Raises `ApiError` for 4xx and 5xx, `Unreachable`, and `ProtocolError` for what is no answer of an apiserver.
        """
        send = partial(self._send, asked, method, target, body=body, content_type=content_type, linger=linger)
        try:
            return await send()
        except Unauthorized:
            # Authentication comes before everything else: a 401 has changed nothing, so asking again is safe.
            if not self._authorization.refresh():
                raise
        return await send()

    async def repeated(
        self,
        asked: str,
        method: str,
        target: str,
        *,
        body: bytes | None = None,
        unreachable_seconds: float = BUDGET_SECONDS,
    ) -> Reply:
        """As `once`, for what may be repeated: through connection errors and answers that pass, within the budget.

        Raises the last error when the budget is spent, or when Retry-After reaches beyond it. `unreachable_seconds` is
        the budget where there is no answer at all.
        """
        began = self._clock.monotonic()
        pause = FIRST_PAUSE
        while True:
            try:
                return await self.once(asked, method, target, body=body)
            except ClusterError as error:
                wanted = repetition(error)
                if wanted is None or self._exchanges.closed:
                    raise
                wait = max(wanted, pause * (0.5 + self._chance.fraction() / 2))
                budget = unreachable_seconds if isinstance(error, Unreachable) else BUDGET_SECONDS
                if self._clock.monotonic() + wait >= began + budget:
                    raise
            await self._clock.sleep(wait)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _send(
        self, asked: str, method: str, target: str, *, body: bytes | None, content_type: str, linger: float
    ) -> Reply:
        headers = {"Accept": "application/json", **self._authorization.headers()}
        if body is not None:
            headers["Content-Type"] = content_type
        exchange = Exchange(asked, self._client, slots=self._slots, take=partial(read_whole, asked), linger=linger)
        return await self._exchanges.send(exchange, method, target, headers=headers, body=body)


def repetition(error: ClusterError) -> float | None:
    """Seconds to wait at least before a repetition; None where repeating is useless."""
    if isinstance(error, Unreachable):
        return None if error.__cause__ is not None and certificate_problem(error.__cause__) else 0.0
    if not isinstance(error, ApiError):
        return None
    answer = error.answer
    if answer.code in PASSING or (answer.code >= 500 and answer.retry_after is not None):
        # 429 without the header asks for a second all the same (`senro.domain.errors.Throttled`).
        least = 1.0 if answer.code == 429 else 0.0
        return least if answer.retry_after is None else max(0.0, answer.retry_after)
    return None
