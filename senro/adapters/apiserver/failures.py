"""Translates the exceptions of httpx, httpcore, h2, anyio and the standard library into senro's errors.

`tests/unit/adapters/apiserver/test_error_map.py` proves that the table is complete.
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
    """What a failed request tells its caller."""

    NOT_SENT = "nothing reached the apiserver"
    MAYBE_SENT = "the request may have taken effect"
    BROKEN_RULE = "the peer, or senro, broke the rules of HTTP"


FAILURES: dict[type[Exception], Failure] = {
    **dict.fromkeys((httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError), Failure.NOT_SENT),
    **dict.fromkeys((httpx.UnsupportedProtocol, httpx.LocalProtocolError), Failure.BROKEN_RULE),
    **dict.fromkeys((httpx.DecodingError, httpx.TooManyRedirects), Failure.BROKEN_RULE),
    # RemoteProtocolError also means that the server closed an idle connection while the request was being sent.
    **dict.fromkeys((httpx.RemoteProtocolError, httpx.ReadError, httpx.ReadTimeout), Failure.MAYBE_SENT),
    **dict.fromkeys((httpx.WriteError, httpx.WriteTimeout, httpx.CloseError), Failure.MAYBE_SENT),
    # After a 101 senro uses the stream of httpcore.
    **dict.fromkeys((httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.PoolTimeout), Failure.NOT_SENT),
    **dict.fromkeys((httpcore.ProxyError, httpcore.ConnectionNotAvailable), Failure.NOT_SENT),
    **dict.fromkeys((httpcore.UnsupportedProtocol, httpcore.LocalProtocolError), Failure.BROKEN_RULE),
    **dict.fromkeys((httpcore.RemoteProtocolError, httpcore.ReadError, httpcore.ReadTimeout), Failure.MAYBE_SENT),
    **dict.fromkeys((httpcore.WriteError, httpcore.WriteTimeout), Failure.MAYBE_SENT),
    # httpcore does not translate two of anyio's errors; the others are here in case that changes.
    **dict.fromkeys((anyio.BusyResourceError, anyio.BrokenResourceError), Failure.MAYBE_SENT),
    **dict.fromkeys((anyio.ClosedResourceError, anyio.EndOfStream), Failure.MAYBE_SENT),
    # httpcore may not translate an error of h2 when a stream is reset.
    h2.exceptions.H2Error: Failure.MAYBE_SENT,
    # The base classes of what later versions may add.
    **dict.fromkeys((httpx.RequestError, httpcore.NetworkError), Failure.MAYBE_SENT),
    **dict.fromkeys((httpcore.TimeoutException, httpcore.ProtocolError), Failure.MAYBE_SENT),
    # A request that takes longer than its bound; errors of sockets and of TLS.
    **dict.fromkeys((TimeoutError, OSError), Failure.MAYBE_SENT),
}
"""What each exception means. The row of the nearest base class counts."""

TRANSPORT_ERRORS = tuple(FAILURES)
"""The exceptions that a call of httpx, httpcore or anyio may raise."""


def failure_of(error: Exception) -> Failure:
    """Returns the row of `FAILURES` for `error`."""
    if _behind(error, h2.exceptions.TooManyStreamsError) is not None:
        # The connection has no free stream, which httpcore reports as LocalProtocolError (encode/httpcore#1022).
        return Failure.NOT_SENT
    return next(FAILURES[kind] for kind in type(error).__mro__ if kind in FAILURES)


def describe_error(error: BaseException) -> str:
    """Returns the class and the text of `error`, or what to do about a certificate that was refused."""
    certificate = certificate_problem(error)
    if certificate is not None:
        return f"the apiserver's certificate was refused: {certificate.verify_message}; check SENRO_K8S_CA_FILE"
    text = str(error) or (str(error.__cause__) if error.__cause__ is not None else "")
    return bounded(f"{type(error).__name__}: {text}" if text else type(error).__name__, 500)


def certificate_problem(error: BaseException) -> ssl.SSLCertVerificationError | None:
    """Returns the refusal of the server's certificate that caused `error`, if one did: a retry is useless then."""
    return _behind(error, ssl.SSLCertVerificationError)


def _behind(error: BaseException, kind: type[_E]) -> _E | None:
    """Returns `error` or the nearest cause of it that is a `kind`; None if there is none."""
    seen: BaseException | None = error
    for _ in range(8):  # httpx from httpcore from anyio from ssl, with room to spare
        if seen is None:
            break
        if isinstance(seen, kind):
            return seen
        seen = seen.__cause__ or seen.__context__
    return None


def translate(operation: str, error: Exception) -> ClusterError:
    """Returns the error of a request without an answer. The caller raises it from `error`."""
    failure = failure_of(error)
    if failure is Failure.BROKEN_RULE:
        return ProtocolError(operation, rule="a request by the rules of HTTP", got=describe_error(error))
    return Unreachable(operation, cause=describe_error(error), sent=failure is Failure.MAYBE_SENT)
