"""Sources of secrets: `secrets={"Kubeconfig": secret.file("kubeconfig.yaml")}`."""

from __future__ import annotations

from senro.domain.pipeline.secrets import (
    FileSecret,
    SecretReference,
    ValueSecret,
    VariableSecret,
    file,
    value,
    variable,
)

__all__ = ["FileSecret", "SecretReference", "ValueSecret", "VariableSecret", "file", "value", "variable"]
