"""The runs that a folder holds, as their ledgers tell them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from senro.domain.run.history import History


class Runs(Protocol):
    """Reads what runs left behind; writes nothing, and may be used while one goes on."""

    async def ids(self) -> Sequence[str]:
        """The ids of all runs, the oldest first. Empty where there is no folder of runs."""
        ...

    async def history(self, run: str) -> History:
        """What the run's ledger tells, as far as it was written. Raises `StoreError` where it cannot be read."""
        ...
