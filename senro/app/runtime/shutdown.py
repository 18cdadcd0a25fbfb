"""Time limits of cleanups, which survive the cancellation of the run and end soon after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import anyio

SHORTENED_SECONDS = 8.0
"""How long cleanups may take once the run is cancelled; a cancelled run ends within ten seconds."""

LAST_SECONDS = 1.0
"""How long a cleanup may take that begins when the time of `SHORTENED_SECONDS` is over."""

FORCE_SECONDS = 5.0
"""Seconds after a cancellation at which a process that ignores SIGTERM is killed without a grace period."""


class CleanupScopes:
    """The cancel scopes of all cleanups of a run. Each is shielded from the run's cancellation and has a deadline.

    `shorten`, at the first request to cancel, moves the deadlines forward. `cancel_all`, at the second, cancels the
    cleanups: what they have not deleted by then remains.
    """

    def __init__(self) -> None:
        self._scopes: set[anyio.CancelScope] = set()
        self._shortened_at: float | None = None
        self._cancelled = False

    @property
    def shortened(self) -> bool:
        """Whether `shorten` was called: the run is cancelled or has failed."""
        return self._shortened_at is not None

    @property
    def force(self) -> bool:
        """Whether `FORCE_SECONDS` have passed since `shorten`, so that the grace period has to be skipped."""
        return self._shortened_at is not None and anyio.current_time() - self._shortened_at >= FORCE_SECONDS

    @contextmanager
    def scope(self, seconds: float) -> Iterator[anyio.CancelScope]:
        """A context whose body is shielded from cancellation and has at most `seconds`, fewer after `shorten`."""
        with anyio.CancelScope(deadline=self._deadline(seconds), shield=True) as scope:
            self._scopes.add(scope)
            try:
                yield scope
            finally:
                self._scopes.discard(scope)

    def shorten(self) -> None:
        """Move the deadlines of all present and future scopes forward. A second call changes nothing."""
        if self._shortened_at is None:
            self._shortened_at = anyio.current_time()
        for scope in self._scopes:
            scope.deadline = min(scope.deadline, self._deadline(SHORTENED_SECONDS))

    def cancel_all(self) -> None:
        """Cancel all scopes; a scope that is opened later is cancelled at its first checkpoint."""
        self._cancelled = True
        for scope in self._scopes:
            scope.cancel()

    def _deadline(self, seconds: float) -> float:
        """The deadline of a scope that would take `seconds` in a run that goes on."""
        now = anyio.current_time()
        if self._cancelled:
            return now
        if self._shortened_at is None:
            return now + seconds
        return min(now + seconds, max(self._shortened_at + SHORTENED_SECONDS, now + LAST_SECONDS))
