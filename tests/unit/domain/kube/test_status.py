from __future__ import annotations

import json

import pytest

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
from senro.domain.kube.status import CAUSES_LIMIT, MESSAGE_LIMIT, api_error, bounded, decode_error_response, error_class


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", Rejected),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (404, "", Unavailable),
        (404, "ServiceUnavailable", Unavailable),
        (405, "MethodNotAllowed", Rejected),
        (406, "NotAcceptable", Rejected),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (409, "", Conflict),
        (410, "Expired", Rejected),
        (413, "RequestEntityTooLarge", Rejected),
        (415, "UnsupportedMediaType", Rejected),
        (422, "Invalid", Rejected),
        (429, "TooManyRequests", Throttled),
        (429, "", Throttled),
        (500, "InternalError", Unavailable),
        (500, "AlreadyExists", Unavailable),
        (503, "ServiceUnavailable", Unavailable),
        (504, "Timeout", Unavailable),
        (599, "Invented", Unavailable),
        (418, "Invented", Rejected),
    ],
)
def test_error_class(code: int, reason: str, kind: type[ApiError]) -> None:
    """For 404 and 409 code and reason decide, else the code or its hundred."""
    assert error_class(code, reason) is kind
    error = api_error("ask", ErrorResponse(code=code, reason=reason))
    assert type(error) is kind
    assert error.response.code == code


def test_a_status() -> None:
    """The response has the reason, the message, the causes and the retry delay of the Status."""
    status = {
        "kind": "Status",
        "status": "Failure",
        "message": "slow down",
        "reason": "TooManyRequests",
        "code": 429,
        "details": {"causes": [{"reason": "DisruptionBudget", "message": "needs 1"}], "retryAfterSeconds": 10},
    }
    assert decode_error_response(429, json.dumps(status).encode()) == ErrorResponse(
        code=429,
        reason="TooManyRequests",
        message="slow down",
        causes=(StatusCause("", "DisruptionBudget", "needs 1"),),
        retry_after=10,
    )


def test_the_header_has_precedence() -> None:
    """Retry-After counts before the Status' number, since a proxy may have changed it."""
    body = b'{"kind": "Status", "details": {"retryAfterSeconds": 10}}'
    assert decode_error_response(429, body, retry_after=3.0).retry_after == 3.0


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"Too many requests, please try again later.\n",
        b'container not found ("step")',
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"kind": "Pod"}',
        b'{"kind": "Status", "message": 7}',
        b'{"kind": "Status", "message": "\xff"}',
        b"<html>502 Bad Gateway</html>",
    ],
)
def test_a_body_that_is_no_status(body: bytes) -> None:
    """The whole body is the message."""
    assert decode_error_response(500, body, retry_after=1.0) == ErrorResponse(
        code=500, message=body.decode("utf-8", "replace").strip(), retry_after=1.0
    )


@pytest.mark.parametrize(
    "body",
    [
        b'{"kind": "Status"}',
        b'{"kind": "Status", "message": null, "reason": null, "details": null}',
        b'{"kind": "Status", "details": {"causes": null, "retryAfterSeconds": null}}',
    ],
)
def test_a_status_without_fields(body: bytes) -> None:
    """What is absent or null is empty."""
    assert decode_error_response(500, body) == ErrorResponse(code=500)


def test_everything_is_bounded() -> None:
    """Messages and causes are cut to their limits."""
    status = {
        "kind": "Status",
        "message": "m" * 100_000,
        "details": {"causes": [{"field": "f" * 100_000, "reason": "r", "message": "m"}] * 500},
    }
    answer = decode_error_response(422, json.dumps(status).encode())
    assert answer.message == "m" * MESSAGE_LIMIT + f"... ({100_000 - MESSAGE_LIMIT} more characters)"
    assert len(answer.causes) == CAUSES_LIMIT
    assert len(answer.causes[0].field) < MESSAGE_LIMIT + 50
    assert len(decode_error_response(500, b"x" * 100_000).message) < MESSAGE_LIMIT + 50
    assert bounded("abc", 3) == "abc"
