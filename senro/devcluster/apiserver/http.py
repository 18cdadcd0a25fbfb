"""Requests and answers, the same for HTTP/1.1 and HTTP/2."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from anyio.streams.tls import TLSStream

BODY_LIMIT = 3_145_728
"""Bytes of a request's body that are taken (docs/design/api-rules.md#request-size)."""


class AbortedError(Exception):
    """An answer whose body ends in the middle: the connection (HTTP/1.1) or the stream (HTTP/2) is reset."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `path` is decoded, `query` in its order, header names are lower case.

    `oversized` says that the body went over the limit and was not kept.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...]
    headers: dict[str, str]
    body: bytes
    http_version: str
    oversized: bool = False
    certificate: tuple[str, tuple[str, ...]] | None = None
    """The user and groups of the client's certificate, where it showed one that the cluster's authority signed."""

    def parameter(self, name: str) -> str | None:
        """The first value of a query parameter, or None."""
        return next((value for key, value in self.query if key == name), None)

    def parameters(self, name: str) -> list[str]:
        """Every value of a query parameter."""
        return [value for key, value in self.query if key == name]

    def flag(self, name: str) -> bool:
        """A boolean: absent, `0` and `false` are false, all else is true.

        See docs/design/exec-protocol.md#query-parameters.
        """
        value = self.parameter(name)
        return value is not None and value != "0" and value.lower() != "false"


def request_from(
    method: str, target: str, headers: list[tuple[str, str]], body: bytes, version: str, *, oversized: bool
) -> Request:
    """Build a Request from what either protocol gives: the target is still encoded, headers in any case."""
    parts = urlsplit(target)
    return Request(
        method,
        unquote(parts.path),
        tuple(parse_qsl(parts.query, keep_blank_values=True)),
        {name.lower(): value for name, value in headers},
        body,
        version,
        oversized,
    )


Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Response:
    """One answer. A body that is an iterator is sent in pieces as they come.

    `close` ends the connection behind it; `drop` ends it instead of the answer, which a fault asks for.
    """

    status: int
    headers: Headers
    body: bytes | AsyncIterator[bytes] = b""
    close: bool = False
    drop: bool = False


@dataclass(frozen=True, slots=True)
class Upgrade:
    """101: the connection is handed to `run`, which owns it until it returns. HTTP/1.1 only."""

    headers: Headers
    run: Callable[[TLSStream, bytes], Awaitable[None]]


Answer = Response | Upgrade


@dataclass(slots=True)
class History:
    """Every request that was answered: method, path and status; -1 where the connection was dropped instead."""

    entries: list[tuple[str, str, int]] = field(default_factory=list)

    def add(self, request: Request, answer: Answer) -> None:
        """Remember one."""
        self.entries.append((request.method, request.path, _code(answer)))


def _code(answer: Answer) -> int:
    if isinstance(answer, Upgrade):
        return 101
    return -1 if answer.drop else answer.status


def audited() -> Headers:
    """The headers that every answer of the apiserver itself carries (recording connection)."""
    return (
        ("audit-id", str(uuid.uuid4())),
        ("cache-control", "no-cache, private"),
        ("date", formatdate(usegmt=True)),
    )


def json_response(status: int, document: Any, headers: Headers = ()) -> Response:
    """A JSON answer; a header `connection: close` ends the connection after it."""
    body = msgspec.json.encode(document) + b"\n"
    return Response(
        status,
        (*audited(), ("content-type", "application/json"), *headers, ("content-length", str(len(body)))),
        body,
        close=("connection", "close") in headers,
    )


def text_response(status: int, text: str, headers: Headers = ()) -> Response:
    """A plain text answer: what the kubelet says, and what flow control says."""
    body = text.encode()
    fields = (("content-type", "text/plain; charset=utf-8"), ("date", formatdate(usegmt=True)))
    return Response(status, (*fields, *headers, ("content-length", str(len(body)))), body)
