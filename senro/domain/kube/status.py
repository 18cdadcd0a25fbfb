"""What an apiserver's refusal says, and which error it is.

A refusal is mostly a `Status` document, but not always: throttling, proxied kubelet errors and failed handshakes are
plain text (docs/design/api-rules.md#answers-without-a-status). Unknown reasons are judged by the HTTP status alone
(docs/design/api-rules.md#status-reasons).
"""

from __future__ import annotations

import msgspec

from senro.domain.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    ErrorResponse,
    Forbidden,
    NotFound,
    Rejected,
    StatusCause,
    Throttled,
    Unauthorized,
    Unavailable,
)

MESSAGE_LIMIT = 8_192
"""Characters of the cluster's own words that an error keeps. A refused pod with every field wrong stays below 4,000."""

CAUSES_LIMIT = 64
"""Entries of `details.causes` that an error keeps; one is made for each wrong field."""


class Cause(msgspec.Struct, frozen=True):
    """One entry of `details.causes`. The JSON key of the cause's type is `reason`."""

    field: str | None = None
    reason: str | None = None
    message: str | None = None


class Details(msgspec.Struct, frozen=True, rename="camel"):
    """The parts of a Status' `details` that are read."""

    name: str | None = None
    causes: list[Cause] | None = None
    retry_after_seconds: float | None = None


class Status(msgspec.Struct, frozen=True):
    """The parts of a `meta/v1` Status that are read. `kind` is absent on an exec's status channel."""

    kind: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    code: int | None = None
    details: Details | None = None

    @property
    def causes(self) -> list[Cause]:
        """The causes, empty where there are no details."""
        return (self.details.causes or []) if self.details is not None else []


def bounded(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """`text` cut to `limit` characters; where something was cut off, the end says how much."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}... ({len(text) - limit} more characters)"


def decode_error_response(code: int, body: bytes, *, retry_after: float | None = None) -> ErrorResponse:
    """The answer in a response of HTTP status `code`; never raises, whatever the body is.

    `retry_after` is the Retry-After header in seconds; it wins over `details.retryAfterSeconds`, which it mirrors.
    """
    try:
        status = msgspec.json.decode(body, type=Status)
    except (msgspec.DecodeError, UnicodeDecodeError):
        status = Status()
    if status.kind != "Status":
        text = body.decode("utf-8", "replace").strip()
        return ErrorResponse(code=code, message=bounded(text), retry_after=retry_after)
    if retry_after is None and status.details is not None:
        retry_after = status.details.retry_after_seconds
    causes = tuple(
        StatusCause(bounded(cause.field or ""), bounded(cause.reason or ""), bounded(cause.message or ""))
        for cause in status.causes[:CAUSES_LIMIT]
    )
    return ErrorResponse(
        code=code,
        reason=status.reason or "",
        message=bounded(status.message or ""),
        causes=causes,
        retry_after=retry_after,
        name=bounded((status.details.name if status.details is not None else None) or ""),
    )


_BY_CODE: dict[int, type[ApiError]] = {401: Unauthorized, 403: Forbidden, 409: Conflict, 429: Throttled}

_BY_CODE_AND_REASON: dict[tuple[int, str], type[ApiError]] = {
    (404, "NotFound"): NotFound,
    (409, "AlreadyExists"): AlreadyExists,
}


def error_class(code: int, reason: str = "") -> type[ApiError]:
    """The error for an HTTP status that is no success: by code and reason, by code, by its hundred."""
    exact = _BY_CODE_AND_REASON.get((code, reason)) or _BY_CODE.get(code)
    if exact is not None:
        return exact
    # A 404 without that reason is a balancer's page, or an apiserver whose handlers are not installed yet.
    return Unavailable if code >= 500 or code == 404 else Rejected


def api_error(operation: str, response: ErrorResponse) -> ApiError:
    """The error that says `answer` to whoever asked."""
    return error_class(response.code, response.reason)(operation, response)
