"""Reads secrets from files, environment variables and values of the program, and writes them for local steps."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import anyio.to_thread

from senro.domain.errors import ConfigurationError, Refusal, StoreError
from senro.domain.pipeline.secrets import FileSecret, SecretReference, ValueSecret, VariableSecret

VARIABLE_PREFIX = "SENRO_SECRET_"
"""The prefix of the variable of a secret without a reference; see `variable_name`."""

LARGEST = 1_048_576
"""The bytes that all values of one Secret may have together (docs/design/api-rules.md#size-of-a-secret)."""


class ReferencedSecrets:
    """See `ports.secrets.SecretSource`. A secret without a reference is read from its variable in `environ`."""

    def __init__(self, references: Mapping[str, SecretReference], environ: Mapping[str, str]) -> None:
        self._references = dict(references)
        self._environ = environ

    def __repr__(self) -> str:
        return f"<ReferencedSecrets {sorted(self._references)}>"

    async def read(self, name: str) -> bytes:
        """See `ports.secrets.SecretSource.read`."""
        reference = self._references.get(name, VariableSecret(variable_name(name)))
        value = await self._value(name, reference)
        if len(value) > LARGEST:
            raise _refusal(name, "size", f"it has more than {LARGEST} bytes, the limit of a Secret")
        return value

    async def _value(self, name: str, reference: SecretReference) -> bytes:
        match reference:
            case ValueSecret(content=content):
                return content
            case FileSecret(path=path):
                try:
                    return await anyio.to_thread.run_sync(_read, path)
                except (OSError, ValueError) as error:  # ValueError: a NUL byte in the path
                    words = getattr(error, "strerror", None) or str(error)
                    raise _refusal(name, "unreadable", f"its file {path} cannot be read: {words}") from error
            case VariableSecret(name=variable):
                found = self._environ.get(variable, "")
                if not found:
                    fix = f"set {variable}, or pass secrets={{{name!r}: senro.secret.file(...)}} to the run"
                    raise _refusal(name, "missing", f"the variable {variable} is not set; {fix}")
                return os.fsencode(found)


class PrivateSecretFiles:
    """See `ports.secrets.SecretFiles`."""

    async def write(self, folder: str, name: str, value: bytes) -> str:
        """See `ports.secrets.SecretFiles.write`."""
        path = Path(folder) / name

        def create() -> None:
            opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(opened, "wb") as file:
                file.write(value)

        try:
            await anyio.to_thread.run_sync(create)
        except OSError as error:
            raise StoreError(str(path), f"the file of a secret cannot be written: {error.strerror}") from error
        return str(path)


def _read(path: str) -> bytes:
    with Path(path).open("rb") as file:
        return file.read(LARGEST + 1)


def variable_name(name: str) -> str:
    """`SENRO_SECRET_<NAME>`: the name in upper case, with `_` for all characters but letters and digits."""
    return VARIABLE_PREFIX + "".join(letter if letter.isalnum() else "_" for letter in name.upper())


def _refusal(name: str, rule: str, message: str) -> ConfigurationError:
    return ConfigurationError((Refusal(f"secret {name}", rule, message),))
