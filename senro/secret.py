"""Where secrets are read: `secrets={"Kubeconfig": secret.file("kubeconfig.yaml")}`."""

from __future__ import annotations

from senro.domain.secret import FileSecret, SecretReference, ValueSecret, VariableSecret, file, value, variable

__all__ = ["FileSecret", "SecretReference", "ValueSecret", "VariableSecret", "file", "value", "variable"]
