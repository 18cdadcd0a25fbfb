"""Foreign exceptions, and the error that each one is.

`tests/unit/adapters/apiserver/test_error_map.py` proves the table complete.
"""

from __future__ import annotations

import enum
import ssl
from typing import TypeVar

import anyio
import h2.exceptions
import httpcore
import httpx

from senro.domain.errors import ClusterError, ProtocolError, Unreachable
from senro.domain.kube.status import bounded

_E = TypeVar("_E", bound=BaseException)


class Failure(enum.Enum):
    """What a failed request means to whoever asked."""

    NOT_SENT = "nothing reached the apiserver"
    MAYBE_SENT = "the request may have taken effect"
    BROKEN_RULE = "the peer, or senro, broke the rules of HTTP"


FAILURES: dict[type[Exception], Failure] = {
    httpx.ConnectError: Failure.NOT_SENT,
    httpx.ConnectTimeout: Failure.NOT_SENT,
    httpx.PoolTimeout: Failure.NOT_SENT,
    httpx.ProxyError: Failure.NOT_SENT,
    httpx.UnsupportedProtocol: Failure.BROKEN_RULE,
    httpx.LocalProtocolError: Failure.BROKEN_RULE,
    httpx.DecodingError: Failure.BROKEN_RULE,
    httpx.TooManyRedirects: Failure.BROKEN_RULE,
    # A server that closes an idle connection while the request is on its way shows as RemoteProtocolError.
    httpx.RemoteProtocolError: Failure.MAYBE_SENT,
    httpx.ReadError: Failure.MAYBE_SENT,
    httpx.ReadTimeout: Failure.MAYBE_SENT,
    httpx.WriteError: Failure.MAYBE_SENT,
    httpx.WriteTimeout: Failure.MAYBE_SENT,
    httpx.CloseError: Failure.MAYBE_SENT,
    # After a 101 the stream is httpcore's, and so are its exceptions.
    httpcore.ConnectError: Failure.NOT_SENT,
    httpcore.ConnectTimeout: Failure.NOT_SENT,
    httpcore.PoolTimeout: Failure.NOT_SENT,
    httpcore.ProxyError: Failure.NOT_SENT,
    httpcore.ConnectionNotAvailable: Failure.NOT_SENT,
    httpcore.UnsupportedProtocol: Failure.BROKEN_RULE,
    httpcore.LocalProtocolError: Failure.BROKEN_RULE,
    httpcore.RemoteProtocolError: Failure.MAYBE_SENT,
    httpcore.ReadError: Failure.MAYBE_SENT,
    httpcore.ReadTimeout: Failure.MAYBE_SENT,
    httpcore.WriteError: Failure.MAYBE_SENT,
    httpcore.WriteTimeout: Failure.MAYBE_SENT,
    # httpcore lets two of anyio's errors through; the others are listed in case that changes.
    anyio.BusyResourceError: Failure.MAYBE_SENT,
    anyio.BrokenResourceError: Failure.MAYBE_SENT,
    anyio.ClosedResourceError: Failure.MAYBE_SENT,
    anyio.EndOfStream: Failure.MAYBE_SENT,
    # h2's own, should one slip through httpcore when a stream is reset under a request.
    h2.exceptions.H2Error: Failure.MAYBE_SENT,
    # What future versions may add below these.
    httpx.RequestError: Failure.MAYBE_SENT,
    httpcore.NetworkError: Failure.MAYBE_SENT,
    httpcore.TimeoutException: Failure.MAYBE_SENT,
    httpcore.ProtocolError: Failure.MAYBE_SENT,
    # A whole request that outlives its bound; a socket's own words; TLS.
    TimeoutError: Failure.MAYBE_SENT,
    OSError: Failure.MAYBE_SENT,
}
"""By the most exact class: a lookup goes up the class's own order of resolution."""

TRANSPORT_ERRORS = tuple(FAILURES)
"""What to catch around a call of httpx, httpcore or anyio."""


def failure_of(error: Exception) -> Failure:
    """The row for `error`, by its class or the nearest base that has one."""
    if _behind(error, h2.exceptions.TooManyStreamsError) is not None:
        # The connection is full, which httpcore takes for a mistake of the caller (encode/httpcore#1022).
        return Failure.NOT_SENT
    return next(FAILURES[kind] for kind in type(error).__mro__ if kind in FAILURES)


def describe_error(error: BaseException) -> str:
    """A sentence for people: the class and the text, and where it is about a certificate, what to look at."""
    certificate = certificate_problem(error)
    if certificate is not None:
        return f"the apiserver's certificate was refused: {certificate.verify_message}; check SENRO_K8S_CA_FILE"
    text = str(error) or (str(error.__cause__) if error.__cause__ is not None else "")
    return bounded(f"{type(error).__name__}: {text}" if text else type(error).__name__, 500)


def certificate_problem(error: BaseException) -> ssl.SSLCertVerificationError | None:
    """The refusal of the peer's certificate behind `error`: repeating the request is useless then."""
    return _behind(error, ssl.SSLCertVerificationError)


def _behind(error: BaseException, kind: type[_E]) -> _E | None:
    """The exception of that class that `error` is, or was raised from."""
    seen: BaseException | None = error
    for _ in range(8):  # httpx from httpcore from anyio from ssl, with room to spare
        if seen is None:
            break
        if isinstance(seen, kind):
            return seen
        seen = seen.__cause__ or seen.__context__
    return None


def translate(operation: str, error: Exception) -> ClusterError:
    """The error for a request without an answer; raise it `from` the foreign one."""
    failure = failure_of(error)
    if failure is Failure.BROKEN_RULE:
        return ProtocolError(operation, rule="an task by the rules of HTTP", got=describe_error(error))
    return Unreachable(operation, cause=describe_error(error), sent=failure is Failure.MAYBE_SENT)
