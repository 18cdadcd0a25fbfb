"""Where a secret's value comes from."""

from __future__ import annotations

from typing import Protocol


class SecretSource(Protocol):
    """Resolves the names that steps use. Asked once a run and name, before anything is created."""

    async def read(self, name: str) -> bytes:
        """The value. Raises `ConfigurationError` naming the secret, where it looked and what to set; never a value."""
        ...
