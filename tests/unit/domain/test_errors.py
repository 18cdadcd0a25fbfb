from __future__ import annotations

import inspect

import pytest

from senro.domain import errors
from senro.domain.errors import (
    AlreadyExists,
    ApiError,
    ClusterError,
    ConfigurationError,
    Conflict,
    ContentLost,
    ErrorResponse,
    Forbidden,
    NotFound,
    PlanError,
    ProtocolError,
    Refusal,
    Rejected,
    RunBroken,
    SenroError,
    StatusCause,
    StoreError,
    StoreUnavailable,
    StreamBroken,
    Throttled,
    TreeError,
    Unauthorized,
    Unavailable,
    Unreachable,
)

ASKED = "read pod ci/make-1f"

SENTENCES: list[tuple[SenroError, str]] = [
    (SenroError("anything"), "anything"),
    (
        PlanError((Refusal("build/make", "image", "not pinned by a digest"),)),
        "the pipeline was refused: 1 problem\n  build/make: not pinned by a digest",
    ),
    (
        PlanError((Refusal("a", "x", "one"), Refusal("b", "y", "two"))),
        "the pipeline was refused: 2 problems\n  a: one\n  b: two",
    ),
    (
        ConfigurationError((Refusal("SENRO_K8S_SERVER", "missing", "set it"),)),
        "the configuration was refused: 1 problem\n  SENRO_K8S_SERVER: set it",
    ),
    (ClusterError(ASKED), "read pod ci/make-1f"),
    (
        ApiError(ASKED, ErrorResponse(code=418, reason="Teapot", message="short and stout")),
        "read pod ci/make-1f: the apiserver answered 418 Teapot: short and stout",
    ),
    (
        NotFound(ASKED, ErrorResponse(code=404, reason="NotFound", message='pods "make-1f" not found')),
        'read pod ci/make-1f: the apiserver answered 404 NotFound: pods "make-1f" not found',
    ),
    (
        AlreadyExists(
            "create pod ci/a", ErrorResponse(code=409, reason="AlreadyExists", message='pods "a" already exists')
        ),
        'create pod ci/a: the apiserver answered 409 AlreadyExists: pods "a" already exists',
    ),
    (
        Conflict(
            "delete pod ci/a", ErrorResponse(code=409, reason="Conflict", message="the UID in the precondition differs")
        ),
        "delete pod ci/a: the apiserver answered 409 Conflict: the UID in the precondition differs",
    ),
    (
        Unauthorized(ASKED, ErrorResponse(code=401, reason="Unauthorized", message="Unauthorized")),
        "read pod ci/make-1f: the apiserver answered 401 Unauthorized: Unauthorized",
    ),
    (
        Forbidden(ASKED, ErrorResponse(code=403, reason="Forbidden", message='pods "a" is forbidden: ')),
        'read pod ci/make-1f: the apiserver answered 403 Forbidden: pods "a" is forbidden:',
    ),
    (
        Rejected(ASKED, ErrorResponse(code=422, reason="Invalid", message="spec: Required value")),
        "read pod ci/make-1f: the apiserver answered 422 Invalid: spec: Required value",
    ),
    (
        Throttled(ASKED, ErrorResponse(code=429, message="Too many requests, please try again later.", retry_after=1)),
        "read pod ci/make-1f: the apiserver answered 429: Too many requests, please try again later.",
    ),
    (
        Unavailable(ASKED, ErrorResponse(code=503)),
        "read pod ci/make-1f: the apiserver answered 503: (no message)",
    ),
    (
        Unreachable(ASKED, cause="ConnectError: refused", sent=False),
        "read pod ci/make-1f: no answer (ConnectError: refused); nothing was sent",
    ),
    (
        Unreachable("create pod ci/a", cause="ReadTimeout", sent=True),
        "create pod ci/a: no answer (ReadTimeout); it may have taken effect",
    ),
    (
        StreamBroken("exec tar in step of pod ci/a", cause="reset", sent=12, received=3),
        "exec tar in step of pod ci/a: the stream broke after 12 bytes out and 3 bytes in (reset)",
    ),
    (
        ProtocolError(ASKED, rule="a Pod as JSON", got="'<html>'"),
        "read pod ci/make-1f: expected a Pod as JSON, got '<html>'",
    ),
    (TreeError("a/b", "link-escapes", "the link leaves the tree"), "a/b: the link leaves the tree"),
    (TreeError("", "truncated", "the archive is cut"), "the archive is cut"),
    (StoreError("/var/x", "disk full"), "/var/x: disk full"),
    (ContentLost("/var/x", "the snapshot is not held here"), "/var/x: the snapshot is not held here"),
    (StoreUnavailable("s3://b/p", "the connection failed"), "s3://b/p: the connection failed"),
    (
        RunBroken(".senro/runs/1", StoreError("events.jsonl", "No space left on device")),
        "the run broke: events.jsonl: No space left on device; its ledger is in .senro/runs/1",
    ),
]


@pytest.mark.parametrize(("error", "sentence"), SENTENCES)
def test_sentences(error: SenroError, sentence: str) -> None:
    """Each error says what was asked, what came instead, and its values."""
    assert str(error) == sentence


def test_every_error_has_a_sentence_here() -> None:
    """No error class is left out of the table."""
    kinds = {
        kind
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, Exception) and not name.startswith("_")
    }
    assert {type(error) for error, _ in SENTENCES} == kinds


def test_the_tree_is_drawn() -> None:
    """The module's own picture names every error."""
    assert errors.__doc__ is not None
    for error, _ in SENTENCES:
        assert type(error).__name__ in errors.__doc__


def test_values_are_kept() -> None:
    """A program finds the values as attributes and need not parse a sentence."""
    response = ErrorResponse(code=422, causes=(StatusCause("spec", "FieldValueRequired", "Required value"),))
    assert Rejected(ASKED, response).response is response
    assert Rejected(ASKED, response).operation == ASKED
    broken = StreamBroken(ASKED, cause="x", sent=1, received=2)
    assert (broken.cause, broken.sent, broken.received) == ("x", 1, 2)
    refused = ProtocolError(ASKED, rule="a", got="b")
    assert (refused.rule, refused.got) == ("a", "b")
    ended = RunBroken(".senro/runs/1", refused)
    assert (ended.folder, ended.cause) == (".senro/runs/1", refused)
    torn = TreeError("p", "r", "m")
    assert (torn.path, torn.rule, torn.message) == ("p", "r", "m")
    assert PlanError((Refusal("a", "x", "one"),)).refusals[0].rule == "x"
