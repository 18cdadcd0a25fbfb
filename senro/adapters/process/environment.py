"""What a child process may know of the coordinator's environment."""

from __future__ import annotations

from collections.abc import Mapping

WITHHELD = ("SENRO_K8S_", "SENRO_SECRET_", "SENRO_REMOTE_SCRATCH")
"""Prefixes of variables that are the coordinator's alone: the cluster and its credentials, the values of secrets, the
place of shared scratch entries."""


def child_environment(own: Mapping[str, str], added: Mapping[str, str]) -> dict[str, str]:
    """The environment `own` with `added` over it and without any variable that starts with a `WITHHELD` prefix."""
    return {name: value for name, value in {**own, **added}.items() if not name.startswith(WITHHELD)}
