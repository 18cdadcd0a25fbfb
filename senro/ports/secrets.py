"""Where the values of secrets come from, and the files that pass them to local steps."""

from __future__ import annotations

from typing import Protocol


class SecretSource(Protocol):
    """Resolves the names of secrets. A run reads each name once, before it creates anything."""

    async def read(self, name: str) -> bytes:
        """Returns the value. Raises `ConfigurationError` with the name, the places searched, and what to set."""


class SecretFiles(Protocol):
    """Files with the values of secrets, for steps on the coordinator itself."""

    async def write(self, folder: str, name: str, value: bytes) -> str:
        """Write the value to a new file below `folder` that only this user may read. Returns its path.

        `folder` comes from `RunLedger.scratch`, which removes it when the run ends. Raises `StoreError`.
        """
