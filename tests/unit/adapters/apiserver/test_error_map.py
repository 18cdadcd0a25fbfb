from __future__ import annotations

import inspect
import ssl

import anyio
import h2.exceptions
import httpcore
import httpx
import pytest

from senro.adapters.apiserver.failures import (
    FAILURES,
    Failure,
    certificate_problem,
    describe_error,
    failure_of,
    translate,
)
from senro.domain.errors import ProtocolError, Unreachable

NEVER = {
    httpx.HTTPStatusError: "raised by raise_for_status alone, which is not called",
    httpx.InvalidURL: "the server's URL was parsed before, and targets are escaped",
    httpx.CookieConflict: "cookies are not read",
    httpx.StreamError: "a stream is read once and closed after: raising it would be a mistake of senro's own",
    httpx.StreamConsumed: "as StreamError",
    httpx.StreamClosed: "as StreamError",
    httpx.ResponseNotRead: "as StreamError",
    httpx.RequestNotRead: "as StreamError",
}
"""Exceptions of httpx that no request of the adapter raises, with the reason."""


def exceptions_of(module: object) -> list[type[Exception]]:
    return [value for _, value in inspect.getmembers(module) if inspect.isclass(value) and issubclass(value, Exception)]


def is_base(kind: type[Exception], among: list[type[Exception]]) -> bool:
    return any(other is not kind and issubclass(other, kind) for other in among)


@pytest.mark.parametrize("module", [httpx, httpcore], ids=["httpx", "httpcore"])
def test_table_is_complete(module: object) -> None:
    """Every exception of httpx and httpcore is in the table, or here with the reason why it cannot occur."""
    kinds = exceptions_of(module)
    assert len(kinds) > 10
    leaves = [kind for kind in kinds if not is_base(kind, kinds)]
    missing = [kind.__name__ for kind in leaves if kind not in FAILURES and kind not in NEVER]
    assert missing == []
    assert not FAILURES.keys() & NEVER.keys()


def test_table_has_the_exceptions_of_anyio() -> None:
    """The exceptions of anyio's streams are in the table."""
    for error in (
        anyio.BrokenResourceError(),
        anyio.BusyResourceError("reading from"),
        anyio.ClosedResourceError(),
        anyio.EndOfStream(),
    ):
        assert failure_of(error) is Failure.MAYBE_SENT


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (httpx.ConnectError("refused"), Failure.NOT_SENT),
        (httpx.ConnectTimeout("slow"), Failure.NOT_SENT),
        (httpx.PoolTimeout("full"), Failure.NOT_SENT),
        (httpx.ProxyError("407"), Failure.NOT_SENT),
        (httpx.ReadError("reset"), Failure.MAYBE_SENT),
        (httpx.ReadTimeout("slow"), Failure.MAYBE_SENT),
        (httpx.WriteError("reset"), Failure.MAYBE_SENT),
        (httpx.RemoteProtocolError("disconnected"), Failure.MAYBE_SENT),
        (httpx.LocalProtocolError("illegal header"), Failure.BROKEN_RULE),
        (httpcore.ReadError(), Failure.MAYBE_SENT),
        (h2.exceptions.StreamClosedError(1), Failure.MAYBE_SENT),
        (ConnectionResetError("reset"), Failure.MAYBE_SENT),
        (TimeoutError(), Failure.MAYBE_SENT),
    ],
)
def test_translated_errors(error: Exception, failure: Failure) -> None:
    """The error says whether the request was sent: nothing after a refused connection, perhaps after a cut answer."""
    assert failure_of(error) is failure
    translated = translate("read pod ci/a", error)
    if failure is Failure.BROKEN_RULE:
        assert isinstance(translated, ProtocolError)
    else:
        assert isinstance(translated, Unreachable)
        assert translated.sent is (failure is Failure.MAYBE_SENT)
    assert translated.operation == "read pod ci/a"


def test_descriptions_of_errors() -> None:
    """The description is the class and the text, or the text of the cause if there is none."""
    assert describe_error(httpcore.ReadTimeout()) == "ReadTimeout"
    assert describe_error(httpx.ReadError("connection reset")) == "ReadError: connection reset"
    error = httpcore.ReadError()
    error.__cause__ = OSError("connection reset by peer")
    assert describe_error(error) == "ReadError: connection reset by peer"
    assert len(describe_error(OSError("x" * 10_000))) < 600


def test_refused_certificate() -> None:
    """A refused certificate is found at any depth of causes, and the description names the variable to check."""
    refused = ssl.SSLCertVerificationError()
    refused.verify_message = "self-signed certificate"
    error = httpx.ConnectError("")
    error.__cause__ = httpcore.ConnectError()
    error.__cause__.__context__ = refused
    assert certificate_problem(error) is refused
    assert describe_error(error) == (
        "the apiserver's certificate was refused: self-signed certificate; check SENRO_K8S_CA_FILE"
    )
    assert certificate_problem(httpx.ConnectError("")) is None
