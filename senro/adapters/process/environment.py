"""The environment of a child process."""

from __future__ import annotations

from collections.abc import Mapping

WITHHELD = ("SENRO_K8S_", "SENRO_SECRET_", "SENRO_REMOTE_SCRATCH")
"""Prefixes of variables that a child does not inherit: the cluster and its credentials, the values of secrets, the
location of the shared scratch store."""


def child_environment(own: Mapping[str, str], added: Mapping[str, str]) -> dict[str, str]:
    """The variables of `own`, overridden by `added`, without those that start with a `WITHHELD` prefix."""
    return {name: value for name, value in {**own, **added}.items() if not name.startswith(WITHHELD)}
