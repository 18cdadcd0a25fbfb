"""The runs in a folder, read from their ledgers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from senro.domain.run.history import History


class Runs(Protocol):
    """Reads the ledgers of runs, also of one that goes on. Writes nothing."""

    async def ids(self) -> Sequence[str]:
        """Returns the ids of all runs, the oldest first; empty if there is no such folder."""

    async def history(self, run: str) -> History:
        """Returns the run's history, as far as it was written. Raises `StoreError` if the ledger cannot be read."""
