from __future__ import annotations

import os
from pathlib import Path

import pytest

from senro import secret
from senro.adapters.secrets import PrivateSecretFiles, ReferencedSecrets
from senro.ports.secrets import SecretFiles, SecretSource
from tests.contract.ports.secrets_suite import SecretFilesSuite, SecretSourceSuite

pytestmark = pytest.mark.anyio


class TestValues(SecretSourceSuite):
    """Values that are passed as arguments."""

    def stocked(self, folder: Path) -> SecretSource:
        del folder
        return ReferencedSecrets({name: secret.value(value) for name, value in self.HELD.items()}, {})


class TestFiles(SecretSourceSuite):
    """Files whose paths are passed as arguments."""

    def stocked(self, folder: Path) -> SecretSource:
        for name, value in self.HELD.items():
            (folder / name).write_bytes(value)
        return ReferencedSecrets({name: secret.file(str(folder / name)) for name in self.HELD}, {})


class TestNamedVariables(SecretSourceSuite):
    """Environment variables whose names are passed as arguments."""

    def stocked(self, folder: Path) -> SecretSource:
        del folder
        names = {name: f"V{number}" for number, name in enumerate(self.HELD)}
        environ = {names[name]: os.fsdecode(value) for name, value in self.HELD.items()}
        return ReferencedSecrets({name: secret.variable(variable) for name, variable in names.items()}, environ)


class TestVariables(SecretSourceSuite):
    """The variables `SENRO_SECRET_<NAME>`, which are used without a declaration."""

    def stocked(self, folder: Path) -> SecretSource:
        del folder
        values = [os.fsdecode(value) for value in self.HELD.values()]
        names = ["SENRO_SECRET_KUBECONFIG", "SENRO_SECRET_DEPLOY_KEY_2", "SENRO_SECRET_TOKEN"]
        return ReferencedSecrets({}, dict(zip(names, values, strict=True)))


class TestPrivateSecretFiles(SecretFilesSuite):
    @pytest.fixture
    def files(self) -> SecretFiles:
        return PrivateSecretFiles()
