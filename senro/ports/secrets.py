"""Where a secret's value comes from, and the files by which a local step gets it."""

from __future__ import annotations

from typing import Protocol


class SecretSource(Protocol):
    """Resolves the names that steps use. Asked once a run and name, before anything is created."""

    async def read(self, name: str) -> bytes:
        """The value. Raises `ConfigurationError` naming the secret, where it looked and what to set; never a value."""
        ...


class SecretFiles(Protocol):
    """Files that hold secrets for steps on the coordinator itself."""

    async def write(self, folder: str, name: str, value: bytes) -> str:
        """Write the value to a new file below `folder` that this user alone may read; returns its path.

        `folder` is one of `RunLedger.scratch`, which removes it when the run ends. Raises `StoreError`.
        """
        ...
