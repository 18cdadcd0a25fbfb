"""Secrets from files, from environment variables, and from values that the program has."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import anyio.to_thread

from senro.domain.errors import ConfigurationError, Refusal, StoreError
from senro.domain.pipeline.secrets import FileSecret, SecretReference, ValueSecret, VariableSecret

VARIABLE_PREFIX = "SENRO_SECRET_"
"""A secret without a reference is read from this and its name, upper case, what is no letter or digit as `_`."""

LARGEST = 1_048_576
"""Bytes. The values of one Secret together may not have more (docs/design/api-rules.md#size-of-a-secret)."""


class ReferencedSecrets:
    """`senro.ports.secrets.SecretSource`. References are looked up by name, then the environment."""

    def __init__(self, references: Mapping[str, SecretReference], environ: Mapping[str, str]) -> None:
        self._references = dict(references)
        self._environ = environ

    def __repr__(self) -> str:
        return f"<ReferencedSecrets {sorted(self._references)}>"

    async def read(self, name: str) -> bytes:
        """See `ports.secret_source.SecretSource.read`."""
        reference = self._references.get(name, VariableSecret(variable_name(name)))
        value = await self._value(name, reference)
        if len(value) > LARGEST:
            raise _refused(name, "size", f"it has more than the {LARGEST} bytes that a Secret holds")
        return value

    async def _value(self, name: str, reference: SecretReference) -> bytes:
        match reference:
            case ValueSecret(content=content):
                return content
            case FileSecret(path=path):
                try:
                    return await anyio.to_thread.run_sync(_read, path)
                except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
                    words = getattr(error, "strerror", None) or str(error)
                    raise _refused(name, "unreadable", f"its file {path} cannot be read: {words}") from error
            case VariableSecret(name=variable):
                found = self._environ.get(variable, "")
                if not found:
                    fix = f"set {variable}, or pass secrets={{{name!r}: senro.secret.file(...)}} to the run"
                    raise _refused(name, "missing", f"the variable {variable} is not set; {fix}")
                return os.fsencode(found)


class PrivateSecretFiles:
    """`senro.ports.secrets.SecretFiles`."""

    async def write(self, folder: str, name: str, value: bytes) -> str:
        """See `ports.secret_source.SecretFiles.write`."""
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
    """`SENRO_SECRET_<NAME>`: the name in upper case, every character but letters and digits as `_`."""
    return VARIABLE_PREFIX + "".join(letter if letter.isalnum() else "_" for letter in name.upper())


def _refused(name: str, rule: str, message: str) -> ConfigurationError:
    return ConfigurationError((Refusal(f"secret {name}", rule, message),))
