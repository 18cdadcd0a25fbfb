"""Sends requests with short answers, and repeats those that are safe to repeat."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import msgspec

from senro.adapters.apiserver.answers import Reply, read_whole
from senro.adapters.apiserver.failures import certificate_problem
from senro.adapters.apiserver.sender import Sender
from senro.domain.errors import ClusterError, Unreachable
from senro.domain.requests.backoff import Backoff, BackoffPolicy
from senro.domain.requests.idempotency import RequestKind, retry_delay
from senro.ports.clock import Clock, Randomness
from senro.ports.cluster import CREATE_GRACE_SECONDS, RETRY_SECONDS, Manifest

RETRIES = BackoffPolicy(first=0.1, longest=5.0, bound=RETRY_SECONDS)
"""The tries of a request that is safe to repeat."""


class Rest:
    """Sends requests and repeats them. `operation` says in words what a request does: `read pod ci/make-1f`."""

    def __init__(self, sender: Sender, *, clock: Clock, randomness: Randomness) -> None:
        self._sender = sender
        self._clock = clock
        self._randomness = randomness

    async def send(
        self,
        request: RequestKind,
        operation: str,
        target: str,
        *,
        body: bytes | None = None,
        content_type: str = "application/json",
        linger: float = 0.0,
        unreachable_seconds: float = RETRY_SECONDS,
    ) -> Reply:
        """Send the request, and repeat it by `RETRIES` if its kind is safe to repeat.

        Repeats a 401 once if the token file has changed. A call that is cancelled after the request was sent waits
        `linger` seconds for the answer. `unreachable_seconds` bounds the retries while there is no answer at all.
        Raises `ApiError` for 4xx and 5xx, `Unreachable` for no answer, and `ProtocolError` for an answer that no
        apiserver sends; after retries, the error of the last try.
        """
        headers = {"Accept": "application/json", **({} if body is None else {"Content-Type": content_type})}
        take = partial(read_whole, operation)
        once = partial(
            self._sender.send, operation, request.method, target, headers=headers, take=take, body=body, linger=linger
        )
        began = self._clock.monotonic()
        unreachable, unavailable = Backoff(replace(RETRIES, bound=unreachable_seconds), began), Backoff(RETRIES, began)
        while True:
            try:
                return await self._sender.with_current_token(once)
            except ClusterError as error:
                requested = _retry_delay(error) if request.is_idempotent else None
                if requested is None or self._sender.closed:
                    raise
                backoff = unreachable if isinstance(error, Unreachable) else unavailable
                wait = backoff.next_wait(
                    self._clock.monotonic(), fraction=self._randomness.fraction(), requested=requested
                )
                if wait is None:
                    raise
            await self._clock.sleep(wait)

    async def store(self, request: RequestKind, operation: str, target: str, manifest: Manifest) -> Reply:
        """Send an object by `send`. A call that is cancelled waits `CREATE_GRACE_SECONDS` for the answer."""
        return await self.send(
            request, operation, target, body=msgspec.json.encode(manifest), linger=CREATE_GRACE_SECONDS
        )


def delete_options(**fields: object) -> bytes:
    """Returns the body of a DELETE."""
    return msgspec.json.encode({"apiVersion": "v1", "kind": "DeleteOptions", **fields})


def namespace_and_name(manifest: Manifest) -> tuple[str, str]:
    """Returns the namespace and the name of the object."""
    metadata = manifest["metadata"]
    return metadata["namespace"], metadata["name"]


def _retry_delay(error: ClusterError) -> float | None:
    """Returns what `retry_delay` does, but None for a certificate that was refused, which only this package can see."""
    if isinstance(error, Unreachable) and error.__cause__ is not None and certificate_problem(error.__cause__):
        return None
    return retry_delay(error)
