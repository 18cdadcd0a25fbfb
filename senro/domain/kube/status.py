"""Decodes the error responses of an apiserver.

Most are `Status` documents; throttling, errors of a kubelet behind a proxy and failed handshakes are plain text
(docs/design/api-rules.md#answers-without-a-status). If the reason is unknown, the HTTP status decides
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
"""Characters of a message that an error keeps. A pod with every field wrong gets fewer than 4,000."""

CAUSES_LIMIT = 64
"""Entries of `details.causes` that an error keeps. Each wrong field has one."""


class Cause(msgspec.Struct, frozen=True):
    """One entry of `details.causes`."""

    field: str | None = None
    reason: str | None = None
    message: str | None = None


class Details(msgspec.Struct, frozen=True, rename="camel"):
    """The parts of the `details` of a Status that senro reads."""

    name: str | None = None
    causes: list[Cause] | None = None
    retry_after_seconds: float | None = None


class Status(msgspec.Struct, frozen=True):
    """The parts of a Status that senro reads. `kind` is absent on the status channel of an exec."""

    kind: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    code: int | None = None
    details: Details | None = None

    @property
    def causes(self) -> list[Cause]:
        """The causes, empty if there are no details."""
        return (self.details.causes or []) if self.details is not None else []


def bounded(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """`text` cut to `limit` characters, and how many were cut off."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}... ({len(text) - limit} more characters)"


def decode_error_response(code: int, body: bytes, *, retry_after: float | None = None) -> ErrorResponse:
    """Decodes the body of a response with the HTTP status `code`. Never raises.

    `retry_after` is the Retry-After header in seconds. It has precedence over `details.retryAfterSeconds`.
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
    """The class of the error for an HTTP status of 400 or more."""
    exact = _BY_CODE_AND_REASON.get((code, reason)) or _BY_CODE.get(code)
    if exact is not None:
        return exact
    # A 404 without that reason is a load balancer's page, or of an apiserver whose handlers are not installed yet.
    return Unavailable if code >= 500 or code == 404 else Rejected


def api_error(operation: str, response: ErrorResponse) -> ApiError:
    """The error for a response to `operation`."""
    return error_class(response.code, response.reason)(operation, response)
