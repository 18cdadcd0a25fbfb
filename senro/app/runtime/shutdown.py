"""Bounds for putting things away after the run was cancelled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import anyio

HURRIED_SECONDS = 8.0
"""What a clean-up may take once the run is cancelled: all of it ends within ten seconds (issue A)."""

LAST_SECONDS = 1.0
"""What a clean-up may take that begins only when the time for all of them is up."""

FORCE_SECONDS = 5.0
"""After so much of it, what ignores SIGTERM is removed without grace."""


class CleanUps:
    """The scopes in which something is put away, shielded from the run's cancellation, each with a bound.

    `hurry` shortens all of them, those to come too: somebody waits. `abandon` ends them: somebody asked twice, and
    what they would have removed stays where it is.
    """

    def __init__(self) -> None:
        self._scopes: set[anyio.CancelScope] = set()
        self._hurried_at: float | None = None
        self._abandoned = False

    @property
    def hurried(self) -> bool:
        """Whether the run was cancelled."""
        return self._hurried_at is not None

    @property
    def force(self) -> bool:
        """Whether it is time to remove without grace."""
        return self._hurried_at is not None and anyio.current_time() - self._hurried_at >= FORCE_SECONDS

    @contextmanager
    def scope(self, seconds: float) -> Iterator[anyio.CancelScope]:
        """A shielded scope of at most `seconds`."""
        with anyio.CancelScope(deadline=self._deadline(seconds), shield=True) as scope:
            self._scopes.add(scope)
            try:
                yield scope
            finally:
                self._scopes.discard(scope)

    def hurry(self) -> None:
        """Shorten every scope. A second call changes nothing."""
        if self._hurried_at is None:
            self._hurried_at = anyio.current_time()
        for scope in self._scopes:
            scope.deadline = min(scope.deadline, self._deadline(HURRIED_SECONDS))

    def abandon(self) -> None:
        """End every scope now, and those to come at once."""
        self._abandoned = True
        for scope in self._scopes:
            scope.cancel()

    def _deadline(self, seconds: float) -> float:
        if self._abandoned:
            return anyio.current_time()
        now = anyio.current_time()
        if self._hurried_at is None:
            return now + seconds
        return min(now + seconds, max(self._hurried_at + HURRIED_SECONDS, now + LAST_SECONDS))
