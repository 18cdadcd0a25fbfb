"""Texts of obstore exceptions, as real stores cause them, and how they are classified."""

from __future__ import annotations

import pytest
from obstore import exceptions

from senro.adapters.bucket.failures import classify_failure

REQUEST = "Error performing PUT https://b.example/k?sig=c2VjcmV0 in 2.8ms"

METADATA = "Error performing PUT http://169.254.169.254/latest/api/token in 1ms"


def answered(status: str, code: str = "") -> str:
    """The text of an obstore exception for an answer with this HTTP status and error code."""
    body = f'<?xml version="1.0"?> <Error><Code>{code}</Code><Message>secret words</Message></Error>' if code else ""
    return f"Generic S3 error: {REQUEST} - Server returned non-2xx status code: {status}: {body}"


def unsent(kind: str, source: str = "") -> str:
    """The text of an obstore exception for a request that failed in transit."""
    return f"Generic S3 error: {REQUEST} - HTTP error: error sending request  Debug source: kind: {kind}, {source}"


GENERIC, ABSENT = exceptions.GenericError, FileNotFoundError

CASES: list[tuple[type[Exception], str, str, str]] = [
    (ABSENT, answered("404 Not Found", "NoSuchKey"), "absent", "it does not exist"),
    (ABSENT, answered("404 Not Found"), "absent", "it does not exist"),
    (ABSENT, "Object at location /x/k not found: No such file (os error 2)", "absent", "it does not exist"),
    (ABSENT, answered("404 Not Found", "NoSuchBucket"), "refused", "the bucket does not exist (404 NoSuchBucket)"),
    (
        ABSENT,
        answered("404 Not Found", "ContainerNotFound"),
        "refused",
        "the bucket does not exist (404 ContainerNotFound)",
    ),
    (GENERIC, answered("404 Not Found", "NoSuchBucket"), "refused", "the bucket does not exist (404 NoSuchBucket)"),
    (exceptions.AlreadyExistsError, answered("412 Precondition Failed"), "exists", "it exists already"),
    (exceptions.PreconditionError, answered("412 Precondition Failed"), "exists", "it exists already"),
    (exceptions.PermissionDeniedError, answered("403 Forbidden", "AccessDenied"), "refused", "(403 AccessDenied)"),
    (exceptions.UnauthenticatedError, answered("401 Unauthorized"), "refused", "do not allow it (401)"),
    (GENERIC, answered("403 Forbidden", "SignatureDoesNotMatch"), "refused", "(403 SignatureDoesNotMatch)"),
    (GENERIC, answered("400 Bad Request", "AuthorizationHeaderMalformed"), "refused", "check the region"),
    (GENERIC, answered("301 Moved Permanently", "PermanentRedirect"), "refused", "check the region"),
    (GENERIC, "Generic S3 error: Received redirect without LOCATION", "refused", "SENRO_REMOTE_SCRATCH_REGION"),
    (GENERIC, answered("405 Method Not Allowed"), "refused", "it rejects the request (405)"),
    (GENERIC, answered("429 Too Many Requests"), "unreachable", "it cannot answer now (429)"),
    (GENERIC, answered("503 Service Unavailable", "SlowDown"), "unreachable", "it cannot answer now (503 SlowDown)"),
    (GENERIC, f"Generic S3 error: {METADATA} - HTTP error: error sending request", "refused", "no credentials were"),
    (GENERIC, unsent("Connect"), "unreachable", "the connection failed"),
    (GENERIC, unsent("Connect", "Connection refused (os error 111)"), "unreachable", "the connection failed"),
    (GENERIC, unsent("Timeout", "TimedOut"), "unreachable", "it did not answer within 7 s"),
    (GENERIC, "Generic S3 error: error decoding response body: kind: Body", "unreachable", "the connection failed"),
    (GENERIC, "Unable to open file /x: Permission denied (os error 13)", "refused", "the system says: Permission"),
    (GENERIC, "Unable to copy data to file: No space left on device (os error 28)", "unreachable", "No space left"),
    (GENERIC, f"Generic S3 error: {REQUEST} - builder error", "refused", "its settings cannot be used"),
    (GENERIC, "Generic S3 error: something new", "unreachable", "for an unknown reason (GenericError)"),
    (ValueError, "something else", "unreachable", "for an unknown reason (ValueError)"),
]


@pytest.mark.parametrize(("kind_of", "text", "kind", "message"), CASES)
def test_failures_are_classified(kind_of: type[Exception], text: str, kind: str, message: str) -> None:
    """Each failure has its kind and a message that quotes neither the request nor the store."""
    failure = classify_failure(kind_of(text), timeout=7.0)
    assert failure.kind == kind
    assert message in failure.message
    for secret in ("sig=", "c2VjcmV0", "secret words", "https://", "b.example"):
        assert secret not in failure.message
