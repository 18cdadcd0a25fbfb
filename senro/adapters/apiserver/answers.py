"""Answers: read within bounds, closed whatever happens, judged by their status."""

from __future__ import annotations

import email.utils
import math
from dataclasses import dataclass

import anyio
import httpx

from senro.domain.errors import ProtocolError
from senro.domain.kube.status import api_error, bounded, decode_error_response

BODY_LIMIT = 16 * 1024 * 1024
"""Bytes of an answer. An object has at most 3 MiB on its way in (docs/design/api-rules.md#request-size); an answer adds
managedFields and defaults, a list of nodes has a few KiB for each."""

CLOSE_SECONDS = 2.0
"""For closing a connection that is given up."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer below 400, with its whole body."""

    status: int
    body: bytes


async def close(answer: httpx.Response) -> None:
    """Close the answer, whoever is cancelled: its connection must not stay open, nor its slot in the pool taken."""
    with anyio.move_on_after(CLOSE_SECONDS, shield=True):
        await answer.aclose()


async def read_whole(operation: str, answer: httpx.Response) -> Reply:
    """Read the answer, close it, and judge it."""
    try:
        data = await read_bounded(operation, answer, BODY_LIMIT)
    finally:
        await close(answer)
    return check(operation, answer, data)


async def read_bounded(operation: str, answer: httpx.Response, limit: int) -> bytes:
    """The body; raises `ProtocolError` where it has more than `limit` bytes."""
    pieces = bytearray()
    async for piece in answer.aiter_raw():
        pieces += piece
        if len(pieces) > limit:
            raise ProtocolError(operation, rule=f"an answer of at most {limit} bytes", got="more")
    return bytes(pieces)


def check(operation: str, answer: httpx.Response, data: bytes) -> Reply:
    """The reply; raises the `ApiError` for 4xx and 5xx, `ProtocolError` for a redirect or an early answer."""
    if answer.status_code >= 400:
        raise api_error(operation, decode_error_response(answer.status_code, data, retry_after=retry_after(answer)))
    if not answer.is_success:
        raise ProtocolError(operation, rule="an answer of an apiserver", got=f"HTTP status {answer.status_code}")
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


def shown(reply: Reply) -> str:
    """The beginning of what was answered, for an error about it."""
    return repr(bounded(reply.body.decode("utf-8", "replace"), 200))
