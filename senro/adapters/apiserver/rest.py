"""One request and its whole answer, repeated where that is harmless."""

from __future__ import annotations

import email.utils
import math
from dataclasses import dataclass

import anyio
import httpx

from senro.adapters.apiserver.failures import FOREIGN, certificate_problem, translate
from senro.adapters.apiserver.tokens import Authorization
from senro.domain.errors import ApiError, ClusterError, ProtocolError, Unauthorized, Unreachable
from senro.domain.status import api_error, decode_answer
from senro.ports.clock import Chance, Clock

BODY_LIMIT = 16 * 1024 * 1024
"""Bytes of an answer. An object has at most 3 MiB on its way in (facts/api-rules.md section 11); an answer adds
managedFields and defaults, a list of nodes has a few KiB for each."""

REQUEST_SECONDS = 90.0
"""One try, from the connection to the last byte: the apiserver's own 60 s, a slow handshake, a slow link."""

BUDGET_SECONDS = 30.0
"""How long tries go on in all: short troubles. Whoever waits for longer has a clock of their own."""

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds between tries: doubled each time, and half of it by chance, so that clients do not march in step."""

PASSING = frozenset({429, 502, 503, 504})
"""Answers that may be another one soon. A 500 is repeated only where it says when (reason ServerTimeout)."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer below 400, with its whole body."""

    status: int
    body: bytes


class Rest:
    """Requests over one client. `asked` is what a person would say of a request: `read pod ci/make-1f`."""

    def __init__(
        self, client: httpx.AsyncClient, authorization: Authorization, *, clock: Clock, chance: Chance
    ) -> None:
        self._client = client
        self._authorization = authorization
        self._clock = clock
        self._chance = chance

    async def once(
        self, asked: str, method: str, target: str, *, body: bytes | None = None, content_type: str = "application/json"
    ) -> Reply:
        """Send once, for what may not be repeated blindly. A 401 is asked again once if the token file has changed.

        Raises `ApiError` for 4xx and 5xx, `Unreachable`, and `ProtocolError` for what is no answer of an apiserver.
        """
        try:
            return await self._send(asked, method, target, body, content_type)
        except Unauthorized:
            # Authentication comes before everything else: a 401 has changed nothing, so asking again is safe.
            if not self._authorization.refresh():
                raise
        return await self._send(asked, method, target, body, content_type)

    async def repeated(self, asked: str, method: str, target: str, *, body: bytes | None = None) -> Reply:
        """As `once`, for what may be repeated: through connection errors and answers that pass, within the budget.

        Raises the last error when the budget is spent, or when Retry-After reaches beyond it.
        """
        end = self._clock.monotonic() + BUDGET_SECONDS
        pause = FIRST_PAUSE
        while True:
            try:
                return await self.once(asked, method, target, body=body)
            except ClusterError as error:
                wanted = repetition(error)
                if wanted is None:
                    raise
                wait = max(wanted, pause * (0.5 + self._chance.fraction() / 2))
                if self._clock.monotonic() + wait >= end:
                    raise
            await self._clock.sleep(wait)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _send(self, asked: str, method: str, target: str, body: bytes | None, content_type: str) -> Reply:
        headers = {"Accept": "application/json", **self._authorization.headers()}
        if body is not None:
            headers["Content-Type"] = content_type
        try:
            with anyio.fail_after(REQUEST_SECONDS):
                async with self._client.stream(
                    method, join(self._client, target), headers=headers, content=body
                ) as answer:
                    data = await read_bounded(asked, answer, BODY_LIMIT)
        except FOREIGN as error:
            raise translate(asked, error) from error
        return check(asked, answer, data)


def join(client: httpx.AsyncClient, target: str) -> str:
    """The whole URL. Not httpx' own joining, which would parse the target's escapes again."""
    return str(client.base_url).rstrip("/") + target


async def read_bounded(asked: str, answer: httpx.Response, limit: int) -> bytes:
    """The body; raises `ProtocolError` where it has more than `limit` bytes."""
    pieces = bytearray()
    async for piece in answer.aiter_raw():
        pieces += piece
        if len(pieces) > limit:
            raise ProtocolError(asked, rule=f"an answer of at most {limit} bytes", got="more")
    return bytes(pieces)


def check(asked: str, answer: httpx.Response, data: bytes) -> Reply:
    """The reply; raises the `ApiError` for 4xx and 5xx, `ProtocolError` for a redirect or an early answer."""
    if answer.status_code >= 400:
        raise api_error(asked, decode_answer(answer.status_code, data, retry_after=retry_after(answer)))
    if not answer.is_success:
        raise ProtocolError(asked, rule="an answer of an apiserver", got=f"HTTP status {answer.status_code}")
    return Reply(answer.status_code, data)


def retry_after(answer: httpx.Response) -> float | None:
    """The Retry-After header in seconds, from a number or, as a proxy may send it, a date (RFC 9110, 10.2.3)."""
    value = answer.headers.get("Retry-After")
    if value is None:
        return None
    if value.isascii() and value.isdecimal():
        seconds = float(value)
        return seconds if math.isfinite(seconds) else None
    try:
        then = email.utils.parsedate_to_datetime(value)
        # Against the answer's own clock, where it has one: this machine's may be off.
        now = email.utils.parsedate_to_datetime(answer.headers.get("Date", ""))
        return max(0.0, (then - now).total_seconds())
    except (ValueError, TypeError):
        return None


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
