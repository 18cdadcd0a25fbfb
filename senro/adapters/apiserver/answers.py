"""Reads the answers to requests, and raises the error for their status."""

from __future__ import annotations

import email.utils
import math
from dataclasses import dataclass

import anyio
import httpx

from senro.domain.errors import ProtocolError
from senro.domain.kube.status import api_error, bounded, decode_error_response

BODY_LIMIT = 16 * 1024 * 1024
"""The largest body in bytes. A request has at most 3 MiB (docs/design/api-rules.md#request-size); an answer adds
managedFields and defaults."""

CLOSE_SECONDS = 2.0
"""How long closing an answer may take."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A successful answer."""

    status: int
    body: bytes


async def close(answer: httpx.Response) -> None:
    """Close the answer, also while the caller is cancelled, which frees its connection and its slot in the pool."""
    with anyio.move_on_after(CLOSE_SECONDS, shield=True):
        await answer.aclose()


async def read_whole(operation: str, answer: httpx.Response) -> Reply:
    """Read the answer and close it. Raises as `check` does."""
    try:
        data = await read_bounded(operation, answer, BODY_LIMIT)
    finally:
        await close(answer)
    return check(operation, answer, data)


async def read_bounded(operation: str, answer: httpx.Response, limit: int) -> bytes:
    """Returns the body. Raises `ProtocolError` if it has more than `limit` bytes."""
    pieces = bytearray()
    async for piece in answer.aiter_raw():
        pieces += piece
        if len(pieces) > limit:
            raise ProtocolError(operation, rule=f"an answer of at most {limit} bytes", got="more")
    return bytes(pieces)


def check(operation: str, answer: httpx.Response, data: bytes) -> Reply:
    """Returns the reply. Raises the `ApiError` for 4xx and 5xx, `ProtocolError` for 1xx and 3xx."""
    if answer.status_code >= 400:
        raise api_error(operation, decode_error_response(answer.status_code, data, retry_after=retry_after(answer)))
    if not answer.is_success:
        raise ProtocolError(operation, rule="an answer of an apiserver", got=f"HTTP status {answer.status_code}")
    return Reply(answer.status_code, data)


def retry_after(answer: httpx.Response) -> float | None:
    """Returns Retry-After in seconds, None without one. It may be a number or a date (RFC 9110 section 10.2.3)."""
    value = answer.headers.get("Retry-After")
    if value is None:
        return None
    if value.isascii() and value.isdecimal():
        seconds = float(value)
        return seconds if math.isfinite(seconds) else None
    try:
        then = email.utils.parsedate_to_datetime(value)
        # The clock of this machine may be wrong, so the date is compared with that of the answer.
        now = email.utils.parsedate_to_datetime(answer.headers.get("Date", ""))
        return max(0.0, (then - now).total_seconds())
    except (ValueError, TypeError):
        return None


def excerpt(reply: Reply) -> str:
    """Returns the beginning of the body, for an error message."""
    return repr(bounded(reply.body.decode("utf-8", "replace"), 200))
